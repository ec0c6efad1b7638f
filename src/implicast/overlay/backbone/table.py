"""Cast routing tables: one Bloom filter for each source of registrations. Pure; no messages.

A source is a neighbour, meaning everybody beyond it, or the broker itself, meaning its own clients (thesis section
6.1). While a generation is under construction all its filters have one size, `bits`, so that they can be united. When
it is whole each is pressed to the size that the tags beyond *its own* neighbour need at the routing error (equation
2.2). So a filter errs as often as it is told to, whether half of all tags lie beyond its neighbour or a handful.

A pressed filter has room for a tenth more tags than it holds, and asks to be made anew when it holds a tenth more than
it has room for: its error stays within a quarter of the one that was asked for.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from implicast.language.bloom import Bloom, bits_for, hashes_for
from implicast.peer.contract import Address

ROOM = 1.1
"""How many more tags a pressed filter has room for than it holds, and how far beyond that it is outgrown."""
ROOM_LEAST = 16
"""Tags that the smallest filter has room for: below, one client more would outgrow it."""
FILL_MAX = 1 - 1e-9
"""A filter of ones alone tells nothing of how many tags are in it: it is reckoned as nearly full."""


class FilterTable:
    """The filters of one generation."""

    __slots__ = (
        "_distinct",
        "_error",
        "_limits",
        "_pressed_at",
        "bits",
        "capacity",
        "filters",
        "generation",
        "hashes",
        "outgrown",
        "whole",
    )

    def __init__(
        self, sources: Sequence[Address], generation: int, capacity: int, error: float
    ) -> None:
        self.generation, self.capacity, self._error = generation, capacity, error
        self.bits, self.hashes = bits_for(capacity, error), hashes_for(error)
        self.filters = {source: Bloom(self.bits, self.hashes) for source in sources}
        self._limits = dict.fromkeys(sources, self._limit(self.bits, capacity))
        """By source: with more ones than this its filter holds a tenth more than it has room for."""
        self._pressed_at = 0.0
        """Tags that all filters held together when they were pressed; 0: they are not."""
        self._distinct = 0.0
        """Distinct tags in the whole system when the filters were pressed, about."""
        self.outgrown = False
        """Does a filter hold more than it has room for?"""
        self.whole: set[Address] = set()
        """Neighbours whose filter is known to be complete."""

    def _limit(self, bits: int, room: int) -> float:
        return bits * (1 - exp(-self.hashes * room * ROOM / bits))

    def put(self, source: Address, tags: Iterable[str]) -> None:
        """Add tags of a source. Its filter is said to be outgrown once, and again when it holds a tenth more."""
        known, limit = self.filters[source], self._limits[source]
        known.update(tags)
        if known.ones > limit:
            self._limits[source], self.outgrown = min(limit * ROOM, known.bits), True

    def take_outgrown(self) -> bool:
        """Is a filter outgrown? Said once."""
        outgrown, self.outgrown = self.outgrown, False
        return outgrown

    def beside(self, neighbour: Address) -> bytes:
        """The filter of all sources but this one, before they are pressed: what the neighbour should know of us."""
        return reduce(
            Bloom.union, [each for source, each in self.filters.items() if source != neighbour]
        ).to_bytes()

    def replace(self, neighbour: Address, field: bytes) -> bool:
        """Take over a neighbour's whole filter, beside what it has said since; False if it is of another size."""
        if len(field) != (self.bits + 7) // 8:
            return False
        self.filters[neighbour] |= Bloom.from_bytes(field, self.bits, self.hashes)
        self.whole.add(neighbour)
        return True

    def press(self) -> None:
        """The generation is whole: each filter gets the size that its own tags need."""
        self._distinct, self._pressed_at, self.outgrown = self.estimate(), self._held(), False
        for source, known in self.filters.items():
            room = max(ROOM_LEAST, ceil(self._tags(known.ones, known.bits) * ROOM))
            wanted = bits_for(room, self._error)
            self.outgrown = self.outgrown or wanted > self.bits > bits_for(ROOM_LEAST, self._error)
            self.filters[source] = pressed = _pressed(known, min(self.bits, wanted))
            self._limits[source] = self._limit(pressed.bits, room)

    def estimate(self) -> float:
        """About how many distinct tags there are in the whole system."""
        if self._pressed_at:
            return self._distinct * max(1.0, self._held() / self._pressed_at)
        return self._tags(reduce(Bloom.union, self.filters.values()).ones, self.bits)

    def _held(self) -> float:
        return sum(self._tags(each.ones, each.bits) for each in self.filters.values())

    def _tags(self, ones: int, bits: int) -> float:
        """About so many tags: k = -(m / h) ln(1 - fill)."""
        return -bits / self.hashes * log(1 - min(FILL_MAX, ones / bits))


def places(field: bytes, size: int) -> NDArray[np.intp]:
    """Which bits are set. As booleans: of bytes they are found more slowly."""
    return np.flatnonzero(
        np.unpackbits(np.frombuffer(field, np.uint8), count=size, bitorder="little").view(np.bool_)
    )


def _pressed(known: Bloom, bits: int) -> Bloom:
    spread = np.zeros(bits, np.uint8)
    spread[places(known.to_bytes(), known.bits) * bits // known.bits] = 1
    return Bloom.from_bytes(
        np.packbits(spread, bitorder="little").tobytes(), bits, known.hashes, known.bits
    )
