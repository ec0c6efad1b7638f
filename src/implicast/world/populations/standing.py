"""The converged graph at once: every node's table by the rule, from the full set, for large experiments.

Rings are split level by level and kept sorted; a table is cut when it is first asked for, so a graph of a million
places costs only what is used of it: about 60 us a table at k = 4, whatever n. Joining by messages must lead to the
same tables.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Generic

from implicast.overlay.skip_graph.table import Level, LevelTable, Node
from implicast.space.vector import Vectors

_by_key = attrgetter("key")


class _Ring(Generic[Node]):
    """The members of a ring in the order of their keys, and these once more: searching plain keys is half the price."""

    __slots__ = ("keys", "nodes")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes, self.keys = nodes, [node.key for node in nodes]


class Standing(Generic[Node]):
    """All nodes of a graph, and the table of each."""

    __slots__ = ("_nodes", "_rings", "_tables", "k", "vectors")

    def __init__(self, k: int, vectors: Vectors, nodes: Iterable[Node] = ()) -> None:
        assert k >= 2, "with k = 1 lists would hold only their owner"
        self.k, self.vectors = k, vectors
        self._nodes: dict[bytes, Node] = {node.key: node for node in nodes}
        self._rings: dict[tuple[int, int], _Ring[Node]] = {}
        self._tables: dict[bytes, LevelTable[Node]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def table(self, key: bytes) -> LevelTable[Node]:
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._cut(self._nodes[key])
        return found

    def lists(self, key: bytes) -> list[tuple[Node, ...]]:
        """Who is listed at each level, as in `table(key)`: a third of the price, for those who only compare."""
        found: list[tuple[Node, ...]] = []
        full = False
        while not full:
            (nodes, _), _, full = self._listed(self._nodes[key], len(found))
            found.append(tuple(nodes))
        return found

    def contacts(self, key: bytes) -> list[Node]:
        """Everyone in a node's lists, as `table(key).contacts()`, without cutting and keeping the table.

        A third of the price, and nothing is remembered: a million places can be asked for their storage.
        """
        node = self._nodes[key]
        found: dict[bytes, Node] = {}
        number, full = 0, False
        while not full:
            (nodes, keys), _, full = self._listed(node, number)
            found.update(zip(keys, nodes, strict=True))
            number += 1
        del found[key]
        return [found[each] for each in sorted(found)]

    def surroundings(self, key: bytes) -> list[Node]:
        """All in the every-class lists of a node, for those who go on by messages."""
        node, found, number, is_top = self._nodes[key], dict[bytes, Node](), 0, False
        while not is_top:
            ring, nears = self._parted(node, number)
            left, right = self._every_class(ring, nears, key)
            nodes, keys = _slice(ring, left, right)
            found.update(zip(keys, nodes, strict=True))
            is_top = self._is_top(self._near(node, number))
            number += 1
        found.pop(key, None)
        return [found[each] for each in sorted(found)]

    def _every_class(self, ring: _Ring[Node], nears: list[_Ring[Node]], key: bytes) -> tuple[int, int]:
        """From where to where in a ring every digit class has k-1 members on either side of a node."""
        own, size, reach = bisect_left(ring.keys, key), len(ring.keys), self.k - 1
        left = right = 0
        for near in nears:
            keys = near.keys
            at = bisect_left(keys, key)
            is_own = at < len(keys) and keys[at] == key
            if len(keys) - is_own < reach:
                return 0, size
            left = max(left, (own - bisect_left(ring.keys, keys[at - reach])) % size)
            right = max(right, (bisect_left(ring.keys, keys[(at + reach - (not is_own)) % len(keys)]) - own) % size)
        return (own - left, own + right + 1) if left + right + 1 < size else (0, size)

    def _parted(self, node: Node, number: int) -> tuple[_Ring[Node], list[_Ring[Node]]]:
        """The ring of a level, and the rings of all classes above it."""
        vectors = self.vectors
        prefix = vectors.prefix(node.vector, number)
        ring = self._ring(number, prefix)
        if number == vectors.length:  # no more digits: all are of one class
            return ring, [ring]
        first = prefix << vectors.width
        return ring, [self._ring(number + 1, first | digit) for digit in range(vectors.alpha)]

    def _cut(self, node: Node) -> LevelTable[Node]:
        levels: list[Level[Node]] = []
        limits, vector = self.vectors.limits, node.vector
        while not levels or not levels[-1].full:
            number = len(levels)
            (nodes, keys), own, full = self._listed(node, number)
            limit = limits[number + 1]  # who shares no digit more
            levels.append(Level(nodes, own, full, [vector ^ each.vector >= limit for each in nodes], tuple(keys)))
        return LevelTable(node, levels)

    def _listed(self, node: Node, number: int) -> tuple[tuple[list[Node], list[bytes]], int, bool]:
        """The list of one level with its keys, the owner's index in it, and whether it is full.

        Its ends are the (k-1)-th members of the next ring on either side.
        """
        ring, near = self._ring(number, self.vectors.prefix(node.vector, number)), self._near(node, number)
        own, reach = bisect_left(ring.keys, node.key), self.k - 1
        if self._is_top(near):
            return (ring.nodes, ring.keys), own, True
        middle = bisect_left(near.keys, node.key)
        left = bisect_left(ring.keys, near.keys[middle - reach])
        right = bisect_left(ring.keys, near.keys[(middle + reach) % len(near.keys)])
        size = len(ring.keys)
        return _slice(ring, left, right + 1 if left <= right else right + 1 + size), (own - left) % size, False

    def _is_top(self, near: _Ring[Node]) -> bool:
        """Whether the list of a level is the whole ring, because so few are in the next."""
        return len(near.keys) - 1 < 2 * (self.k - 1)

    def _near(self, node: Node, number: int) -> _Ring[Node]:
        """A node's ring of the next level."""
        if number == self.vectors.length:  # no more digits: never in a network, where vectors are drawn
            return _Ring([])
        return self._ring(number + 1, self.vectors.prefix(node.vector, number + 1))

    def _ring(self, level: int, prefix: int) -> _Ring[Node]:
        ring = self._rings.get((level, prefix))
        if ring is None:
            if level:
                self._split(level, prefix >> self.vectors.width)
                return self._rings.setdefault((level, prefix), _Ring([]))
            ring = self._rings[(0, 0)] = _Ring(sorted(self._nodes.values(), key=_by_key))
        return ring

    def _split(self, level: int, parent: int) -> None:
        """Part a ring into those of the level above it."""
        shift = (self.vectors.length - level) * self.vectors.width
        parts: dict[int, list[Node]] = {}
        for node in self._ring(level - 1, parent).nodes:
            parts.setdefault(node.vector >> shift, []).append(node)
        self._rings.update(((level, prefix), _Ring(nodes)) for prefix, nodes in sorted(parts.items()))


def _slice(ring: _Ring[Node], left: int, right: int) -> tuple[list[Node], list[bytes]]:
    """Of a circle from one position up to another, which may lie before its beginning or beyond its end."""
    nodes, keys, size = ring.nodes, ring.keys, len(ring.keys)
    if left < 0:
        left, right = left + size, right + size
    if right <= size:
        return nodes[left:right], keys[left:right]
    return nodes[left:] + nodes[: right - size], keys[left:] + keys[: right - size]
