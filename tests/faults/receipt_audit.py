"""Compares the final receipts of a run with its journal, by brute force: every cast with every
member.

    python -m tests.faults.receipt_audit condcast --scenarios 60 --seed 4100
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from implicast.casting.designs import design
from implicast.language.parse import parse
from implicast.language.target import Description, Target, Value, read_scalar
from implicast.peer.errors import ScenarioError
from implicast.trials.campaign import scenario_of
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

FLIGHT_US = 60_000_000
"""A member that leaves, crashes or changes its description within this time is not owed a cast."""
NEVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Mistake:
    """A receipt that is false, or complete although a member was missed."""

    cast: int
    publisher: int
    time_s: float
    what: str
    missing: tuple[int, ...] = ()


@dataclass(slots=True)
class Audit:
    """Receipts of one run: how many are complete, and those that are wrong."""

    casts: int = 0
    settled: int = 0
    complete: int = 0
    mistakes: list[Mistake] = field(default_factory=list)
    complete_at: list[bool] = field(default_factory=list)
    """By settled cast, in order of casting, whether its receipt is complete."""
    unreachable: list[int] = field(default_factory=list)
    overcounted: list[int] = field(default_factory=list)
    """Casts whose receipt counts more members than were ever selected."""
    periods: Counter[str] = field(default_factory=Counter)
    """Casts, and complete receipts, by period of the run: during churn, and after calm."""


def audit(scenario: Scenario) -> Audit:
    """Run a scenario and compare its receipts with its journal."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "journal"
        simulate(scenario, journal)
        return audit_journal(journal)


def audit_journal(journal: Path) -> Audit:
    """Compare the receipts of a journal with its notices and registrations."""
    found, gone = Audit(), _absences(journal)
    versions, calm_us = _versions(journal), _calm_us(journal)
    taken: dict[int, list[tuple[int, int]]] = {}
    for row in _rows(journal, "notices"):
        taken.setdefault(row["cast"], []).append((row["peer"], row["time_us"]))
    for row in _rows(journal, "casts"):
        found.casts += 1
        period = "calm" if row["time_us"] >= calm_us else "change"
        found.periods[period] += 1
        if row["settled_us"] is None:
            continue
        found.settled += 1
        is_complete = not row["uncertain"]
        found.complete += is_complete
        found.complete_at.append(is_complete)
        found.unreachable.append(row["unreachable"])
        if _is_overcounted(row, versions):
            found.overcounted.append(row["cast"])
        found.periods[f"{period} complete"] += is_complete
        found.mistakes += _mistakes(row, taken.get(row["cast"], []), versions, gone)
    return found


def _mistakes(
    row: dict[str, Any],
    taken: list[tuple[int, int]],
    versions: dict[int, list["_Version"]],
    gone: dict[int, list[tuple[int, int]]],
) -> Iterator[Mistake]:
    about = row["cast"], row["publisher"], row["time_us"] / 1e6
    in_time = sum(time_us <= row["settled_us"] for _, time_us in taken)
    if row["notified"] > in_time:
        yield Mistake(*about, f"{row['notified']} notified, {in_time} took it")
    target, from_us = parse(row["target"]), row["time_us"]
    to_us = (row["carried_us"] or from_us) + FLIGHT_US
    took = {peer for peer, time_us in taken if time_us <= row["settled_us"]}
    missing = tuple(
        peer
        for peer, every in versions.items()
        if peer not in took
        and not _is_away(gone.get(peer, ()), from_us, to_us)
        and _is_owed(every, target, from_us, to_us)
    )
    if not row["uncertain"] and len(missing) > row["unreachable"] + row["declined"]:
        counts = {each: row[each] for each in ("notified", "declined", "unreachable")}
        yield Mistake(*about, f"complete, missed {len(missing)}: {counts}", missing)


@dataclass(slots=True)
class _Version:
    begun_us: int
    completed_us: int | None
    description: Description | None
    until_us: int = NEVER_US


