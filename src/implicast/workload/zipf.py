"""Tags by Zipf's law: the i-th most common of m tags is drawn with probability `1 / (i^s H(m,s))`.

Thesis section 4.3.2 (equations 4.6 to 4.8): each peer registers k = 18 tags and each cast asks for
2, all from one distribution of 37,000 tags with exponent s, so that a tag that is common among
peers is common among casts. The text says *distinct* tags, while its Table 4.7 follows from
independent draws; `distinct` chooses (casts are always distinct).

Names are independent of ranks: real tags do not sort by popularity, and a design that picks "the
first tag" must not get the most common one each time.
"""

from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.draw import Numbers, Shuffle, Stream, Words, span
from implicast.workload.knobs import WorkloadError, knob

TAGS_MAX = 10_000_000
_BITS = np.uint64(40)
_DRAWS_MAX = 4_096
"""Draws for distinct tags. At s = 2 a peer needs 176 on average for 18 tags, the unluckiest of 500
needed 369.
"""
_ROWS = 1 << 14
"""Peers drawn at once. It bounds memory; the time is the same from 4,096 to a million."""


@dataclass(frozen=True, kw_only=True)
class Zipf(Workload):
    name: ClassVar[str] = "zipf"
    summary: ClassVar[str] = (
        "tags of peers and casts by Zipf's law, as in most of the thesis's experiments"
    )

    tags: int = knob(37_000, "how many tags there are", 1, TAGS_MAX)
    skew: float = knob(1.0, "exponent s: 0 is uniform, 2 extremely skewed", 0.0, 2.0)
    cast_skew: float = knob(-1.0, "exponent for casts; -1 is the same as for peers", -1.0, 2.0)
    tags_per_peer: int = knob(18, "k, draws of each peer", 1, 1_000)
    tags_per_cast: int = knob(2, "wanted tags in each term, distinct", 1, 60)
    terms: int = knob(1, "terms of each cast, joined by |", 1, 1_000)
    negated: int = knob(0, "unwanted tags in each term, distinct from the wanted", 0, 4)
    distinct: bool = knob(
        True, "redraw until a peer's tags are distinct; false draws independently (Table 4.7)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        most = max(self.tags_per_peer if self.distinct else 1, self.tags_per_cast + self.negated)
        if most > self.tags:
            raise WorkloadError(
                f"workload zipf: {most} distinct tags cannot be drawn from tags={self.tags}"
            )

    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        ranks = peer_ranks(self, first, last)
        owners = np.repeat(span(first, last), ranks.shape[1])
        return DescriptionColumns(owners, named_by_rank(self.seed, self.tags)[ranks.ravel()])

    def targets(self, first: int, last: int) -> TargetColumns:
        skew = self.skew if self.cast_skew < 0 else self.cast_skew
        size = self.tags_per_cast + self.negated
        keys = span(first * self.terms, last * self.terms)
        ranks = distinct_ranks(
            Stream.of(self.seed, "zipf", "casts"), keys, size, thresholds(self.tags, skew)
        )
        lacks = np.tile(np.arange(size) >= self.tags_per_cast, len(keys))
        tag = named_by_rank(self.seed, self.tags)[ranks.ravel()]
        return TargetColumns(
            np.repeat(keys // self.terms, size), np.repeat(keys % self.terms, size), tag, lacks
        )

    def tag_names(self, tags: Numbers) -> list[str]:
        return numbered_names(tags, self.tags)

    def rank_of(self, tag: str) -> int:
        """1 for the most common tag."""
        number = int(tag.removeprefix("tag"))
        return int(np.flatnonzero(named_by_rank(self.seed, self.tags) == number)[0]) + 1


def peer_ranks(workload: Zipf, first: int, last: int) -> NDArray[np.int32]:
    """One row for each peer in [first, last): the ranks (from 0) of its tags in the order drawn."""
    stream, table = (
        Stream.of(workload.seed, "zipf", "peers"),
        thresholds(workload.tags, workload.skew),
    )
    if workload.distinct:
        return distinct_ranks(stream, span(first, last), workload.tags_per_peer, table)
    draws = [
        drawn(stream.words(span(first, last), index), table)
        for index in range(workload.tags_per_peer)
    ]
    return np.stack(draws, axis=1)


@lru_cache(maxsize=16)
def thresholds(tags: int, skew: float) -> Words:
    """For each rank the chance of drawing it or a more common one, in units of 2^-40.

    Rounded to whole units, so that the last bit of some machine's power function cannot move a
    draw.
    """
    cumulated = np.cumsum(np.arange(1, tags + 1, dtype=np.float64) ** -skew)
    shares: Words = np.rint(cumulated / cumulated[-1] * 2.0 ** int(_BITS)).astype(np.uint64)
    return shares


def drawn(words: Words, table: Words) -> NDArray[np.int32]:
    """The rank, from 0, that each word draws."""
    ranks = np.searchsorted(table, words >> (np.uint64(64) - _BITS), side="right")
    return np.minimum(ranks, len(table) - 1).astype(np.int32)


def distinct_ranks(stream: Stream, keys: Numbers, count: int, table: Words) -> NDArray[np.int32]:
    """For each key its first `count` distinct ranks among draws 0, 1, 2, ..., as drawn."""
    ranks = np.empty((len(keys), count), dtype=np.int32)
    for first in range(0, len(keys), _ROWS):
        ranks[first : first + _ROWS] = _distinct_rows(
            stream, keys[first : first + _ROWS], count, table
        )
    return ranks


def _distinct_rows(stream: Stream, keys: Numbers, count: int, table: Words) -> NDArray[np.int32]:
    chosen = np.full((len(keys), count), -1, dtype=np.int32)
    filled = np.zeros(len(keys), dtype=np.int64)
    open_rows = span(0, len(keys))
    for index in range(_DRAWS_MAX):
        ranks = drawn(stream.words(keys[open_rows], index), table)
        fresh = ~(chosen[open_rows] == ranks[:, None]).any(axis=1)
        rows = open_rows[fresh]
        chosen[rows, filled[rows]] = ranks[fresh]
        filled[rows] += 1
        open_rows = open_rows[filled[open_rows] < count]
        if not open_rows.size:
            return chosen
    for (
        row
    ) in open_rows:  # A vocabulary hardly larger than the request: the most common of what is left.
        missing = np.setdiff1d(np.arange(len(table)), chosen[row])[: count - filled[row]]
        chosen[row, filled[row] :] = missing
    return chosen


@lru_cache(maxsize=16)
def named_by_rank(seed: int, tags: int) -> Numbers:
    """The number in the name of the tag of each rank."""
    return Shuffle(tags, Stream.of(seed, "names")).places(span(0, tags))


@lru_cache(maxsize=4)
def _names(tags: int) -> NDArray[np.object_]:
    """One string for each tag, shared by all who hold it; interned, so that two are compared at a
    glance.
    """
    width = len(str(tags - 1))
    return np.array([intern(f"tag{number:0{width}}") for number in range(tags)], dtype=object)


def numbered_names(numbers: Numbers, tags: int) -> list[str]:
    return list(_names(tags)[numbers])
