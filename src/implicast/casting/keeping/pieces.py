"""One entry for a range of values (one value where order is not kept), and which of them are confirmed by whom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from implicast.casting.keeping.messages import Renew
from implicast.casting.keeping.rows import mark_of
from implicast.language.target import Scalar
from implicast.peer.contract import Address, Name

WAIT_US = 2_000_000
"""Before a piece that is not confirmed is laid again; doubled each time."""
WAIT_MAX_US = 4_000_000
"""Waits double up to this."""
HOP_US = 60_000
"""Patience with each further value of a range."""

Stretch = tuple[Scalar, Scalar]
KeptPiece = tuple[str, str, Scalar, Scalar, int, bytes, bool, int]
"""A piece on a disk: shelf, attribute, low, high, number, packed, walks, serial."""
NOT_HELD: dict[Stretch, Address] = {}
"""Shared by all pieces that are not held yet, and never changed."""


@dataclass(slots=True)
class Piece:
    """One entry for one range of values."""

    serial: int
    shelf: str
    attribute: str
    low: Scalar
    high: Scalar
    key: int
    """Of the lowest value."""
    number: int
    """A subscription's id; 0 where a peer has only one entry in a list."""
    packed: bytes
    stamp: int
    walks: bool
    missing: tuple[Stretch, ...]
    held: dict[Stretch, Address] = field(default_factory=lambda: NOT_HELD)
    """Which stretches are confirmed by whom; empty where nobody is asked again."""
    due_us: int = 0
    _wait_us: int = WAIT_US
    _mark: tuple[int, int] = (0, 0)

    def mark(self, owner: Name) -> int:
        """Of the entry of the lowest value, as its keepers compute it. Remembered, for one looks often from outside."""
        if self._mark[0] != self.stamp:
            slot = (self.shelf, self.attribute, self.low)
            self._mark = self.stamp, mark_of(slot, self.number or owner, self.stamp, bool(self.packed))
        return self._mark[1]

    def kept(self) -> KeptPiece:
        """As it is written down."""
        return self.shelf, self.attribute, self.low, self.high, self.number, self.packed, self.walks, self.serial

    def wait(self, now_us: int) -> None:
        """It is sent out: there is patience with its longest stretch."""
        self.due_us = now_us + self._wait_us + HOP_US * max(map(length, self.missing))
        self._wait_us = min(WAIT_MAX_US, 2 * self._wait_us)

    def narrow(self, low: Scalar, high: Scalar, key: int) -> None:
        """Only these values are wanted any more; `key` is that of the lowest."""
        self.low, self.high, self.key, self._mark = low, high, key, (0, 0)
        self.missing = tuple(left for each in self.missing if (left := overlap(each, (low, high))) is not None)
        cut = ((overlap(each, (low, high)), who) for each, who in self.held.items())
        self.held = {each: who for each, who in cut if each is not None}

    def confirm(self, low: Scalar, high: Scalar, holder: Address | None) -> None:
        """These values are laid; with a holder: who is to be asked for them later."""
        wanted = overlap((low, high), (self.low, self.high))
        if wanted is None:
            return
        low, high = wanted
        self.missing = tuple(left for each in self.missing for left in without(each, low, high))
        if holder is not None:
            self.held = {s: who for s, who in self.held.items() if without(s, low, high)}
            self.held[low, high] = holder
        if not self.missing:
            self._wait_us = WAIT_US

    def lose(self, low: Scalar, high: Scalar, stamp: int, now_us: int) -> None:
        """To be laid again, with a new stamp: what became of the old entry, a removal even, must not stand in the
        way."""
        wanted = overlap((low, high), (self.low, self.high))
        if wanted is None:
            return
        self.stamp, self.due_us, self._wait_us = stamp, now_us, WAIT_MAX_US
        if wanted not in self.missing:
            self.missing += (wanted,)
        self.held.pop(wanted, None)


def renewal(owner: Name, turn: int, held: Iterable[tuple[Piece, Stretch]]) -> Renew:
    each = ((one.serial, one.shelf, one.attribute, *stretch, one.number, one.stamp) for one, stretch in held)
    return Renew(owner, turn, tuple(each))


def values(stretch: Stretch) -> Sequence[Scalar]:
    low, high = stretch
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)


def length(stretch: Stretch) -> int:
    low, high = stretch
    return high - low + 1 if isinstance(low, int) and isinstance(high, int) else 1


def overlap(one: Stretch, other: Stretch) -> Stretch | None:
    """The values that both have."""
    (low, high), (start, end) = one, other
    if isinstance(low, str) or isinstance(high, str) or isinstance(start, str) or isinstance(end, str):
        return one if low == start else None
    return (max(low, start), min(high, end)) if max(low, start) <= min(high, end) else None


def without(stretch: Stretch, low: Scalar, high: Scalar) -> list[Stretch]:
    """What is left of a stretch."""
    start, end = stretch
    if isinstance(start, str) or isinstance(end, str) or isinstance(low, str) or isinstance(high, str):
        return [] if start == low else [stretch]
    parts = [(start, min(end, low - 1)), (max(start, high + 1), end)]
    return [(first, last) for first, last in parts if first <= last]
