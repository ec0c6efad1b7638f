"""One run: builds the network, the peers and the application, and drives them through the phases
join, register and cast.
"""

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.casting.designs import Design
from implicast.language.parameters import Parameters
from implicast.language.target import Description
from implicast.peer.contract import Peer
from implicast.peer.errors import RemoteError
from implicast.peer.wire import Codec, size
from implicast.space.digest import stream
from implicast.workload.workload import Workload, workload
from implicast.world.application import Application
from implicast.world.arrays import numbers, runs
from implicast.world.change import Timeline, write_change_tables
from implicast.world.clocks import drift_rates
from implicast.world.core import new_world, ready_for
from implicast.world.fault_injector import CHECK_US, LAST_CHECKS, FaultInjector
from implicast.world.faults import FaultStream
from implicast.world.invariants import FLIGHT_US
from implicast.world.journal import REGISTER, Journal
from implicast.world.liars.coalition import Coalition, CoalitionContext
from implicast.world.link_faults import LinkFaults
from implicast.world.network import PhysicalNetwork, build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.population import LazyPeers
from implicast.world.promised_times import repair_us
from implicast.world.scenario import ASSEMBLED, Scenario
from implicast.world.script_checks import refuse_the_impossible
from implicast.world.tally import Ints
from implicast.world.world import MessageFaults

REGISTER_SPACING_US = 1_000
"""Interval between the registrations of two peers."""
JOIN_SPACING_US = 200_000
LAZY_FROM: int | None = None
"""Number of peers from which on peers are materialised lazily, if the design can; None: the
population's own number.
"""
LIED_TO_US = 90_000_000
"""How long after the last cast a run with liars goes on. It never comes to rest, because peers keep
asking liars.
"""
QUIET_US = 1_000_000
"""Pause between two phases."""

Progress = Callable[[str, int, int], None]
"""(phase, done, total)."""


def silent(phase: str, done: int, of: int) -> None:
    """Show no progress."""


