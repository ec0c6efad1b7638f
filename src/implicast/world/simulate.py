"""Simulate a scenario: run it, check the contract, compute the measures."""

import gc
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from implicast.casting.designs import Design
from implicast.language.parameters import Parameters
from implicast.peer.errors import ImplicastError
from implicast.peer.member import Member
from implicast.peer.policy import UNLIMITED, policy_of
from implicast.world import journal as journals
from implicast.world.arrays import numbers
from implicast.world.change import ANNOUNCED, Change, PeerIncarnation, change
from implicast.world.fault_injector import FaultInjector
from implicast.world.invariants import (
    NEVER_US,
    Away,
    ContractChecker,
    ContractReport,
    Forgotten,
    Notices,
)
from implicast.world.liars.detection import lie_detection
from implicast.world.liars.trust import TrustResult, trust
from implicast.world.populations import population
from implicast.world.populations.population import LazyPeers
from implicast.world.promised_times import PromisedTimes
from implicast.world.promises import PromiseChecker, RunFacts
from implicast.world.run import Progress, Run, silent
from implicast.world.scenario import Scenario
from implicast.world.tally import Measures, messages, tally

__all__ = [
    "RARELY",
    "DesignCrash",
    "Progress",
    "SimulationOutcome",
    "notices",
    "silent",
    "simulate",
]

RARELY = (500_000, 50, 100)
"""Thresholds of the garbage collector while a world runs (`gc.set_threshold`)."""


class DesignCrash(ImplicastError):
    """A design raised an exception during a run, which is a bug of ours. The text contains the
    command that replays it.
    """


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """Result of a run."""

    scenario: Scenario
    parameters: Parameters
    measures: Measures
    contract: ContractReport
    messages: dict[str, int]
    bytes: dict[str, int]
    objections: list[str] = field(default_factory=list)
    """Violations of the overlay's invariants at the end of the run."""
    change: Change | None = None
    """Measures of churn; None without churn."""
    trust: TrustResult | None = None
    """Delivery among honest members; None without liars."""
    notes: list[str] = field(default_factory=list)
    """Where the run did less than the scenario asked for, and what could not be checked."""
    unkept: list[str] = field(default_factory=list)
    """Promises to publishers and members that were broken (`promises.py`)."""
    alive: int = 0
    """Members present at the end."""

    @property
    def contract_held(self) -> bool:
        """Whether the contract held. Under churn or with liars: the weaker contract that applies
        there.
        """
        if self.trust is not None:
            return self.trust.harmless
        if self.unkept:
            return False
        return (
            self.contract.clean
            if self.change is None
            else self.change.contract_held and not self.objections
        )

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
            "register": scenario.registers,
            "parameters": dict(self.parameters),
            "measures": self.measures,
            "contract": asdict(self.contract),
            "messages": self.messages,
            "bytes": self.bytes,
            "objections": self.objections,
            "notes": self.notes,
            "unkept": self.unkept,
            **({"change": self.change.described()} if self.change is not None else {}),
            **({"trust": self.trust.described()} if self.trust is not None else {}),
        }


def simulate(
    scenario: Scenario, journal: Path | None = None, progress: Progress = silent
) -> SimulationOutcome:
    """Run a scenario. The journal is kept if a directory is given, and deleted otherwise."""
    design, parameters = scenario.settled()
    if journal is not None:
        with _rarely_collecting():
            return _simulate(scenario, design, parameters, journal, progress)
    with tempfile.TemporaryDirectory(prefix="implicast-") as directory, _rarely_collecting():
        return _simulate(scenario, design, parameters, Path(directory) / "journal", progress)


def _simulate(
    scenario: Scenario, design: Design, parameters: Parameters, directory: Path, progress: Progress
) -> SimulationOutcome:
    run = Run(scenario, design, parameters, directory)
    try:
        run.go(progress)
    except ImplicastError:
        run.journal.discard()
        raise
    except Exception as error:
        run.journal.discard()
        time_s = run.world.now_us / 1e6
        place = f"design {scenario.design} broke down at {time_s:.6f} s with seed {scenario.seed}"
        advice = f"\nhint: {scenario.advice()}" if scenario.advice() else ""
        raise DesignCrash(
            f"{place}: {error!r}{advice}\nreplay: {scenario.command()} --debug"
        ) from error
    finally:
        run.world.close()
    application, injector = run.application, run.injector
    objections, notes, alive = network_objections(run), _notes(run), _alive(run)
    run.release_peers()
    counted, measures = messages(directory), tally(directory)
    noticed, incarnations = (
        notices(directory),
        () if injector is None else injector.incarnations.all(),
    )
    away, forgotten = _away(incarnations, _in_peace(run)), _forgotten(incarnations)
    judge = ContractChecker(
        application.casts, application.registrations, noticed, away, injector is None, forgotten
    )
    outcome = SimulationOutcome(
        scenario,
        dict(parameters),  # a plain dictionary, so that an outcome can be pickled
        measures,
        judge.report(),
        counted["messages"],
        counted["bytes"],
        objections,
        None
        if injector is None
        else change(directory, run.timeline, judge, _complaints(run, injector, judge)),
        _trust(run, judge),
        notes,
        _unkept(run, judge),
        alive,
    )
    run.disband()
    return outcome