def _is_owed(every: list[_Version], target: Target, from_us: int, to_us: int) -> bool:
    """Whether a version was complete and every version possibly in force is selected."""
    complete = [each for each in every if (each.completed_us or NEVER_US) <= from_us]
    possible = [each for each in every if each.begun_us <= to_us and from_us < each.until_us]
    return bool(complete) and all(
        each.description is not None and target.selects(each.description) for each in possible
    )


def _is_overcounted(row: dict[str, Any], versions: dict[int, list[_Version]]) -> bool:
    target = parse(row["target"])
    selected = sum(
        any(each.description is not None and target.selects(each.description) for each in every)
        for every in versions.values()
    )
    return bool(row["notified"] + row["declined"] + row["unreachable"] > selected)


def _is_away(absences: Iterable[tuple[int, int]], from_us: int, to_us: int) -> bool:
    return any(start_us <= to_us and from_us < end_us for start_us, end_us in absences)


def _versions(journal: Path) -> dict[int, list[_Version]]:
    found: dict[int, list[_Version]] = {}
    for row in sorted(
        _rows(journal, "registrations"), key=lambda one: (one["peer"], one["version"])
    ):
        values = tuple(Value(one["attribute"], read_scalar(one["value"])) for one in row["values"])
        described = None if row["withdrawn"] else Description(tuple(row["tags"]), values)
        found.setdefault(row["peer"], []).append(
            _Version(row["begun_us"], row["completed_us"], described)
        )
    for every in found.values():
        until_us = NEVER_US
        for version in reversed(every):
            version.until_us = until_us
            if version.completed_us is not None:
                until_us = min(until_us, version.completed_us)
    return found


def _absences(journal: Path) -> dict[int, list[tuple[int, int]]]:
    """By member, when it had crashed or was leaving; until the registration after its return."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in _rows(journal, "incarnations"):
        peer = row["peer"]
        if row["returned"] and peer in found:
            start_us, _ = found[peer].pop()
            found[peer].append((start_us, NEVER_US if row["back_us"] is None else row["back_us"]))
        crashed_us = row["to_us"] if row["end"] == "crashed" else None
        gone_us = row["leaving_us"] if row["leaving_us"] is not None else crashed_us
        if gone_us is not None:
            found.setdefault(peer, []).append((gone_us, NEVER_US))
    return found


def _calm_us(journal: Path) -> int:
    rows = list(_rows(journal, "timeline"))
    return int(rows[0]["calm_us"]) if rows else 0


def _rows(journal: Path, table: str) -> Iterator[dict[str, Any]]:
    try:
        found = read(journal, table)
    except ScenarioError:  # a run without churn has no such table
        return
    yield from found.to_pylist()


def scenarios(
    name: str, seed: int, count: int, partitions: bool, first: int = 0
) -> Iterator[Scenario]:
    """Scenarios of a campaign, by default without partitions, cut and flapping links."""
    for number in range(first, first + count):
        drawn = scenario_of(design(name), seed, number)
        if not partitions:
            drawn = replace(drawn, churn=replace(drawn.churn, splits=0, cuts=0, flaps=0))
        yield drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("design")
    parser.add_argument("--scenarios", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=4100)
    parser.add_argument("--partitions", action="store_true")
    given = parser.parse_args()
    total, periods, wrong = Counter[str](), Counter[str](), 0
    drawn = scenarios(given.design, given.seed, given.scenarios, given.partitions, given.first)
    for number, scenario in enumerate(drawn, given.first):
        found = audit(scenario)
        total.update(casts=found.casts, settled=found.settled, complete=found.complete)
        periods.update(found.periods)
        wrong += len(found.mistakes)
        for mistake in found.mistakes[:4]:
            print(number, scenario.peers, mistake, flush=True)
    print(given.design, dict(total), dict(periods), "mistakes", wrong, flush=True)


if __name__ == "__main__":
    main()
