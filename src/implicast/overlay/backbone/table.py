"""Cast routing tables: one Bloom filter for each source of registrations. Pure; no messages.

A source is a neighbour, meaning everybody beyond it, or the broker itself, meaning its own clients (thesis section
6.1). All filters of a generation have one size, so that they can be united bit by bit.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import log

from implicast.language.bloom import Bloom
from implicast.language.target import Target
from implicast.peer.contract import Address


class Table:
    """The filters of one generation."""

    __slots__ = ("capacity", "distinct", "filters", "generation", "whole")

    def __init__(self, sources: Sequence[Address], generation: int, capacity: int, error: float) -> None:
        self.generation, self.capacity = generation, capacity
        self.filters = {source: Bloom.sized(capacity, error) for source in sources}
        self.distinct = 0.0
        """Tags put in that no filter held before: about the distinct ones in the whole system."""
        self.whole: set[Address] = set()
        """Neighbours whose filter is known to be complete."""

    def put(self, source: Address, tags: Iterable[str]) -> dict[str, Address | None]:
        """Add tags of a source. The tags that are news to anybody, each with the one source that held it before.

        A tag that two sources held is known everywhere: every neighbour was told of it by at least one of them. One
        that a single source held is news to that source alone; one that none held is news to all. To hold a tag
        means to have its bits set; whether by this tag or by others makes no difference to who routes what.
        """
        news: dict[str, Address | None] = {}
        own = self.filters[source]
        for tag in tags:
            holders = [each for each, filter_ in self.filters.items() if filter_.might_hold(tag)]
            if source not in holders:
                own.add(tag)
            if len(holders) < 2:
                news[tag] = holders[0] if holders else None
                self.distinct += not holders
        return news

    def passes(self, neighbour: Address, target: Target) -> bool:
        """May anybody beyond this neighbour be selected? Only wanted tags are asked for."""
        return self.filters[neighbour].passes(target)

    def beside(self, neighbour: Address) -> bytes:
        """The filter of all sources but this one: what the neighbour should know of us."""
        return _union([filter_ for source, filter_ in self.filters.items() if source != neighbour]).to_bytes()

    def replace(self, neighbour: Address, field: bytes) -> None:
        """Take over a neighbour's whole filter, beside what it has said since it was sent."""
        before = self.filters[neighbour]
        self.filters[neighbour] = before | Bloom.from_bytes(field, before.bits, before.hashes)
        self.whole.add(neighbour)

    def count(self) -> None:
        """Estimate the distinct tags from the share of set bits: k = -(m / h) ln(1 - fill)."""
        every = _union(list(self.filters.values()))
        self.distinct = -every.bits / every.hashes * log(max(1e-9, 1 - every.fill()))


def _union(filters: list[Bloom]) -> Bloom:
    return reduce(Bloom.union, filters)
