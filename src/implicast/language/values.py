"""Values that can be combined, and queries whether any peer in a combination may match.

A peer holds a *value*. `reduce` combines the values of many peers into one of the same kind and
about the same size. A *query* applies to either. One law binds the two (condcast, section 3.2,
formula 1):

    match(v1) or match(v2)  implies  match(reduce(v1, v2))

so a combination that does not match proves that no peer in it does; one that matches proves
nothing. Combinations overlap, so `reduce` is also idempotent, commutative and associative.
`tests/laws` checks all of this.

| value        | is                         | reduce       | queries                  | exact |
|--------------|----------------------------|--------------|--------------------------|-------|
| `Threshold`  | a number, say a load       | larger       | `Above`                  | yes   |
| `Interval`   | a number as [c, c]         | hull         | `Within`                 | no    |
| `Bitmap`     | a whole number as one bit  | or           | `Within`                 | yes   |
| `Box`        | a point of d dimensions    | bounding box | `InBox`                  | no    |
| `Categories` | the bits of own categories | or           | `OfCategory`             | yes   |
| `BloomValue` | words in a Bloom filter    | or           | `Holds`                  | no    |
| `Bundle`     | several of these           | part by part | `PartQuery`, `AnyOf`     |       |
|              |                            |              | `AllOf`                  | no    |
| `Own`        | bytes of a kind you added  | yours        | `OwnQuery`               |       |

*Exact* means that a combination matches only if a peer in it does. `Everything` matches any value:
that is plain split-forward broadcasting. There is no negation: the law forbids it. A query finds no
match in a value of another kind, and values of different kinds cannot be reduced.

Values are frozen structs, so they travel inside messages as they are (`AnyValue`); so are queries
(`queries.py`).

**Your own kind.** Encode your value as bytes, give two pure functions, and name them once in every
process:

    add_kind("lowest-price", reduce=min, match=lambda query, value: value <= query)
    peer_value, question = Own("lowest-price", b"0042"), OwnQuery("lowest-price", b"0050")
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from implicast.language import bloom
from implicast.language.bounds import Bits, Parts, Step, Word
from implicast.language.errors import LanguageError

Number = Step | float
BITMAP_BITS_MAX = 1 << 20
"""Bits of the widest bitmap or Bloom filter. A message has at most 1 MiB."""


class ValueRefused(LanguageError, ValueError):
    """Numbers that make no value. A `ValueError` too, so that one that comes off the wire is
    refused as unreadable.
    """


class Reducible(Protocol):
    """What a value can do."""

    def reduce(self: "V", other: "V") -> "V": ...


V = TypeVar("V", bound=Reducible)


class Kind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A frozen struct that names its kind on the wire."""

    def alike(self, other: object) -> bool:
        """Whether the two can be combined: of one kind, and of equal size where sizes differ."""
        return type(self) is type(other)


class Threshold(Kind, frozen=True, tag="threshold"):
    number: Number

    def __post_init__(self) -> None:
        check_numbers((self.number,))

    def reduce(self, other: "Threshold") -> "Threshold":
        return self if self.number >= other.number else other


class Interval(Kind, frozen=True, tag="interval"):
    """From low to high, both included."""

    low: Number
    high: Number

    def __post_init__(self) -> None:
        check_span((self.low,), (self.high,))

    def reduce(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))


class Box(Kind, frozen=True, tag="box"):
    """From corner low to corner high, both included, in as many dimensions as the corners have
    numbers.
    """

    low: Parts[Number]
    high: Parts[Number]

    def __post_init__(self) -> None:
        check_span(self.low, self.high)

    def alike(self, other: object) -> bool:
        return isinstance(other, Box) and len(self.low) == len(other.low)

    def reduce(self, other: "Box") -> "Box":
        if not self.alike(other):
            raise LanguageError(
                f"boxes of {len(self.low)} and of {len(other.low)} dimensions cannot be combined"
            )
        return Box(tuple(map(min, self.low, other.low)), tuple(map(max, self.high, other.high)))


class Bitmap(Kind, frozen=True, tag="bitmap"):
    """Whole numbers from 0 as bits, the lowest bit of the first byte being number 0."""

    bits: Bits

    @classmethod
    def of(cls, *numbers: int) -> "Bitmap":
        return cls(_with_bits(numbers))

    def reduce(self, other: "Bitmap") -> "Bitmap":
        return Bitmap(bits_or(self.bits, other.bits))


class Categories(Kind, frozen=True, tag="categories"):
    """The categories of at least one peer in the combination, numbered from 0."""

    bits: Bits

    @classmethod
    def of(cls, *categories: int) -> "Categories":
        return cls(_with_bits(categories))

    def reduce(self, other: "Categories") -> "Categories":
        return Categories(bits_or(self.bits, other.bits))


