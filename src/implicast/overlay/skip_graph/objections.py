"""The levels seen from outside: every list must be what the rule gives over all who are there.

Written from the definition, without the code it judges: rings by comparing prefixes, lists by walking.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import Node, Table
from implicast.space.vector import Vectors

OBJECTIONS_MAX = 20
"""Enough to see what is wrong."""
SAMPLE = 100
EFFORT = 1_000_000
"""The definition costs O(n) per place: all places are examined up to a thousand, an even sample beyond."""


def rule(owner: Node, everyone: Sequence[Node], k: int, vectors: Vectors) -> list[list[bytes]]:
    """The keys of the owner's lists, level by level, clockwise; full lists begin at the smallest key. Brute force."""
    lists: list[list[bytes]] = []
    ring = sorted(everyone, key=lambda node: node.key)
    while True:
        digits = len(lists) + 1
        mine = vectors.prefix(owner.vector, min(digits, vectors.length))
        near = [node for node in ring if vectors.prefix(node.vector, min(digits, vectors.length)) == mine]
        if len(near) - 1 < 2 * (k - 1) or digits > vectors.length:
            lists.append([node.key for node in ring])
            return lists
        at = [node.key for node in ring].index(owner.key)
        to_left = _walk((ring[at - step] for step in range(1, len(ring))), digits, mine, k, vectors)
        to_right = _walk((ring[(at + step) % len(ring)] for step in range(1, len(ring))), digits, mine, k, vectors)
        lists.append([*reversed(to_left), owner.key, *to_right])
        ring = near


def _walk(path: Iterable[Node], digits: int, mine: int, k: int, vectors: Vectors) -> list[bytes]:
    met, passed = 0, []
    for node in path:
        passed.append(node.key)
        met += vectors.prefix(node.vector, digits) == mine
        if met == k - 1:
            break
    return passed


def objections(tables: Sequence[Table[Node]], k: int, vectors: Vectors, names: Sequence[str] = ()) -> list[str]:
    """Sentences about lists that differ from the rule over the owners of all tables."""
    everyone = [table.owner for table in tables]
    found: list[str] = []
    for index in range(0, len(tables), max(1, len(tables) ** 2 // EFFORT)):
        table = tables[index]
        wanted = rule(table.owner, everyone, k, vectors)
        held = [[node.key for node in level.nodes] for level in table.levels]
        name = names[index] if names else table.owner.key.hex()
        found += [f"{name}: {flaw}" for flaw in _compare(wanted, held)]
        if len(found) >= OBJECTIONS_MAX:
            break
    return found[:OBJECTIONS_MAX]


def _compare(wanted: list[list[bytes]], held: list[list[bytes]]) -> list[str]:
    flaws: list[str] = []
    if len(wanted) != len(held):
        flaws.append(f"has {len(held)} levels instead of {len(wanted)}")
    for level, (should, does) in enumerate(zip(wanted, held, strict=False)):
        if sorted(should) == sorted(does):
            continue
        lacks, extra = len(set(should) - set(does)), len(set(does) - set(should))
        flaws.append(f"its list of level {level} lacks {lacks} and has {extra} too many")
    return flaws


def quick_objections(
    owners: tuple[Node, ...], table: Callable[[int], Table[Node]], k: int, vectors: Vectors, name: Callable[[int], str]
) -> list[str]:
    """The same by the assembled graph, for those who look often; `table(index)` is asked for only where one looks.

    An even sample first: where something is wrong, that shows it; only where nothing is, all are looked at.
    """
    lists_of = _ASSEMBLED.over(owners, k, vectors)
    step = max(1, len(owners) // SAMPLE)
    for indices in (range(0, len(owners), step), range(len(owners))):
        found: list[str] = []
        for index in indices:
            should, does = lists_of(owners[index].key), [level.nodes for level in table(index).levels]
            if should != does:  # as a rule they are the very same objects
                wanted, held = ([[node.key for node in nodes] for nodes in lists] for lists in (should, does))
                found += [f"{name(index)}: {flaw}" for flaw in _compare(wanted, held)]
        if found:
            return found[:OBJECTIONS_MAX]
    return []


class _Assembled:
    """The assembled graph over those seen last: most looks find the same as the one before (compared, not hashed)."""

    def __init__(self) -> None:
        self._last: object = None
        self._lists: Callable[[bytes], list[tuple[Any, ...]]] | None = None

    def over(self, owners: tuple[Node, ...], k: int, vectors: Vectors) -> Callable[[bytes], list[tuple[Node, ...]]]:
        """The lists of each, by key; worked out when first asked for."""
        seen = (owners, k, vectors)
        if self._lists is None or self._last != seen:
            self._last, self._lists = seen, cache(Standing(k, vectors, owners).lists)
        return self._lists


_ASSEMBLED = _Assembled()
