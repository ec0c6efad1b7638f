"""The converged skip graph: the table of every node by definition, from the set of all nodes, for
large experiments.

Rings are split level by level and kept sorted. A table is built when it is first needed, so a graph
of a million places costs only what is used: about 20 us a table at k = 4, for any n. A node is
searched once, in the ring of all nodes; from there each ring knows the positions of its members in
the next. Joining by messages must lead to the same tables.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, overload

import numpy as np

from implicast.overlay.skip_graph.table import Level, LevelTable, Node
from implicast.peer.wire import list_size, size
from implicast.space.vector import Vectors

_by_key = attrgetter("key")
Item = TypeVar("Item")
Spots = np.ndarray[Any, np.dtype[np.int64]]


class _Ring(Generic[Node]):
    """The members of a ring in the order of their keys; `below`: their positions in the ring of the
    level below.
    """

    __slots__ = ("_fresh", "below", "digits", "keys", "nodes", "parts", "ranks", "spots", "wide")

    def __init__(self, nodes: Iterable[Node], below: Sequence[int], spots: Spots) -> None:
        self.nodes, self.below = tuple(nodes), below
        self.spots = np.concatenate([spots, spots])
        """Their positions in the ring of all nodes, twice in a row, so that a list across the end
        is one slice.
        """
        self.keys = tuple([node.key for node in self.nodes])
        self.digits: list[int] = []
        self.ranks: list[int] = []
        """By member, its position in the ring of the next level; known after `part`."""
        self.parts: list[_Ring[Node]] = []
        self._fresh: dict[int, tuple[bool, ...]] = {}
        self.wide: list[tuple[int, int]] = []

    def part(self, vectors: Vectors, number: int) -> None:
        """Split this ring into those of the next level, one for each digit."""
        members: list[list[int]] = [[] for _ in range(vectors.alpha)]
        shift, mask = (vectors.length - 1 - number) * vectors.width, (1 << vectors.width) - 1
        self.digits = [node.vector >> shift & mask for node in self.nodes]
        for index, digit in enumerate(self.digits):
            self.ranks.append(len(members[digit]))
            members[digit].append(index)
        nodes, spots = self.nodes, self.spots
        self.parts = [_Ring([nodes[each] for each in some], some, spots[some]) for some in members]

    def widen(self, reach: int) -> None:
        """Compute, by member, the range in which every class has `reach` others on either side of
        it.
        """
        size, own = len(self.keys), np.arange(len(self.keys))
        left, right, is_full = np.zeros_like(own), np.zeros_like(own), np.zeros(size, bool)
        for below in [np.array(each.below, own.dtype) for each in self.parts] or [own]:
            count, at = len(below), np.searchsorted(below, own)
            if count < reach:
                is_full[:] = True
                break
            is_own = below[np.minimum(at, count - 1)] == own
            is_full |= count - is_own < reach
            left = np.maximum(left, (own - below[(at - reach) % count]) % size)
            right = np.maximum(right, (below[(at + reach - ~is_own) % count] - own) % size)
        is_full |= left + right + 1 >= size
        first, last = np.where(is_full, 0, own - left), np.where(is_full, size, own + right + 1)
        self.wide = list(zip(first.tolist(), last.tolist(), strict=True))

    def fresh(self, digit: int) -> tuple[bool, ...]:
        """Which members have another digit than this: they are new at this level to nodes with this
        digit.
        """
        found = self._fresh.get(digit)
        if found is None:
            found = self._fresh[digit] = tuple([each != digit for each in self.digits])
        return found


Where = tuple[_Ring[Node], int, _Ring[Node] | None]
"""(ring, position of a node in it, the node's next ring if that bounds its list)."""


class _CutLevels(Sequence[Level[Node]]):
    """The lists of a node, each built on first access: of most tables one or two are ever read."""

    __slots__ = ("_assembled", "_levels", "_where")

    def __init__(self, assembled: "AssembledGraph[Node]", where: "list[Where[Node]]") -> None:
        self._assembled, self._where = assembled, where
        self._levels: list[Level[Node] | None] = [None] * len(where)

    def __len__(self) -> int:
        return len(self._levels)

    @overload
    def __getitem__(self, index: int) -> Level[Node]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Level[Node]]: ...

    def __getitem__(self, index: int | slice) -> Level[Node] | list[Level[Node]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self._levels)))]
        found = self._levels[index]
        if found is None:
            found = self._levels[index] = self._assembled.level(*self._where[index])
        return found


class _CutTable(LevelTable[Node]):
    """A table of the assembled graph. Whether its owner is beside a range is decided without
    building a list: this is asked of every place for every cast, and mostly nothing else is.
    """

    __slots__ = ("_assembled", "where")

    def __init__(
        self, owner: Node, assembled: "AssembledGraph[Node]", where: "list[Where[Node]]"
    ) -> None:
        super().__init__(owner, _CutLevels(assembled, where))
        self._assembled, self.where = assembled, where

    def listed(self) -> list[tuple[Node, ...]]:
        return self._assembled.lists(self.owner.key)

    def ends(self, number: int) -> tuple[tuple[bytes, ...], int, int]:
        ring, own, near = self.where[number]
        return ring.keys, *self._assembled.ends(ring, own, near)

    def _own_positions(self) -> list[tuple[tuple[bytes, ...], int]]:
        return [(ring.keys, own) for ring, own, _ in self.where]


