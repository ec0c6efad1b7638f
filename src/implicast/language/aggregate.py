"""Aggregates of descriptions: a value that stands for a group of peers, and targets as queries on
it.

An aggregate holds the words of its descriptions in a Bloom filter (tags, and `attribute=text` for
values that are texts) and the span of each attribute that is a number. Aggregates combine by OR and
by hull (as in `values.py`). Therefore a target may match the aggregate of a group although it
selects no peer of the group, but it never fails to match if it selects one. What a term excludes
(`lacks`) cannot be asked of a group; the peer itself decides by its description.

The width of the filter is the same for the whole population. With 18 tags a peer and 4 hashes,
4,096 bits are half full at about fifty peers: aggregates of larger groups match nearly every
target. A wider filter prunes more of a cast's path and makes every answer and every table larger in
proportion.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.language.bloom import positions
from implicast.language.bounds import BYTES_MAX, Bits, Described, Step, Word
from implicast.language.errors import LanguageError
from implicast.language.target import Description, Predicate, Target, Term
from implicast.language.values import bits_or, bloom_bits

HASHES_MAX = 64
"""Hash positions of one word. More would only fill the filter."""
Span = tuple[Word, Step, Step]
"""An attribute, its lowest and its highest grid step among the group."""
Width = Annotated[int, Meta(ge=1, le=BYTES_MAX * 8)]
Hashes = Annotated[int, Meta(ge=1, le=HASHES_MAX)]


class DescriptionAggregate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="portrait"):
    """The words and the spans of all in a group. Spans are sorted by attribute."""

    bits: Bits
    spans: Described[Span] = ()

    def alike(self, other: object) -> bool:
        return isinstance(other, DescriptionAggregate) and len(self.bits) == len(other.bits)

    def reduce(self, other: "DescriptionAggregate") -> "DescriptionAggregate":
        if type(other) is not DescriptionAggregate or len(self.bits) != len(
            other.bits
        ):  # `alike`, without a call
            raise LanguageError(
                f"aggregates of {len(self.bits)} and {len(other.bits)} bytes cannot be combined"
            )
        return DescriptionAggregate(bits_or(self.bits, other.bits), hulls(self.spans, other.spans))


def aggregate_of(description: Description | None, bits: int, hashes: int) -> DescriptionAggregate:
    """The aggregate of one peer. Without a description it is empty and matches nothing."""
    words = [] if description is None else [*description.tags, *_texts(description)]
    numbers = () if description is None else description.values
    spans = sorted(
        (each.attribute, each.value, each.value) for each in numbers if isinstance(each.value, int)
    )
    return DescriptionAggregate(bloom_bits(words, bits, hashes), tuple(spans))


class TargetQuery(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="sought"):
    """A target as a query on aggregates of this width, made with this number of hashes."""

    target: Target
    bits: Width
    hashes: Hashes

    def match(self, value: object) -> bool:
        return self.matcher()(value)

    def matcher(self) -> Callable[[object], bool]:
        """`match`, prepared to be called on many aggregates. Cached, because every hop of a cast
        needs it.
        """
        return _matcher(self.target, self.bits, self.hashes)


_PreparedTerm = tuple[tuple[tuple[int, int], ...], tuple[Predicate, ...]]
"""A term made ready: (byte, bit) of every word, and the ranges of numbers."""


@lru_cache(maxsize=4096)
def _matcher(target: Target, bits: int, hashes: int) -> Callable[[object], bool]:
    size = bits // 8
    terms = [_term_matcher(*_prepared(term, bits, hashes)) for term in target.terms]
    first = terms[0] if len(terms) == 1 else lambda value: any(term(value) for term in terms)

    def match(value: object) -> bool:
        return isinstance(value, DescriptionAggregate) and len(value.bits) == size and first(value)

    return match


def _term_matcher(
    words: tuple[tuple[int, int], ...], ranges: tuple[Predicate, ...]
) -> Callable[[DescriptionAggregate], bool]:
    def match(value: DescriptionAggregate) -> bool:
        bits = value.bits
        # A loop, not `all(...)`, which takes three times as long: most terms fail at their first or
        # second bit.
        for byte, bit in words:
            if not bits[byte] & bit:
                return False
        return not ranges or _in_ranges(value.spans, ranges)

    return match


def _in_ranges(spans: tuple[Span, ...], ranges: tuple[Predicate, ...]) -> bool:
    return all(_overlaps(predicate, spans) for predicate in ranges)


def _overlaps(predicate: Predicate, spans: tuple[Span, ...]) -> bool:
    low, high = predicate.low, predicate.high
    assert not isinstance(low, str), "texts are words of the filter"
    assert not isinstance(high, str), "texts are words of the filter"
    for attribute, least, most in spans:
        if attribute == predicate.attribute:
            return (low is None or low <= most) and (high is None or least <= high)
    return False


def _prepared(term: Term, bits: int, hashes: int) -> _PreparedTerm:
    texts = [f"{each.attribute}={each.low}" for each in term.where if isinstance(each.low, str)]
    wanted = [
        position for word in (*term.has, *texts) for position in positions(word, bits, hashes)
    ]
    numbers = tuple(each for each in term.where if not isinstance(each.low, str))
    return tuple((position >> 3, 1 << (position & 7)) for position in wanted), numbers


def _texts(description: Description) -> list[str]:
    return [
        f"{each.attribute}={each.value}"
        for each in description.values
        if isinstance(each.value, str)
    ]


def hulls(one: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
    """The span of each attribute among two groups."""
    if one == other or not other:
        return one
    if len(one) == len(
        other
    ):  # nearly always all speak of the same attributes: a third of the price
        made, last = [], ""
        for (attribute, low, high), (same, least, most) in zip(one, other, strict=True):
            if attribute != same or attribute <= last:
                break
            made.append((attribute, low if low < least else least, high if high > most else most))
            last = attribute
        else:
            return tuple(made)
    both = {attribute: (low, high) for attribute, low, high in one}
    for attribute, low, high in other:
        least, most = both.get(attribute, (low, high))
        both[attribute] = min(low, least), max(high, most)
    return tuple((attribute, *both[attribute]) for attribute in sorted(both))
