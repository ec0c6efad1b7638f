"""Measures of churn and faults in one run: delivery during and after change, repair time, cost of
upkeep and of message storms.

They are computed from the journal, which then has four more tables: `timeline` (when change began,
was over and repaired), `scripted_events`, `incarnations` (when each peer was present) and `health`
(violated invariants at each check). The laboratory computes the same measures from the same tables
with other code (`lab/measures/change.py`).

- during, after: the contract over the casts made from the first event until the design's repair
  time after the last one; and over later casts.
- repair: from the end of an event to the first check without a violation, or to the end of the run.
  It covers unannounced events: crashes, returns, fails, restarts, freezes, network faults. Peers
  announce joins, leaves and registrations to others, which settle within a check or two; these are
  measured apart (`settle_s_max`), because they would dominate the median. The resolution is one
  check, a second.
- return: from the start of a returned member to the completion of its first registration
  (`return_s_max`).
- upkeep: upkeep messages per peer and minute of presence. At rest: after repair, if the run lasts
  at least a minute longer.
- storm: messages in the busiest second divided by the mean over all seconds.
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
from implicast.world.invariants import ContractChecker, ContractReport
from implicast.world.journal import Journal, batches, read
from implicast.world.scripted_events import ScriptedEvent
from implicast.world.tally import Ints

_S = 1_000_000
_MINUTE_US = 60 * _S
ANNOUNCED = ("join", "leave", "register", "describe", "withdraw", "burst")
"""Kinds of events that the peers concerned announce to others. All other kinds are unannounced."""
REST_US = _MINUTE_US
"""Shortest rest over which upkeep is measured. Most upkeep recurs every few seconds, some every
half minute.
"""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Times of a run: the first event may begin at `from_us`, the last ends at `over_us`, the
    design has repaired everything by `calm_us`, the run ends at `end_us`.
    """

    from_us: int
    over_us: int
    calm_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class PeerIncarnation:
    """When a peer was present, and how that ended: stayed, left or crashed."""

    from_us: int
    joined_us: int | None
    """None: it never joined."""
    leaving_us: int | None = None
    """When it asked to leave."""
    to_us: int | None = None
    end: str = "stayed"
    returned: bool = False
    """The incarnation began at the address of a crashed one, with its disk, an old copy or an empty
    disk.
    """
    back_us: int | None = None
    """When the first registration of a returned member was complete; None: never."""
    copied_us: int | None = None
    """When its disk was copied, if it began with an old copy. It has forgotten everything later."""


@dataclass(frozen=True, slots=True)
class Change:
    """The measures of change of one run."""

    during: ContractReport
    after: ContractReport
    complaints: list[str]
    """Peers that never joined or never left, registrations never completed, and casts of leavers
    that missed members.
    """
    repair_s_median: float
    """Of unannounced events; if there are none, of announced ones."""
    repair_s_max: float
    sudden: int
    """Number of unannounced events."""
    settle_s_max: float
    """Longest time from an announced event to a check without a violation."""
    unrepaired: int
    """Events after which no check was without a violation. Their repair lasts until the end of the
    run.
    """
    calm_s: float
    """From the end of the last event to the first check without a violation."""
    allowed_s: float
    """The repair time that the design promises."""
    upkeep_per_peer_minute: float
    upkeep_at_rest: float
    """The same after `calm_us`; not a number if that is less than a minute."""
    storm: float
    returns: int = 0
    """Number of members that came back."""
    return_s_max: float = 0.0
    """Longest time from the return of a member to its registration."""

    @property
    def contract_held(self) -> bool:
        """Whether the contract under change held: no false notification at any time, no member
        missed after `calm_us`, no complaint, and all violations repaired in time.
        """
        repaired = not self.unrepaired and self.calm_s <= self.allowed_s
        return self.during.harmless and self.after.clean and not self.complaints and repaired

    def described(self) -> dict[str, Any]:
        """Plain values; None for what was not measured."""
        ratios = {
            "delivery_ratio": self.during.delivery_ratio,
            "delivery_ratio_after": self.after.delivery_ratio,
        }
        rest = None if isnan(self.upkeep_at_rest) else self.upkeep_at_rest
        return {**asdict(self), **ratios, "upkeep_at_rest": rest, "kept": self.contract_held}


