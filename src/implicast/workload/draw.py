"""Chance by key: every draw is a function of seed, purpose, key and index, never of what was drawn
before.

So one peer's tags are the same whether one asks for that peer alone, for a range, or for a million
on a cluster, and however the range is cut. All functions work on whole NumPy arrays; integers only,
so that no machine's floating point can change a draw. The mixing function is that of SplitMix64
(Steele, Lea, Flood 2014).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from implicast.space.digest import digest_bits

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_ONE = np.uint64(0xBF58476D1CE4E5B9)
_MIX_TWO = np.uint64(0x94D049BB133111EB)
_ROUNDS = 6
"""Four rounds of a Feistel network already look random (Luby and Rackoff); two more, as halves may
be a few bits.
"""


def mix(words: Words) -> Words:
    """Sixty-four bits stirred so that each depends on all; one to one."""
    words = (words ^ (words >> np.uint64(30))) * _MIX_ONE
    words = (words ^ (words >> np.uint64(27))) * _MIX_TWO
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Stream:
    """Draws for one purpose of one seed: `Stream.of(seed, "zipf", "peers").words(peers, 3)`."""

    base: np.uint64

    @classmethod
    def of(cls, seed: int, *names: str) -> "Stream":
        return cls(np.uint64(digest_bits(64, "draw", seed, *names)))

    def words(self, keys: Numbers, index: int = 0) -> Words:
        """Draw number `index` of each key: 64 random bits."""
        # Two rounds: keys and indices are small consecutive numbers, and one round of sums would
        # let (key, index + 1) meet (key + 1, index).
        offset = np.uint64(index * int(_GOLDEN) & 0xFFFF_FFFF_FFFF_FFFF)
        return mix(mix(keys.astype(np.uint64) * _GOLDEN + self.base) + offset)

    def uniform(self, keys: Numbers, index: int = 0) -> NDArray[np.float64]:
        """Numbers in [0, 1), 53 bits each."""
        return (self.words(keys, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, bound: int, keys: Numbers, index: int = 0) -> Numbers:
        """Whole numbers in [0, bound), for bounds up to 2^32 (their unevenness is below 2^-32 of a
        value).
        """
        high = self.words(keys, index) >> np.uint64(32)
        return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A random permutation of 0..size-1 of which any part can be computed by itself.

    It picks *exactly* a quarter of the peers without looking at the others: those whose place is
    below a quarter of the size. A Feistel network over the next even number of bits; what lands
    outside is sent round again.
    """

    size: int
    stream: Stream

    def places(self, keys: Numbers) -> Numbers:
        """Where each key goes."""
        assert keys.size == 0 or (keys.min() >= 0 and keys.max() < self.size), (
            "only 0..size-1 have a place"
        )
        half = np.uint64(max(1, ((self.size - 1).bit_length() + 1) // 2))
        places = self._network(keys.astype(np.uint64), half)
        while (outside := np.flatnonzero(places >= np.uint64(self.size))).size:
            places[outside] = self._network(places[outside], half)
        return places.astype(np.int64)

    def _network(self, words: Words, half: np.uint64) -> Words:
        mask = (np.uint64(1) << half) - np.uint64(1)
        left, right = words >> half, words & mask
        for turn in range(_ROUNDS):
            left, right = (
                right,
                left ^ (self.stream.words(right.astype(np.int64), turn) >> np.uint64(40)) & mask,
            )
        return left << half | right


def span(first: int, last: int) -> Numbers:
    return np.arange(first, last, dtype=np.int64)
