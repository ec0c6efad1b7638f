"""One run from beginning to end: set up, join, register, cast, judge, measure."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from implicast.casting.designs import Design, Plan
from implicast.casting.parameters import Parameters
from implicast.peer.contract import Peer
from implicast.peer.errors import ImplicastError
from implicast.peer.wire import Codec, size
from implicast.space.digest import stream
from implicast.workload.workload import Workload, workload
from implicast.world import journal as journals
from implicast.world.application import Application
from implicast.world.faults import FaultStream
from implicast.world.invariants import Notices, Verdict, judge
from implicast.world.journal import Journal
from implicast.world.network import Network, build
from implicast.world.scenario import Scenario
from implicast.world.tally import Ints, Measures, messages, tally
from implicast.world.world import World

REGISTER_SPACING_US = 1_000
"""Peers register one after the other, a millisecond apart."""
JOIN_SPACING_US = 200_000
QUIET_US = 1_000_000
"""Between the end of one phase and the next."""

Progress = Callable[[str, int, int], None]
"""phase, done, of how many."""


def silent(phase: str, done: int, of: int) -> None:
    """No progress shown."""


class DesignCrash(ImplicastError):
    """A design broke down in the middle of a run: a bug of ours. The text says how to replay it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    scenario: Scenario
    parameters: Parameters
    measures: Measures
    contract: Verdict
    messages: dict[str, int]
    bytes: dict[str, int]
    objections: list[str] = field(default_factory=list)
    """What the overlay's invariants have to say at the end; empty when all is well."""

    def described(self) -> dict[str, Any]:
        """Plain values, as `implicast simulate --json` prints them."""
        scenario = self.scenario
        return {
            "design": scenario.design,
            "peers": scenario.peers,
            "casts": scenario.casts,
            "seed": scenario.seed,
            "workload": scenario.workload,
            "network": scenario.network,
            "parameters": dict(self.parameters),
            "measures": self.measures,
            "contract": asdict(self.contract),
            "messages": self.messages,
            "bytes": self.bytes,
            "objections": self.objections,
        }


def simulate(scenario: Scenario, journal: Path | None = None, progress: Progress = silent) -> Outcome:
    """Run a scenario. The journal is kept when a directory is named, and thrown away otherwise."""
    design, parameters = scenario.settled()
    if journal is not None:
        return _simulate(scenario, design, parameters, journal, progress)
    with tempfile.TemporaryDirectory(prefix="implicast-") as directory:
        return _simulate(scenario, design, parameters, Path(directory) / "journal", progress)


def _simulate(
    scenario: Scenario, design: Design, parameters: Parameters, directory: Path, progress: Progress
) -> Outcome:
    run = Run(scenario, design, parameters, directory)
    try:
        run.go(progress)
    except ImplicastError:
        run.journal.discard()
        raise
    except Exception as error:
        run.journal.discard()
        place = f"design {scenario.design} broke down at {run.world.now_us / 1e6:.6f} s with seed {scenario.seed}"
        raise DesignCrash(f"{place}: {error!r}\nreplay: {scenario.command()} --debug") from error
    counted = messages(directory)
    return Outcome(
        scenario,
        parameters,
        tally(directory),
        judge(run.application.casts, run.application.registrations, notices(directory), run.application.left),
        counted["messages"],
        counted["bytes"],
        design.objections(run.population),
    )


def notices(directory: Path) -> Notices:
    """Who was told of what, from a journal."""
    table = journals.read(directory, "notices", ["cast", "peer", "time_us"])
    return Notices(*(np.asarray(table[name].to_numpy(), np.int64) for name in ("cast", "peer", "time_us")))


