"""What peers and links bore in a block of casts, by sorting Arrow columns: the one pass over the
messages of a journal.

A load for one cast needs all messages of that cast and no others. So a block of casts is summed up
where it is read, and leaves as a row for each peer and each link (totals and peaks add up over
blocks) and a row for each cast. A small journal is one block, measured in the task that made it
(`small.py`); of a large one every task takes some casts, and reads only the row groups that may
hold them (`large.py`). `world/tally.py` has the same definitions in other code.

`out` and `in` of a peer are those of `docs/reference/measures.md`; `up` and `down` are packets on
its access link.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
KINDS = ("out", "in", "up", "down")
DENSE = 8
"""Keys for each row up to which they are counted in one array."""
ROWS_MIN = 1 << 16
CAME = "arrived_us"
"""Null in messages that were lost; tables in which none was may lack it."""
SENDS = ["cast", "sender", "receiver", CAME]
NOTICES = ["cast", "peer", "depth", "time_us"]


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals and peaks by key, in ascending order of keys."""

    key: Ints
    load: Ints
    peak: Ints


@dataclass(frozen=True, slots=True)
class Block:
    """What a block of casts comes to."""

    peers: Mapping[str, Sums]
    """For each of `KINDS`, by peer."""
    links: Sums
    """By physical link between routers."""
    casts: Mapping[str, Ints]
    """`cast`, `messages`, `members`, `hops`, `deepest`, one entry for every cast of the block."""
    waits: tuple[Ints, Ints]
    """Microseconds from cast to notification, ascending, and how often each came."""


def block(
    sends: pa.Table, notices: pa.Table, casts: pa.Table, peers: pa.Table, ways: "Ways"
) -> Block:
    """Sum up these messages and notifications, which are all that there are of these casts."""
    order = np.argsort(ints(casts, "cast"), kind="stable")
    numbers, publisher, made_us = (
        ints(casts, name)[order] for name in ("cast", "publisher", "time_us")
    )
    place, sends = _of_known(sends, numbers)
    sender, receiver = ints(sends, "sender"), ints(sends, "receiver")
    told_place, notices = _of_known(notices, numbers)
    told, made_then_us = ints(notices, "peer"), made_us[told_place]
    width = _width(sender, receiver, told, publisher, ints(peers, "peer"))
    size, first = len(numbers) * width, place * width
    sent, due = _counted(first + sender, size), _counted(first + receiver, size)
    came = (
        due
        if _all_came(sends)
        else _counted((first + receiver)[sends[CAME].is_valid().to_numpy()], size)
    )
    own = np.arange(len(numbers)) * width + publisher
    expected = _counted(told_place * width + told, size)[0]
    loads = {"out": _less(sent, own), "in": _less(came, expected), "up": sent, "down": due}
    return Block(
        {kind: _by_peer(*loads[kind], width) for kind in KINDS},
        ways.crossed(place, sender, receiver, peers),
        _by_cast(numbers, place, told_place, ints(notices, "depth")),
        _waits(ints(notices, "time_us") - made_then_us),
    )


def _of_known(rows: pa.Table, numbers: Ints) -> tuple[Ints, pa.Table]:
    """Where the casts of these rows stand, and the rows, without those of casts that no peer made.

    No design sends for such casts, but a journal may be damaged.
    """
    place, known = _places(numbers, ints(rows, "cast"))
    return (place, rows) if known.all() else (place[known], rows.filter(pa.array(known)))


def _all_came(sends: pa.Table) -> bool:
    """Was no message lost? Then the times of arrival need not even be read."""
    return CAME not in sends.column_names or sends[CAME].null_count == 0


