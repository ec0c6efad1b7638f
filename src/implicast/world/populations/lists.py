"""Looking at kept lists from outside: every laid entry must be at whoever answers for it, and at its copies.

One looks every second while anything is wrong, and each time there are as many entries as peers have tags. So all marks
of a place are looked for at once, and entries one by one only where some are missing (a tenth of the price of looking
for each); a place that was in order stays so until an entry, a keeper or the ring has changed (half of that); and what
a member has laid is looked at again only when it has laid something else, whatever becomes of the ring (a third of
that).
"""

from bisect import bisect_left
from collections.abc import Sequence

from implicast.casting.keeping.member import RingMember
from implicast.casting.keeping.pieces import Piece
from implicast.casting.keeping.rows import mark_of
from implicast.overlay.links.state import IN
from implicast.peer.contract import Peer
from implicast.world.populations.chord import chord_objections

OBJECTIONS_ENOUGH = 3
"""Misplaced entries named at one look: one looks often while some are."""
Laid = tuple[tuple[int, ...], dict[int, int]]
"""How far a member had come, and what it had laid then: keys by marks."""
NOTHING: Laid = (), {}


def ring_trouble(population: Sequence[Peer]) -> list[str]:
    """What is wrong with ring and lists."""
    return Watcher()(population)


class Watcher:
    """Looks again and again, and remembers what need not be looked at again."""

    __slots__ = ("_sight",)

    def __init__(self) -> None:
        self._sight: Sight | None = None

    def __call__(self, population: Sequence[Peer]) -> list[str]:
        here = [member for member in population if isinstance(member, RingMember)]
        wrong = chord_objections([member.chord for member in here], exact=False) if here else []
        if wrong:
            return wrong
        ring = sorted((member for member in here if member.links.state == IN), key=lambda member: member.links.me.place)
        unready = [f"{member.address} is not ready" for member in ring if not member.share.is_ready]
        return unready or (self._misplaced(ring) if ring else [])

    def _misplaced(self, ring: Sequence[RingMember]) -> list[str]:
        """Entries that are confirmed and not where they belong."""
        former = self._sight
        sight = former if former is not None and former.shows(ring) else Sight(ring, former)
        if not ring[0].share.settings.copies:
            return sight.described(None, ring)
        sight.update(ring)
        if former is not None and sight is not former:
            sight.resemble(former)
        self._sight = sight
        missing = sight.missing()
        return sight.described(missing, ring) if missing else []


class Sight:
    """What belongs where on one ring, and how often its keepers had lost something when a place was last in order."""

    __slots__ = ("_laid", "expected", "in_order", "keepers", "keys")

    def __init__(self, ring: Sequence[RingMember], former: "Sight | None") -> None:
        self.keys = [member.chord.table.own for member in ring]
        count = min(ring[0].share.settings.copies + 1, len(ring))
        self.keepers = [[ring[(at + step) % len(ring)] for step in range(count)] for at in range(len(ring) + 1)]
        known = {} if former is None else former._laid
        self._laid: dict[RingMember, Laid] = {member: known.get(member, NOTHING) for member in ring}
        self.expected: list[list[int]] = [[] for _ in self.keepers]
        for _, laid in self._laid.values():
            for mark, key in laid.items():
                self.expected[bisect_left(self.keys, key)].append(mark)
        self.in_order: dict[int, list[int]] = {}

    def shows(self, ring: Sequence[RingMember]) -> bool:
        """Whether it is a sight of this ring."""
        return list(self._laid) == ring

    def update(self, ring: Sequence[RingMember]) -> None:
        """Look again at what those have laid who have laid something else since."""
        for member in ring:
            (progress, before), reached = self._laid[member], member.layings.progress()
            if reached != progress:
                now = _laid_by(member)
                self._laid[member] = reached, now
                for mark, key in before.items():
                    if mark not in now:
                        self._at(key).remove(mark)
                for mark, key in now.items():
                    if mark not in before:
                        self._at(key).append(mark)

    def resemble(self, former: "Sight") -> None:
        """Places that have the same keepers and entries as on the ring before are in order if they were."""
        before = {key: at for at, key in enumerate(former.keys)}
        for at, key in enumerate(self.keys):
            old = before.get(key, -1)
            if (
                old in former.in_order
                and former.keepers[old] == self.keepers[at]
                and sorted(former.expected[old]) == sorted(self.expected[at])
            ):
                self.in_order[at] = former.in_order[old]

    def _at(self, key: int) -> list[int]:
        """What belongs to the place of a key, to be changed."""
        at = bisect_left(self.keys, key)
        self.in_order.pop(at, None)
        return self.expected[at]

    def missing(self) -> set[int]:
        """Marks of entries that are not at all their places."""
        found: set[int] = set()
        for at, (marks, keepers) in enumerate(zip(self.expected, self.keepers, strict=True)):
            losses = [member.share.rows.losses for member in keepers]
            if self.in_order.get(at) == losses:
                continue
            here = [mark for member in keepers for mark in _not_in(member.share.rows.marks, marks)]
            if here:
                found.update(here)
            else:
                self.in_order[at] = losses
        return found

    def described(self, missing: set[int] | None, ring: Sequence[RingMember]) -> list[str]:
        """Of entries with these marks (or all), those that are not kept in a newer wording either."""
        wrong: list[str] = []
        for member in ring:
            if missing is not None and missing.isdisjoint(self._laid[member][1]):
                continue
            for piece in member.layings.pieces.values():
                if piece.packed and not piece.missing and (missing is None or _mark(piece, member) in missing):
                    wrong += _not_kept(piece, member, self.keepers[bisect_left(self.keys, piece.key)])
            if len(wrong) > OBJECTIONS_ENOUGH:
                return wrong[:OBJECTIONS_ENOUGH]
        return wrong


def _laid_by(member: RingMember) -> dict[int, int]:
    """Mark and key of every entry that is confirmed to a member."""
    pieces = member.layings.pieces.values()
    return {_mark(piece, member): piece.key for piece in pieces if piece.packed and not piece.missing}


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


def _not_in(kept: set[int] | frozenset[int], marks: list[int]) -> list[int]:
    return [] if kept.issuperset(marks) else [mark for mark in marks if mark not in kept]


def _not_kept(piece: Piece, owner: RingMember, keepers: Sequence[RingMember]) -> list[str]:
    """Of those who should keep an entry, who does not."""
    slot, wrong = (piece.shelf, piece.attribute, piece.low), []
    for keeper in keepers:
        entry = keeper.share.rows.get(slot, piece.number or owner.name)
        if entry is None or entry.row.stamp < _lowest_stamp(piece) or not entry.in_force:
            wrong.append(f"{keeper.address} does not keep what {owner.address} has laid under {slot}")
    return wrong