class AssembledGraph(Generic[Node]):
    """All nodes of a graph, and their tables."""

    __slots__ = ("_all", "_nodes", "_sizes", "_tables", "k", "vectors")

    def __init__(self, k: int, vectors: Vectors, nodes: Iterable[Node] = ()) -> None:
        assert k >= 2, "with k = 1 lists would hold only their owner"
        self.k, self.vectors = k, vectors
        self._nodes: dict[bytes, Node] = {node.key: node for node in nodes}
        self._all: _Ring[Node] | None = None
        self._tables: dict[bytes, _CutTable[Node]] = {}
        self._sizes: Spots | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def table(self, key: bytes) -> _CutTable[Node]:
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = _CutTable(self._nodes[key], self, list(self._rings(key)))
        return found

    def lists(self, key: bytes) -> list[tuple[Node, ...]]:
        """The nodes listed at each level, as in `table(key)`, without the other fields."""
        return [
            _cut(ring.nodes, *self.ends(ring, own, near))
            for ring, own, near in self.table(key).where
        ]

    def contacts(self, key: bytes) -> list[Node]:
        """All nodes in a node's lists, as `table(key).contacts()`, without building the table."""
        return _sorted(self.named(key, wide=False), key)

    def surroundings(self, key: bytes) -> list[Node]:
        """All nodes in the every-class lists of a node, for nodes that continue by messages."""
        return _sorted(self.named(key, wide=True), key)

    def named(self, key: bytes, wide: bool) -> dict[bytes, Node]:
        """A node and all nodes in its lists, or in the every-class lists, by key. Nothing is
        cached.
        """
        found, ends = dict[bytes, Node](), self._every_class if wide else self.ends
        for ring, own, near in self._where(key):
            left, right = ends(ring, own, near)
            found.update(
                zip(_cut(ring.keys, left, right), _cut(ring.nodes, left, right), strict=True)
            )
        return found

    def stored_bytes(self, keys: Iterable[bytes], wide: bool) -> int:
        """Encoded bytes of all nodes in the lists of some nodes, without these. Each node is
        encoded once.
        """
        lists, mine, ends = [], list[int](), self._every_class if wide else self.ends
        for key in keys:
            where = self.table(key).where
            mine.append(where[0][1])
            for ring, own, near in where:
                left, right = ends(ring, own, near)
                turn = len(ring.keys) if left < 0 else 0
                lists.append(ring.spots[left + turn : right + turn])
        if self._sizes is None:
            self._sizes = np.array(
                [size(node) for node in sorted(self._nodes.values(), key=_by_key)]
            )
        is_listed = np.zeros(len(self._sizes), bool)
        is_listed[np.concatenate(lists)] = True
        is_listed[mine] = False
        return list_size(int(is_listed.sum()), int(self._sizes[is_listed].sum()))

    def level(self, ring: _Ring[Node], own: int, near: _Ring[Node] | None) -> Level[Node]:
        """The list of one level."""
        left, right = self.ends(ring, own, near)
        fresh = ring.fresh(ring.digits[own]) if ring.parts else (True,) * len(ring.keys)
        return Level(
            _cut(ring.nodes, left, right),
            (own - left) % len(ring.keys),
            near is None,
            _cut(fresh, left, right),
            _cut(ring.keys, left, right),
        )

    def _where(self, key: bytes) -> "Iterable[Where[Node]]":
        """The rings of a node; cached if its table was built."""
        table = self._tables.get(key)
        return table.where if table is not None else self._rings(key)

    def _rings(self, key: bytes) -> "Iterator[Where[Node]]":
        """The rings of a node from level 0 to its top: each with the node's position, and with the
        next ring if that bounds the list of this level. None at the top, where the list is the
        whole ring.
        """
        if self._all is None:
            self._all = _Ring(
                sorted(self._nodes.values(), key=_by_key), (), np.arange(len(self._nodes))
            )
        ring, number, vectors, few = self._all, 0, self.vectors, 2 * (self.k - 1)
        own = bisect_left(ring.keys, key)
        while number < vectors.length:
            if not ring.parts:
                ring.part(vectors, number)
            near = ring.parts[ring.digits[own]]
            if len(near.below) - 1 < few:
                break
            yield ring, own, near
            ring, own, number = near, ring.ranks[own], number + 1
        yield (
            ring,
            own,
            None,
        )  # or there are no more digits, which does not happen with random vectors

    def ends(self, ring: _Ring[Node], own: int, near: _Ring[Node] | None) -> tuple[int, int]:
        """The range of a node's list in a ring. It is bounded by the (k-1)-th members of the next
        ring on either side.
        """
        if near is None:
            return 0, len(ring.keys)
        below, middle, reach = near.below, ring.ranks[own], self.k - 1
        left, right = below[middle - reach], below[(middle + reach) % len(below)]
        return left, right + 1 if left <= right else right + 1 + len(ring.keys)

    def _every_class(
        self, ring: _Ring[Node], own: int, near: _Ring[Node] | None
    ) -> tuple[int, int]:
        """The range in a ring with k-1 members of every digit class on either side of a node."""
        if not ring.wide:
            ring.widen(self.k - 1)
        return ring.wide[own]


def _cut(circle: tuple[Item, ...], left: int, right: int) -> tuple[Item, ...]:
    """The part of a circular sequence between two positions, which may lie before its beginning or
    beyond its end.
    """
    size = len(circle)
    if left < 0:
        left, right = left + size, right + size
    return circle[left:right] if right <= size else circle[left:] + circle[: right - size]


def _sorted(found: dict[bytes, Node], owner: bytes) -> list[Node]:
    """All nodes but the owner, in the order of keys."""
    found.pop(owner, None)
    return [found[each] for each in sorted(found)]
