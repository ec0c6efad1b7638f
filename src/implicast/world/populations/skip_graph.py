"""Invariants of the skip graph: every list equals the definition over all present nodes.

The lists are compared with the assembled graph over these nodes. A law in the tests shows that this
equals the definition.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Generic

from implicast.overlay.skip_graph.table import LevelTable, Node
from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph

OBJECTIONS_MAX = 20
"""Largest number of violations reported."""
SAMPLE = 100
"""Places checked first, evenly spaced."""


def _differing(
    should: Sequence[tuple[Node, ...]], does: Sequence[tuple[Node, ...]]
) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """The keys of both, empty for levels whose lists are equal as they are: most are, and need no
    sorting.
    """
    same = [one == other for one, other in zip(should, does, strict=False)]
    same += [True] * abs(len(should) - len(does))
    wanted, held = (
        [
            [] if is_same else [node.key for node in nodes]
            for nodes, is_same in zip(lists, same, strict=False)
        ]
        for lists in (should, does)
    )
    return wanted, held


def compare(wanted: list[list[bytes]], held: list[list[bytes]]) -> list[str]:
    """Sentences about lists, given as keys, that differ."""
    flaws: list[str] = []
    if len(wanted) != len(held):
        flaws.append(f"has {len(held)} levels instead of {len(wanted)}")
    for level, (should, does) in enumerate(zip(wanted, held, strict=False)):
        if sorted(should) == sorted(does):
            continue
        lacks, extra = len(set(should) - set(does)), len(set(does) - set(should))
        flaws.append(f"its list of level {level} lacks {lacks} and has {extra} too many")
    return flaws


def objections(
    owners: tuple[Node, ...],
    table: Callable[[int], LevelTable[Node]],
    k: int,
    vectors: Vectors,
    name: Callable[[int], str],
) -> list[str]:
    """Violations: lists that differ from the definition over all owners. `table(index)` is called
    for checked places only.

    A sample of places is checked first, which suffices if much is wrong; all places are checked if
    it is clean.
    """
    assembled = _ASSEMBLED.over(owners, k, vectors)
    step = max(1, len(owners) // SAMPLE)
    some, all_indices = range(0, len(owners), step), range(len(owners))
    for indices, lists_of in ((some, assembled.lists), (all_indices, assembled.all_lists)):
        found: list[str] = []
        for index in indices:
            key, held = owners[index].key, table(index)
            if assembled.right.get(key) is held:  # checked before
                continue
            if (
                len(found) >= OBJECTIONS_MAX
            ):  # not reported; but the caching of further tables must not depend on what was found
                continue
            should, does = lists_of(key), held.listed()
            if should == does:  # usually the very same objects
                assembled.right[key] = held
            else:
                found += [f"{name(index)}: {flaw}" for flaw in compare(*_differing(should, does))]
        if found:
            return found[:OBJECTIONS_MAX]
    return []


class _Assembled(Generic[Node]):
    """The assembled graph over some nodes, and the tables found equal to it."""

    def __init__(self, owners: tuple[Node, ...], k: int, vectors: Vectors) -> None:
        self._owners, self._k, self._vectors = owners, k, vectors
        self.lists = cache(AssembledGraph(k, vectors, owners).lists)
        """The lists of a node by its key, computed on first use."""
        self.right: dict[bytes, LevelTable[Node]] = {}
        self._all: dict[bytes, list[tuple[Node, ...]]] = {}

    def all_lists(self, key: bytes) -> list[tuple[Node, ...]]:
        """The same, for use when all lists are needed."""
        if not self._all:
            self._all = every_list(self._owners, self._k, self._vectors)
        return self._all[key]


def every_list(
    nodes: Sequence[Node], k: int, vectors: Vectors
) -> dict[bytes, list[tuple[Node, ...]]]:
    """By key, the lists of all nodes, ring by ring, without a search for each node."""
    lists: dict[bytes, list[tuple[Node, ...]]] = {node.key: [] for node in nodes}
    rings, number = [sorted(nodes, key=attrgetter("key"))], 0
    while rings:
        rings = [near for ring in rings for near in _listed_in(ring, number, k - 1, vectors, lists)]
        number += 1
    return lists


def _listed_in(
    ring: list[Node],
    number: int,
    reach: int,
    vectors: Vectors,
    lists: dict[bytes, list[tuple[Node, ...]]],
) -> list[list[Node]]:
    """Add the lists of all nodes of a ring; returns the rings of the next level that have lists."""
    parts: dict[int, list[int]] = {}
    for index, node in enumerate(ring):
        parts.setdefault(
            vectors.digit(node.vector, number) if number < vectors.length else index, []
        ).append(index)
    size, whole, twice, nears = len(ring), tuple(ring), (*ring, *ring), []
    for near in parts.values():
        count = len(near)
        if count - 1 < 2 * reach:
            for index in near:
                lists[ring[index].key].append(whole)
            continue
        for place, index in enumerate(near):
            left, right = near[place - reach], near[(place + reach) % count]
            lists[ring[index].key].append(
                twice[left : right + 1 if left <= right else right + 1 + size]
            )
        nears.append([ring[index] for index in near])
    return nears


class _Last:
    """The assembled graph over the nodes of the last check, which mostly are the same (compared,
    not hashed).
    """

    def __init__(self) -> None:
        self._seen: object = None
        self._assembled: _Assembled[Any] | None = None

    def over(self, owners: tuple[Node, ...], k: int, vectors: Vectors) -> _Assembled[Node]:
        seen = (owners, k, vectors)
        if self._assembled is None or self._seen != seen:
            self._seen, self._assembled = seen, _Assembled(owners, k, vectors)
        return self._assembled


_ASSEMBLED = _Last()
