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


class Standing(Generic[Node]):
    """All nodes of a graph, and the table of each."""

    __slots__ = ("_nodes", "_rings", "_tables", "k", "vectors")

    def __init__(self, k: int, vectors: Vectors, nodes: Iterable[Node] = ()) -> None:
        assert k >= 2, "with k = 1 lists would hold only their owner"
        self.k, self.vectors = k, vectors
        self._nodes: dict[bytes, Node] = {node.key: node for node in nodes}
        self._rings: dict[tuple[int, int], list[Node]] = {}
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
            listed, _, full = self._listed(self._nodes[key], len(found))
            found.append(tuple(listed))
        return found

    def contacts(self, key: bytes) -> list[Node]:
        """Everyone in a node's lists, as `table(key).contacts()`, without cutting and keeping the table.

        A third of the price, and nothing is remembered: a million places can be asked for their storage.
        """
        node = self._nodes[key]
        found: dict[bytes, Node] = {}
        number, full = 0, False
        while not full:
            listed, _, full = self._listed(node, number)
            found.update((each.key, each) for each in listed)
            number += 1
        del found[key]
        return [found[each] for each in sorted(found)]

    def surroundings(self, key: bytes) -> list[Node]:
        """All in the every-class lists of a node, for those who go on by messages: a walk along each of its rings."""
        node, found, number = self._nodes[key], dict[bytes, Node](), 0
        while True:
            ring = self._ring(number, self.vectors.prefix(node.vector, number))
            own = bisect_left(ring, key, key=_by_key)
            for step in (-1, 1):
                found.update((each.key, each) for each in self._walk(ring, own, step, number))
            if self._listed(node, number)[2]:
                found.pop(key, None)
                return [found[each] for each in sorted(found)]
            number += 1

    def _walk(self, ring: list[Node], own: int, step: int, number: int) -> list[Node]:
        """To one side of a ring until every digit class has k-1 members."""
        digit_of, missing, classes = self.vectors.digit, [self.k - 1] * self.vectors.alpha, self.vectors.alpha
        passed: list[Node] = []
        for places in range(1, len(ring)):
            node = ring[(own + step * places) % len(ring)]
            passed.append(node)
            digit = digit_of(node.vector, number)
            missing[digit] -= 1
            classes -= not missing[digit]
            if not classes:
                break
        return passed

    def _cut(self, node: Node) -> LevelTable[Node]:
        levels: list[Level[Node]] = []
        common, vector = self.vectors.common, node.vector
        while not levels or not levels[-1].full:
            number = len(levels)
            listed, own, full = self._listed(node, number)
            levels.append(Level(listed, own, full, [common(vector, each.vector) == number for each in listed]))
        return LevelTable(node, levels)

    def _listed(self, node: Node, number: int) -> tuple[list[Node], int, bool]:
        """The list of one level, the owner's index in it, and whether it is full.

        Its ends are the (k-1)-th members of the next ring on either side.
        """
        ring = self._ring(number, self.vectors.prefix(node.vector, number))
        last = number == self.vectors.length  # no more digits: never in a network, where vectors are drawn
        near = [] if last else self._ring(number + 1, self.vectors.prefix(node.vector, number + 1))
        own, reach = bisect_left(ring, node.key, key=_by_key), self.k - 1
        if len(near) - 1 < 2 * reach:
            return ring, own, True
        middle = bisect_left(near, node.key, key=_by_key)
        left = bisect_left(ring, near[middle - reach].key, key=_by_key)
        right = bisect_left(ring, near[(middle + reach) % len(near)].key, key=_by_key)
        listed = ring[left : right + 1] if left <= right else ring[left:] + ring[: right + 1]
        return listed, (own - left) % len(ring), False

    def _ring(self, level: int, prefix: int) -> list[Node]:
        ring = self._rings.get((level, prefix))
        if ring is None:
            if level:
                self._split(level, prefix >> self.vectors.width)
                return self._rings.setdefault((level, prefix), [])
            ring = self._rings[(0, 0)] = sorted(self._nodes.values(), key=_by_key)
        return ring

    def _split(self, level: int, parent: int) -> None:
        """Part a ring into those of the level above it."""
        shift = (self.vectors.length - level) * self.vectors.width
        parts: dict[int, list[Node]] = {}
        for node in self._ring(level - 1, parent):
            parts.setdefault(node.vector >> shift, []).append(node)
        self._rings.update(((level, prefix), ring) for prefix, ring in sorted(parts.items()))
