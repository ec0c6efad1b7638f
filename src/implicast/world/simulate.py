"""One run from beginning to end: set up, join, register, cast, judge, measure."""

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
from implicast.world import journal as journals
from implicast.world.arrays import numbers
from implicast.world.change import ANNOUNCED, Change, PeerIncarnation, change
from implicast.world.invariants import NEVER_US, Away, Forgotten, Judge, Notices, Verdict
from implicast.world.liars.sight import sight
from implicast.world.liars.trust import Trust, trust
from implicast.world.populations import population
from implicast.world.populations.population import Sleepers
from implicast.world.run import Progress, Run, silent
from implicast.world.scenario import Scenario
from implicast.world.tally import Measures, messages, tally
from implicast.world.upheaval import Upheaval

__all__ = ["RARELY", "DesignCrash", "Outcome", "Progress", "notices", "silent", "simulate"]

RARELY = (500_000, 50, 100)
"""How often cycles are looked for while a world runs (`gc.set_threshold`)."""


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
    change: Change | None = None
    """What churn did, when there was any."""
    trust: Trust | None = None
    """How the honest fared, when members lied."""
    notes: list[str] = field(default_factory=list)
    """Where less was done than the scenario asked for, and why; and what could not be judged."""

    @property
    def kept(self) -> bool:
        """Was everything promised kept? Where peers come and go, or lie: what may be promised then."""
        if self.trust is not None:
            return self.trust.harmless
        return (
            self.contract.clean if self.change is None else self.change.kept and not self.objections
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
            **({"change": self.change.described()} if self.change is not None else {}),
            **({"trust": self.trust.described()} if self.trust is not None else {}),
        }


def simulate(
    scenario: Scenario, journal: Path | None = None, progress: Progress = silent
) -> Outcome:
    """Run a scenario. The journal is kept when a directory is named, and thrown away otherwise."""
    design, parameters = scenario.settled()
    if journal is not None:
        with _rarely_collecting():
            return _simulate(scenario, design, parameters, journal, progress)
    with tempfile.TemporaryDirectory(prefix="implicast-") as directory, _rarely_collecting():
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
        advice = f"\nhint: {scenario.advice()}" if scenario.advice() else ""
        raise DesignCrash(
            f"{place}: {error!r}{advice}\nreplay: {scenario.command()} --debug"
        ) from error
    finally:
        run.world.close()
    application, upheaval = run.application, run.upheaval
    objections, notes = _objections(run), _notes(run)
    run.let_go()
    counted, measures = messages(directory), tally(directory)
    told, incarnations = notices(directory), () if upheaval is None else upheaval.incarnations.all()
    away, forgotten = _away(incarnations, _in_peace(run)), _forgotten(incarnations)
    judge = Judge(
        application.casts, application.registrations, told, away, upheaval is None, forgotten
    )
    outcome = Outcome(
        scenario,
        dict(parameters),  # a plain value, so that an outcome can be sent to another process
        measures,
        judge.verdict(),
        counted["messages"],
        counted["bytes"],
        objections,
        None
        if upheaval is None
        else change(directory, run.course, judge, _complaints(run, upheaval, judge)),
        _trust(run, judge),
        notes,
    )
    run.disband()
    return outcome


def _trust(run: Run, judge: Judge) -> Trust | None:
    gang, renamed = run.gang, {} if run.upheaval is None else run.upheaval.returns.places
    if gang is None:
        return None

    def lies(number: int) -> bool:
        return gang.lies(renamed.get(number, number))

    return trust(
        judge, run.application.registrations, gang, lies, run.breakdowns, sight(run.world, gang)
    )


def _objections(run: Run) -> list[str]:
    """What is wrong with the network at the end. Where peers are made when they are needed, what nobody has touched is
    as it was computed: it is judged by that, where the design can (`_notes` says so)."""
    if run.asleep is not None:
        return run.asleep.objections(run.world.peers) or []
    return population(run.design).objections(
        run.population if run.upheaval is None else run.upheaval.present()
    )


def _in_peace(run: Run) -> bool:
    """Do peers only come and go by their own wish, on a network that does nothing to messages?"""
    script = () if run.upheaval is None else run.upheaval.script
    return not run.scenario.faults.text() and all(deed.kind in ANNOUNCED for deed in script)


def _away(incarnations: Iterable[tuple[int, PeerIncarnation]], peace: bool) -> Away:
    """Who was away, from when to when; leavers from when on their casts are excused.

    In peace a leaver has all the time it needs to see to its own casts. Who comes back is away until it is registered.
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


def _complaints(run: Run, upheaval: Upheaval, judge: Judge) -> list[str]:
    """Those about peers; and casts of leavers that did not reach everybody although nothing hindered them."""
    casts, missed = (
        run.application.casts,
        judge.missed(run.application.left) if _in_peace(run) else {},
    )
    forgotten = [
        f"{casts[cast].publisher} left, and its cast {cast} missed {count}"
        for cast, count in missed.items()
    ]
    return upheaval.complaints() + forgotten


def _notes(run: Run) -> list[str]:
    scenario, application, course = run.scenario, run.application, run.course
    said = scenario.churn.shortfall(scenario.seed, scenario.peers, run.plan.infrastructure)
    if run.asleep is not None:
        made = f"{len(run.world.peers):,} of {run.network.hosts:,} peers were made"
        judged = (
            "judged by columns"
            if type(run.asleep).objections is not Sleepers.objections
            else "not judged"
        )
        said.append(f"{made}, each when it was needed; the overlay is {judged}")
    if application.unmade:
        unmade = f"{application.unmade} of {scenario.casts} casts were not made"
        said.append(f"{unmade}: nobody was there and awake who could")
    if run.upheaval is not None and not any(
        cast.time_us >= course.calm_us for cast in application.casts
    ):
        quiet_s = (course.calm_us - course.from_us) / 1e6
        said.append(
            f"no cast came after all was quiet, {quiet_s:.0f} s after the first: what follows is not judged"
        )
    return said


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """A world makes millions of values and hardly any cycles: looking for cycles took up to 30 % of a run.

    Where peers are made when they are needed it is not done at all (`Run`): a tenth of a large run.
    """
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def notices(directory: Path) -> Notices:
    """Who was told of what, from a journal."""
    table = journals.read(directory, "notices", ["cast", "peer", "time_us", "altered"])
    cast, peer, time_us = (
        np.asarray(numbers(table[name]), np.int64) for name in ("cast", "peer", "time_us")
    )
    return Notices(cast, peer, time_us, numbers(table["altered"]))
