"""Checks of replicated lists: every confirmed entry must be stored at the node responsible for it
and at the holders of its copies.

The check runs every second while an invariant is violated, over as many entries as peers have tags.
All marks of a place are therefore compared at once, and entries one by one only where some are
missing (a tenth of the cost). A place found correct is skipped until one of its entries, holders or
neighbours changes (half of that). A member's own entries are read again only if they have changed
(a third of that).
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TypeVar

from implicast.casting.replicated_lists.entries import OwnEntry
from implicast.casting.replicated_lists.member import RingMember
from implicast.peer.contract import Peer
from implicast.peer.replica_table import digest_of
from implicast.world.populations.chord import Sound, chord_objections
from implicast.world.populations.links import members

Item = TypeVar("Item")
OBJECTIONS_ENOUGH = 3
"""Misplaced entries reported by one check."""
PutEntries = tuple[tuple[int, ...], dict[int, int]]
"""A member's progress counter, and its own entries at that time: keys by marks."""
NOTHING: PutEntries = (), {}
Place = tuple[int, list[RingMember], list[int]]
"""(key after which the place begins, holders of its entries, loss counter of each)."""


def ring_objections_with_lists(population: Sequence[Peer]) -> list[str]:
    """Violations of the ring and its lists."""
    return Watcher()(population)


class Watcher:
    """Checks one population repeatedly and skips what has not changed."""

    __slots__ = ("_entries", "_in_order", "_put", "_sound")

    def __init__(self) -> None:
        self._put: dict[RingMember, PutEntries] = {}
        """By member, in ring order."""
        self._entries: list[tuple[int, int]] = []
        """Key and mark of all entries, in order."""
        self._in_order: dict[RingMember, Place] = {}
        """Places found correct, as they were then."""
        self._sound: Sound = {}

    def __call__(self, population: Sequence[Peer]) -> list[str]:
        here = [member for member in population if isinstance(member, RingMember)]
        wrong = (
            chord_objections([member.chord for member in here], exact=False, sound=self._sound)
            if here
            else []
        )
        if wrong:
            return wrong
        by_links = {member.links: member for member in here}
        ring = [by_links[links] for links in members(by_links)]
        unready = [
            f"{member.address} is not ready" for member in ring if not member.holder_state.is_ready
        ]
        return unready or (self._misplaced(ring) if ring else [])

    def _misplaced(self, ring: list[RingMember]) -> list[str]:
        """Confirmed entries that are not at all their holders."""
        keys = [member.chord.table.own for member in ring]
        if not ring[0].holder_state.settings.copies:
            return self._described(None, ring, keys)
        self._update(ring, keys)
        missing = self._missing(ring, keys)
        return self._described(missing, ring, keys) if missing else []

    def _update(self, ring: list[RingMember], keys: list[int]) -> None:
        """Read the entries of members whose entries have changed."""
        before = self._put
        self._put = {member: before.pop(member, NOTHING) for member in ring}
        for _, put in before.values():  # of members that are gone
            self._change(put, {}, ring, keys)
        for member, (progress, put) in self._put.items():
            reached = member.own_entries.table.progress()
            if reached != progress:
                self._put[member] = reached, _entries_of(member)
                self._change(put, self._put[member][1], ring, keys)

    def _change(
        self, before: dict[int, int], now: dict[int, int], ring: list[RingMember], keys: list[int]
    ) -> None:
        """Update the entries of one member."""
        for mark, key in before.items():
            if mark not in now:
                del self._entries[bisect_left(self._entries, (key, mark))]
                self._in_order.pop(ring[bisect_left(keys, key) % len(ring)], None)
        for mark, key in now.items():
            if mark not in before:
                insort(self._entries, (key, mark))
                self._in_order.pop(ring[bisect_left(keys, key) % len(ring)], None)

    def _missing(self, ring: list[RingMember], keys: list[int]) -> set[int]:
        """Marks of entries that some holder lacks."""
        found: set[int] = set()
        in_order: dict[RingMember, Place] = {}
        losses, count = [member.holder_state.entries.losses for member in ring], _places(ring)
        for at, member in enumerate(ring):
            holders = _from(ring, at, count)
            place = keys[at - 1], holders, _from(losses, at, count)
            if self._in_order.get(member) != place:
                marks = self._marks(at, keys)
                here = [
                    mark
                    for holder in holders
                    for mark in _not_in(holder.holder_state.entries.digests, marks)
                ]
                if here:
                    found.update(here)
                    continue
            in_order[member] = place
        self._in_order = in_order
        return found

    def _marks(self, at: int, keys: list[int]) -> list[int]:
        """Marks of the entries of a place."""
        entries = self._entries
        low, high = (
            bisect_left(entries, (keys[at - 1] + 1, 0)),
            bisect_left(entries, (keys[at] + 1, 0)),
        )
        return [mark for _, mark in (entries[low:high] if at else entries[low:] + entries[:high])]

    def _described(
        self, missing: set[int] | None, ring: list[RingMember], keys: list[int]
    ) -> list[str]:
        """Of the entries with these marks (or of all), those that a holder lacks even in a newer
        version.
        """
        wrong: list[str] = []
        count = _places(ring)
        for member in ring:
            if missing is not None and missing.isdisjoint(self._put[member][1]):
                continue
            for piece in member.own_entries.table.by_serial.values():
                if (
                    piece.packed
                    and not piece.missing
                    and (missing is None or _mark(piece, member) in missing)
                ):
                    at = bisect_left(keys, piece.key) % len(ring)
                    wrong += _not_held(piece, member, _from(ring, at, count))
            if len(wrong) > OBJECTIONS_ENOUGH:
                return wrong[:OBJECTIONS_ENOUGH]
        return wrong


def _entries_of(member: RingMember) -> dict[int, int]:
    """Mark and key of each confirmed entry of a member."""
    pieces = member.own_entries.table.by_serial.values()
    return {
        _mark(piece, member): piece.key for piece in pieces if piece.packed and not piece.missing
    }


def _mark(piece: OwnEntry, owner: RingMember) -> int:
    """Mark of the entry of the lowest value, as its holders compute it."""
    slot = (piece.namespace, piece.attribute, piece.low)
    return digest_of(slot, piece.number or owner.name, _lowest_stamp(piece), True)


def _lowest_stamp(piece: OwnEntry) -> int:
    """Stamp of the entry of the lowest value."""
    for (low, _), (_, stamp) in piece.confirmed.items():
        if low == piece.low:
            return stamp
    return piece.stamp


def _places(ring: list[RingMember]) -> int:
    """Number of nodes that store each entry."""
    return min(ring[0].holder_state.settings.copies + 1, len(ring))


def _from(ring: list[Item], at: int, count: int) -> list[Item]:
    """`count` items from a position on, round the ring."""
    return ring[at : at + count] + ring[: max(0, at + count - len(ring))]


def _not_in(held: set[int] | frozenset[int], marks: list[int]) -> list[int]:
    return [] if held.issuperset(marks) else [mark for mark in marks if mark not in held]


def _not_held(piece: OwnEntry, owner: RingMember, holders: Sequence[RingMember]) -> list[str]:
    """Sentences about holders that lack an entry."""
    slot, wrong = (piece.namespace, piece.attribute, piece.low), []
    for holder in holders:
        entry = holder.holder_state.entries.get(slot, piece.number or owner.name)
        if entry is None or entry.entry.stamp < _lowest_stamp(piece) or not entry.in_force:
            wrong.append(f"{holder.address} lacks the entry of {owner.address} under {slot}")
    return wrong