def _places(numbers: Ints, asked: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Where each number stands, and whether it is there at all: no peer made the casts of some
    notifications.
    """
    if len(numbers) and int(numbers[-1] - numbers[0]) + 1 == len(
        numbers
    ):  # one after the other: nothing to look for
        place = asked - numbers[0]
        return place, (place >= 0) & (place < len(numbers))
    place = np.searchsorted(numbers, asked)
    known = place < len(numbers)
    known[known] = numbers[place[known]] == asked[known]
    return place, known


def _width(*named: Ints) -> int:
    if any(int(each.min(initial=0)) < 0 for each in named):
        raise ValueError("peers have numbers from 0 on")
    return 1 + max(int(each.max(initial=0)) for each in named)


def _counted(key: Ints, size: int) -> tuple[Ints, Ints]:
    """Distinct keys in order, and how often each comes; keys are below `size`.

    Where there are not many more keys than rows, counting in one array is quicker than sorting.
    """
    if size <= DENSE * max(len(key), ROWS_MIN):
        count = np.bincount(key)
        found = np.flatnonzero(count)
        return found, count[found]
    key = np.sort(key)
    starts = (
        np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        if len(key)
        else np.empty(0, np.int64)
    )
    return key[starts], np.diff(np.append(starts, len(key)))


def _less(counted: tuple[Ints, Ints], keys: Ints) -> tuple[Ints, Ints]:
    """One less for each of these keys that was counted at all; `keys` are distinct and ascending."""
    key, count = counted
    where = np.searchsorted(key, keys)
    met = where < len(key)
    met[met] = key[where[met]] == keys[met]
    count = count.copy()
    count[where[met]] -= 1
    return key, count


def _by_peer(key: Ints, count: Ints, width: int) -> Sums:
    return summed(key % width, count, count)


def summed(key: Ints, load: Ints, peak: Ints) -> Sums:
    """Loads added up and the largest peak, by key."""
    if not len(key):
        return Sums(key, load, peak)
    dense = int(key.max()) < DENSE * max(len(key), ROWS_MIN)
    found, place = (
        (np.flatnonzero(np.bincount(key)), key) if dense else np.unique(key, return_inverse=True)
    )
    loads, peaks = np.zeros((2, int(place.max()) + 1), np.int64)
    np.add.at(loads, place, load)
    np.maximum.at(peaks, place, peak)
    return Sums(found, loads[found], peaks[found]) if dense else Sums(found, loads, peaks)


def _by_cast(numbers: Ints, place: Ints, told: Ints, depth: Ints) -> dict[str, Ints]:
    count = len(numbers)
    deepest = np.zeros(count, np.int64)
    np.maximum.at(deepest, told, depth)
    hops = np.zeros(count, np.int64)
    np.add.at(hops, told, depth)
    members = np.bincount(told, minlength=count).astype(np.int64)
    messages = np.bincount(place, minlength=count).astype(np.int64)
    return {
        "cast": numbers,
        "messages": messages,
        "members": members,
        "hops": hops,
        "deepest": deepest,
    }


def _waits(wait_us: Ints) -> tuple[Ints, Ints]:
    low = int(wait_us.min(initial=0))
    wait, times = _counted(wait_us - low, int(wait_us.max(initial=0)) - low + 1)
    return wait + low, times


class Ways:
    """The links between any two routers, in one array with a place for every pair."""

    def __init__(self, paths: pa.Table) -> None:
        source, target = ints(paths, "source_router"), ints(paths, "target_router")
        self.routers = 1 + int(max(source.max(initial=0), target.max(initial=0)))
        pair = source * self.routers + target
        order = np.argsort(pair, kind="stable")
        self.link = ints(paths, "link")[order]
        self.pair, self.start, self.length = np.unique(
            pair[order], return_index=True, return_counts=True
        )

    def crossed(self, place: Ints, sender: Ints, receiver: Ints, peers: pa.Table) -> Sums:
        """Packets on each link in all casts of a block, and in the one that loaded it most."""
        router = np.zeros(1 + int(ints(peers, "peer").max(initial=0)), np.int64)
        router[ints(peers, "peer")] = ints(peers, "router")
        pairs = self.routers * self.routers
        if (
            int(router.max(initial=0)) >= self.routers
        ):  # no way is known to some: their messages are left out
            near = np.maximum(router[sender], router[receiver]) < self.routers
            place, sender, receiver = place[near], sender[near], receiver[near]
        key = place * pairs
        key += (router * self.routers)[sender]
        key += router[receiver]
        key, packets = _counted(key, (int(place.max(initial=0)) + 1) * pairs)
        pair = key % pairs
        where, known = _places(self.pair, pair)
        known &= pair // self.routers != pair % self.routers
        where, packets, casts = where[known], packets[known], key[known] // pairs
        length = self.length[where]
        inside = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        link = self.link[np.repeat(self.start[where], length) + inside]
        links = 1 + int(self.link.max(initial=0))
        each = summed(
            np.repeat(casts, length) * links + link,
            np.repeat(packets, length),
            np.repeat(packets, length),
        )
        return summed(each.key % links, each.load, each.load)


def ints(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers; nulls are not asked for."""
    return np.asarray(table[name].to_numpy(), np.int64)


def gini(loads: npt.NDArray[Any]) -> float:
    """Equation 4.1 over all who could bear the load."""
    total = loads.sum()
    if not total > 0:
        return 0.0
    ordered = np.sort(loads)
    if float(total) * len(ordered) > 2**62:  # whole numbers would run over
        ordered = ordered.astype(np.float64)
    weights = 2 * np.arange(1, len(ordered) + 1, dtype=np.int64) - len(ordered) - 1
    return float((weights * ordered).sum() / (len(ordered) * float(total)))
