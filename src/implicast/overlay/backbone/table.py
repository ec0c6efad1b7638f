"""Table of Bloom filters, one for each source of registrations. Pure; sends no messages.

A source is a neighbour, which stands for all brokers beyond it, or the broker itself with its own
clients (thesis section 6.1). While a generation is under construction all its filters have one
size, `bits`, so that they can be united. When it is complete each filter is compressed to the size
that the tags of *its own* source need at the routing error (equation 2.2). So a filter has the
configured error rate whether half of all tags lie beyond its neighbour or a handful.

A compressed filter has capacity for 10 % more tags than it holds, and is outgrown at 10 % above its
capacity: its error stays within a quarter of the configured one.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from implicast.language.bloom import Bloom, bits_for, hashes_for
from implicast.peer.contract import Address

ROOM = 1.1
"""Spare capacity of a compressed filter, and the excess at which it is outgrown."""
ROOM_LEAST = 16
"""Capacity of the smallest filter; in a smaller one a single client would exceed it."""
FILL_MAX = 1 - 1e-9
"""A filter of ones only gives no estimate of its tags; this fill is assumed."""


class FilterTable:
    """The filters of one generation."""

    __slots__ = (
        "_compressed_at",
        "_distinct",
        "_error",
        "_limits",
        "bits",
        "capacity",
        "complete",
        "filters",
        "generation",
        "hashes",
        "outgrown",
    )

    def __init__(
        self, sources: Sequence[Address], generation: int, capacity: int, error: float
    ) -> None:
        self.generation, self.capacity, self._error = generation, capacity, error
        self.bits, self.hashes = bits_for(capacity, error), hashes_for(error)
        self.filters = {source: Bloom(self.bits, self.hashes) for source in sources}
        self._limits = dict.fromkeys(sources, self._limit(self.bits, capacity))
        """By source: the number of ones above which its filter is outgrown."""
        self._compressed_at = 0.0
        """Sum of the estimated tags of all filters at compression; 0: not compressed."""
        self._distinct = 0.0
        """Estimated distinct tags in the whole system at compression."""
        self.outgrown = False
        """A filter is outgrown and this has not been reported."""
        self.complete: set[Address] = set()
        """Neighbours whose complete filter has arrived."""

    def _limit(self, bits: int, room: int) -> float:
        return bits * (1 - exp(-self.hashes * room * ROOM / bits))

    def put(self, source: Address, tags: Iterable[str]) -> None:
        """Add tags of a source. Its filter is reported as outgrown once, and again after 10 % more
        ones.
        """
        known, limit = self.filters[source], self._limits[source]
        known.update(tags)
        if known.ones > limit:
            self._limits[source], self.outgrown = min(limit * ROOM, known.bits), True

    def take_outgrown(self) -> bool:
        """True if a filter is outgrown; resets the flag."""
        outgrown, self.outgrown = self.outgrown, False
        return outgrown

    def union_except(self, neighbour: Address) -> bytes:
        """Union of the uncompressed filters of all sources but this one: the filter that the
        neighbour needs.
        """
        return reduce(
            Bloom.union, [each for source, each in self.filters.items() if source != neighbour]
        ).to_bytes()

    def replace(self, neighbour: Address, field: bytes) -> bool:
        """Merge a neighbour's complete filter with the tags it has sent since; false if the size
        differs.
        """
        if len(field) != (self.bits + 7) // 8:
            return False
        self.filters[neighbour] |= Bloom.from_bytes(field, self.bits, self.hashes)
        self.complete.add(neighbour)
        return True

    def compress(self) -> None:
        """The generation is complete: give each filter the size that its own tags need."""
        self._distinct, self._compressed_at, self.outgrown = self.estimate(), self._held(), False
        for source, known in self.filters.items():
            room = max(ROOM_LEAST, ceil(self._tags(known.ones, known.bits) * ROOM))
            wanted = bits_for(room, self._error)
            self.outgrown = self.outgrown or wanted > self.bits > bits_for(ROOM_LEAST, self._error)
            self.filters[source] = compressed = _compressed(known, min(self.bits, wanted))
            self._limits[source] = self._limit(compressed.bits, room)

    def estimate(self) -> float:
        """Estimated number of distinct tags in the whole system."""
        if self._compressed_at:
            return self._distinct * max(1.0, self._held() / self._compressed_at)
        return self._tags(reduce(Bloom.union, self.filters.values()).ones, self.bits)

    def _held(self) -> float:
        return sum(self._tags(each.ones, each.bits) for each in self.filters.values())

    def _tags(self, ones: int, bits: int) -> float:
        """Estimated number of tags: k = -(m / h) ln(1 - fill)."""
        return -bits / self.hashes * log(1 - min(FILL_MAX, ones / bits))


def set_bits(field: bytes, size: int) -> NDArray[np.intp]:
    """Positions of set bits. On booleans `flatnonzero` is faster than on bytes."""
    return np.flatnonzero(
        np.unpackbits(np.frombuffer(field, np.uint8), count=size, bitorder="little").view(np.bool_)
    )


def _compressed(known: Bloom, bits: int) -> Bloom:
    spread = np.zeros(bits, np.uint8)
    spread[set_bits(known.to_bytes(), known.bits) * bits // known.bits] = 1
    return Bloom.from_bytes(
        np.packbits(spread, bitorder="little").tobytes(), bits, known.hashes, known.bits
    )
