"""A Bloom filter of tags: small, never wrong about what it does not hold, wrong about the rest with
a known chance.

Thesis section 2.6.1 and Table 2.1: for k tags and a false-positive rate rho, `m = k ln(rho) /
ln(0.6185)` bits and `h = ln(rho) / ln(1/2)` hash functions. The BROKER design keeps one for each
neighbour; `rho` is its routing error.

The bits are a bytearray: a broker's filter of 177,000 bits answers in 0.3 us and takes a tag in 0.4
us, where a Python integer takes 2.2 and 0.9. (Below some 20,000 bits an integer with a mask for
each tag would be faster.)
"""

from collections.abc import Iterable
from functools import lru_cache
from math import ceil, log

from implicast.language.errors import LanguageError
from implicast.language.target import Target
from implicast.space.digest import digest_bits

BITS_MAX = 1 << 30
"""Bits of one filter: 128 MiB. A larger filter is refused."""


def bits_for(items: int, error: float) -> int:
    """How many bits hold this many tags at this false-positive rate (thesis equation 2.2)."""
    _check_error(error)
    if items < 1:
        raise LanguageError(f"a Bloom filter for {items} tags makes no sense: give at least 1")
    return max(8, ceil(items * log(error) / log(0.6185)))


def hashes_for(error: float) -> int:
    """How many hash functions suit this false-positive rate (thesis equation 2.1)."""
    _check_error(error)
    return max(1, ceil(log(error) / log(0.5) - 1e-9))


def _check_error(error: float) -> None:
    if not 0.0 < error < 1.0:
        raise LanguageError(
            f"a false-positive rate of {error} is out of range: it lies between 0 and 1"
        )


@lru_cache(maxsize=131_072)
def positions(tag: str, bits: int, hashes: int) -> tuple[int, ...]:
    """The tag's bits, by double hashing: two digests do the work of `hashes` functions (Kirsch and
    Mitzenmacher).

    Remembered, because a cast asks for the same few tags at every hop: 0.1 us instead of 2.5.
    """
    both = digest_bits(128, "bloom", tag)
    first, second = both >> 64, both & 0xFFFF_FFFF_FFFF_FFFF
    stride = 1 + second % (bits - 1)
    return tuple((first + turn * stride) % bits for turn in range(hashes))


class Bloom:
    """Tags that may be present. Grows only: to forget a tag, make it anew.

    A filter that was pressed from `whole` bits has bit p of those at bit p * bits // whole.
    """

    __slots__ = ("_field", "bits", "hashes", "ones", "whole")

    def __init__(self, bits: int, hashes: int, whole: int = 0) -> None:
        if not 2 <= bits <= BITS_MAX or not 1 <= hashes <= 64:
            raise LanguageError(
                f"no Bloom filter has {bits} bits and {hashes} hash functions: 2..{BITS_MAX} and "
                "1..64 do"
            )
        self.bits, self.hashes, self.whole = bits, hashes, whole or bits
        self._field, self.ones = bytearray((bits + 7) // 8), 0

    @classmethod
    def sized(cls, items: int, error: float) -> "Bloom":
        """Empty, with room for this many tags at this false-positive rate."""
        return cls(bits_for(items, error), hashes_for(error))

    @classmethod
    def from_bytes(cls, field: bytes, bits: int, hashes: int, whole: int = 0) -> "Bloom":
        filter_ = cls(bits, hashes, whole)
        if len(field) != len(filter_._field):
            raise LanguageError(
                f"a Bloom filter of {bits} bits has {len(filter_._field)} bytes, not {len(field)}"
            )
        number = int.from_bytes(field, "little") & (1 << bits) - 1
        filter_._field[:] = number.to_bytes(len(field), "little")
        filter_.ones = number.bit_count()
        return filter_

    def to_bytes(self) -> bytes:
        return bytes(self._field)

    def add(self, tag: str) -> None:
        field, bits, whole = self._field, self.bits, self.whole
        for position in positions(tag, whole, self.hashes):
            at = position * bits // whole
            if not field[at >> 3] >> (at & 7) & 1:
                field[at >> 3] |= 1 << (at & 7)
                self.ones += 1

    def update(self, tags: Iterable[str]) -> None:
        for tag in tags:
            self.add(tag)

    def might_hold(self, tag: str) -> bool:
        """False only if the tag was never added."""
        field, bits, whole = self._field, self.bits, self.whole
        # A loop, not `all(...)`: the generator would cost more than the four tests.
        for position in positions(tag, whole, self.hashes):
            at = position * bits // whole
            if not field[at >> 3] >> (at & 7) & 1:
                return False
        return True

    def passes(self, target: Target) -> bool:
        """True unless no description made of the added tags can be selected.

        Of a term only the wanted tags can be asked: what it excludes, and its predicates, a filter
        cannot rule out.
        """
        return any(all(map(self.might_hold, term.has)) for term in target.terms)

    def union(self, other: "Bloom") -> "Bloom":
        """What either may hold. Both must be of one size."""
        if (self.bits, self.hashes, self.whole) != (other.bits, other.hashes, other.whole):
            raise LanguageError(
                f"Bloom filters of {self.bits} bits and {self.hashes} hashes and of {other.bits} "
                f"and {other.hashes}"
                " cannot be united"
            )
        both = int.from_bytes(self._field, "little") | int.from_bytes(other._field, "little")
        return Bloom.from_bytes(
            both.to_bytes(len(self._field), "little"), self.bits, self.hashes, self.whole
        )

    __or__ = union

    def fill(self) -> float:
        """The share of bits that are set; about half when it holds as many tags as it was sized
        for.
        """
        return self.ones / self.bits

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bloom):
            return NotImplemented
        return (self.bits, self.hashes, self._field) == (other.bits, other.hashes, other._field)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Bloom(bits={self.bits}, hashes={self.hashes}, fill={self.fill():.3f})"
