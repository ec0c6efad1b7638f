"""Looking at kept lists from outside: every laid entry must be at whoever answers for it, and at its copies.

One looks every second while anything is wrong, and each time there are as many entries as peers have tags. So all marks
of a place are looked for at once, and entries one by one only where some are missing (a tenth of the price of looking
for each); a place that was in order stays so until one of its entries, its keepers or its neighbours has changed (half
of that); and what a member has laid is looked at again only when it has laid something else (a third of that).
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TypeVar

from implicast.casting.keeping.member import RingMember
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.rows import mark_of
from implicast.peer.contract import Peer
from implicast.world.populations.chord import Sound, chord_objections
from implicast.world.populations.links import members

Item = TypeVar("Item")
OBJECTIONS_ENOUGH = 3
"""Misplaced entries named at one look: one looks often while some are."""
Laid = tuple[tuple[int, ...], dict[int, int]]
"""How far a member had come, and what it had laid then: keys by marks."""
NOTHING: Laid = (), {}
Place = tuple[int, list[RingMember], list[int]]
"""After which key it begins, who keeps what is laid there, and how often each of them had lost something."""


def ring_trouble(population: Sequence[Peer]) -> list[str]:
    """What is wrong with ring and lists."""
    return Watcher()(population)


class Watcher:
    """Looks again and again, and remembers what need not be looked at again."""

    __slots__ = ("_entries", "_in_order", "_laid", "_sound")

    def __init__(self) -> None:
        self._laid: dict[RingMember, Laid] = {}
        """By member, in the order of the ring."""
        self._entries: list[tuple[int, int]] = []
        """Key and mark of all that is laid, in order."""
        self._in_order: dict[RingMember, Place] = {}
        """Places that were in order, as they were then."""
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
        unready = [f"{member.address} is not ready" for member in ring if not member.share.is_ready]
        return unready or (self._misplaced(ring) if ring else [])

    def _misplaced(self, ring: list[RingMember]) -> list[str]:
        """Entries that are confirmed and not where they belong."""
        keys = [member.chord.table.own for member in ring]
        if not ring[0].share.settings.copies:
            return self._described(None, ring, keys)
        self._update(ring, keys)
        missing = self._missing(ring, keys)
        return self._described(missing, ring, keys) if missing else []

    def _update(self, ring: list[RingMember], keys: list[int]) -> None:
        """Look again at what those have laid who have laid something else since."""
        before = self._laid
        self._laid = {member: before.pop(member, NOTHING) for member in ring}
        for _, laid in before.values():  # of those who have gone
            self._change(laid, {}, ring, keys)
        for member, (progress, laid) in self._laid.items():
            reached = member.layings.progress()
            if reached != progress:
                self._laid[member] = reached, _laid_by(member)
                self._change(laid, self._laid[member][1], ring, keys)

    def _change(
        self, before: dict[int, int], now: dict[int, int], ring: list[RingMember], keys: list[int]
    ) -> None:
        """This was laid before, and that is now."""
        for mark, key in before.items():
            if mark not in now:
                del self._entries[bisect_left(self._entries, (key, mark))]
                self._in_order.pop(ring[bisect_left(keys, key) % len(ring)], None)
        for mark, key in now.items():
            if mark not in before:
                insort(self._entries, (key, mark))
                self._in_order.pop(ring[bisect_left(keys, key) % len(ring)], None)

    def _missing(self, ring: list[RingMember], keys: list[int]) -> set[int]:
        """Marks of entries that are not at all their places."""
        found: set[int] = set()
        in_order: dict[RingMember, Place] = {}
        losses, count = [member.share.rows.losses for member in ring], _places(ring)
        for at, member in enumerate(ring):
            keepers = _from(ring, at, count)
            place = keys[at - 1], keepers, _from(losses, at, count)
            if self._in_order.get(member) != place:
                marks = self._marks(at, keys)
                here = [
                    mark for keeper in keepers for mark in _not_in(keeper.share.rows.marks, marks)
                ]
                if here:
                    found.update(here)
                    continue
            in_order[member] = place
        self._in_order = in_order
        return found

    def _marks(self, at: int, keys: list[int]) -> list[int]:
        """Of the entries that belong to a place."""
        entries = self._entries
        low, high = (
            bisect_left(entries, (keys[at - 1] + 1, 0)),
            bisect_left(entries, (keys[at] + 1, 0)),
        )
        return [mark for _, mark in (entries[low:high] if at else entries[low:] + entries[:high])]

    def _described(
        self, missing: set[int] | None, ring: list[RingMember], keys: list[int]
    ) -> list[str]:
        """Of entries with these marks (or all), those that are not kept in a newer wording either."""
        wrong: list[str] = []
        count = _places(ring)
        for member in ring:
            if missing is not None and missing.isdisjoint(self._laid[member][1]):
                continue
            for piece in member.layings.pieces.values():
                if (
                    piece.packed
                    and not piece.missing
                    and (missing is None or _mark(piece, member) in missing)
                ):
                    at = bisect_left(keys, piece.key) % len(ring)
                    wrong += _not_kept(piece, member, _from(ring, at, count))
            if len(wrong) > OBJECTIONS_ENOUGH:
                return wrong[:OBJECTIONS_ENOUGH]
        return wrong


def _laid_by(member: RingMember) -> dict[int, int]:
    """Mark and key of every entry that is confirmed to a member."""
    pieces = member.layings.pieces.values()
    return {
        _mark(piece, member): piece.key for piece in pieces if piece.packed and not piece.missing
    }


def _mark(piece: Piece, owner: RingMember) -> int:
    """Of the entry of the lowest value, as its keepers compute it."""
    slot = (piece.shelf, piece.attribute, piece.low)
    return mark_of(slot, piece.number or owner.name, _lowest_stamp(piece), True)


def _lowest_stamp(piece: Piece) -> int:
    """With which the entry of the lowest value is kept."""
    for (low, _), (_, stamp) in piece.held.items():
        if low == piece.low:
            return stamp
    return piece.stamp


def _places(ring: list[RingMember]) -> int:
    """At how many nodes each entry belongs."""
    return min(ring[0].share.settings.copies + 1, len(ring))


def _from(ring: list[Item], at: int, count: int) -> list[Item]:
    """So many from a place on, round the circle."""
    return ring[at : at + count] + ring[: max(0, at + count - len(ring))]


def _not_in(kept: set[int] | frozenset[int], marks: list[int]) -> list[int]:
    return [] if kept.issuperset(marks) else [mark for mark in marks if mark not in kept]


def _not_kept(piece: Piece, owner: RingMember, keepers: Sequence[RingMember]) -> list[str]:
    """Of those who should keep an entry, who does not."""
    slot, wrong = (piece.shelf, piece.attribute, piece.low), []
    for keeper in keepers:
        entry = keeper.share.rows.get(slot, piece.number or owner.name)
        if entry is None or entry.row.stamp < _lowest_stamp(piece) or not entry.in_force:
            wrong.append(
                f"{keeper.address} does not keep what {owner.address} has laid under {slot}"
            )
    return wrong
