"""Values that combine on their way with the counts of a cast: sum, least, most, histogram, top k.

Each value is an element of a commutative monoid with a bounded encoding. `combined` is associative
and commutative and does not lose precision: numbers are integers, decimals to 10^-6 as whole
millionths, and sums have 128 bits. So the result does not depend on the shape of the tree along
which the values travelled. A value need not be idempotent: coverage counts each member once
(`coverage.py`).

`None` is the neutral element. Values of two kinds, or of two sets of bounds, do not combine: the
peer that finds such a value counts the member as declined.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError

SUM_BYTES = 16
NUMBER_MAX = 1 << 62
"""Largest absolute value of one answer, in millionths. 2^64 of them fit into a sum."""
BOUNDS_MAX = 64
"""Bounds of a histogram."""
TOP_MAX = 100
"""Answers that `Top` keeps."""

Number = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
"""An answer in millionths."""
Frequency = Annotated[int, Meta(ge=0, lt=1 << 48)]
WideSum = Annotated[bytes, Meta(min_length=SUM_BYTES, max_length=SUM_BYTES)]
"""A signed integer of 128 bits, most significant byte first."""


class Sum(Message):
    """Sum and number of answers; the mean is their quotient."""

    total: WideSum
    answers: Frequency

    @staticmethod
    def of(number: int) -> "Sum":
        return Sum(_wide(number), 1)

    def number(self) -> int:
        return int.from_bytes(self.total, signed=True)

    def combine(self, other: "Sum") -> "Sum":
        return Sum(_wide(self.number() + other.number()), self.answers + other.answers)


class Least(Message):
    """The smallest answer."""

    number: Number

    def combine(self, other: "Least") -> "Least":
        return self if self.number <= other.number else other


class Most(Message):
    """The largest answer."""

    number: Number

    def combine(self, other: "Most") -> "Most":
        return self if self.number >= other.number else other


class Histogram(Message):
    """Number of answers below each bound, and of those at or above the last one."""

    bounds: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=BOUNDS_MAX)]
    counts: Annotated[tuple[Frequency, ...], Meta(min_length=2, max_length=BOUNDS_MAX + 1)]

    @staticmethod
    def of(bounds: Sequence[int], number: int) -> "Histogram":
        place = sum(number >= bound for bound in bounds)
        counts = tuple(int(each == place) for each in range(len(bounds) + 1))
        return Histogram(tuple(bounds), counts)

    def combine(self, other: "Histogram") -> "Histogram":
        if (self.bounds, len(self.counts)) != (other.bounds, len(other.counts)):
            raise RemoteError("histograms of different bounds do not combine")
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts)


class Top(Message):
    """The `size` largest answers, largest first."""

    size: Annotated[int, Meta(ge=1, le=TOP_MAX)]
    numbers: Annotated[tuple[Number, ...], Meta(max_length=TOP_MAX)]

    def combine(self, other: "Top") -> "Top":
        if self.size != other.size:
            raise RemoteError("tops of different sizes do not combine")
        numbers = sorted((*self.numbers, *other.numbers), reverse=True)
        return Top(self.size, tuple(numbers[: self.size]))


Value = Sum | Least | Most | Histogram | Top


def combined(one: Value | None, other: Value | None) -> Value | None:
    """Both values in one. `RemoteError` if they are of different kinds."""
    if one is None or other is None:
        return other if one is None else one
    if type(one) is not type(other):
        raise RemoteError(f"{type(one).__name__} and {type(other).__name__} do not combine")
    return one.combine(other)  # type: ignore[arg-type]  # of one kind, as just checked


def _wide(number: int) -> bytes:
    return number.to_bytes(SUM_BYTES, signed=True)
