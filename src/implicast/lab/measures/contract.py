"""The laws of the contract at scale: what was notified against what had to be, and may be.

A version of a description is possibly in force from when it was asked for until a later one is
complete. A peer *must* be notified of a cast when a registration of it was complete at the time of
the cast and every version possibly in force during the cast's flight is selected; it *may* be when
one of them is (`world/invariants.py` says the same in plain Python, and tests hold the two equal).
The selection itself is `lab/matching.py`.

`laws` cuts peers into blocks, resolves every cast by bitmaps and compares as sorted arrays. What
comes out are counts: a row for every pair that was or should have been notified would cost more
than twice the time (ten million of them: 80 s of processor time). A task has all casts of a small
journal, or some of a large one; the counts of some casts add up to those of all.

Where peers come and go, a peer that was away within a cast's flight need not be notified
(`absences.py`). What a cast owes is excused when its publisher was gone before it knew how the
cast ended: dead, or leaving where worse happens than that.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from implicast.lab import matching
from implicast.lab.dictionary import CONTRACT
from implicast.lab.measures.absences import Absences
from implicast.lab.measures.blocks import ints
from implicast.lab.measures.receipts import SEEN, false_receipts, said_by
from implicast.world.invariants import LATE_US, NEVER_US

BLOCK_BITS = 13
"""A block is 2**13 peers: were all of them notified of each of a thousand casts, a task would hold
8 million rows.
"""
WIDTH = 1 << BLOCK_BITS


def laws(
    registrations: pa.Table,
    casts: pa.Table,
    notices: pa.Table,
    gone: Absences | None = None,
    exact: bool = True,
) -> dict[str, int]:
    """The contract of some casts, block of peers by block. `gone`: who was away; `exact`: receipts
    have to be exact, as where nothing changes.
    """
    gone = gone or Absences()
    casts = _with_others(gone.with_excuses(casts.sort_by("cast")))
    registrations = gone.with_spans(registrations)
    held, told = (ints(each, "peer") >> BLOCK_BITS for each in (registrations, notices))
    total = dict.fromkeys(CONTRACT, 0) | {"notified": len(notices)}
    if not len(casts):
        return total | {"invented": len(notices)}
    numbers, said = said_by(casts)
    seen = {name: np.zeros(len(numbers), np.int64) for name in SEEN}
    for number in np.union1d(held, told).tolist():
        mine = registrations.filter(pa.array(held == number))
        count, part = compare(mine, notices.filter(pa.array(told == number)), casts)
        total = {name: total.get(name, 0) + count.get(name, 0) for name in {*total, *count}}
        seen = {name: seen[name] + ints(part, name) for name in SEEN}
    return total | {"misreported": false_receipts(said, seen, exact)}


def _with_others(casts: pa.Table) -> pa.Table:
    """With the members that a receipt counts beside notified ones; and the time of the end only
    where there is a receipt.
    """
    others = pc.fill_null(pc.add(casts["declined"], casts["unreachable"]), 0)
    ended = pc.if_else(pc.is_valid(casts["notified"]), casts["settled_us"], None)
    return (
        casts.drop_columns(["settled_us"])
        .append_column("settled_us", ended)
        .append_column("others", others)
    )


def _forgotten(registrations: pa.Table) -> dict[int, list[tuple[int, int]]]:
    """By peer, from when to when it forgot what it heard; of very few peers."""
    forgot = matching.column(registrations, "forgot")
    some = np.flatnonzero(
        np.asarray(pc.list_value_length(forgot).to_numpy(zero_copy_only=False)) > 0
    )
    peers = matching.ints(registrations, "peer")
    return {
        int(peers[row]): sorted((one["from_us"], one["to_us"]) for one in forgot[int(row)].as_py())
        for row in some.tolist()
    }


def compare(
    registrations: pa.Table, notices: pa.Table, casts: pa.Table
) -> tuple[dict[str, int], pa.Table]:
    """The counts of one block of peers, but for `notified`; and what was seen of each cast with a
    final receipt (`SEEN`). Casts are in order of their numbers.
    """
    invited, told = _Invited(registrations, casts), _Told(notices, casts, _forgotten(registrations))
    where = np.searchsorted(invited.key, told.key)
    known = where < len(invited.key)
    known[known] = invited.key[where[known]] == told.key[known]
    welcome = known.copy()
    welcome[known] = invited.from_us[where[known]] <= told.time_us[known]
    absent = invited.must.copy()
    absent[where[known]] = False
    excused = int((absent & invited.excused).sum())
    late = np.zeros(len(invited.key), bool)
    late[where[known]] = told.time_us[known] > told.settled_us[told.key[known] // WIDTH]
    short = np.bincount(invited.key[invited.must & (absent | late)] // WIDTH, minlength=len(casts))
    seen = {"taken": told.taken, "first": told.first, "short": short, "selected": invited.selected}
    receipts = pa.table({"cast": matching.ints(casts, "cast"), **seen}).filter(
        matching.column(casts, "settled_us").is_valid()
    )
    count = {
        "expected": int(invited.must.sum()) - excused,
        "missing": int(absent.sum()) - excused,
        "excused": excused,
        "repeated": told.repeated,
        "uninvited": int((~welcome).sum()),
        "invented": told.invented,
        "late": int((told.wait_us > LATE_US).sum()),
        "altered": told.altered,
        "misreported": 0,  # for which one has to know the notifications of all blocks
    }
    return count, receipts


class _Told:
    """Distinct pairs that were notified, in ascending order of key, with the time of the first
    notification.
    """

    def __init__(
        self, told: pa.Table, casts: pa.Table, forgotten: dict[int, list[tuple[int, int]]]
    ) -> None:
        numbers, made_us = matching.ints(casts, "cast"), matching.ints(casts, "time_us")
        cast, peer, time_us = (matching.ints(told, name) for name in ("cast", "peer", "time_us"))
        place = np.minimum(np.searchsorted(numbers, cast), max(0, len(numbers) - 1))
        known = numbers[place] == cast if len(numbers) else np.zeros(len(cast), bool)
        other = np.asarray(matching.column(told, "altered").to_numpy(zero_copy_only=False), bool)
        self.altered = int((known & other).sum())
        real = (
            (numbers[place] == cast) & (time_us >= made_us[place])
            if len(numbers)
            else np.zeros(len(cast), bool)
        )
        key = place[real] * WIDTH + peer[real] % WIDTH
        order = np.lexsort((time_us[real], key))
        self.key, first = np.unique(key[order], return_index=True)
        self.time_us = time_us[real][order][first]
        self.wait_us = self.time_us - made_us[self.key // WIDTH]
        settled = matching.column(casts, "settled_us").fill_null(-1)
        self.settled_us = np.asarray(settled.to_numpy(zero_copy_only=False), np.int64)
        by_then = place[real][time_us[real] <= self.settled_us[place[real]]]
        self.taken = np.bincount(by_then, minlength=len(numbers))
        whose = self.key // WIDTH
        self.first = np.bincount(
            whose[self.time_us <= self.settled_us[whose]], minlength=len(numbers)
        )
        self.invented = int((~real).sum())
        self.repeated = len(key) - len(self.key)
        if self.repeated and forgotten:
            self.repeated = len(key) - _distinct(key, peer[real], time_us[real], forgotten)


def _distinct(
    key: Any, peer: Any, time_us: Any, forgotten: dict[int, list[tuple[int, int]]]
) -> int:
    """Distinct pairs, where what a peer forgot with one of its returns counts apart from what it
    heard else.
    """
    memory = np.zeros(len(key), np.int64)
    for who, spans in forgotten.items():
        for number, (from_us, to_us) in reversed(
            list(enumerate(spans, 1))
        ):  # the first return takes the most
            memory[(peer == who) & (time_us > from_us) & (time_us < to_us)] = number
    return len(np.unique(np.stack([key, memory]), axis=1).T)


class _Invited:
    """Pairs that may be notified, in ascending order of key: from when on; if they must be; if
    excused when not.
    """

    def __init__(self, registrations: pa.Table, casts: pa.Table) -> None:
        versions = _Versions(
            registrations.sort_by([("peer", "ascending"), ("version", "ascending")])
        )
        parts = []
        settled = matching.column(casts, "settled_us").fill_null(-1)
        settled_us = np.asarray(settled.to_numpy(zero_copy_only=False), np.int64)
        others, self.selected = matching.ints(casts, "others"), np.zeros(len(casts), np.int64)
        flights = zip(
            *(matching.ints(casts, name).tolist() for name in ("time_us", "end_us")), strict=True
        )
        for place, ((time_us, end_us), target) in enumerate(
            zip(flights, matching.targets(casts), strict=True)
        ):
            selected = np.asarray(versions.block.selected(target).to_array(), np.int64)
            if others[place]:
                asked = versions.begun_us[selected] <= settled_us[place]
                self.selected[place] = len(np.unique(versions.place[selected[asked]]))
            peers, must, from_us = versions.invited(selected, time_us, end_us)
            parts.append((place * WIDTH + peers % WIDTH, must, from_us))
        empty = (np.empty(0, np.int64), np.empty(0, bool), np.empty(0, np.int64))
        self.key, self.must, self.from_us = (
            np.concatenate(column) for column in zip(empty, *parts, strict=True)
        )
        excused = np.asarray(matching.column(casts, "excused").to_numpy(zero_copy_only=False), bool)
        self.excused = excused[self.key // WIDTH]


class _Versions:
    """All versions of the peers of one block, in order of peer and version."""

    def __init__(self, table: pa.Table) -> None:
        self.block = matching.PeerBlock.of(
            matching.column(table, "tags"), matching.column(table, "values")
        )
        self.peer = matching.ints(table, "peer")
        self.begun_us = matching.ints(table, "begun_us")
        completed = matching.column(table, "completed_us")
        self.completed_us = np.asarray(
            completed.fill_null(NEVER_US).to_numpy(zero_copy_only=False), np.int64
        )
        distinct, self.place = np.unique(self.peer, return_inverse=True)
        self.absences = self._absences(matching.column(table, "away"))
        self.until_us = self._ends()
        self.first_us = np.full(len(distinct), NEVER_US)
        np.minimum.at(self.first_us, self.place, self.completed_us)
        self.several = len(distinct) < len(self.peer)

    def _absences(self, away: Any) -> tuple[Any, Any, Any]:
        """Location, from and to of every absence, once for each version of the peer: very few peers are
        ever away.
        """
        lists = away.combine_chunks() if hasattr(away, "combine_chunks") else away
        flat = lists.flatten()
        owners = np.repeat(
            self.place,
            np.asarray(pc.list_value_length(lists).to_numpy(zero_copy_only=False), np.int64),
        )
        return (
            owners,
            np.asarray(flat.field("from_us"), np.int64),
            np.asarray(flat.field("to_us"), np.int64),
        )

    def _away(self, time_us: int, end_us: int) -> Any:
        """Whether each peer was away at some time of the flight."""
        owners, from_us, to_us = self.absences
        away = np.zeros(len(self.first_us), bool)
        away[owners[(from_us <= end_us) & (time_us < to_us)]] = True
        return away

    def _ends(self) -> Any:
        """When some later version of the same peer is complete; never, for the last ones."""
        until_us = np.full(len(self.peer), NEVER_US)
        for index in range(len(self.peer) - 2, -1, -1):
            if self.peer[index] == self.peer[index + 1]:
                until_us[index] = min(until_us[index + 1], self.completed_us[index + 1])
        return until_us

    def invited(self, selected: Any, time_us: int, end_us: int) -> tuple[Any, Any, Any]:
        """Peers of the selected versions that a cast of this flight may reach; must it; from when
        on.
        """
        selected = selected[time_us < self.until_us[selected]]
        place, first = np.unique(self.place[selected], return_index=True)
        if not len(selected):
            return self.peer[selected], np.empty(0, bool), np.empty(0, np.int64)
        from_us = np.minimum.reduceat(self.begun_us[selected], first)
        must = (self.first_us[place] <= time_us) & (from_us <= end_us)
        if len(self.absences[0]):
            must &= ~self._away(time_us, end_us)[place]
        if self.several:
            must &= self._unanimous(selected, place, time_us, end_us)
        return self.peer[selected[first]], must, from_us

    def _unanimous(self, selected: Any, place: Any, time_us: int, end_us: int) -> Any:
        """Whether every version of each peer that may be in force during the flight is selected."""
        within = (self.begun_us <= end_us) & (time_us < self.until_us)
        chosen = np.zeros(len(self.peer), bool)
        chosen[selected] = True
        objecting = np.bincount(self.place[within & ~chosen], minlength=len(self.first_us))
        return objecting[place] == 0
