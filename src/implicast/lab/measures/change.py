"""The facet of change of one journal: who was reached during and after it, how long repair took,
what upkeep and storms cost.

`world/change.py` defines and computes the same while a run is made. This is other code, for journals
that are there, and tests hold the two equal. The tables of change exist only for runs in which
something changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from implicast.lab import tables
from implicast.lab.measures.absences import Absences, absences
from implicast.lab.measures.blocks import ints
from implicast.world.change import ANNOUNCED, REST_US

_S = 1_000_000
_MINUTE_US = 60 * _S
Ints = npt.NDArray[np.int64]
WRONG = ("repeated", "uninvited", "invented", "altered", "misreported")
"""Violations that are not allowed at any time."""
PERIODS = ("during", "after")
NEVER = np.iinfo(np.int64).max
TRAFFIC = ["sent_us", "phase"]
"""The columns of messages that `traffic` needs."""


@dataclass(frozen=True, slots=True)
class ChangeTables:
    """The tables of change of one journal. `timeline` is None where the journal has none: then only
    the contract is judged.
    """

    incarnations: pa.Table
    events: pa.Table
    health: pa.Table
    timeline: Mapping[str, int] | None
    undisturbed: bool
    """The network did nothing to messages."""

    def absences(self) -> Absences:
        return absences(self.incarnations, self.events, self.undisturbed)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages from the first event on: by second, of upkeep, and of upkeep at rest."""

    second: Ints
    sent: Ints
    upkeep: int
    rest: int


def period_of(casts: pa.Table, timeline: Mapping[str, int]) -> dict[str, pa.Table]:
    """The casts made during change, and after the repair time."""
    made_us = casts["time_us"]
    calm = pc.greater_equal(made_us, timeline["calm_us"])
    begun = pc.greater_equal(made_us, timeline["from_us"])
    return {
        "during": casts.filter(pc.and_(begun, pc.invert(calm))),
        "after": casts.filter(calm),
    }