def _trust(run: Run, judge: ContractChecker) -> TrustResult | None:
    coalition, renamed = run.coalition, {} if run.injector is None else run.injector.restarts.places
    if coalition is None:
        return None

    def lies(number: int) -> bool:
        return coalition.lies(renamed.get(number, number))

    return trust(
        judge,
        run.application.registrations,
        coalition,
        lies,
        run.breakdowns,
        lie_detection(run.world, coalition),
    )


def _unkept(run: Run, judge: ContractChecker) -> list[str]:
    """Broken promises. A run with liars has other ones (`_trust`)."""
    injector, parameters = run.injector, run.plan.parameters
    if run.coalition is not None:
        return []
    quiet = injector is None and not run.scenario.faults.text()
    script = () if injector is None else injector.script
    from_us = 0 if injector is None else run.timeline.from_us
    facts = RunFacts(
        () if injector is None else injector.incarnations.all(),
        PromisedTimes.of(script, from_us, run.scenario.peers, run.scenario.faults.loss),
        run.world.now_us,
        assured=parameters["assurance"] != "none",
        undisturbed=quiet,
        limited=policy_of(parameters) is not UNLIMITED,
        samples=() if injector is None else injector.samples,
        timeline=None if injector is None else run.timeline,
    )
    return PromiseChecker(judge, run.application.registrations, facts).broken()


def _alive(run: Run) -> int:
    """Number of members present at the end."""
    if run.injector is None:
        return run.scenario.peers
    return sum(isinstance(peer, Member) for peer in run.injector.present())


def network_objections(run: Run) -> list[str]:
    """Violations at the end of the run. Lazy peers that were never materialised are checked by
    their columns, if the design supports it (`_notes` says so).
    """
    if run.lazy_peers is not None:
        return run.lazy_peers.objections(run.world.peers) or []
    return population(run.design).objections(
        run.population if run.injector is None else run.injector.introduced()
    )


def _in_peace(run: Run) -> bool:
    """Whether peers only join, leave and register, on a network without faults."""
    script = () if run.injector is None else run.injector.script
    return not run.scenario.faults.text() and all(event.kind in ANNOUNCED for event in script)


def _away(incarnations: Iterable[tuple[int, PeerIncarnation]], peace: bool) -> Away:
    """By member, the intervals in which it was absent; for leavers, from when on their casts are
    excused.

    Without faults a leaver has time to complete its own casts, so these are not excused. A returned
    member is absent until it is registered.
    """
    away: dict[int, list[tuple[int, int]]] = {}
    for number, incarnation in incarnations:
        if incarnation.returned and number in away:
            from_us, _ = away[number].pop()
            away[number].append(
                (from_us, NEVER_US if incarnation.back_us is None else incarnation.back_us)
            )
        crashed_us = incarnation.to_us if incarnation.end == "crashed" else None
        gone_us = crashed_us if peace or incarnation.leaving_us is None else incarnation.leaving_us
        if gone_us is not None:
            away.setdefault(number, []).append((gone_us, NEVER_US))
    return away


def _forgotten(incarnations: Iterable[tuple[int, PeerIncarnation]]) -> Forgotten:
    found: dict[int, tuple[int, list[int]]] = {}
    for number, incarnation in incarnations:
        if incarnation.copied_us is not None:
            found.setdefault(number, (incarnation.copied_us, []))[1].append(incarnation.from_us)
    return found


def _complaints(run: Run, injector: FaultInjector, judge: ContractChecker) -> list[str]:
    """Complaints about peers; and, without faults, casts of leavers that missed members."""
    casts, missed = (
        run.application.casts,
        judge.missed(run.application.left) if _in_peace(run) else {},
    )
    forgotten = [
        f"{casts[cast].publisher} left, and its cast {cast} missed {count}"
        for cast, count in missed.items()
    ]
    return injector.complaints() + forgotten


def _notes(run: Run) -> list[str]:
    scenario, application, timeline = run.scenario, run.application, run.timeline
    notes = scenario.churn.shortfall(scenario.seed, scenario.peers, run.plan.infrastructure)
    if run.lazy_peers is not None:
        made = f"{len(run.world.peers):,} of {run.network.hosts:,} peers were made"
        judged = (
            "judged by columns"
            if type(run.lazy_peers).objections is not LazyPeers.objections
            else "not judged"
        )
        notes.append(f"{made}, each when it was needed; the overlay is {judged}")
    if application.unmade:
        unmade = f"{application.unmade} of {scenario.casts} casts were not made"
        notes.append(f"{unmade}: no member was present and able to cast")
    if run.injector is not None and not any(
        cast.time_us >= timeline.calm_us for cast in application.casts
    ):
        quiet_s = (timeline.calm_us - timeline.from_us) / 1e6
        notes.append(
            f"no cast came after all was quiet, {quiet_s:.0f} s after the first: "
            "what follows is not judged"
        )
    return notes


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Collect garbage rarely. A run creates millions of objects and hardly any cycles; collection
    took up to 30 % of a run.

    With lazy peers collection is switched off (`Run`), which saves a tenth of a large run.
    """
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def notices(directory: Path) -> Notices:
    """All notifications of a journal."""
    table = journals.read(directory, "notices", ["cast", "peer", "time_us", "altered"])
    cast, peer, time_us = (
        np.asarray(numbers(table[name]), np.int64) for name in ("cast", "peer", "time_us")
    )
    return Notices(cast, peer, time_us, numbers(table["altered"]))
