"""The parts of one run, set up and driven through its phases: join, register, cast, and change meanwhile."""

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
from implicast.world.change import Course, course_tables
from implicast.world.churn import refuse_the_impossible
from implicast.world.core import new_world, ready_for
from implicast.world.faults import FaultStream
from implicast.world.invariants import FLIGHT_US
from implicast.world.journal import REGISTER, Journal
from implicast.world.liars.gang import Gang, Stage
from implicast.world.network import Network, build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.population import Sleepers
from implicast.world.scenario import ASSEMBLED, Scenario
from implicast.world.tally import Ints
from implicast.world.trouble import Trouble
from implicast.world.upheaval import LAST_LOOKS, LOOK_US, Upheaval, drift_rates
from implicast.world.world import Fate

REGISTER_SPACING_US = 1_000
"""Peers register one after the other, a millisecond apart."""
JOIN_SPACING_US = 200_000
ASLEEP_FROM: int | None = None
"""In networks of so many, peers are made when something happens to them, where the design can; None: as it says."""
LIED_TO_US = 90_000_000
"""How long after the last cast its notices may still come where members lie: who asks liars never rests."""
QUIET_US = 1_000_000
"""Between the end of one phase and the next."""

Progress = Callable[[str, int, int], None]
"""phase, done, of how many."""


def silent(phase: str, done: int, of: int) -> None:
    """No progress shown."""


