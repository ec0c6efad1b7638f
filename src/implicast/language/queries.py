"""Queries on combined values: may any peer in the combination match? `values.py` has the table."""

from collections.abc import Iterable
from math import ceil, floor

from implicast.language import bloom
from implicast.language.bounds import Bits, Index, Parts, Positions, Word
from implicast.language.values import (
    Bitmap,
    BloomValue,
    Box,
    Bundle,
    Categories,
    Interval,
    Kind,
    Number,
    Own,
    Threshold,
    check_numbers,
    check_span,
    has_bit,
    kind_of,
)


class Everything(Kind, frozen=True, tag="everything"):
    def match(self, value: object) -> bool:
        return True


class Above(Kind, frozen=True, tag="above"):
    """Numbers larger than the bound, or `or_equal` to it."""

    bound: Number
    or_equal: bool = False

    def __post_init__(self) -> None:
        check_numbers((self.bound,))

    def match(self, value: object) -> bool:
        return isinstance(value, Threshold) and (
            value.number > self.bound or (self.or_equal and value.number == self.bound)
        )


class Within(Kind, frozen=True, tag="within"):
    """Numbers from low to high, both included: asked of an interval or of a bitmap."""

    low: Number
    high: Number

    def match(self, value: object) -> bool:
        if isinstance(value, Interval):
            return value.low <= self.high and self.low <= value.high
        return isinstance(value, Bitmap) and self._some_bit(value.bits)

    def __post_init__(self) -> None:
        check_span((self.low,), (self.high,))

    def _some_bit(self, bits: bytes) -> bool:
        last_bit = 8 * len(bits) - 1
        if self.low > last_bit or self.high < 0:
            return False
        first, last = ceil(max(self.low, 0)), floor(min(self.high, last_bit))
        return (
            first <= last
            and (int.from_bytes(bits, "little") >> first) & ((2 << (last - first)) - 1) != 0
        )


class InBox(Kind, frozen=True, tag="in_box"):
    low: Parts[Number]
    high: Parts[Number]

    def __post_init__(self) -> None:
        check_span(self.low, self.high)

    def match(self, value: object) -> bool:
        if not isinstance(value, Box) or len(value.low) != len(self.low):
            return False
        near = all(low <= mine for low, mine in zip(value.low, self.high, strict=True))
        return near and all(mine <= high for high, mine in zip(value.high, self.low, strict=True))


class OfCategory(Kind, frozen=True, tag="of_category"):
    category: Index

    def match(self, value: object) -> bool:
        return isinstance(value, Categories) and has_bit(value.bits, self.category)


class Holds(Kind, frozen=True, tag="holds"):
    """All of these bits of a Bloom filter: those of the words that are sought (`bloom_asks`)."""

    positions: Positions

    def match(self, value: object) -> bool:
        return isinstance(value, BloomValue) and all(
            has_bit(value.bits, position) for position in self.positions
        )


class PartQuery(Kind, frozen=True, tag="part"):
    """A query for one part of a bundle, counted from 0."""

    index: Index
    query: "AnyQuery"

    def match(self, value: object) -> bool:
        return (
            isinstance(value, Bundle)
            and 0 <= self.index < len(value.parts)
            and self.query.match(value.parts[self.index])
        )


class AllOf(Kind, frozen=True, tag="all_of"):
    queries: Parts["AnyQuery"]

    def match(self, value: object) -> bool:
        return all(query.match(value) for query in self.queries)


class AnyOf(Kind, frozen=True, tag="any_of"):
    queries: Parts["AnyQuery"]

    def match(self, value: object) -> bool:
        return any(query.match(value) for query in self.queries)


class OwnQuery(Kind, frozen=True, tag="own_query"):
    """A query for values of a kind that the user added with `add_kind`."""

    kind: Word
    data: Bits

    def match(self, value: object) -> bool:
        return (
            isinstance(value, Own)
            and value.kind == self.kind
            and kind_of(self.kind)[1](self.data, value.data)
        )


AnyQuery = (
    Everything | Above | Within | InBox | OfCategory | Holds | PartQuery | AllOf | AnyOf | OwnQuery
)


def bloom_asks(words: Iterable[str], bits: int, hashes: int) -> Holds:
    """The query for filters that may hold all of these words."""
    return Holds(
        tuple(position for word in words for position in bloom.positions(word, bits, hashes))
    )
