"""What a stream knows of one run: totals, the open minutes and the open casts. Nothing in it grows
with history.

A minute, and a cast made in it, are open until the newest minute that was read begins later than its
end by the delay. Then they are closed: what they came to is added to the totals, and they are
forgotten. What remains is a number for each peer, some hundred buckets of latencies, and whatever
belongs to the last minutes.

A row that belongs to a closed minute or a closed cast is late. It counts in the totals as far as
they need nothing that was forgotten, and it is counted as late.
"""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from implicast.lab.measures.blocks import gini, ints
from implicast.lab.stream.sketch import Waits

MINUTE_US = 60_000_000
RECENT = 60
"""Closed minutes that are kept for the page."""
COUNTS = (
    "casts",
    "deliveries",
    "messages",
    "bytes",
    "upkeep_messages",
    "all_messages",
    "all_bytes",
    "receipts",
    "in_time",
    "late",
)


class OpenMinute(msgspec.Struct):
    """A minute that may still get rows."""

    counts: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    waits: Waits = msgspec.field(default_factory=Waits)
    load: dict[int, int] = {}
    """By peer: messages sent for casts of others."""


class OpenCast(msgspec.Struct):
    """A cast that may still be carried and delivered."""

    publisher: int
    made_us: int
    messages: int = 0
    members: int = 0
    sent: dict[int, int] = {}
    """By peer."""
    own_counted: bool = False
    """The publisher sent in the minute of its cast, and that minute counts it once less."""

    def borne(self) -> dict[int, int]:
        """By peer: messages sent for others, which are all but the publisher's first."""
        own = {self.publisher: self.sent[self.publisher] - 1} if self.publisher in self.sent else {}
        return self.sent | own


class RunState(msgspec.Struct):
    """All that is known of a run."""

    clock_us: int = 0
    """End of the newest minute that was read."""
    peers: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    waits: Waits = msgspec.field(default_factory=Waits)
    minutes: dict[int, OpenMinute] = {}
    casts: dict[int, OpenCast] = {}
    load: dict[int, int] = {}
    """By peer, of closed casts."""
    peak: int = 0
    ratios: float = 0.0
    """Sum over closed casts of messages / (1 + members)."""
    closed: int = 0
    overdue: int = 0
    """Receipts that were open too long, of closed minutes."""
    recent: list[dict[str, Any]] = []