def traffic(sends: pa.Table, timeline: Mapping[str, int]) -> Traffic:
    """Of these messages; sums over parts of a journal are those of the whole."""
    from_us, calm_us, end_us = (timeline[name] for name in ("from_us", "calm_us", "end_us"))
    since = sends.filter(pc.greater_equal(sends["sent_us"], from_us))
    sent_us = ints(since, "sent_us")
    second, sent = np.unique((sent_us - from_us) // _S, return_counts=True)
    told = pc.equal(since["phase"].cast(pa.string()), "upkeep").to_numpy()
    upkeep = np.asarray(told, bool) & (sent_us < end_us)
    rest = upkeep & (sent_us >= calm_us)
    return Traffic(second, sent.astype(np.int64), int(upkeep.sum()), int(rest.sum()))


def change(
    judged: Mapping[str, int], moved: Traffic, given: ChangeTables, registrations: pa.Table
) -> dict[str, Any]:
    """The row of `tables.RUN_CHANGE`. `judged` has the counts of the contract for each period, as
    `during_expected`.
    """
    assert given.timeline is not None, "without a timeline nothing says what changed when"
    during = {name: judged[f"during_{name}"] for name in tables.CONTRACT}
    after = {name: judged[f"after_{name}"] for name in tables.CONTRACT}
    repaired = _repairs(given, given.timeline)
    complained = complaints(given.incarnations, registrations)
    wrong = sum(during[name] for name in WRONG)
    in_time = not repaired["unrepaired"] and repaired["calm_s"] <= repaired["allowed_s"]
    clean = not any(after[name] for name in tables.BROKEN)
    return {
        **judged,
        **repaired,
        **_rates(moved, given.incarnations, given.timeline),
        **returns(given.incarnations),
        "complaints": complained,
        "delivery_ratio": _reached(during),
        "delivery_ratio_after": _reached(after),
        "wrong": wrong,
        "late": during["late"],
        "late_share": _ratio(during["late"], during["notified"]),
        "kept": not wrong and clean and not complained and in_time,
    }


def _repairs(given: ChangeTables, timeline: Mapping[str, int]) -> dict[str, float]:
    """From the end of each event to the first check without a violation, or to the end of the run
    when none was. Of events that no peer announced; of joins and leaves where there are only those.
    """
    ended_us = ints(given.events, "to_us")
    announced = np.isin(np.array(given.events["kind"].to_pylist(), object), ANNOUNCED)
    clean_us = first_clean_us(given.health, np.append(ended_us, timeline["over_us"]))
    never = clean_us == NEVER
    waited_us = np.where(never[:-1], timeline["end_us"], clean_us[:-1]) - ended_us
    sudden_s, settling_s = waited_us[~announced] / _S, waited_us[announced] / _S
    counted_s = sudden_s if len(sudden_s) else settling_s
    calm_s = float("inf") if never[-1] else float(clean_us[-1] - timeline["over_us"]) / _S
    return {
        "repair_s_median": float(np.median(counted_s)) if len(counted_s) else 0.0,
        "repair_s_max": float(counted_s.max(initial=0.0)),
        "sudden": len(sudden_s),
        "settle_s_max": float(settling_s.max(initial=0.0)),
        "unrepaired": int(never[:-1].sum()),
        "calm_s": calm_s,
        "allowed_s": (timeline["calm_us"] - timeline["over_us"]) / _S,
    }


def first_clean_us(health: pa.Table, moments_us: Ints) -> Ints:
    """The first check without a violation, not before each moment; `NEVER` where none was.

    One walk from the last moment to the first over moments and checks in one order.
    """
    checks_us = ints(health.filter(pc.equal(health["wrong"], 0)), "time_us")
    at_us = np.concatenate([moments_us, checks_us])
    clean_us = np.concatenate([np.full(len(moments_us), NEVER), checks_us])
    order = np.argsort(at_us, kind="stable")  # a moment stands before a check of the same time
    found = np.empty_like(clean_us)
    found[order] = np.minimum.accumulate(clean_us[order][::-1])[::-1]
    return found[: len(moments_us)]


def _rates(
    moved: Traffic, incarnations: pa.Table, timeline: Mapping[str, int]
) -> dict[str, float | None]:
    """Upkeep for each minute of a peer's presence; at rest: None where rest was too short to tell.
    Messages of the busiest second over the mean of all.
    """
    from_us, calm_us, end_us = (timeline[name] for name in ("from_us", "calm_us", "end_us"))
    seconds = max(1, -(-(end_us - from_us) // _S))
    within = moved.sent[moved.second < seconds]
    rested = end_us - calm_us >= REST_US
    return {
        "upkeep_per_peer_minute": _ratio(moved.upkeep, _minutes(incarnations, from_us, end_us)),
        "upkeep_at_rest": _ratio(moved.rest, _minutes(incarnations, calm_us, end_us))
        if rested
        else None,
        "storm": _ratio(int(within.max(initial=0)) * seconds, int(within.sum())),
    }


def _minutes(incarnations: pa.Table, begin_us: int, end_us: int) -> float:
    """How long peers were present between two times, together."""
    until_us = np.minimum(pc.fill_null(incarnations["to_us"], end_us).to_numpy(), end_us)
    since_us = np.maximum(ints(incarnations, "from_us"), begin_us)
    return float(np.maximum(0, until_us - since_us).sum()) / _MINUTE_US


def returns(incarnations: pa.Table) -> dict[str, float]:
    """Members that came back, and the longest time until one was registered."""
    came = incarnations.filter(incarnations["returned"])
    waited_us = pc.max(pc.subtract(came["back_us"], came["from_us"])).as_py()
    return {"returns": len(came), "return_s_max": (waited_us or 0) / _S}


def complaints(incarnations: pa.Table, registrations: pa.Table) -> int:
    """Of peers that are present: how many never joined, never left, or were never registered
    completely.
    """
    newest = registrations.sort_by([("peer", "ascending"), ("version", "ascending")])
    columns = (newest["peer"].to_pylist(), newest["completed_us"].to_pylist())
    completed = dict(zip(*columns, strict=True))  # of each peer the last version stays
    count = 0
    for row in incarnations.filter(pc.equal(incarnations["end"], "stayed")).to_pylist():
        leaving = row["leaving_us"] is not None
        is_open = completed.get(row["peer"], 0) is None and not leaving
        count += (row["joined_us"] is None) + leaving + is_open
    return count


def _reached(verdict: Mapping[str, int]) -> float:
    return 1 - verdict["missing"] / verdict["expected"] if verdict["expected"] else 1.0


def _ratio(part: float, whole: float) -> float:
    """Zero where there is nothing."""
    return part / whole if whole > 0 else 0.0
