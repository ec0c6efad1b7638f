"""Replication of items at several peers: commit when all have them, anti-entropy by digest.

A *primary* sends every write to its replicas. A write is committed when all of them have
acknowledged it; only then may the primary report it as durable. Messages are lost and replicas
restart, so primary and replicas also compare digests of what they store, and exchange the items of
a range where the digests differ. The larger version of an item wins, whatever the order of arrival.

This module holds the two pieces of state that every design needs for that. It sends nothing: who
the replicas are, whether writes go to each of them or along a chain, and how ranges are named, is
the design's own.

| `Commits` | event | next |
|---|---|---|
| - | `begin` with items | open; committed at once if there are none |
| open | `acknowledge` an item, others are missing | open |
| open | `acknowledge` the last item | committed: `then` is called once |
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from implicast.peer.memory import Recent

Item = TypeVar("Item", bound=Hashable)
SUM_MASK = (1 << 63) - 1
"""Digest sums are taken modulo 2^63."""
RANGES_MAX = 12
"""Key ranges whose digests are cached: without changes of membership a node compares the same few
ranges again and again.
"""


class Commits(Generic[Item]):
    """Writes under way: for each, the items that are not acknowledged yet.

    An item is what is acknowledged: one entry of a batch, or a batch at one replica. It belongs to
    one write at a time.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Item, tuple[Callable[[], None], set[Item]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, items: Sequence[Item], then: Callable[[], None]) -> None:
        """Call `then` when all these items are acknowledged."""
        write = then, set(items)
        for item in items:
            self._open[item] = write
        if not items:
            then()

    def acknowledge(self, item: Item) -> None:
        """An item is stored everywhere, or is not needed any more."""
        write = self._open.pop(item, None)
        self._open = self._open or {}  # a dict does not shrink by itself
        if write is not None:
            then, missing = write
            missing.discard(item)
            if not missing:
                then()


class RangeDigests:
    """Number of items and sum of their digests by range of keys; equal values mean equal items.

    A sum does not depend on the order of the items, and is updated when one of them changes.
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: Recent[tuple[int, int], list[int]] = Recent(RANGES_MAX)

    def change(self, key: int, digest: int, by: int) -> None:
        """An item was added (`by` 1) or removed (`by` -1)."""
        for (low, high), summed in self._sums.items():
            if low < key <= high if low < high else low < key or key <= high:
                summed[:] = summed[0] + by, (summed[1] + by * digest) & SUM_MASK

    def of(self, low: int, high: int, within: Callable[[int, int], list[int]]) -> tuple[int, int]:
        """Count and sum for the keys (low, high]. `within(low, high)` returns the digests of the
        items there, if they are not known.
        """
        known = self._sums.get((low, high))
        if known is None:
            found = within(low, high)
            known = self._sums[low, high] = [len(found), sum(found) & SUM_MASK]
        return known[0], known[1]
