"""The finger table of Chord#, with what the nodes ahead add up to. Pure: no messages.

Fingers go by count, not by distance: level i names the node 2^i places ahead, found by asking level i-1 for *its* level
i-1 (Chord#, sections 2.1.1 and 2.1.2 of the condcast paper). The same answer brings the aggregate of level i-1: the arc
from that node on that 2^(i-1) nodes cover, and their values combined (sections 3.3 to 3.5). Plain Chord# is the case
in which nobody has a value.

Level -1, the node itself, is `me`, `own`. The range of a level starts at its node's key, so only its end is kept.
An end and a value of None are *unknown*: they prove nothing.
"""

from collections.abc import Sequence
from itertools import pairwise

from implicast.overlay.chord_sharp.messages import Ent, Freight
from implicast.overlay.links.refs import Ref
from implicast.space.ring import Arc, Key

Mark = tuple[bool, Key]
"""A key as seen from a node: whether it lies behind the point where the circle starts anew, then the key. Marks are in
clockwise order."""

LEVELS_MAX = 64
"""More levels than any ring can fill; a guard against answers that never circulate."""


class Table:
    """What one node knows of those ahead of it."""

    __slots__ = ("_bounds", "_sums", "_tidy", "ends", "me", "nodes", "own", "values")

    def __init__(self, me: Ref, own: Freight | None = None) -> None:
        self.me, self.own = me, own
        self.nodes: list[Ref] = []
        self.ends: list[Key | None] = []
        self.values: list[Freight | None] = []
        self._sums: list[Freight | None] = []
        self._bounds: list[Mark] | None = None
        self._tidy: bool | None = None

    def __len__(self) -> int:
        """Levels from 0 up: ceil(log2 n) when settled."""
        return len(self.nodes)

    # --- refreshing

    def begin(self, own: Freight | None, successor: Ref) -> None:
        """The start of a refresh: level -1 from the node's own state, level 0 from the ring."""
        self.own = own
        self._sums = []
        self.follow(successor)

    def follow(self, successor: Ref) -> None:
        """The ring has another right neighbour for this node."""
        if successor.address == self.me.address:
            self.cut(0)
        else:
            self._put(0, successor)

    def get_ent(self, level: int) -> Ent:
        """What the node 2^level places behind wants to know: its next finger, and what the nodes up to it hold.

        An unknown part makes the whole unknown (the paper is silent).
        """
        if not 0 <= level < len(self.nodes):
            return Ent(None, None, None)
        end = self.nodes[0].key if level == 0 else self.ends[level - 1]
        value = self._sum(level)
        return Ent(self.nodes[level], end if value is not None else None, value if end is not None else None)

    def take(self, level: int, ent: Ent) -> bool:
        """The answer of the node at this level to `get_ent(level)`. True when the round is complete: no level above."""
        node = ent.node
        circulated = node is None or self.mark(node.key) <= self.mark(self.nodes[level].key) or level + 1 == LEVELS_MAX
        if node is None or circulated:
            self.cut(level + 1)
        else:
            self._put(level + 1, node)
        known = self.own is None or ent.value is None or self.own.alike(ent.value)
        self.ends[level], self.values[level] = (ent.end, ent.value) if known else (None, None)
        self._tidy = None
        del self._sums[level + 1 :]
        return circulated

    def cut(self, level: int) -> None:
        """Drop this level and all above."""
        if level < len(self.nodes):
            del self.nodes[level:], self.ends[level:], self.values[level:], self._sums[level + 1 :]
            self._bounds = self._tidy = None

    def replace(self, gone: Ref, heir: Ref) -> None:
        """A node that leaves names the one on its right, which takes its place. What was known of the others stays
        true. Level 0 is the ring's affair."""
        for level, node in enumerate(self.nodes):
            if node == gone and level:
                arc = self.range(level)
                if arc is None or heir.key not in arc:  # then there is nobody else in it
                    self.ends[level] = self.values[level] = None
                    del self._sums[level + 1 :]
                self.nodes[level] = heir
                self._bounds = self._tidy = None
        while self.nodes and self.nodes[-1].address == self.me.address:
            self.cut(len(self.nodes) - 1)

    def widen(self, key: Key, value: Freight) -> None:
        """The node at this key has this value: add it to every aggregate whose range the key lies in."""
        for level, old in enumerate(self.values):
            arc = self.range(level)
            if arc is not None and key in arc and old is not None:
                self.values[level] = combine(old, value) if old.alike(value) else None
                del self._sums[level + 1 :]

    # --- looking

    def mark(self, key: Key) -> Mark:
        return key < self.me.key, key  # type: ignore[operator]  # keys of one ring are of one kind

    def bounds(self) -> list[Mark]:
        """The marks of the node itself, of all fingers from level 0, and of the node again, a full turn on."""
        if self._bounds is None:
            key = self.me.key
            self._bounds = [(False, key), *(self.mark(node.key) for node in self.nodes), (True, key)]
        return self._bounds

    def range(self, level: int) -> Arc | None:
        """The arc that the value of this level speaks of; None when unknown."""
        end = self.ends[level]
        return None if end is None else Arc(self.nodes[level].key, end)

    def closest_preceding(self, key: Key) -> int:
        """The level of the farthest finger that does not lie beyond the key; -1 for the node itself."""
        mark, bounds = self.mark(key), self.bounds()
        before = [level for level in range(len(self.nodes)) if bounds[level + 1] <= mark]
        return max(before, key=lambda level: bounds[level + 1], default=-1)

    def next_hop(self, key: Key) -> Ref | None:
        """Who is nearer to the key; None when nobody known is."""
        level = self.closest_preceding(key)
        return None if level < 0 else self.nodes[level]

    def tidy(self) -> bool:
        """Whether each level lies beyond the one before and speaks of the arc up to the next: so it is at rest."""
        if self._tidy is None:
            ups = all(low < high for low, high in pairwise(self.bounds()))
            full = all(end is None or end == node.key for end, node in zip(self.ends, self.nodes[1:], strict=False))
            self._tidy = ups and full and self._top_is_full()
        return self._tidy

    def _top_is_full(self) -> bool:
        """Whether the top level speaks of everything up to the node itself, or beyond."""
        end = self.ends[-1] if self.ends else None
        return end is None or end == self.me.key or self.mark(end) <= self.bounds()[-2]

    # --- inside

    def _put(self, level: int, node: Ref) -> None:
        if level == len(self.nodes):
            self.nodes.append(node)
            self.ends.append(None)
            self.values.append(None)
        elif self.nodes[level] != node:
            # What was said of the arc from the old node on may be false from the new one on: unknown until asked.
            self.nodes[level], self.ends[level], self.values[level] = node, None, None
            del self._sums[level + 1 :]
        else:
            return
        self._bounds = self._tidy = None

    def _sum(self, level: int) -> Freight | None:
        """Own value and those of the levels below combined. Kept until one of them changes: twelve askers in a period
        make twelve combinations, not 66 (at 4096 peers)."""
        sums = self._sums or [self.own]
        while len(sums) <= level:
            sums.append(combine(sums[-1], self.values[len(sums) - 1]))
        self._sums = sums
        return sums[level]


def combine(one: Freight | None, other: Freight | None) -> Freight | None:
    """Two values of one kind made one; unknown if one of them is."""
    return None if one is None or other is None else one.reduce(other)  # type: ignore[arg-type]


def settled_tables(refs: Sequence[Ref], values: Sequence[Freight | None]) -> list[Table]:
    """The tables of nodes in ring order when all has settled: formulas (5) to (7), by doubling."""
    tables = [Table(ref, value) for ref, value in zip(refs, values, strict=True)]
    count, step, sums = len(refs), 1, list(values)
    while step < count:
        for index, table in enumerate(tables):
            ahead = (index + step) % count
            table.nodes.append(refs[ahead])
            table.ends.append(None if sums[ahead] is None else refs[(ahead + step) % count].key)
            table.values.append(sums[ahead])
        sums = [combine(sums[index], sums[(index + step) % count]) for index in range(count)]
        step *= 2
    return tables
