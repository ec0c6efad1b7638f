"""Routing tables with k-redundant lists: the rule, what can be asked of a list, and how lists are cut from those known
around a place. Pure.

Paper, section 2.2: the level-i list of v reaches, along v's ring of level i, as far to each side as k-1 members that
share i+1 digits with v; when the two walks would meet, it is the whole ring ("full"), and i is v's top level.
Whatever has a key and a vector can be listed: certificates in the network, bare spots in trials.

Those in the every-class lists are whom a newcomer must tell: lists are not symmetric, how far v's reaches depends on
v's digits, not on the newcomer's (ring upkeep, D.1). Every-class lists are: there are fewer than k-1 of some class
between me and you, or there are not. So who keeps its own knows whom to tell when it leaves.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from implicast.space.built import built
from implicast.space.vector import Vectors


class Placed(Protocol):
    """Whoever has a place in the graph."""

    @property
    def key(self) -> bytes: ...

    @property
    def vector(self) -> int: ...


Node = TypeVar("Node", bound=Placed)
Law = TypeVar("Law", bound=Callable[..., Any])


def twin(law: Law) -> Law:
    """The compiled form of a class or function of the graph where it was built, else the readable one."""
    return cast(Law, getattr(built("overlay.skip_graph._around"), law.__name__, law))


class Level(Generic[Node]):
    """One list: `nodes` clockwise, the owner at index `own`. `fresh[i]`: node i shares exactly this level's digits."""

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
        self._sorted: list[bytes] | None = None  # many a list is cut and never asked for a position
        self._shift = 0

    def __len__(self) -> int:
        return len(self.nodes)

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
        return is_between(self.nodes[0].key, key, self.nodes[-1].key)


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


def is_between(first: bytes, key: bytes, last: bytes) -> bool:
    """Whether one meets a key on the way clockwise from the first to the last."""
    return first <= key <= last if first <= last else key >= first or key <= last


def _either_side(keys: Sequence[bytes], own: int, sides: tuple[int, int]) -> tuple[bytes, bytes]:
    (left, right), count = sides, len(keys)
    return keys[own - left if left < count else own], keys[
        (own + right) % count if right < count else own
    ]


Both = tuple[LevelTable[Node], LevelTable[Node]]
"""The table of a place, and its every-class table."""


class Around(Generic[Node]):
    """All others that an owner knows, by key, and the lists that follow if they were all there are.

    One walk to each side finds how far the list and the wider every-class list of a level reach (until every digit
    class, not only the own one, has k-1), and the one is sliced out of the other. The compiled twin keeps rings in
    order, and cuts only lists again that somebody who came or went belongs to. (`tests/laws` holds both to the
    definitions.)
    """

    __slots__ = ("_k", "_owner", "_shared", "_tables", "_vectors", "changes", "known")

    def __init__(self, owner: Node, k: int, vectors: Vectors) -> None:
        self._owner, self._k, self._vectors = owner, k, vectors
        self.changes = 0  # how often those known have
        self.known: dict[bytes, Node] = {}
        self._shared: dict[bytes, int] = {}  # how many digits each has in common with the owner
        self._tables: Both[Node] | None = None

    # --- who is known

    def put(self, node: Node) -> None:
        """Know somebody, or know it by a newer certificate."""
        self.known[node.key], self._shared[node.key] = (
            node,
            self._vectors.common(self._owner.vector, node.vector),
        )
        self.changes, self._tables = self.changes + 1, None

    def remove(self, key: bytes) -> bool:
        """Know somebody no more. False if it was not known."""
        if self.known.pop(key, None) is None:
            return False
        self.changes, self._tables = self.changes + 1, None
        return True

    def replace(self, nodes: Iterable[Node]) -> None:
        """Know these and nobody else."""
        self.known.clear()
        self.changes, self._tables = self.changes + 1, None
        for node in nodes:
            self.put(node)

    def renew(self, owner: Node) -> None:
        """The owner has a newer certificate: all lists are to be cut again."""
        assert owner.vector == self._owner.vector, "a place keeps its vector"
        self._owner, self._tables = owner, None

    def keep_listed(self) -> None:
        """Forget whoever is in none of the lists cut last."""
        wide = self.tables()[1]
        listed = wide.named(0, len(wide.levels))
        for key in [key for key in self.known if key not in listed]:
            del self.known[key]
            self.changes += 1

    # --- lists

    def tables(self) -> Both[Node]:
        """The owner's table and its every-class table."""
        if self._tables is None:
            found, is_top = list[tuple[Level[Node], Level[Node]]](), False
            while not is_top:
                lists, is_top = self._cut(len(found))
                found.append(lists)
            narrow, wide = zip(*found, strict=True)
            self._tables = LevelTable(self._owner, narrow), LevelTable(self._owner, wide)
        return self._tables

    def _cut(self, number: int) -> tuple[tuple[Level[Node], Level[Node]], bool]:
        """The two lists of one level, and whether it is the top one."""
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
        if sum(self._shared[key] > number for key in ring) < 2 * (
            self._k - 1
        ):  # the walks always meet at the top
            return (wide, wide), True
        return (self._level(ring, number, (mine_left, mine_right)), wide), False

    def _reaches(self, ring: Iterable[bytes], number: int) -> tuple[int, int]:
        """How far along a walk until enough of the own class were met, and until enough of every class were."""
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
        """The list that reaches so far to the left and to the right."""
        left, right = reach
        known, shared = self.known, self._shared
        before, after = ring[len(ring) - left :], ring[:right]
        nodes = (*[known[key] for key in before], self._owner, *[known[key] for key in after])
        fresh = (
            *[shared[key] <= number for key in before],
            False,
            *[shared[key] <= number for key in after],
        )
        return Level(nodes, left, full, fresh, (*before, self._owner.key, *after))