class Fold:
    """Adds the rows of a batch to the state of a run, and closes what is over."""

    def __init__(self, state: RunState, delay_us: int, open_us: int) -> None:
        self._state, self._open_us = state, open_us
        self._patience_us = 2 * MINUTE_US + max(delay_us, open_us)
        self._over_us = state.clock_us - self._patience_us
        """Minutes up to this one were closed before."""

    def add(self, events: pa.Table) -> None:
        """All rows of a batch, casts first."""
        state = self._state
        of = {name: events.filter(pc.equal(events["of"], name)) for name in _HANDLED}
        for name, rows in of.items():
            if len(rows):
                getattr(self, f"_{name}")(rows)
        newest_us = pc.max(events["time_us"]).as_py() or 0
        state.clock_us = max(state.clock_us, _minute(newest_us) + MINUTE_US)

    def _minute(self, minute_us: int) -> OpenMinute | None:
        """Where a minute is counted; None when it was closed."""
        if minute_us <= self._over_us:
            return None
        return self._state.minutes.setdefault(minute_us, OpenMinute())

    def _count(self, minute_us: int, late: int = 0, **more: int) -> OpenMinute | None:
        """Into the totals and, where it is open, the minute. All rows of a closed minute are late:
        `late` are those that are late for another reason.
        """
        minute, rows = self._minute(minute_us), sum(more.get(name, 0) for name in _ROWS)
        more["late"] = rows if minute is None else late
        for counts in (self._state.counts, minute.counts if minute else {}):
            for name, number in more.items():
                counts[name] = counts.get(name, 0) + number
        return minute

    def _peers(self, rows: pa.Table) -> None:
        self._state.peers += len(rows)

    def _casts(self, rows: pa.Table) -> None:
        for row in rows.select(["cast", "peer", "time_us"]).to_pylist():
            self._state.casts[row["cast"]] = OpenCast(row["peer"], row["time_us"], sent={})
            self._count(_minute(row["time_us"]), casts=1)

    def _receipts(self, rows: pa.Table) -> None:
        for row in rows.select(["time_us", "made_us"]).to_pylist():
            in_time = row["time_us"] - row["made_us"] <= self._open_us
            self._count(_minute(row["made_us"]), receipts=1, in_time=int(in_time))

    def _notices(self, rows: pa.Table) -> None:
        """Cast by cast and minute by minute."""
        time_us = ints(rows, "time_us")
        for cast, minute_us, mine in _groups(ints(rows, "cast"), _minute(time_us)):
            known = self._state.casts.get(cast)
            late = 0 if known else len(mine)
            minute = self._count(minute_us, late, deliveries=len(mine))
            if known is not None:
                known.members += len(mine)
                wait_us = time_us[mine] - known.made_us
                for waits in (self._state.waits, minute.waits if minute else None):
                    if waits is not None:
                        waits.add(wait_us)

    def _sends(self, rows: pa.Table) -> None:
        named = pc.is_valid(rows["cast"])
        self._carried(rows.filter(named))
        others = rows.filter(pc.invert(named))
        upkeep = np.asarray(pc.equal(others["phase"], "upkeep").to_numpy(), bool)
        size = ints(others, "bytes")
        for minute_us, kind, mine in _groups(_minute(ints(others, "time_us")), upkeep):
            sent, volume = len(mine), int(size[mine].sum())
            self._count(minute_us, all_messages=sent, all_bytes=volume, upkeep_messages=sent * kind)

    def _carried(self, rows: pa.Table) -> None:
        """Messages for casts: by cast, sender and minute."""
        size, time_us = ints(rows, "bytes"), ints(rows, "time_us")
        keys = (ints(rows, "cast"), ints(rows, "peer"), _minute(time_us))
        for cast, peer, minute_us, mine in _groups(*keys):
            known, sent, volume = self._state.casts.get(cast), len(mine), int(size[mine].sum())
            both = {"messages": sent, "bytes": volume, "all_messages": sent, "all_bytes": volume}
            minute = self._count(minute_us, 0 if known else sent, **both)
            own = 0
            if known is None:
                self._state.load[peer] = self._state.load.get(peer, 0) + sent
            else:
                known.messages += sent
                known.sent[peer] = known.sent.get(peer, 0) + sent
                first = peer == known.publisher and _minute(known.made_us) == minute_us
                own = int(first and not known.own_counted)
                known.own_counted |= first
            if minute is not None:
                minute.load[peer] = minute.load.get(peer, 0) + sent - own

    def close(self) -> list[dict[str, Any]]:
        """Close what is over; the rows of the minutes that were closed."""
        state, over_us = self._state, self._state.clock_us - self._patience_us
        rows = []
        for minute_us in sorted(each for each in state.minutes if each <= over_us):
            rows.append(minute_row(state, minute_us, self._open_us))
            state.overdue += rows[-1]["open_too_long"]
            del state.minutes[minute_us]
        for number, cast in list(state.casts.items()):
            if _minute(cast.made_us) <= over_us:
                self._close_cast(cast)
                del state.casts[number]
        state.recent = [*state.recent, *rows][-RECENT:]
        return rows

    def _close_cast(self, cast: OpenCast) -> None:
        state = self._state
        for peer, load in cast.borne().items():
            state.load[peer] = state.load.get(peer, 0) + load
            state.peak = max(state.peak, load)
        state.ratios += cast.messages / (1 + cast.members)
        state.closed += 1


_HANDLED = ("peers", "casts", "receipts", "notices", "sends")
_ROWS = ("casts", "deliveries", "receipts", "all_messages")
"""Counts of rows."""


def _minute(time_us: Any) -> Any:
    return time_us - time_us % MINUTE_US


def _groups(*keys: Any) -> Any:
    """(key, ..., places of its rows), in order."""
    if not len(keys[0]):
        return
    order = np.lexsort(keys[::-1])
    sorted_keys = np.stack([np.asarray(each, np.int64)[order] for each in keys])
    changes = np.flatnonzero((sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)) + 1
    for mine in np.split(order, changes):
        yield (*(int(each[mine[0]]) for each in keys), mine)


def minute_row(state: RunState, minute_us: int, open_us: int) -> dict[str, Any]:
    """A minute as it is now; in the columns of `tables.MINUTES` but for the run's name."""
    minute = state.minutes[minute_us]
    load = np.array(list(minute.load.values()), np.int64)
    past = minute_us + MINUTE_US + open_us <= state.clock_us
    waiting = max(0, minute.counts["casts"] - minute.counts["in_time"])
    return {
        "minute_us": minute_us,
        **{name: number for name, number in minute.counts.items() if name != "in_time"},
        **minute.waits.in_ms(),
        "out_G": gini(everyone(load, state.peers)),
        "out_M": int(load.max(initial=0)),
        "open_too_long": waiting if past else 0,
    }


def everyone(load: Any, peers: int) -> Any:
    """The loads of all peers, the idle ones included."""
    found = np.zeros(max(peers, len(load)), np.int64)
    found[: len(load)] = load
    return found
