"""One entry for a range of values (one value where order is not kept), and which of them are confirmed by whom."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from implicast.casting.keeping.messages import Name, Renew
from implicast.casting.keeping.rows import mark_of
from implicast.language.target import Scalar
from implicast.peer.contract import Address

WAIT_US = 2_000_000
"""Before a piece that is not confirmed is laid again; doubled each time (`laying.py`)."""

Stretch = tuple[Scalar, Scalar]


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
    name: Name
    packed: bytes
    stamp: int
    walks: bool
    group: Hashable | None
    missing: list[Stretch]
    held: dict[Stretch, Address] = field(default_factory=dict)
    wait_us: int = WAIT_US
    due_us: int = 0
    _mark: tuple[int, int] = (0, 0)

    def mark(self) -> int:
        """Of the entry of the lowest value, as its keepers compute it. Remembered, for one looks often from outside."""
        if self._mark[0] != self.stamp:
            slot = (self.shelf, self.attribute, self.low)
            self._mark = self.stamp, mark_of(slot, self.name, self.stamp, bool(self.packed))
        return self._mark[1]

    def confirm(self, low: Scalar, high: Scalar, holder: Address) -> None:
        self.missing = [left for each in self.missing for left in _without(each, low, high)]
        self.held = {s: who for s, who in self.held.items() if not _without_any(s, low, high)}
        self.held[low, high] = holder

    def lose(self, low: Scalar, high: Scalar) -> None:
        if (low, high) not in self.missing:
            self.missing.append((low, high))
        self.held.pop((low, high), None)


def renewal(held: Iterable[tuple[Piece, Stretch]]) -> Renew:
    return Renew(
        tuple(
            (piece.serial, piece.shelf, piece.attribute, *stretch, piece.name, piece.stamp) for piece, stretch in held
        )
    )


def values(stretch: Stretch) -> Iterable[Scalar]:
    low, high = stretch
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)


def length(stretch: Stretch) -> int:
    low, high = stretch
    return high - low + 1 if isinstance(low, int) and isinstance(high, int) else 1


def _without(stretch: Stretch, low: Scalar, high: Scalar) -> list[Stretch]:
    """What is left of a stretch."""
    start, end = stretch
    if isinstance(start, str) or isinstance(end, str) or isinstance(low, str) or isinstance(high, str):
        return [] if start == low else [stretch]
    parts = [(start, min(end, low - 1)), (max(start, high + 1), end)]
    return [(first, last) for first, last in parts if first <= last]


def _without_any(stretch: Stretch, low: Scalar, high: Scalar) -> bool:
    """Whether one stretch lies within another."""
    return not _without(stretch, low, high)
