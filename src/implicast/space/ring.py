"""The circle of keys: clockwise order, arcs, distances modulo 2^m, and the two hashes that place
things on it.

Order and arcs need nothing but a total order of the keys (the largest is followed by the smallest),
so they serve identifiers (`int`) and names (`str`) alike. Distances and hashes are for identifiers
of m bits.

Papers: Chord (hashed identifiers, successor); Content-based publish/subscribe over Chord, section
4.1 (OPHF).
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from implicast.space.digest import digest_bits

Key = int | str
"""A place on the circle. All keys of one ring are of one kind."""

Ordered = TypeVar("Ordered", int, str, tuple[Key, Any])
"""What can lie on a circle: a key, or a key with the name that settles ties."""

ID_BITS = 40
"""m, the length of hashed identifiers. At 65,536 peers two fall together in one network of 500
(their names settle it), and a subscription's id, which holds a node's, still fits into 64 bits.
"""


def between(low: Ordered, x: Ordered, high: Ordered) -> bool:
    """Whether x lies in the open arc (low, high); (a, a) is everything but a."""
    if low < high:
        return low < x < high
    return low < x or x < high or (low == high and x != low)


def up_to(low: Ordered, x: Ordered, high: Ordered) -> bool:
    """Whether x lies in (low, high], the keys whose successor is `high` when `low` is next before
    it.
    """
    return x == high or between(low, x, high)


def from_on(low: Ordered, x: Ordered, high: Ordered) -> bool:
    """Whether x lies in [low, high), the keys that `low` holds when `high` is next after it. [a, a)
    is all.
    """
    return x == low or between(low, x, high)


def clockwise(start: Ordered, x: Ordered) -> tuple[bool, Ordered]:
    """A sorting key: places in the order in which they are met going clockwise from `start`, itself
    the first.
    """
    return x < start, x


BoundedKey = (
    Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | Annotated[str, Meta(max_length=256)]
)
"""A key as it travels."""


class Arc(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The half-open clockwise arc [start, end). [a, a) is the whole circle; an empty arc does not
    exist.
    """

    start: BoundedKey
    end: BoundedKey

    def __contains__(self, key: Key) -> bool:
        if self.start < self.end:  # type: ignore[operator]  # keys of one ring are of one kind
            return self.start <= key < self.end  # type: ignore[operator]
        if self.start <= key or key < self.end:  # type: ignore[operator]
            return True
        return self.start == self.end

    def cut(self, points: Iterable[Key]) -> tuple["Arc", ...]:
        """The pieces, in clockwise order, when cut at each point that lies strictly inside."""
        inside = {point for point in points if point in self and point != self.start}
        clockwise = sorted(inside, key=lambda at: (at < self.start, at))  # type: ignore[operator]
        bounds = [self.start, *clockwise, self.end]
        return tuple(Arc(start, end) for start, end in pairwise(bounds))

    def minus(self, other: "Arc") -> tuple["Arc", ...]:
        """What is left of this arc without the other: no, one or two arcs. Neighbouring pieces are
        not rejoined.
        """
        return tuple(
            piece for piece in self.cut((other.start, other.end)) if piece.start not in other
        )


def minus_all(arc: Arc, others: Iterable[Arc]) -> tuple[Arc, ...]:
    """What is left of an arc without all the others, in clockwise order from its start."""
    left: tuple[Arc, ...] = (arc,)
    for other in others:
        left = tuple(piece for each in left for piece in each.minus(other))
    return left


def distance(start: int, end: int, bits: int = ID_BITS) -> int:
    """Steps clockwise from start to end, 0 to 2^bits - 1."""
    return (end - start) & ((1 << bits) - 1)


def length(arc: Arc, bits: int = ID_BITS) -> int:
    """How many identifiers an arc of integers holds: 1 to 2^bits."""
    assert isinstance(arc.start, int), "only arcs of integers have a length"
    assert isinstance(arc.end, int), "only arcs of integers have a length"
    return distance(arc.start, arc.end, bits) or 1 << bits


def hashed(*parts: object, bits: int = ID_BITS) -> int:
    """Chord's hash: SHA-1 reduced to m bits."""
    return digest_bits(bits, *parts)


def order_preserving(step: int, low: int, high: int, attribute: str, bits: int = ID_BITS) -> int:
    """OPHF: values of low..high in order once round the circle, from a point that depends on the
    attribute's name.

    `(s0 + (v - vmin) / (vmax - vmin) * 2^m) mod 2^m`, floored, in whole numbers. The largest value
    comes to lie on the smallest's point (a full turn), as the formula has it.
    """
    turn = ((step - low) << bits) // (high - low) if high > low else 0
    return (digest_bits(bits, attribute) + turn) & ((1 << bits) - 1)


def successor_index(keys: Sequence[int], key: int) -> int:
    """The index of the first of the sorted keys that is not before `key`, round the circle."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low % len(keys)