class Run:
    """One run, from the scenario to the written journal."""

    def __init__(
        self, scenario: Scenario, design: Design, parameters: Parameters, directory: Path
    ) -> None:
        self.scenario, self.design = scenario, design
        seed, peers = scenario.seed, scenario.peers
        casts = scenario.casts + scenario.warm_up
        self.workload: Workload = workload(
            scenario.workload, seed=seed, peers=peers, casts=casts, **scenario.workload_parameters
        )
        infrastructure = design.infrastructure(peers, parameters)
        script = scenario.churn.script(seed, peers, infrastructure)
        refuse_the_impossible(script, design, peers, infrastructure)
        newcomers = scenario.churn.newcomers(seed, peers, infrastructure)
        self.network: PhysicalNetwork = build(
            scenario.network, peers, infrastructure, seed, newcomers
        )
        self.journal = Journal(directory, scenario.warm_up)
        faults: MessageFaults | None = (
            FaultStream(scenario.faults, seed) if scenario.faults.text() else None
        )
        link_faults = LinkFaults(faults)
        codec = Codec(design.kinds) if scenario.strict else None
        self.world = new_world(
            self.network, seed, self.journal, link_faults if scenario.churn else faults, codec
        )
        self.world.rates = drift_rates(scenario.churn, seed, self.network.hosts)
        self.application = Application(self.world, scenario.payload_bytes, scenario.warm_up)
        every = self.workload.targeted()
        self.targets, self.warming = every[: scenario.casts], every[scenario.casts :]
        """Measured casts, which do not depend on the warm-up; and warm-up casts, made before them.
        """
        self.descriptions = self.workload.described()
        newcomer_descriptions = self._newcomer_descriptions(infrastructure, newcomers)
        known = [
            *self.descriptions,
            *[Description()] * infrastructure,
            *newcomer_descriptions.values(),
        ]
        self.coalition = self._coalition(infrastructure)
        changes = scenario.churn or faults or scenario.changes or scenario.liars
        host = self.world.host if self.coalition is None else self.coalition.host
        self.plan = Plan(
            peers,
            infrastructure,
            parameters,
            seed,
            host,
            self.network.latency_us,
            self.targets,
            scenario.interval_ms * 1000,
            known if newcomers else self.descriptions,
            scenario.start,
            resting=not changes and scenario.start == ASSEMBLED,
            credentials=population(design).credentials,
            router=self.network.router,
        )
        self.plan = replace(
            self.plan, roles=design.roles(self.plan.peers, self.plan.infrastructure)
        )
        self.population: list[Peer] = []
        self.lazy_peers: LazyPeers | None = None
        """Not None where peers are materialised lazily."""
        self.injector = (
            FaultInjector(
                script,
                self.world,
                self.application,
                link_faults,
                design,
                self.plan,
                newcomer_descriptions,
            )
            if scenario.churn
            else None
        )
        self.timeline = Timeline(0, 0, 0, 0)
        self.breakdowns = 0
        """Exceptions raised by handlers of messages from liars."""

    def go(self, progress: Progress) -> None:
        ready_for(self.scenario.peers)
        lazy_peers = self._lazy_peers()
        if lazy_peers is None:
            self.set_up(progress)
            self.register(progress)
            storage = [_stored(peer) for peer in self.population]
        else:
            storage = self._use_lazy_peers(lazy_peers)
        self.cast(progress)
        self.write(storage)

    def _lazy_peers(self) -> LazyPeers | None:
        """The assembled and preloaded network with lazy peers, or None. Lazy peers need a large
        network, a design that supports them, and peers that arm no alarm and draw no random number
        when they are made.
        """
        scenario, given, network = self.scenario, self.plan.parameters, population(self.design)
        make, least = network.lazy_peers, network.lazy_from if LAZY_FROM is None else LAZY_FROM
        if make is None or not hasattr(self.world, "materialise") or scenario.peers < least:
            return None
        rests = self.plan.resting and scenario.registers == ASSEMBLED and not scenario.strict
        return (
            make(self.plan)
            if rests and given["assurance"] == "none" and not given["signed"]
            else None
        )

    def _use_lazy_peers(self, lazy_peers: LazyPeers) -> list[int]:
        gc.set_threshold(0)  # until the end of the run (`simulate`)
        self.world.at(QUIET_US, REGISTER, lambda: self.application.all_preloaded(self.descriptions))
        self.world.run()
        self.world.run(self.world.now_us + self.design.settling_us)
        self.lazy_peers, self.world.materialise, self.application.materialise = (
            lazy_peers,
            lazy_peers.make,
            self.world.peer,
        )
        return [lazy_peers.stored_bytes(address) for address in range(self.network.hosts)]

    def release_peers(self) -> None:
        """Release lazy peers and the columns from which they are made. Measuring a large journal
        needs as much memory as they take. They form reference cycles, so the collector is run.
        """
        if self.lazy_peers is not None:
            self.lazy_peers = self.world.materialise = None
            self.application.materialise = lambda address: None
            self.world.release_peers()
            gc.collect()

    def disband(self) -> None:
        """Release all peers at the end. Clearing the hosts breaks reference cycles; leaving them to
        the garbage collector takes five times as long, a twentieth of a run of 256 peers.
        """
        self.population = []
        self.world.release_peers()

    def set_up(self, progress: Progress) -> None:
        """Assemble the converged network, or let peers join one after the other."""
        assembled = (
            population(self.design).assemble(self.plan)
            if self.scenario.start == "assembled"
            else self._grow()
        )
        self.population = assembled
        for address, peer in enumerate(assembled):
            self.world.place(address, peer)
        if self.scenario.start == "joined":
            self._join_all(progress)

    def register(self, progress: Progress) -> None:
        """Preload all registrations if scenario and design allow it; otherwise register peers one
        after the other by messages.
        """
        preload = population(self.design).preload
        if self.scenario.registers == ASSEMBLED and preload is not None:
            self.world.at(self.world.now_us + QUIET_US, REGISTER, partial(self._preload, preload))
            self.world.run()
        else:
            self._register_by_messages(progress)
        self.world.run(self.world.now_us + self.design.settling_us)

    def _preload(self, preload: Callable[[Plan, Sequence[Peer]], None]) -> None:
        for peer in range(self.scenario.peers):
            self.application.preload(peer, self.descriptions[peer])
        preload(self.plan, self.population)

    def _register_by_messages(self, progress: Progress) -> None:
        start_us = self.world.now_us + QUIET_US
        for peer in range(self.scenario.peers):
            self.application.register(
                start_us + peer * REGISTER_SPACING_US, peer, self.descriptions[peer]
            )
        self._drive("registering", start_us, self.scenario.peers, REGISTER_SPACING_US, progress)

    def cast(self, progress: Progress) -> None:
        interval_us, warm_up = self.plan.interval_us, self.scenario.warm_up
        begin_us = self.world.now_us + QUIET_US
        publishers = self.workload.publishers(0, self.scenario.casts + warm_up).tolist()
        publishers = publishers[self.scenario.casts :] + publishers[: self.scenario.casts]
        for number, (publisher, target) in enumerate(
            zip(publishers, [*self.warming, *self.targets], strict=True)
        ):
            self.application.cast(begin_us + number * interval_us, number, publisher, target)
        start_us = begin_us + warm_up * interval_us
        span_us = max(1, self.scenario.casts) * interval_us
        if self.injector is not None:
            self._set_timeline(self.injector, start_us, span_us)
        if self.coalition is not None:
            self._start_liars(self.coalition, start_us + span_us)
        self._change(
            start_us, span_us if self.injector is None else self.timeline.over_us - start_us
        )
        self._drive("casting", start_us, self.scenario.casts, interval_us, progress)
        if self.injector is not None and self.injector.samples[-1][1]:
            self._await_deliveries(self.injector)
        if self.scenario.changes and self.injector is None and self.design.survives:
            self.world.run(self.world.now_us + self.design.repair_us)  # time for upkeep to repair

    def _await_deliveries(self, injector: FaultInjector) -> None:
        """Let the last messages arrive, including retransmissions. Designs may create replicas at
        any time, so that a violation at the last check may be transient.
        """
        for _ in range(LAST_CHECKS):
            self._run(self.world.now_us + CHECK_US)
            if not injector.violations():
                return

    def write(self, storage: list[int]) -> None:
        self.world.flush()
        self.application.write(self.journal)
        self.journal.columns("peers", self._peers_columns(storage))
        links = self.network.links
        self.journal.columns("links", _links_columns(links.source, links.target, links.latency_us))
        if self.injector is not None:
            write_change_tables(
                self.journal,
                self.timeline,
                self.injector.script,
                self.injector.incarnations.all(),
                self.injector.samples,
            )
        self.journal.finish()
        self.journal.columns("paths", _paths_columns(*self.network.paths(self._router_pairs())))
        self.journal.scenario(self.scenario.described())
        self.journal.close()

    def _grow(self) -> list[Peer]:
        plan, design = self.plan, self.design
        members: list[Peer] = [
            plan.new_member(design, address) for address in range(self.scenario.peers)
        ]
        if design.fixture is not None:
            return members + [
                plan.new_fixture(design, plan.peers + number)
                for number in range(plan.infrastructure)
            ]
        if not plan.infrastructure:
            return members  # assembling would arm alarms for other peers at the same addresses
        return members + population(design).assemble(plan)[self.scenario.peers :]

    def _join_all(self, progress: Progress) -> None:
        rng = stream(self.scenario.seed, "introducers")
        for peer in range(self.scenario.peers):
            introducers = (rng.randrange(peer),) if peer else ()
            self.application.join(peer * JOIN_SPACING_US, peer, introducers)
        self._drive("joining", 0, self.scenario.peers, JOIN_SPACING_US, progress)

    def _drive(
        self, phase: str, start_us: int, count: int, spacing_us: int, progress: Progress
    ) -> None:
        """Run a phase to its end and report progress."""
        step = max(1, count // 100)
        for done in range(0, count, step):
            progress(phase, done, count)
            self._run(start_us + done * spacing_us)
        # A peer may retry towards a crashed peer for ever. Such a run ends at a time, not at rest.
        self._run(self.timeline.end_us or None)
        progress(phase, count, count)

    def _run(self, until_us: int | None) -> None:
        """Run the world. As on a network, an exception in a handler of a liar's message is counted
        and the message dropped.
        """
        if self.coalition is None or not self.coalition.acting or until_us is None:
            self.world.run(until_us)
            return
        while self.world.now_us < until_us:
            try:
                self.world.run(until_us)
            except RemoteError:
                pass
            except Exception:
                self.breakdowns += 1

    # --- liars

    def _coalition(self, infrastructure: int) -> Coalition | None:
        scenario = self.scenario
        if scenario.liars is None:
            return None
        over_us = max(1, scenario.casts + scenario.warm_up) * scenario.interval_ms * 1000
        context = CoalitionContext(
            self.world,
            self.application,
            scenario.seed,
            scenario.peers,
            infrastructure,
            self.targets,
            self.descriptions,
            over_us,
        )
        from implicast.world.liars.strategies import (
            strategy,
        )  # imported only here, because it imports all of bft

        return Coalition(scenario.liars, context, strategy)

    def _start_liars(self, coalition: Coalition, last_us: int) -> None:
        """Liars lie from the first cast on and publish no measured cast."""
        end_us = max(self.timeline.end_us, last_us + LIED_TO_US)
        self.timeline = replace(self.timeline, end_us=end_us)
        publisher, honest = self.application.choose_publisher, coalition.honest()

        def trusted(wanted: int) -> int | None:
            found = publisher(wanted)
            if found is None or not coalition.lies(found):
                return found
            able = (
                honest
                if self.injector is None
                else [each for each in self.injector.able() if not coalition.lies(each)]
            )
            return able[wanted * 7919 % len(able)] if able else None

        self.application.choose_publisher = trusted
        coalition.act()

    def _change(self, start_us: int, span_us: int) -> None:
        """Let peers register another description, or withdraw, at random times before the end of
        the last event.
        """
        rng = stream(self.scenario.seed, "changes")
        for _ in range(self.scenario.changes):
            time_us, peer = (
                start_us + rng.randrange(max(1, span_us)),
                rng.randrange(self.scenario.peers),
            )
            if rng.random() < 0.25:
                self.application.withdraw(time_us, peer)
            else:
                other = self.descriptions[rng.randrange(self.scenario.peers)]
                self.application.register(time_us, peer, other)

    def _newcomer_descriptions(self, infrastructure: int, newcomers: int) -> dict[int, Description]:
        """By address, the description that a newcomer registers: that of some member."""
        chance = stream(self.scenario.seed, "newcomers")
        first = self.scenario.peers + infrastructure
        return {first + number: chance.choice(self.descriptions) for number in range(newcomers)}

    def _set_timeline(self, injector: FaultInjector, start_us: int, span_us: int) -> None:
        """Set the times of the run. Events begin with the first cast; the run ends after the last
        cast's time of flight, or after the repair time if that is later.
        """
        over_us = start_us + int(injector.end_s() * 1e6)
        peers, loss = self.scenario.peers, self.scenario.faults.loss
        calm_us = over_us + repair_us(self.design.repair_us, injector.script, peers, loss)
        end_us = max(calm_us, start_us + span_us + FLIGHT_US)
        self.timeline = Timeline(start_us, over_us, calm_us, end_us)
        injector.schedule(start_us)
        injector.watch(start_us, end_us)

    def _peers_columns(self, storage: list[int]) -> dict[str, Any]:
        count = self.network.hosts
        roles = [self._role(address) for address in range(len(storage))]
        renamed = {} if self.injector is None else self.injector.restarts.places
        places = [*range(count), *(renamed[number] for number in sorted(renamed))]
        newcomers = len(places) - len(storage)
        return {
            "peer": np.arange(len(places), dtype=np.int32),
            "role": roles + ["peer"] * newcomers,
            "router": np.asarray(self.network.router, np.int32)[places],
            "access_us": np.asarray(self.network.access_us, np.int64)[places],
            "storage_bytes": np.asarray(storage + [0] * newcomers, np.int64),
            "capacity": self._capacities(len(places)),
        }

    def _capacities(self, count: int) -> npt.NDArray[np.float64]:
        """By peer, its capacity. Servers and brokers have that of the strongest member."""
        peers, servers = self.scenario.peers, self.plan.infrastructure
        drawn = self.workload.capacities(0, max(peers, count - servers))
        return np.concatenate([drawn[:peers], [drawn[:peers].max()] * servers, drawn[peers:]])[
            :count
        ]

    def _role(self, address: int) -> str:
        if self.lazy_peers is not None:
            return (
                "peer"
                if address < self.plan.peers
                else getattr(self.world.peer(address), "role", "peer")
            )
        return getattr(self.population[address], "role", "peer")

    def _router_pairs(self) -> Iterable[tuple[int, int]]:
        """Distinct pairs of routers between which messages were sent."""
        router = np.asarray(self.network.router, np.int64)
        width = int(router.max(initial=0)) + 1
        found = np.empty(0, np.int64)
        for batch in self.journal.sent(["sender", "receiver"]):
            keys = router[numbers(batch["sender"])] * width + router[numbers(batch["receiver"])]
            found = np.sort(np.concatenate([found, keys]))
            found = found[runs(found)[0]]
        return zip((found // width).tolist(), (found % width).tolist(), strict=True)


def _stored(peer: Peer) -> int:
    known = peer.stored_bytes()
    return size(peer.holdings()) if known is None else known


def _links_columns(source: Ints, target: Ints, latency_us: Ints) -> dict[str, Any]:
    number = np.arange(len(source), dtype=np.int32)
    return {
        "link": number,
        "source": _narrow(source),
        "target": _narrow(target),
        "latency_us": latency_us,
    }


def _paths_columns(source: Ints, target: Ints, position: Ints, link: Ints) -> dict[str, Any]:
    columns = {"source_router": source, "target_router": target, "position": position, "link": link}
    return {name: _narrow(column) for name, column in columns.items()}


def _narrow(column: Ints) -> Any:
    return np.asarray(column, np.int32)
