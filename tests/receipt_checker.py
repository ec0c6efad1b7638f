"""Recomputes from the journal alone who was owed each cast, and which final receipts are false.

    python tests/receipt_checker.py DIR...

A DIR is a journal, or a folder with journals at any depth. It prints one line for each false statement of a receipt,
and ends with code 1 if there is one. It uses no code of the judge (`world/invariants.py`, `world/receipts.py`) nor of
the laboratory: only the parser of targets and the selection of one description by one target.

A member is owed a cast if a registration of it was complete when the cast was made; if all its descriptions that were
possibly in force from then until a minute after the publisher last started the cast are selected; and if it was there
all this time: neither crashed, nor leaving, nor restarted and not yet registered again. A leaver is owed nothing from
when it asks to leave: that is a withdrawal.

A final receipt is false
- `notified`: if it counts more notified than notices were taken by then;
- `complete`: if it has no uncertain region, and more owed members were not notified by then than it counts as declined
  and unreachable;
- `sum`: if it counts more members than were ever selected by then (a member that returned with an old disk may take a
  cast again, which counts again);
- `exact`: in a run without churn, if it is complete without unreachable members and counts fewer than all notices.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from implicast.language.parse import parse
from implicast.language.target import Description, Value, read_scalar

FLIGHT_US = 60_000_000
FOREVER_US = 1 << 62


@dataclass(frozen=True)
class FalseReceipt:
    """A receipt that says what is not so."""

    journal: Path
    cast: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.journal}: cast {self.cast}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Stated:
    """A description that a member asked to register, or a withdrawal (None)."""

    begun_us: int
    done_us: int
    """When it was complete."""
    description: Description | None


def rows(journal: Path, table: str) -> list[dict]:
    """A table of a journal; empty if the journal has none of this name."""
    path = journal / f"{table}.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


def statements(journal: Path) -> dict[int, list[Stated]]:
    """By member, what it registered, in order of version."""
    found = defaultdict(list)
    for row in sorted(
        rows(journal, "registrations"), key=lambda row: (row["peer"], row["version"])
    ):
        values = tuple(Value(one["attribute"], read_scalar(one["value"])) for one in row["values"])
        description = None if row["withdrawn"] else Description(tuple(row["tags"]), values)
        done_us = FOREVER_US if row["completed_us"] is None else row["completed_us"]
        found[row["peer"]].append(Stated(row["begun_us"], done_us, description))
    return dict(found)


def absences(journal: Path) -> dict[int, list[tuple[int, int]]]:
    """By member, when it was crashed, leaving, or restarted and not yet registered."""
    by_member = defaultdict(list)
    for row in sorted(rows(journal, "incarnations"), key=lambda row: row["from_us"]):
        by_member[row["peer"]].append(row)
    found = {}
    for member, lives in by_member.items():
        spans = []
        for life, after in zip(lives, [*lives[1:], None], strict=True):
            gone = [life["leaving_us"]] if life["leaving_us"] is not None else []
            gone += [life["to_us"]] if life["end"] == "crashed" else []
            if gone:
                back_us = None if after is None else after["back_us"]
                spans.append((min(gone), FOREVER_US if back_us is None else back_us))
        found[member] = spans
    return found


def notices(journal: Path) -> dict[int, list[tuple[int, int]]]:
    """By cast, (time_us, member) of each notice."""
    found = defaultdict(list)
    for row in rows(journal, "notices"):
        found[row["cast"]].append((row["time_us"], row["peer"]))
    return found


def is_owed(mine: list[Stated], selected: list[bool], from_us: int, to_us: int) -> bool:
    """Whether a member that was there all the time had to be notified."""
    if all(one.done_us > from_us for one in mine):
        return False
    for place, (one, chosen) in enumerate(zip(mine, selected, strict=True)):
        ended_us = min((later.done_us for later in mine[place + 1 :]), default=FOREVER_US)
        in_force = one.begun_us <= to_us and from_us < ended_us
        if in_force and not chosen:
            return False
    return True


def false_receipts(journal: Path) -> list[FalseReceipt]:
    """All false final receipts of one journal."""
    stated, away, taken = statements(journal), absences(journal), notices(journal)
    return [
        wrong
        for row in rows(journal, "casts")
        if row["notified"] is not None
        for wrong in false_claims(journal, row, stated, away, taken.get(row["cast"], []))
    ]


def false_claims(
    journal: Path,
    cast: dict,
    stated: dict[int, list[Stated]],
    away: dict[int, list[tuple[int, int]]],
    notices_taken: list[tuple[int, int]],
) -> list[FalseReceipt]:
    """What the final receipt of one cast says wrongly."""
    target, made_us, settled_us = parse(cast["target"]), cast["time_us"], cast["settled_us"]
    until_us = (made_us if cast["carried_us"] is None else cast["carried_us"]) + FLIGHT_US
    by_then = [member for at_us, member in notices_taken if made_us <= at_us <= settled_us]
    met, owed, candidates = set(by_then), set(), set()
    for member, mine in stated.items():
        selected = [one.description is not None and target.selects(one.description) for one in mine]
        if any(
            chosen and one.begun_us <= settled_us
            for one, chosen in zip(mine, selected, strict=True)
        ):
            candidates.add(member)
        was_there = not any(
            gone_us <= until_us and made_us < back_us for gone_us, back_us in away.get(member, ())
        )
        if any(selected) and was_there and is_owed(mine, selected, made_us, until_us):
            owed.add(member)
    others = cast["declined"] + cast["unreachable"]
    found = []
    if cast["notified"] > len(by_then):
        found.append(("notified", f"it says {cast['notified']}, and {len(by_then)} were"))
    if not cast["uncertain"] and len(owed - met) > others:
        lacking = f"{sorted(owed - met)} were owed it and not notified"
        found.append(("complete", f"{lacking}; it counts {others} beside the notified"))
    is_still = not (journal / "incarnations.parquet").exists()
    is_whole = not cast["uncertain"] and not cast["unreachable"]
    if is_still and is_whole and cast["notified"] < len(by_then):
        found.append(("exact", f"it says {cast['notified']}, and {len(by_then)} were"))
    again = len(by_then) - len(met)
    if others and cast["notified"] + others > len(candidates) + again:
        total = f"it counts {cast['notified'] + others} members"
        found.append(("sum", f"{total}, and {len(candidates)} were ever selected"))
    return [FalseReceipt(journal, cast["cast"], rule, text) for rule, text in found]


def journals(directory: Path) -> list[Path]:
    """The journals in a folder: the folder itself, or those at any depth below it."""
    return sorted(path.parent for path in directory.rglob("casts.parquet"))


def main(arguments: list[str]) -> int:
    found = [each for name in arguments for each in journals(Path(name))]
    if not found:
        print(f"no journal in {' '.join(arguments) or 'no directory'}", file=sys.stderr)
        return 2
    wrong = [one for journal in found for one in false_receipts(journal)]
    for one in wrong:
        print(one)
    receipts = sum(row["notified"] is not None for each in found for row in rows(each, "casts"))
    casts = len({(one.journal, one.cast) for one in wrong})
    print(f"{len(found)} journals, {receipts} final receipts, {casts} false", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
