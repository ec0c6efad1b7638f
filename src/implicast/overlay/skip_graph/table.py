"""Routing tables with k-redundant lists: their definition, queries on a list, and their computation
from known nodes. No messages, no time.

Paper, section 2.2: the level-i list of v reaches along v's level-i ring as far to each side as
needed to contain k-1 nodes that share i+1 digits with v. When the two walks would meet, the list is
the whole ring ("full"), and i is v's top level. Any object with a key and a vector can be listed:
certificates in a network, bare nodes in trials.

These lists are not symmetric: how far v's list reaches depends on v's digits, not on those of a
newcomer. The *every-class* list reaches until every digit class, not only v's, has k-1 nodes. It is
symmetric: whether fewer than k-1 nodes of some class lie between two nodes does not depend on the
side. A newcomer must therefore notify the nodes of its every-class lists (ring-upkeep
specification, D.1), and a place that keeps them knows which nodes to notify when it leaves.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from implicast.space.built import built
from implicast.space.vector import Vectors


class Placed(Protocol):
    """A node that can be listed."""

    @property
    def key(self) -> bytes: ...

    @property
    def vector(self) -> int: ...


Node = TypeVar("Node", bound=Placed)
Definition = TypeVar("Definition", bound=Callable[..., Any])


def twin(definition: Definition) -> Definition:
    """The compiled form of a class or function from `_lists.pyx` if it was built, else the Python
    one, which defines its behaviour.
    """
    return cast(
        Definition, getattr(built("overlay.skip_graph._lists"), definition.__name__, definition)
    )


class Level(Generic[Node]):
    """One list: `nodes` clockwise, with the owner at index `own`. `fresh[i]`: node i shares exactly
    as many digits with the owner as the number of this level. `full`: the list is the whole ring.
    """

    __slots__ = ("_shift", "_sorted", "fresh", "full", "keys", "nodes", "own")

    def __init__(
        self,
        nodes: Sequence[Node],
        own: int,
        full: bool,
        fresh: Sequence[bool],
        keys: tuple[bytes, ...] | None = None,
    ) -> None:
        self.nodes, self.own, self.full, self.fresh = tuple(nodes), own, full, tuple(fresh)
        self.keys = tuple([node.key for node in self.nodes]) if keys is None else keys
        # sorted on first use: most lists are never asked for a position
        self._sorted: list[bytes] | None = None
        self._shift = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def position(self, key: bytes) -> int:
        """Number of listed nodes clockwise from the first one up to, and without, `key`; all of
        them if the key is beyond the list.
        """
        keys = self._sorted
        if keys is None:
            keys = self._sorted = sorted(self.keys)
            self._shift = bisect_left(keys, self.nodes[0].key)
        found = (bisect_left(keys, key) - self._shift) % len(keys)
        return found if found or key == self.nodes[0].key else len(keys)

    def spans(self, key: bytes) -> bool:
        """Whether a node of the ring with this key must be in the list."""
        return self.full or is_between(self.nodes[0].key, key, self.nodes[-1].key)


class LevelTable(Generic[Node]):
    """The lists of one node from level 0 to its top level. `levels` may build each list on first
    access.
    """

    __slots__ = ("_borders", "_everyone", "_named", "levels", "owner", "top")

    def __init__(self, owner: Node, levels: Sequence[Level[Node]]) -> None:
        self.owner, self.levels, self.top = owner, levels, len(levels) - 1
        self._borders: tuple[tuple[int, int], list[tuple[bytes, bytes]]] | None = None
        self._everyone: tuple[Node, ...] | None = None
        self._named: dict[tuple[int, int], dict[bytes, Node]] = {}

    def listed(self) -> list[tuple[Node, ...]]:
        """The listed nodes of each level."""
        return [level.nodes for level in self.levels]

    def borders(self, sides: tuple[int, int]) -> list[tuple[bytes, bytes]]:
        """For each level the keys that many nodes to the left and to the right of the owner, or the
        owner's key where the ring is not larger. Cached: every place is asked for every cast.
        """
        if self._borders is None or self._borders[0] is not sides:
            self._borders = sides, [_either_side(*where, sides) for where in self._own_positions()]
        return self._borders[1]

    def ends(self, number: int) -> tuple[Sequence[bytes], int, int]:
        """A circle of keys, the index at which a list begins in it, and the index after its end,
        which is beyond the circle's if the list wraps.
        """
        keys = self.levels[number].keys
        return keys, 0, len(keys)

    def _own_positions(self) -> Iterable[tuple[Sequence[bytes], int]]:
        """For each level the keys of the list, or of its whole ring, and the owner's index among
        them.
        """
        return [(level.keys, level.own) for level in self.levels]

    @property
    def everyone(self) -> tuple[Node, ...]:
        """The owner and all its contacts in key order."""
        if self._everyone is None:
            found = self.named(0, len(self.levels))
            self._everyone = tuple([found[key] for key in sorted(found)])
        return self._everyone

    def named(self, first: int, last: int) -> dict[bytes, Node]:
        """The owner and all nodes listed at these levels, by key. Shared by all callers: do not
        modify.
        """
        found = self._named.get((first, last))
        if found is None:
            found = {self.owner.key: self.owner}
            for level in self.levels[first:last]:
                found.update(zip(level.keys, level.nodes, strict=True))
            self._named[first, last] = found
        return found

    def contacts(self) -> list[Node]:
        """All listed nodes in key order, each once, without the owner."""
        return [node for node in self.everyone if node.key != self.owner.key]


def is_between(first: bytes, key: bytes, last: bytes) -> bool:
    """Whether a key lies on the way clockwise from the first to the last key."""
    return first <= key <= last if first <= last else key >= first or key <= last


def _either_side(keys: Sequence[bytes], own: int, sides: tuple[int, int]) -> tuple[bytes, bytes]:
    (left, right), count = sides, len(keys)
    return keys[own - left if left < count else own], keys[
        (own + right) % count if right < count else own
    ]


Both = tuple[LevelTable[Node], LevelTable[Node]]
"""The table of a place, and its every-class table."""


class NodeLists(Generic[Node]):
    """The other nodes that an owner knows, by key, and the lists computed as if these were all
    nodes.

    One walk to each side finds how far the list and the every-class list of a level reach; the
    first is a slice of the second. The compiled form keeps rings sorted and computes again only the
    lists that an added or removed node belongs to. `tests/laws` checks both against the
    definitions.

    Identity is part of the definition, because list comparison skips unchanged lists by it. After
    each change `tables` returns new tables. The two lists of a level are the objects of the tables
    before if the every-class list has the same nodes and is as full; otherwise both are new.
    `replace` and `renew` make all lists new.
    """

    __slots__ = ("_before", "_k", "_owner", "_shared", "_tables", "_vectors", "changes", "known")

    def __init__(self, owner: Node, k: int, vectors: Vectors) -> None:
        self._owner, self._k, self._vectors = owner, k, vectors
        self.changes = 0  # increases with every call that changes the known nodes
        self.known: dict[bytes, Node] = {}
        self._shared: dict[bytes, int] = {}  # number of leading digits shared with the owner
        self._tables: Both[Node] | None = None
        self._before: list[tuple[Level[Node], Level[Node]]] = []  # the lists last computed

    # --- known nodes

    def put(self, node: Node) -> None:
        """Add a node, or replace its certificate."""
        self.known[node.key], self._shared[node.key] = (
            node,
            self._vectors.common(self._owner.vector, node.vector),
        )
        self.changes, self._tables = self.changes + 1, None

    def remove(self, key: bytes) -> bool:
        """Remove a node. False if it was not known."""
        if self.known.pop(key, None) is None:
            return False
        self.changes, self._tables = self.changes + 1, None
        return True

    def replace(self, nodes: Iterable[Node]) -> None:
        """Replace all known nodes."""
        changes, wanted = self.changes, list(nodes)  # `nodes` may be a view of the known ones
        self.known.clear()
        for node in wanted:
            self.put(node)
        self.changes, self._tables, self._before = changes + 1, None, []

    def renew(self, owner: Node) -> None:
        """Replace the owner by its renewed certificate; all lists are computed again."""
        assert owner.vector == self._owner.vector, "a place keeps its vector"
        self._owner, self._tables, self._before = owner, None, []

    def keep_listed(self) -> None:
        """Forget the nodes that are in none of the present lists."""
        wide = self.tables()[1]
        listed = wide.named(0, len(wide.levels))
        gone = [key for key in self.known if key not in listed]
        for key in gone:
            del self.known[key]
        self.changes += bool(gone)

    # --- lists

    def tables(self) -> Both[Node]:
        """The owner's table and its every-class table."""
        if self._tables is None:
            found, is_top = list[tuple[Level[Node], Level[Node]]](), False
            while not is_top:
                lists, is_top = self._cut(len(found))
                before = self._before[len(found)] if len(found) < len(self._before) else lists
                is_same = (before[1].full, before[1].nodes) == (lists[1].full, lists[1].nodes)
                found.append(before if is_same else lists)
            self._before = found
            narrow, wide = zip(*found, strict=True)
            self._tables = LevelTable(self._owner, narrow), LevelTable(self._owner, wide)
        return self._tables

    def _cut(self, number: int) -> tuple[tuple[Level[Node], Level[Node]], bool]:
        """The two lists of one level, and whether it is the top level."""
        keys = sorted([key for key in self.known if self._shared[key] >= number])
        at = bisect_left(keys, self._owner.key)
        ring = keys[at:] + keys[:at]
        mine_right, all_right = self._reaches(ring, number)
        mine_left, all_left = self._reaches(reversed(ring), number)
        if all_left + all_right <= len(ring) and ring:
            wide = self._level(ring, number, (all_left, all_right))
            first, last = all_left - mine_left, all_left + mine_right + 1
            mine = (
                wide.nodes[first:last],
                mine_left,
                False,
                wide.fresh[first:last],
                wide.keys[first:last],
            )
            return (Level(*mine), wide), False
        wide = self._level(ring, number, (at, len(ring) - at), full=True)
        # at the top level the walks always meet
        if sum(self._shared[key] > number for key in ring) < 2 * (self._k - 1):
            return (wide, wide), True
        return (self._level(ring, number, (mine_left, mine_right)), wide), False

    def _reaches(self, ring: Iterable[bytes], number: int) -> tuple[int, int]:
        """Length of a walk until k-1 nodes of the owner's class are met, and until k-1 of every
        class are.
        """
        shared, wanted, alpha = self._shared, self._k - 1, self._vectors.alpha
        mine = found_mine = places = 0
        others, missing = [0] * alpha, alpha - 1
        for key in ring:
            places += 1
            if shared[key] > number:
                mine += 1
                if mine == wanted:
                    found_mine = places
                    if not missing:
                        break
                continue
            digit = self._vectors.digit(self.known[key].vector, number) if alpha > 2 else 0
            others[digit] += 1
            if others[digit] == wanted:
                missing -= 1
                if not missing and found_mine:
                    break
        return found_mine or places, places

    def _level(
        self, ring: list[bytes], number: int, reach: tuple[int, int], full: bool = False
    ) -> Level[Node]:
        """The list that reaches this far to the left and to the right."""
        left, right = reach
        around = (*ring[len(ring) - left :], *ring[:right])
        nodes = [self.known[key] for key in around]
        fresh = [self._shared[key] <= number for key in around]
        return Level(
            (*nodes[:left], self._owner, *nodes[left:]),
            left,
            full,
            (*fresh[:left], False, *fresh[left:]),
            (*around[:left], self._owner.key, *around[left:]),
        )
