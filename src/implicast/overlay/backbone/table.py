"""Cast routing tables: one Bloom filter for each source of registrations. Pure; no messages.

A source is a neighbour, meaning everybody beyond it, or the broker itself, meaning its own clients (thesis section
6.1). While a generation is under construction all its filters have one size, `bits`, so that they can be united. When
it is whole each is pressed to the size that the tags beyond *its own* neighbour need at the routing error (equation
2.2): bit p of the common size becomes bit p * size // bits. So a filter errs as often as it is told to, whether half of
all tags lie beyond its neighbour or a handful; filters that had all tags' size erred on 0.3 % where 10 % was asked.

A pressed filter has room for a tenth more tags than it holds, and asks to be made anew when it holds a tenth more than
it has room for: its error stays within a quarter of the one that was asked for.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from implicast.language.bloom import Bloom, bits_for, hashes_for, positions
from implicast.language.target import Target
from implicast.peer.contract import Address

ROOM = 1.1
"""How many more tags a pressed filter has room for than it holds, and how far beyond that it is outgrown."""
ROOM_LEAST = 16
"""Tags that the smallest filter has room for: below, one client more would outgrow it."""
FILL_MAX = 1 - 1e-9
"""A filter of ones alone tells nothing of how many tags are in it: it is reckoned as nearly full."""


class Field:
    """The bits of one filter, as many as `size`, and how many of them are set."""

    __slots__ = ("bits", "limit", "ones", "size")

    def __init__(self, size: int, room: float, hashes: int) -> None:
        self.bits, self.size, self.ones = bytearray((size + 7) // 8), size, 0
        self.limit = size * (1 - exp(-hashes * room * ROOM / size))
        """More ones than this: it holds a tenth more than it has room for."""

    def add(self, places: Iterable[int], whole: int) -> None:
        """Set the bits of one tag, given by its places among `whole`."""
        bits, size = self.bits, self.size
        for place in places:
            at = place * size // whole
            if not bits[at >> 3] >> (at & 7) & 1:
                bits[at >> 3] |= 1 << (at & 7)
                self.ones += 1

    def is_outgrown(self) -> bool:
        """Said once, and again when it holds a tenth more."""
        outgrown = self.ones > self.limit
        if outgrown:
            self.limit = min(self.limit * ROOM, self.size)
        return outgrown

    def take(self, found: NDArray[np.intp]) -> None:
        """Set these bits."""
        spread = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.size, bitorder="little")
        spread[found] = 1
        self.bits, self.ones = bytearray(np.packbits(spread, bitorder="little").tobytes()), int(spread.sum())

    def tags(self, hashes: int) -> float:
        """About so many tags: k = -(m / h) ln(1 - fill)."""
        return -self.size / hashes * log(1 - min(FILL_MAX, self.ones / self.size))


class FilterTable:
    """The filters of one generation."""

    __slots__ = ("_error", "_fields", "_pressed_at", "bits", "capacity", "distinct", "generation", "hashes", "outgrown",
                 "sources", "whole")  # fmt: skip

    def __init__(self, sources: Sequence[Address], generation: int, capacity: int, error: float) -> None:
        self.generation, self.capacity, self._error = generation, capacity, error
        self.bits, self.hashes = bits_for(capacity, error), hashes_for(error)
        self.sources = tuple(sources)
        self._fields = {source: Field(self.bits, capacity, self.hashes) for source in sources}
        self._pressed_at = 0.0
        """Tags that all filters held together when they were pressed; 0: they are not."""
        self.distinct = 0.0
        """Distinct tags in the whole system when the filters were pressed, about."""
        self.outgrown = False
        """Does a filter hold more than it has room for?"""
        self.whole: set[Address] = set()
        """Neighbours whose filter is known to be complete."""

    def put(self, source: Address, tags: Iterable[str]) -> None:
        """Add tags of a source."""
        field, whole = self._fields[source], self.bits
        for tag in tags:
            field.add(positions(tag, whole, self.hashes), whole)
        self.outgrown = field.is_outgrown() or self.outgrown

    def take_outgrown(self) -> bool:
        """Is a filter outgrown? Said once."""
        outgrown, self.outgrown = self.outgrown, False
        return outgrown

    def passes(self, neighbour: Address, target: Target) -> bool:
        """May anybody beyond this neighbour be selected? Only wanted tags are asked for."""
        return any(all(self.holds(neighbour, tag) for tag in term.has) for term in target.terms)

    def holds(self, source: Address, tag: str) -> bool:
        field, whole = self._fields[source], self.bits
        bits, size = field.bits, field.size
        for place in positions(tag, whole, self.hashes):
            at = place * size // whole
            if not bits[at >> 3] >> (at & 7) & 1:
                return False
        return True

    def filter(self, source: Address) -> Bloom:
        """The filter of one source, as it is kept."""
        field = self._fields[source]
        return Bloom.from_bytes(bytes(field.bits), field.size, self.hashes)

    def beside(self, neighbour: Address) -> bytes:
        """The filter of all sources but this one, before they are pressed: what the neighbour should know of us."""
        others = [np.frombuffer(self._fields[source].bits, np.uint8) for source in self.sources if source != neighbour]
        return reduce(np.bitwise_or, others).tobytes()

    def replace(self, neighbour: Address, field: bytes) -> bool:
        """Take over a neighbour's whole filter, beside what it has said since it was sent, if it has the common size."""
        if fits := len(field) == (self.bits + 7) // 8:
            self._fields[neighbour].take(places(field, self.bits))
            self.whole.add(neighbour)
        return fits

    def press(self) -> None:
        """The generation is whole: each filter gets the size that its own tags need."""
        self.distinct = self.estimate()
        self._pressed_at = self._held()
        self.outgrown = False
        self._fields = {source: self._pressed(field) for source, field in self._fields.items()}

    def _pressed(self, field: Field) -> Field:
        room = max(ROOM_LEAST, ceil(field.tags(self.hashes) * ROOM))
        wanted = bits_for(room, self._error)
        self.outgrown = self.outgrown or wanted > self.bits > bits_for(ROOM_LEAST, self._error)
        pressed = Field(min(self.bits, wanted), room, self.hashes)
        pressed.take(places(field.bits, field.size) * pressed.size // self.bits)
        return pressed

    def estimate(self) -> float:
        """About how many distinct tags there are in the whole system."""
        if self._pressed_at:
            return self.distinct * max(1.0, self._held() / self._pressed_at)
        together = Field(self.bits, self.capacity, self.hashes)
        for field in self._fields.values():
            together.take(places(field.bits, field.size))
        return together.tags(self.hashes)

    def _held(self) -> float:
        return sum(field.tags(self.hashes) for field in self._fields.values())


def places(field: bytes | bytearray, size: int) -> NDArray[np.intp]:
    """Which bits are set. As booleans: of bytes they are found more slowly."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(field, np.uint8), count=size, bitorder="little").view(np.bool_))