class BloomValue(Kind, frozen=True, tag="bloom"):
    """Words in a Bloom filter of fixed width (`bloom_of`). The more peers in it, the fuller; a full
    one matches all.
    """

    bits: Bits

    def alike(self, other: object) -> bool:
        return isinstance(other, BloomValue) and len(self.bits) == len(other.bits)

    def reduce(self, other: "BloomValue") -> "BloomValue":
        if not self.alike(other):
            raise LanguageError(
                f"Bloom filters of {len(self.bits)} and {len(other.bits)} bytes cannot be combined"
            )
        return BloomValue(bits_or(self.bits, other.bits))


class Own(Kind, frozen=True, tag="own"):
    """A value of a kind that the user added with `add_kind`."""

    kind: Word
    data: Bits

    def alike(self, other: object) -> bool:
        return isinstance(other, Own) and self.kind == other.kind

    def reduce(self, other: "Own") -> "Own":
        if not self.alike(other):
            raise LanguageError(f"a {self.kind!r} and a {other.kind!r} cannot be combined")
        return Own(self.kind, kind_of(self.kind)[0](self.data, other.data))


class Bundle(Kind, frozen=True, tag="bundle"):
    """Several values side by side, combined part by part."""

    parts: Parts["AnyValue"]

    def alike(self, other: object) -> bool:
        if not isinstance(other, Bundle) or len(self.parts) != len(other.parts):
            return False
        return all(mine.alike(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True))

    def reduce(self, other: "Bundle") -> "Bundle":
        if not self.alike(other):
            raise LanguageError(
                "bundles whose parts differ in number or in kind cannot be combined"
            )
        return Bundle(
            tuple(
                reduce(one, another) for one, another in zip(self.parts, other.parts, strict=True)
            )
        )


AnyValue = Threshold | Interval | Bitmap | Box | Categories | BloomValue | Own | Bundle


def reduce(one: AnyValue, other: AnyValue) -> AnyValue:
    """Two values of one kind combined."""
    if type(one) is not type(other):
        raise LanguageError(
            f"a {type(one).__name__} and a {type(other).__name__} cannot be combined"
        )
    return one.reduce(other)  # type: ignore[arg-type]


# --- kinds that users add

Reduce = Callable[[bytes, bytes], bytes]
Match = Callable[[bytes, bytes], bool]
_kinds: dict[str, tuple[Reduce, Match]] = {}


def add_kind(name: str, reduce: Reduce, match: Match) -> None:
    """Name a kind of value: how two are combined, and whether a query (first) matches a value
    (second).

    The functions must obey the laws at the head of this module; `tests/laws/test_values.py` shows
    how to test yours.
    """
    if _kinds.setdefault(name, (reduce, match)) != (reduce, match):
        raise LanguageError(f"there is a kind of value {name!r} already")


def kind_of(name: str) -> tuple[Reduce, Match]:
    if name not in _kinds:
        raise LanguageError(
            f"there is no kind of value {name!r}; name it with add_kind in this process first"
        )
    return _kinds[name]


# --- words in Bloom filters


def bloom_bits(words: Iterable[str], bits: int, hashes: int) -> bytes:
    """The bits of the filter that holds these words; `bits` is a multiple of 8."""
    filter_ = bloom.Bloom(bits, hashes)
    filter_.update(words)
    return filter_.to_bytes()


def bloom_of(words: Iterable[str], bits: int, hashes: int) -> BloomValue:
    """The filter that holds these words, as a value."""
    return BloomValue(bloom_bits(words, bits, hashes))


# --- bits and numbers


def bits_or(one: bytes, other: bytes) -> bytes:
    joined = int.from_bytes(one, "little") | int.from_bytes(other, "little")
    return joined.to_bytes(max(len(one), len(other)), "little")


def has_bit(bits: bytes, position: int) -> bool:
    return 0 <= position < 8 * len(bits) and bits[position >> 3] >> (position & 7) & 1 == 1


def _with_bits(numbers: Iterable[int]) -> bytes:
    field = 0
    for number in numbers:
        if not 0 <= number < BITMAP_BITS_MAX:
            raise LanguageError(
                f"{number} does not fit a bitmap; it takes 0 to {BITMAP_BITS_MAX - 1}"
            )
        field |= 1 << number
    return field.to_bytes((field.bit_length() + 7) // 8, "little")


def check_numbers(numbers: Iterable[Number]) -> None:
    if any(number != number for number in numbers):
        raise ValueRefused("not a number cannot be a value: it is neither above nor below anything")


def check_span(low: tuple[Number, ...], high: tuple[Number, ...]) -> None:
    if len(low) != len(high) or any(not a <= b for a, b in zip(low, high, strict=True)):
        raise ValueRefused(
            f"{low}..{high} is no range: each low end needs a high end that is not below it"
        )