class Run:
    """The parts of one run, set up and driven through its phases."""

    def __init__(self, scenario: Scenario, design: Design, parameters: Parameters, directory: Path) -> None:
        self.scenario, self.design = scenario, design
        seed, peers = scenario.seed, scenario.peers
        self.workload: Workload = workload(
            scenario.workload, seed=seed, peers=peers, casts=scenario.casts, **scenario.workload_parameters
        )
        infrastructure = design.infrastructure(peers, parameters)
        self.network: Network = build(scenario.network, hosts=peers, infrastructure=infrastructure, seed=seed)
        self.journal = Journal(directory)
        self.world = World(
            self.network,
            seed,
            self.journal,
            FaultStream(scenario.faults, seed) if scenario.faults.text() else None,
            Codec(design.kinds) if scenario.strict else None,
        )
        self.application = Application(self.world)
        self.targets = self.workload.targeted()
        self.descriptions = self.workload.described()
        self.plan = Plan(
            peers, infrastructure, parameters, seed, self.world.host, self.network.latency_us, self.targets,
            scenario.interval_ms * 1000, self.descriptions, scenario.start,
        )  # fmt: skip
        self.population: list[Peer] = []

    def go(self, progress: Progress) -> None:
        self.set_up(progress)
        self.register(progress)
        storage = [size(peer.holdings()) for peer in self.population]
        self.cast(progress)
        self.write(storage)

    def set_up(self, progress: Progress) -> None:
        """The converged network at once, or one newcomer after the other."""
        assembled = self.design.assemble(self.plan) if self.scenario.start == "assembled" else self._grow()
        self.population = assembled
        for address, peer in enumerate(assembled):
            self.world.place(address, peer)
        if self.scenario.start == "joined":
            self._join_all(progress)

    def register(self, progress: Progress) -> None:
        start_us = self.world.now_us + QUIET_US
        for peer in range(self.scenario.peers):
            self.application.register(start_us + peer * REGISTER_SPACING_US, peer, self.descriptions[peer])
        self._drive("registering", start_us, self.scenario.peers, REGISTER_SPACING_US, progress)
        self.world.run(self.world.now_us + self.design.settling_us)

    def cast(self, progress: Progress) -> None:
        interval_us = self.plan.interval_us
        start_us = self.world.now_us + QUIET_US
        publishers = self.workload.publishers(0, self.scenario.casts).tolist()
        for number, (publisher, target) in enumerate(zip(publishers, self.targets, strict=True)):
            self.application.cast(start_us + number * interval_us, number, publisher, target)
        self._change(start_us, max(1, self.scenario.casts) * interval_us)
        self._drive("casting", start_us, self.scenario.casts, interval_us, progress)

    def write(self, storage: list[int]) -> None:
        self.application.write(self.journal)
        self.journal.columns("peers", self._peers_columns(storage))
        links = self.network.links
        self.journal.columns("links", _links_columns(links.source, links.target, links.latency_us))
        self.journal.finish()
        self.journal.columns("paths", _paths_columns(*self.network.paths(self._router_pairs())))
        self.journal.scenario(self.scenario.described())
        self.journal.close()

    def _grow(self) -> list[Peer]:
        members: list[Peer] = [self.design.newcomer(self.plan, address) for address in range(self.scenario.peers)]
        return members + self.design.assemble(self.plan)[self.scenario.peers :]

    def _join_all(self, progress: Progress) -> None:
        rng = stream(self.scenario.seed, "introducers")
        for peer in range(self.scenario.peers):
            introducers = (rng.randrange(peer),) if peer else ()
            self.application.join(peer * JOIN_SPACING_US, peer, introducers)
        self._drive("joining", 0, self.scenario.peers, JOIN_SPACING_US, progress)

    def _drive(self, phase: str, start_us: int, count: int, spacing_us: int, progress: Progress) -> None:
        """Run a phase to its end, telling how far it has come."""
        step = max(1, count // 100)
        for done in range(0, count, step):
            progress(phase, done, count)
            self.world.run(start_us + done * spacing_us)
        self.world.run()
        progress(phase, count, count)

    def _change(self, start_us: int, span_us: int) -> None:
        """Some peers describe themselves anew, or withdraw, at random moments."""
        rng = stream(self.scenario.seed, "changes")
        for _ in range(self.scenario.changes):
            time_us, peer = start_us + rng.randrange(span_us), rng.randrange(self.scenario.peers)
            if rng.random() < 0.25:
                self.application.withdraw(time_us, peer)
            else:
                other = self.descriptions[rng.randrange(self.scenario.peers)]
                self.application.register(time_us, peer, other)

    def _peers_columns(self, storage: list[int]) -> dict[str, Any]:
        count = len(self.population)
        return {
            "peer": np.arange(count, dtype=np.int32),
            "role": [getattr(peer, "role", "peer") for peer in self.population],
            "router": np.asarray(self.network.router[:count], np.int32),
            "access_us": np.asarray(self.network.access_us[:count], np.int64),
            "storage_bytes": np.asarray(storage, np.int64),
            "capacity": np.ones(count),
        }

    def _router_pairs(self) -> Iterable[tuple[int, int]]:
        """Distinct pairs of routers between which messages went."""
        router = np.asarray(self.network.router, np.int64)
        width = int(router.max(initial=0)) + 1
        found = np.empty(0, np.int64)
        for batch in self.journal.sent(["sender", "receiver"]):
            keys = router[np.asarray(batch["sender"])] * width + router[np.asarray(batch["receiver"])]
            found = np.union1d(found, keys)
        return zip((found // width).tolist(), (found % width).tolist(), strict=True)


def _links_columns(source: Ints, target: Ints, latency_us: Ints) -> dict[str, Any]:
    number = np.arange(len(source), dtype=np.int32)
    return {"link": number, "source": _narrow(source), "target": _narrow(target), "latency_us": latency_us}


def _paths_columns(source: Ints, target: Ints, position: Ints, link: Ints) -> dict[str, Any]:
    columns = {"source_router": source, "target_router": target, "position": position, "link": link}
    return {name: _narrow(column) for name, column in columns.items()}


def _narrow(column: Ints) -> Any:
    return np.asarray(column, np.int32)


