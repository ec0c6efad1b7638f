"""What change did to a run: who was reached during and after it, how long repair took, what upkeep and storms cost.

Computed from the journal, which then has four more tables: `course` (when things changed), `deeds` (what happened),
`incarnations` (who was there, from when to when) and `health` (how many invariants were found broken at each look from
outside). The laboratory computes the same from the same tables (`lab/measures/change.py`), with other code.

- during, after: the contract over the casts made while things changed and within the design's repair time, and later.
- repair: from the end of a deed to the first look that found nothing wrong, or to the end if none did. Of deeds without
  a word: crashes, returns, fails, restarts, sleepers, troubles of the network. Joins, leaves and what members say of
  themselves are told to others, and are in order within a look or two; in one figure with the others they would hide
  those, so they are measured apart (`settle_s_max`). The resolution is one look, a second: what takes less counts as
  one.
- return: from the moment when a member comes back to the completion of its first registration (`return_s_max`).
- upkeep: messages of standing upkeep per peer and minute, over the time that each was there; at rest: once all was
  quiet, and only if that lasted for a minute at least.
- storm: messages in the busiest second over the mean of all seconds.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import compress
from math import isnan, nan
from operator import not_
from pathlib import Path
from typing import Any

import numpy as np

from implicast.world.arrays import numbers
from implicast.world.deeds import Deed
from implicast.world.invariants import Judge, Verdict
from implicast.world.journal import Journal, batches, read
from implicast.world.tally import Ints

_S = 1_000_000
_MINUTE_US = 60 * _S
ANNOUNCED = ("join", "leave", "register", "describe", "withdraw", "burst")
"""Deeds that those concerned are told of; all others come without a word."""
REST_US = _MINUTE_US
"""A shorter rest says nothing about upkeep: most of it comes every few seconds, some once in half a minute."""


@dataclass(frozen=True, slots=True)
class Course:
    """When things changed: deeds from `from_us`, the last over at `over_us`, all quiet at `calm_us`, the end."""

    from_us: int
    over_us: int
    calm_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class PeerIncarnation:
    """When a peer was there, and how that ended: stayed, left or crashed."""

    from_us: int
    joined_us: int | None
    """None: it never got in."""
    leaving_us: int | None = None
    """When it asked to leave."""
    to_us: int | None = None
    end: str = "stayed"
    returned: bool = False
    """It began where somebody had crashed: at the address, with what was left on the disk."""
    back_us: int | None = None
    """When the first registration of a life that began so was complete; None: never."""
    copied_us: int | None = None
    """When the disk was copied with which it began, if that was an old copy: what came later is forgotten."""


@dataclass(frozen=True, slots=True)
class Change:
    """The measures of change of one run."""

    during: Verdict
    after: Verdict
    complaints: list[str]
    """Who never joined, never left or was never registered completely."""
    repair_s_median: float
    """After deeds without a word; where all were announced, after those."""
    repair_s_max: float
    sudden: int
    """Deeds without a word."""
    settle_s_max: float
    """After joins and leaves, the longest."""
    unrepaired: int
    """Deeds after which something was wrong until the end; their repair counts as if it had come then."""
    calm_s: float
    """From the end of the last deed to the first look that found nothing wrong."""
    allowed_s: float
    """What the design allows itself for that."""
    upkeep_per_peer_minute: float
    upkeep_at_rest: float
    """The same once all was quiet; not a number where that lasted less than a minute."""
    storm: float
    returns: int = 0
    """Members that came back."""
    return_s_max: float = 0.0
    """From coming back to being registered, the longest of those that were."""

    @property
    def kept(self) -> bool:
        """Nobody was told wrongly at any time, everybody was reached once all was quiet, everyone arrived."""
        repaired = not self.unrepaired and self.calm_s <= self.allowed_s
        return self.during.harmless and self.after.clean and not self.complaints and repaired

    def described(self) -> dict[str, Any]:
        """Plain values; None for what was not measured."""
        ratios = {
            "delivery_ratio": self.during.delivery_ratio,
            "delivery_ratio_after": self.after.delivery_ratio,
        }
        rest = None if isnan(self.upkeep_at_rest) else self.upkeep_at_rest
        return {**asdict(self), **ratios, "upkeep_at_rest": rest, "kept": self.kept}


def course_tables(
    journal: Journal,
    course: Course,
    script: tuple[Deed, ...],
    incarnations: Iterable[tuple[int, PeerIncarnation]],
    samples: list[tuple[int, list[str]]],
) -> None:
    """Write the four tables."""
    journal.table("course", [asdict(course)])
    journal.table(
        "deeds",
        [
            {
                "from_us": course.from_us + int(deed.from_s * _S),
                "to_us": course.from_us + int(deed.to_s * _S),
                "kind": deed.kind,
                "peers": list(deed.who),
                "amount": deed.amount,
                "detail": deed.detail,
            }
            for deed in script
        ],
    )
    journal.table(
        "lives", [{"peer": peer, **asdict(incarnation)} for peer, incarnation in incarnations]
    )
    journal.table(
        "health",
        [
            {"time_us": time_us, "wrong": len(wrong), "first": wrong[0] if wrong else None}
            for time_us, wrong in samples
        ],
    )


def change(journal: Path, course: Course, judge: Judge, complaints: list[str]) -> Change:
    """All measures of change."""
    deeds = read(journal, "deeds", ["to_us", "kind"])
    times_s, unrepaired = repair_times_s(journal, numbers(deeds["to_us"]), course.end_us)
    announced = [kind in ANNOUNCED for kind in deeds["kind"].to_pylist()]
    settled_s = list(compress(times_s, announced))
    sudden_s = list(compress(times_s, map(not_, announced)))
    repairs_s = sudden_s or settled_s
    last_s, never = repair_times_s(journal, np.array([course.over_us]), course.end_us)
    return Change(
        during=judge.verdict(course.from_us, course.calm_us),
        after=judge.verdict(course.calm_us),
        complaints=complaints,
        repair_s_median=float(np.median(repairs_s)) if repairs_s else 0.0,
        repair_s_max=max(repairs_s, default=0.0),
        sudden=len(sudden_s),
        settle_s_max=max(settled_s, default=0.0),
        unrepaired=unrepaired,
        calm_s=float("inf") if never else last_s[0],
        allowed_s=(course.calm_us - course.over_us) / _S,
        upkeep_per_peer_minute=upkeep_per_peer_minute(journal, course.from_us, course.end_us),
        upkeep_at_rest=upkeep_at_rest(journal, course),
        storm=storm(journal, course),
        **returns(journal),
    )


def returns(journal: Path) -> dict[str, Any]:
    """How many came back, and how long it took at most until they were registered again."""
    incarnations = read(journal, "lives", ["from_us", "returned", "back_us"])
    came, back_us = numbers(incarnations["returned"]), numbers(incarnations["back_us"], -1)
    waited_us = (back_us - numbers(incarnations["from_us"]))[came & (back_us >= 0)]
    return {"returns": int(came.sum()), "return_s_max": int(waited_us.max(initial=0)) / _S}


def repair_times_s(journal: Path, ends_us: Ints, over_us: int) -> tuple[list[float], int]:
    """From each of these moments the time until a look found nothing wrong; and from how many none ever did.

    Those last until the end, at least: that is what is said of them.
    """
    health = read(journal, "health")
    clean_us = np.sort(numbers(health["time_us"])[numbers(health["wrong"]) == 0])
    where = np.searchsorted(clean_us, ends_us)
    waited_us = np.append(clean_us, over_us)[where] - ends_us
    return (waited_us / _S).tolist(), int((where == len(clean_us)).sum())


def upkeep_at_rest(journal: Path, course: Course) -> float:
    """Upkeep once all was quiet; not a number where rest was too short to tell."""
    if course.end_us - course.calm_us < REST_US:
        return nan
    return upkeep_per_peer_minute(journal, course.calm_us, course.end_us)


def upkeep_per_peer_minute(journal: Path, begin_us: int, end_us: int) -> float:
    """Upkeep messages between two moments, over the minutes that peers were there meanwhile."""
    incarnations = read(journal, "lives")
    from_us = np.maximum(numbers(incarnations["from_us"]), begin_us)
    to_us = np.minimum(numbers(incarnations["to_us"], end_us), end_us)
    minutes = float(np.maximum(0, to_us - from_us).sum()) / _MINUTE_US
    sent = 0
    for batch in batches(journal, "sends", ["sent_us", "phase"]):
        at_us, phases = numbers(batch["sent_us"]), batch["phase"]
        upkeep = np.array(phases.dictionary.to_pylist()) == "upkeep"
        sent += int(
            (upkeep[numbers(phases.indices)] & (at_us >= begin_us) & (at_us < end_us)).sum()
        )
    return sent / minutes if minutes else 0.0


def storm(journal: Path, course: Course) -> float:
    """The busiest second over the mean second, from the first deed to the end."""
    seconds = max(1, -(-(course.end_us - course.from_us) // _S))
    counts = np.zeros(seconds, np.int64)
    for batch in batches(journal, "sends", ["sent_us"]):
        at = (numbers(batch["sent_us"]) - course.from_us) // _S
        counts += np.bincount(at[(at >= 0) & (at < seconds)], minlength=seconds)
    return float(counts.max() / counts.mean()) if counts.any() else 0.0