def write_change_tables(
    journal: Journal,
    timeline: Timeline,
    script: tuple[ScriptedEvent, ...],
    incarnations: Iterable[tuple[int, PeerIncarnation]],
    samples: list[tuple[int, list[str]]],
) -> None:
    """Write the four tables of change."""
    journal.table("timeline", [asdict(timeline)])
    journal.table(
        "scripted_events",
        [
            {
                "from_us": timeline.from_us + int(event.from_s * _S),
                "to_us": timeline.from_us + int(event.to_s * _S),
                "kind": event.kind,
                "peers": list(event.who),
                "amount": event.amount,
                "detail": event.detail,
            }
            for event in script
        ],
    )
    journal.table(
        "incarnations",
        [{"peer": peer, **asdict(incarnation)} for peer, incarnation in incarnations],
    )
    journal.table(
        "health",
        [
            {"time_us": time_us, "wrong": len(wrong), "first": wrong[0] if wrong else None}
            for time_us, wrong in samples
        ],
    )


def change(
    journal: Path, timeline: Timeline, judge: ContractChecker, complaints: list[str]
) -> Change:
    """All measures of change."""
    events = read(journal, "scripted_events", ["to_us", "kind"])
    times_s, unrepaired = repair_times_s(journal, numbers(events["to_us"]), timeline.end_us)
    announced = [kind in ANNOUNCED for kind in events["kind"].to_pylist()]
    settled_s = list(compress(times_s, announced))
    sudden_s = list(compress(times_s, map(not_, announced)))
    repairs_s = sudden_s or settled_s
    last_s, never = repair_times_s(journal, np.array([timeline.over_us]), timeline.end_us)
    return Change(
        during=judge.report(timeline.from_us, timeline.calm_us),
        after=judge.report(timeline.calm_us),
        complaints=complaints,
        repair_s_median=float(np.median(repairs_s)) if repairs_s else 0.0,
        repair_s_max=max(repairs_s, default=0.0),
        sudden=len(sudden_s),
        settle_s_max=max(settled_s, default=0.0),
        unrepaired=unrepaired,
        calm_s=float("inf") if never else last_s[0],
        allowed_s=(timeline.calm_us - timeline.over_us) / _S,
        upkeep_per_peer_minute=upkeep_per_peer_minute(journal, timeline.from_us, timeline.end_us),
        upkeep_at_rest=upkeep_at_rest(journal, timeline),
        storm=storm(journal, timeline),
        **returns(journal),
    )


def returns(journal: Path) -> dict[str, Any]:
    """Number of returned members, and the longest time until one was registered again."""
    incarnations = read(journal, "incarnations", ["from_us", "returned", "back_us"])
    came, back_us = numbers(incarnations["returned"]), numbers(incarnations["back_us"], -1)
    waited_us = (back_us - numbers(incarnations["from_us"]))[came & (back_us >= 0)]
    return {"returns": int(came.sum()), "return_s_max": int(waited_us.max(initial=0)) / _S}


def repair_times_s(journal: Path, ends_us: Ints, over_us: int) -> tuple[list[float], int]:
    """For each of these times, the seconds to the first check without a violation; and the number
    of times without such a check.

    The latter last until the end of the run, which is a lower bound.
    """
    health = read(journal, "health")
    clean_us = np.sort(numbers(health["time_us"])[numbers(health["wrong"]) == 0])
    where = np.searchsorted(clean_us, ends_us)
    waited_us = np.append(clean_us, over_us)[where] - ends_us
    return (waited_us / _S).tolist(), int((where == len(clean_us)).sum())


def upkeep_at_rest(journal: Path, timeline: Timeline) -> float:
    """Upkeep after `calm_us`; not a number if that is less than a minute."""
    if timeline.end_us - timeline.calm_us < REST_US:
        return nan
    return upkeep_per_peer_minute(journal, timeline.calm_us, timeline.end_us)


def upkeep_per_peer_minute(journal: Path, begin_us: int, end_us: int) -> float:
    """Upkeep messages between two times per minute of presence of a peer."""
    incarnations = read(journal, "incarnations")
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


def storm(journal: Path, timeline: Timeline) -> float:
    """Messages in the busiest second divided by the mean per second, from the first event to the
    end.
    """
    seconds = max(1, -(-(timeline.end_us - timeline.from_us) // _S))
    counts = np.zeros(seconds, np.int64)
    for batch in batches(journal, "sends", ["sent_us"]):
        at = (numbers(batch["sent_us"]) - timeline.from_us) // _S
        counts += np.bincount(at[(at >= 0) & (at < seconds)], minlength=seconds)
    return float(counts.max() / counts.mean()) if counts.any() else 0.0
