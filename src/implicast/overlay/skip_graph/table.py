"""Routing tables with k-redundant lists: the rule, and what can be asked of a list. Pure.

Paper, section 2.2: the level-i list of v reaches, along v's ring of level i, as far to each side as k-1 members that
share i+1 digits with v; when the two walks would meet, it is the whole ring ("full"), and i is v's top level.
Whatever has a key and a vector can be listed: certificates in the network, bare spots in trials.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar


class Placed(Protocol):
    """Whoever has a place in the graph."""

    @property
    def key(self) -> bytes: ...

    @property
    def vector(self) -> int: ...


Node = TypeVar("Node", bound=Placed)


class Level(Generic[Node]):
    """One list: `nodes` clockwise, the owner at index `own`. `fresh[i]`: node i shares exactly this level's digits."""

    __slots__ = ("_keys", "_shift", "_sorted", "fresh", "full", "nodes", "own")

    def __init__(
        self, nodes: Sequence[Node], own: int, full: bool, fresh: Sequence[bool], keys: tuple[bytes, ...] | None = None
    ) -> None:
        self.nodes, self.own, self.full, self.fresh = tuple(nodes), own, full, tuple(fresh)
        self._keys = keys
        self._sorted: list[bytes] | None = None  # many a list is cut and never asked for a position
        self._shift = 0

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Of the nodes, clockwise."""
        if self._keys is None:
            self._keys = tuple([node.key for node in self.nodes])
        return self._keys

    def position(self, key: bytes) -> int:
        """How many listed nodes one meets clockwise from the first before `key`; all of them if it is not inside."""
        keys = self._sorted
        if keys is None:
            keys = self._sorted = sorted(self.keys)
            self._shift = bisect_left(keys, self.nodes[0].key)
        found = (bisect_left(keys, key) - self._shift) % len(keys)
        return found if found or key == self.nodes[0].key else len(keys)

    def spans(self, key: bytes) -> bool:
        """Whether a node with this key, if there were one in the ring, would have to be listed."""
        if self.full:
            return True
        first, last = self.nodes[0].key, self.nodes[-1].key
        return first <= key <= last if first <= last else key >= first or key <= last


class LevelTable(Generic[Node]):
    """The lists of one node, from level 0 to its top level; `levels` may make each when it is first asked for."""

    __slots__ = ("_borders", "_everyone", "_named", "levels", "owner", "top")

    def __init__(self, owner: Node, levels: Sequence[Level[Node]]) -> None:
        self.owner, self.levels, self.top = owner, levels, len(levels) - 1
        self._borders: tuple[tuple[int, int], list[tuple[bytes, bytes]]] | None = None
        self._everyone: tuple[Node, ...] | None = None
        self._named: dict[tuple[int, int], dict[bytes, Node]] = {}

    def listed(self) -> list[tuple[Node, ...]]:
        """Who is listed at each level."""
        return [level.nodes for level in self.levels]

    def borders(self, sides: tuple[int, int]) -> list[tuple[bytes, bytes]]:
        """By level, the keys so many places to the left and to the right of the owner; where the ring is not larger
        than that, the owner's own. Asked of every place about every cast: worked out once."""
        if self._borders is None or self._borders[0] is not sides:
            self._borders = sides, [_either_side(*where, sides) for where in self._standings()]
        return self._borders[1]

    def ends(self, number: int) -> tuple[Sequence[bytes], int, int]:
        """From where to where a list goes in a circle of keys; the second beyond its end if it goes round."""
        keys = self.levels[number].keys
        return keys, 0, len(keys)

    def _standings(self) -> Iterable[tuple[Sequence[bytes], int]]:
        """The keys of each list, or of its whole ring, and where among them the owner stands."""
        return [(level.keys, level.own) for level in self.levels]

    @property
    def everyone(self) -> tuple[Node, ...]:
        """The owner and all its contacts, in the order of keys."""
        if self._everyone is None:
            found = self.named(0, len(self.levels))
            self._everyone = tuple([found[key] for key in sorted(found)])
        return self._everyone

    def named(self, first: int, last: int) -> dict[bytes, Node]:
        """The owner and all listed at some levels, by key; the same to all who ask: not to be changed."""
        found = self._named.get((first, last))
        if found is None:
            found = {self.owner.key: self.owner}
            for level in self.levels[first:last]:
                found.update(zip(level.keys, level.nodes, strict=True))
            self._named[first, last] = found
        return found

    def contacts(self) -> list[Node]:
        """Everyone listed at any level, once, the owner left out, in the order of keys."""
        return [node for node in self.everyone if node.key != self.owner.key]


def _either_side(keys: Sequence[bytes], own: int, sides: tuple[int, int]) -> tuple[bytes, bytes]:
    (left, right), count = sides, len(keys)
    return keys[own - left if left < count else own], keys[(own + right) % count if right < count else own]