class Run:
    """The parts of one run, set up and driven through its phases."""

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
        self.network: Network = build(scenario.network, peers, infrastructure, seed, newcomers)
        self.journal = Journal(directory, scenario.warm_up)
        faults: Fate | None = FaultStream(scenario.faults, seed) if scenario.faults.text() else None
        trouble = Trouble(faults)
        codec = Codec(design.kinds) if scenario.strict else None
        self.world = new_world(
            self.network, seed, self.journal, trouble if scenario.churn else faults, codec
        )
        self.world.rates = drift_rates(scenario.churn, seed, self.network.hosts)
        self.application = Application(self.world, scenario.payload_bytes, scenario.warm_up)
        every = self.workload.targeted()
        self.targets, self.warming = every[: scenario.casts], every[scenario.casts :]
        """Casts that are measured, the same whether there is a warm-up or not; and those that are made before them."""
        self.descriptions = self.workload.described()
        greetings = self._greetings(infrastructure, newcomers)
        known = [*self.descriptions, *[Description()] * infrastructure, *greetings.values()]
        self.gang = self._gang(infrastructure)
        changes = scenario.churn or faults or scenario.changes or scenario.liars
        host = self.world.host if self.gang is None else self.gang.host
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
        self.asleep: Sleepers | None = None
        """Peers that are made when they are needed, where that is so."""
        self.upheaval = (
            Upheaval(script, self.world, self.application, trouble, design, self.plan, greetings)
            if scenario.churn
            else None
        )
        self.course = Course(0, 0, 0, 0)
        self.breakdowns = 0
        """Handlers that broke down on what liars sent."""

    def go(self, progress: Progress) -> None:
        ready_for(self.scenario.peers)
        sleepers = self._sleepers()
        if sleepers is None:
            self.set_up(progress)
            self.register(progress)
            storage = [_stored(peer) for peer in self.population]
        else:
            storage = self._put_to_sleep(sleepers)
        self.cast(progress)
        self.write(storage)

    def _sleepers(self) -> Sleepers | None:
        """The whole network with its registrations, each peer made when it is needed: where the network is large, its
        design can, and nothing is armed or drawn when a peer is made."""
        scenario, given, network = self.scenario, self.plan.parameters, population(self.design)
        make, least = network.sleepers, network.asleep_from if ASLEEP_FROM is None else ASLEEP_FROM
        if make is None or not hasattr(self.world, "asleep") or scenario.peers < least:
            return None
        rests = self.plan.resting and scenario.registers == ASSEMBLED and not scenario.strict
        return (
            make(self.plan)
            if rests and given["assurance"] == "none" and not given["signed"]
            else None
        )

    def _put_to_sleep(self, sleepers: Sleepers) -> list[int]:
        gc.set_threshold(0)  # until the run is over (`simulate`)
        self.world.at(QUIET_US, REGISTER, lambda: self.application.all_enrolled(self.descriptions))
        self.world.run()
        self.world.run(self.world.now_us + self.design.settling_us)
        self.asleep, self.world.asleep, self.application.rouse = (
            sleepers,
            sleepers.make,
            self.world.peer,
        )
        return [sleepers.stored_bytes(address) for address in range(self.network.hosts)]

    def let_go(self) -> None:
        """Forget peers that were made when they were needed, and what is known of the others: measuring a large journal
        takes as much memory as they do. All refer to their parts and these to them, so they are looked for."""
        if self.asleep is not None:
            self.asleep = self.world.asleep = None
            self.application.rouse = lambda address: None
            self.world.let_go()
            gc.collect()

    def disband(self) -> None:
        """All is known of the run: its peers are taken apart. To look for them among all that there is, because they
        and their parts refer to each other, takes five times as long, a twentieth of a run of 256 peers."""
        self.population = []
        self.world.let_go()

    def set_up(self, progress: Progress) -> None:
        """The converged network at once, or one newcomer after the other."""
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
        """At once where the scenario and the design allow it, else one after the other by messages."""
        enrol = population(self.design).enrol
        if self.scenario.registers == ASSEMBLED and enrol is not None:
            self.world.at(self.world.now_us + QUIET_US, REGISTER, partial(self._enrol, enrol))
            self.world.run()
        else:
            self._register_by_messages(progress)
        self.world.run(self.world.now_us + self.design.settling_us)

    def _enrol(self, enrol: Callable[[Plan, Sequence[Peer]], None]) -> None:
        for peer in range(self.scenario.peers):
            self.application.enrol(peer, self.descriptions[peer])
        enrol(self.plan, self.population)

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
        if self.upheaval is not None:
            self._set_course(self.upheaval, start_us, span_us)
        if self.gang is not None:
            self._let_lie(self.gang, start_us + span_us)
        self._change(start_us, span_us if self.upheaval is None else self.course.over_us - start_us)
        self._drive("casting", start_us, self.scenario.casts, interval_us, progress)
        if self.upheaval is not None and self.upheaval.samples[-1][1]:
            self._let_arrive(self.upheaval)
        if self.scenario.changes and self.upheaval is None and self.design.survives:
            self.world.run(
                self.world.now_us + self.design.repair_us
            )  # what upkeep mends is mended by then

    def _let_arrive(self, upheaval: Upheaval) -> None:
        """What was sent last arrives, and is sent again where it was lost: replicas of what is asked for often are made
        at any time. What is still wrong then is no matter of the moment."""
        for _ in range(LAST_LOOKS):
            self._run(self.world.now_us + LOOK_US)
            if not upheaval.wrongs():
                return

    def write(self, storage: list[int]) -> None:
        self.world.flush()
        self.application.write(self.journal)
        self.journal.columns("peers", self._peers_columns(storage))
        links = self.network.links
        self.journal.columns("links", _links_columns(links.source, links.target, links.latency_us))
        if self.upheaval is not None:
            course_tables(
                self.journal,
                self.course,
                self.upheaval.script,
                self.upheaval.incarnations.all(),
                self.upheaval.samples,
            )
        self.journal.finish()
        self.journal.columns("paths", _paths_columns(*self.network.paths(self._router_pairs())))
        self.journal.scenario(self.scenario.described())
        self.journal.close()

    def _grow(self) -> list[Peer]:
        plan, design = self.plan, self.design
        members: list[Peer] = [
            plan.begin(design, address) for address in range(self.scenario.peers)
        ]
        if design.fixture is not None:
            return members + [
                plan.stand(design, plan.peers + number) for number in range(plan.infrastructure)
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
        """Run a phase to its end, telling how far it has come."""
        step = max(1, count // 100)
        for done in range(0, count, step):
            progress(phase, done, count)
            self._run(start_us + done * spacing_us)
        # Where peers die, somebody may knock at a dead one's door for ever: then the end is a time, not rest.
        self._run(self.course.end_us or None)
        progress(phase, count, count)

    def _run(self, until_us: int | None) -> None:
        """Let the world run. What breaks down on a liar's words is dropped and counted, as on a network."""
        if self.gang is None or not self.gang.acting or until_us is None:
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

    def _gang(self, infrastructure: int) -> Gang | None:
        scenario = self.scenario
        if scenario.liars is None:
            return None
        over_us = max(1, scenario.casts + scenario.warm_up) * scenario.interval_ms * 1000
        stage = Stage(
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
        )  # only where members lie: it knows all of bft

        return Gang(scenario.liars, stage, strategy)

    def _let_lie(self, gang: Gang, last_us: int) -> None:
        """Liars act from the first cast on, and publish none of the casts: what they cast is worth nothing."""
        end_us = max(self.course.end_us, last_us + LIED_TO_US)
        self.course = replace(self.course, end_us=end_us)
        publisher, honest = self.application.publisher, gang.honest()

        def trusted(wanted: int) -> int | None:
            found = publisher(wanted)
            if found is None or not gang.lies(found):
                return found
            able = (
                honest
                if self.upheaval is None
                else [each for each in self.upheaval.able() if not gang.lies(each)]
            )
            return able[wanted * 7919 % len(able)] if able else None

        self.application.publisher = trusted
        gang.act()

    def _change(self, start_us: int, span_us: int) -> None:
        """Some peers describe themselves anew, or withdraw, at random moments; after the last deed nobody does."""
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

    def _greetings(self, infrastructure: int, newcomers: int) -> dict[int, Description]:
        """What newcomers will say of themselves, by address: what some member says."""
        chance = stream(self.scenario.seed, "newcomers")
        first = self.scenario.peers + infrastructure
        return {first + number: chance.choice(self.descriptions) for number in range(newcomers)}

    def _set_course(self, upheaval: Upheaval, start_us: int, span_us: int) -> None:
        """Deeds begin with the first cast; the run ends when the last cast, or repair, has had its time."""
        over_us = start_us + int(upheaval.end_s() * 1e6)
        calm_us = over_us + self.design.repair_us
        end_us = max(calm_us, start_us + span_us + FLIGHT_US)
        self.course = Course(start_us, over_us, calm_us, end_us)
        upheaval.schedule(start_us)
        upheaval.watch(start_us, end_us)

    def _peers_columns(self, storage: list[int]) -> dict[str, Any]:
        count = self.network.hosts
        roles = [self._role(address) for address in range(len(storage))]
        renamed = {} if self.upheaval is None else self.upheaval.returns.places
        places = [*range(count), *(renamed[number] for number in sorted(renamed))]
        later = len(places) - len(storage)
        return {
            "peer": np.arange(len(places), dtype=np.int32),
            "role": roles + ["peer"] * later,
            "router": np.asarray(self.network.router, np.int32)[places],
            "access_us": np.asarray(self.network.access_us, np.int64)[places],
            "storage_bytes": np.asarray(storage + [0] * later, np.int64),
            "capacity": self._capacities(len(places)),
        }

    def _capacities(self, count: int) -> npt.NDArray[np.float64]:
        """What members can bear; servers and brokers are as strong as the strongest member."""
        peers, servers = self.scenario.peers, self.plan.infrastructure
        drawn = self.workload.capacities(0, max(peers, count - servers))
        return np.concatenate([drawn[:peers], [drawn[:peers].max()] * servers, drawn[peers:]])[
            :count
        ]

    def _role(self, address: int) -> str:
        if self.asleep is not None:
            return (
                "peer"
                if address < self.plan.peers
                else getattr(self.world.peer(address), "role", "peer")
            )
        return getattr(self.population[address], "role", "peer")

    def _router_pairs(self) -> Iterable[tuple[int, int]]:
        """Distinct pairs of routers between which messages went."""
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
