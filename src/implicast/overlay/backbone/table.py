"""Cast routing tables: one Bloom filter for each source of registrations. Pure; no messages.

A source is a neighbour, meaning everybody beyond it, or the broker itself, meaning its own clients (thesis section
6.1). All filters of a generation have one size, so they are kept side by side: for each bit position one number whose
bits say which sources have it set. Which of them hold a tag is then one look for all filters together, a third
of the time that a look into each takes with three neighbours, and a broker with seven neighbours still
needs no more memory than eight filters. `filter` gives a source's filter as it would be sent or stored.
"""

from array import array
from collections.abc import Iterable, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from implicast.language.bloom import Bloom, bits_for, hashes_for, positions
from implicast.language.target import Target
from implicast.peer.contract import Address

PLANE = 64
"""Sources in one array of numbers; a broker with more neighbours has several arrays."""


class FilterTable:
    """The filters of one generation."""

    __slots__ = ("_bit", "_everyone", "_planes", "bits", "capacity", "distinct", "generation", "hashes", "whole")

    def __init__(self, sources: Sequence[Address], generation: int, capacity: int, error: float) -> None:
        self.generation, self.capacity = generation, capacity
        self.bits, self.hashes = bits_for(capacity, error), hashes_for(error)
        self._bit = {source: 1 << number for number, source in enumerate(sources)}
        self._everyone = (1 << len(sources)) - 1
        self._planes = [
            array(_code(min(PLANE, len(sources) - first)), [0]) * self.bits for first in range(0, len(sources), PLANE)
        ]
        self.distinct = 0.0
        """Tags put in that no filter held before: about the distinct ones in the whole system."""
        self.whole: set[Address] = set()
        """Neighbours whose filter is known to be complete."""

    @property
    def sources(self) -> list[Address]:
        return list(self._bit)

    def put(self, source: Address, tags: Iterable[str]) -> dict[str, Address | None]:
        """Add tags of a source. The tags that are news to anybody, each with the one source that held it before.

        A tag that two sources held is known everywhere: every neighbour was told of it by at least one of them. One
        that a single source held is news to that source alone; one that none held is news to all. To hold a tag
        means to have its bits set; whether by this tag or by others makes no difference to who routes what.
        """
        news: dict[str, Address | None] = {}
        own = self._bit[source]
        for tag in tags:
            holders = self._holders(tag)
            if not holders & own:
                self._set(own, tag)
            if not holders:
                news[tag] = None
                self.distinct += 1
            elif not holders & (holders - 1):
                news[tag] = self.sources[holders.bit_length() - 1]
        return news

    def passes(self, neighbour: Address, target: Target) -> bool:
        """May anybody beyond this neighbour be selected? Only wanted tags are asked for."""
        bit = self._bit[neighbour]
        return any(all(self._holders(tag) & bit for tag in term.has) for term in target.terms)

    def filter(self, source: Address) -> Bloom:
        """The filter of one source."""
        return self._union(self._bit[source])

    def beside(self, neighbour: Address) -> bytes:
        """The filter of all sources but this one: what the neighbour should know of us."""
        return self._union(self._everyone & ~self._bit[neighbour]).to_bytes()

    def fits(self, field: bytes) -> bool:
        """Has a filter from elsewhere the size of those of this generation?"""
        return len(field) == (self.bits + 7) // 8

    def replace(self, neighbour: Address, field: bytes) -> None:
        """Take over a neighbour's whole filter, beside what it has said since it was sent."""
        number = self._bit[neighbour].bit_length() - 1
        plane = _view(self._planes[number // PLANE])
        set_ = np.unpackbits(np.frombuffer(field, np.uint8), count=self.bits, bitorder="little").astype(bool)
        plane[set_] |= plane.dtype.type(1 << number % PLANE)
        self.whole.add(neighbour)

    def hold(self, distinct: float) -> None:
        """So many distinct tags are in these filters."""
        self.distinct = distinct

    def count(self) -> None:
        """Estimate the distinct tags from the share of set bits: k = -(m / h) ln(1 - fill)."""
        fill = self._union(self._everyone).fill()
        self.distinct = -self.bits / self.hashes * log(max(1e-9, 1 - fill))

    def _holders(self, tag: str) -> int:
        """The sources that hold a tag, as bits of a number."""
        found = 0
        for number, plane in enumerate(self._planes):
            holders = -1
            for position in positions(tag, self.bits, self.hashes):
                holders &= plane[position]
                if not holders:
                    break
            found |= holders << number * PLANE
        return found

    def _set(self, bit: int, tag: str) -> None:
        number = bit.bit_length() - 1
        plane, bit = self._planes[number // PLANE], 1 << number % PLANE
        for position in positions(tag, self.bits, self.hashes):
            plane[position] |= bit

    def _union(self, sources: int) -> Bloom:
        """One filter of what any of these sources holds."""
        some = np.zeros(self.bits, bool)
        for number, plane in enumerate(self._planes):
            view = _view(plane)
            some |= (view & view.dtype.type(sources >> number * PLANE & (1 << 8 * plane.itemsize) - 1)) != 0
        return Bloom.from_bytes(np.packbits(some, bitorder="little").tobytes(), self.bits, self.hashes)


def _code(sources: int) -> str:
    """The narrowest numbers with a bit for each source."""
    return next(code for code, width in (("B", 8), ("H", 16), ("I", 32), ("Q", 64)) if sources <= width)


def _view(plane: "array[int]") -> NDArray[np.unsignedinteger]:
    return np.frombuffer(plane, f"u{plane.itemsize}")
