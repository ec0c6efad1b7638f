"""The finger table of Chord#, with the combined values of the nodes ahead. No I/O.

Fingers go by node count, not by distance: level i names the node 2^i places ahead, found by asking
level i-1 for *its* level i-1 (Chord#, sections 2.1.1 and 2.1.2 of the condcast paper). The same
answer carries the aggregate of level i-1: the arc that starts at that node and covers 2^(i-1)
nodes, and their combined value (sections 3.3 to 3.5). Plain Chord# is the case in which no node has
a value.

Level -1 is the node itself: `me`, `own`. The range of a level starts at its node's key, so only its
end is stored. An end and a value of None mean *unknown*: they exclude no node.

**Age.** Where tables are maintained in rounds every entry has an age. The value of a level counts
only while its oldest part is younger than `stale_us`; after that it is unknown. The layer above
relies on this rule: *a value that a node has had for longer than `stale_us` is in every aggregate
that is used*. Each part of an aggregate was stated, at most that long ago, by the node that owned
that part of the ring, and the ring has one owner for each key at every moment.

Arcs are combined only where they touch. Two levels learnt at different times may leave a gap
between them, with a node that neither knows: then the combined value is unknown.
"""

from operator import lt
from typing import NamedTuple

from implicast.overlay.chord_sharp.messages import LEVELS_MAX, FingerEntry, FingerValue
from implicast.overlay.links.refs import Ref
from implicast.space.ring import Arc, Key

ClockwiseKey = tuple[bool, Key]
"""A key in clockwise order from a node: whether it lies beyond the wrap-around of the ring, then
the key.
"""

UNKNOWN = FingerEntry(None, None, None)
NEVER_US = 1 << 62


class TableState(NamedTuple):
    """A whole table: by level the node, and the end and the value of its range."""

    nodes: list[Ref]
    ends: list[Key | None]
    values: list[FingerValue | None]


class Table:
    """The fingers and aggregates of one node.

    `stale_us`: the largest age of entries; 0: ages are not tracked. `since_us`: for each level the
    latest time, by the own clock, from which on its value holds. `rounds`: for each level the round
    in which it was learnt.
    """

    __slots__ = (
        "_bounds",
        "_consistent",
        "_contiguous",
        "_fresh_until_us",
        "_sums",
        "ends",
        "me",
        "nodes",
        "own",
        "rounds",
        "since_us",
        "stale_us",
        "values",
    )

    def __init__(self, me: Ref, own: FingerValue | None = None, stale_us: int = 0) -> None:
        self.stale_us = stale_us
        self.reset(me, own)

    def reset(self, me: Ref, own: FingerValue | None) -> None:
        """Empty the table: an incarnation starts."""
        self.me, self.own = me, own
        self.nodes: list[Ref] = []
        self.ends: list[Key | None] = []
        self.values: list[FingerValue | None] = []
        self.since_us: list[int] = _NONE
        self.rounds: list[int] = _NONE
        if self.stale_us:
            self.since_us, self.rounds = [], []
        self._sums: list[FingerValue | None] = _NO_SUMS
        self._bounds: list[ClockwiseKey] | None = None
        self._consistent: bool | None = None
        self._contiguous = 1
        """Number of levels from 0 on that are known to leave no gap."""
        self._fresh_until_us = NEVER_US

    def __len__(self) -> int:
        """Number of levels: ceil(log2 n) when converged."""
        return len(self.nodes)

    # --- refreshing

    def set_own_value(self, own: FingerValue | None) -> None:
        """Set the node's own current value."""
        if own is not self.own:
            self.own = own
            self._sums = []

    def set_successor(self, successor: Ref) -> None:
        """The ring has changed this node's right neighbour."""
        if successor.address == self.me.address:
            self.truncate(0)
        else:
            self.put_node(0, successor)

    def apply_entry(self, level: int, entry: FingerEntry) -> bool:
        """Apply the answer of the node at this level to getEnt(level). True: there is no level
        above, the refresh is complete.
        """
        node, end, value, me, nodes, above = (
            entry.node,
            entry.end,
            entry.value,
            self.me,
            self.nodes,
            level + 1,
        )
        if node is not None and node.address == me.address:
            # it leads back to this node, or names an earlier incarnation of this peer at another
            # place
            node = None
        own, key = me.key, nodes[level].key
        circulated = (
            node is None or (node.key < own, node.key) <= (key < own, key) or above == LEVELS_MAX
        )
        if node is None or circulated:
            self.truncate(above)
        elif above >= len(nodes) or nodes[above] != node:
            self.put_node(above, node)
        if value is not None and self.own is not None and not self.own.alike(value):
            end = value = None
        # Most answers bring nothing new, and then derived values are kept (saves a quarter of the
        # work).
        if end != self.ends[level]:
            self.invalidate(level)
        if end != self.ends[level] or value != self.values[level]:
            self.ends[level], self.values[level] = end, value
            del self._sums[above:]
        return circulated

    def apply_update(self, level: int, entry: FingerEntry, since_us: int, number: int) -> bool:
        """Apply an answer of a round that holds since `since_us`. True: there is no level above.

        A node that knows less than before does not invalidate its earlier statement.
        """
        end, value = self.ends[level], self.values[level]
        circulated = self.apply_entry(level, entry)
        self.rounds[level] = number
        if value is not None and self.values[level] is None:
            self.ends[level], self.values[level] = end, value
        else:
            self.since_us[level] = since_us
            self._fresh_until_us = min(self._fresh_until_us, since_us + self.stale_us)
        return circulated

    def skip_level(self, level: int, number: int) -> None:
        """This level will not be learnt in this round."""
        self.rounds[level] = number

    def expire(self, now_us: int) -> None:
        """Forget expired values. Costs one comparison if there are none."""
        if now_us <= self._fresh_until_us:
            return
        until_us = NEVER_US
        for level, since_us in enumerate(self.since_us):
            if self.values[level] is None:
                continue
            if since_us + self.stale_us < now_us:
                self.ends[level] = self.values[level] = None
                self.invalidate(level)
                del self._sums[level + 1 :]
            else:
                until_us = min(until_us, since_us + self.stale_us)
        self._fresh_until_us = until_us

    def get_entry(self, level: int, now_us: int = 0) -> tuple[FingerEntry, int]:
        """Answer to getEnt of the node 2^level places behind: its next finger and the combined
        value of the nodes up to it; and the age of its oldest part. The level above the top one has
        no node but does have a value. If any part is unknown the combined value is unknown (the
        paper does not say).
        """
        if now_us > self._fresh_until_us:
            self.expire(now_us)
        nodes, sums = self.nodes, self._sums
        if not 0 <= level <= len(nodes) or not nodes:
            return UNKNOWN, 0
        node = nodes[level] if level < len(nodes) else None
        is_whole = level <= self._contiguous or self._is_contiguous(level)
        value = None if not is_whole else sums[level] if level < len(sums) else self._sum(level)
        end = self.ends[level - 1] if level else nodes[0].key
        if value is None or end is None:
            return FingerEntry(node, None, None), 0
        age_us = now_us - min(self.since_us[:level]) if level and self.since_us else 0
        return FingerEntry(node, end, value), age_us  # type: ignore[arg-type]

    def _is_contiguous(self, levels: int) -> bool:
        """Whether the arcs of the lowest levels leave no gap: each begins at or before the end of
        the previous one.
        """
        while self._contiguous < levels:
            low, high = self.nodes[self._contiguous - 1 : self._contiguous + 1]
            end = self.ends[self._contiguous - 1]
            if end is None or self.clockwise_key(low.key) < self.clockwise_key(
                end
            ) < self.clockwise_key(high.key):
                return False
            self._contiguous += 1
        return True

    def invalidate(self, level: int) -> None:
        """Drop what was derived from the start and end of this level."""
        self._bounds = self._consistent = None
        self._contiguous = min(self._contiguous, max(1, level))

    def truncate(self, level: int) -> None:
        """Drop this level and all above."""
        if level < len(self.nodes):
            del self.nodes[level:], self.ends[level:], self.values[level:], self._sums[level + 1 :]
            if self.stale_us:
                del self.since_us[level:], self.rounds[level:]
            self.invalidate(level)

    def replace_node(self, gone: Ref, replacement: Ref) -> list[int]:
        """A node has left and named the node on its right, which replaces it. What is known of the
        rest of the arc stays true. Level 0 belongs to the ring. Returns the levels that have
        another node now.
        """
        levels = [
            level for level, node in enumerate(self.nodes) if level and node == gone != replacement
        ]
        if replacement.address == self.me.address:
            self.truncate(max(1, self.nodes.index(gone)) if gone in self.nodes else len(self.nodes))
            return []
        for level in levels:
            arc = self.range(level)
            if arc is None or replacement.key not in arc:  # the arc holds no other node
                self.ends[level] = self.values[level] = None
                del self._sums[level + 1 :]
            self.nodes[level] = replacement
            self.invalidate(level)
        return levels

    def add_value(self, key: Key, value: FingerValue) -> None:
        """The node at this key has this value: add it to every aggregate whose range contains the
        key.
        """
        for level, old in enumerate(self.values):
            arc = self.range(level)
            if arc is not None and key in arc and old is not None:
                self.values[level] = combine(old, value)
                del self._sums[level + 1 :]

    # --- reading

    def clockwise_key(self, key: Key) -> ClockwiseKey:
        return key < self.me.key, key  # type: ignore[operator]  # keys of one ring are of one kind

    def bounds(self) -> list[ClockwiseKey]:
        """Clockwise keys of the node itself, of all fingers from level 0, and of the node again
        after a full turn.
        """
        if self._bounds is None:
            own = self.me.key
            self._bounds = [
                (False, own),
                *[(node.key < own, node.key) for node in self.nodes],
                (True, own),
            ]
        return self._bounds

    def range(self, level: int) -> Arc | None:
        """The arc that the value of this level covers; None when unknown."""
        end = self.ends[level]
        return None if end is None else Arc(self.nodes[level].key, end)

    def is_consistent(self) -> bool:
        """Whether each level lies beyond the previous one and its value covers the arc up to the
        next one, as in a converged ring.
        """
        if self._consistent is None:
            bounds = self.bounds()
            ups = all(map(lt, bounds, bounds[1:]))
            full = False not in [
                end in (None, key) for end, (_, key) in zip(self.ends, bounds[2:-1], strict=False)
            ]
            # The arc of the top level ends at the node itself or beyond it.
            end = self.ends[-1] if self.ends else None
            self._consistent = (
                ups
                and full
                and (end is None or end == self.me.key or self.clockwise_key(end) <= bounds[-2])
            )
        return self._consistent

    # --- internals

    def put_node(self, level: int, node: Ref) -> None:
        if level == len(self.nodes):
            self.nodes.append(node)
            self.ends.append(None)
            self.values.append(None)
            if self.stale_us:
                self.since_us.append(0)
                self.rounds.append(-1)
        elif self.nodes[level] != node:
            # The statement about the arc from the old node may be false for the new node: unknown
            # until asked.
            self.nodes[level], self.ends[level], self.values[level] = node, None, None
            del self._sums[level + 1 :]
            if self.stale_us:
                self.since_us[level], self.rounds[level] = 0, -1
        else:
            return
        self.invalidate(level)

    def _sum(self, level: int) -> FingerValue | None:
        """The own value combined with those of the levels below; cached until one changes."""
        sums = self._sums or [self.own]
        while len(sums) <= level:
            sums.append(combine(sums[-1], self.values[len(sums) - 1]))
        self._sums = sums
        return sums[level]

    def restore(self, me: Ref, own: FingerValue | None, state: TableState, now_us: int) -> None:
        """The whole table of a node, as of now."""
        self.reset(me, own)
        self.nodes, self.ends, self.values = state
        if self.stale_us:
            count = len(self.nodes)
            self.since_us, self.rounds = [now_us] * count, [0] * count
            self._fresh_until_us = now_us + self.stale_us

    def state(self) -> TableState:
        return TableState([*self.nodes], [*self.ends], [*self.values])


_NONE: list[int] = []
_NO_SUMS: list[FingerValue | None] = []
"""Shared by tables without ages or sums; replaced, never modified."""


def combine(one: FingerValue | None, other: FingerValue | None) -> FingerValue | None:
    """Two values of one kind combined; None if either is unknown or their kinds differ."""
    if one is None or other is None or not one.alike(other):
        return None
    return one.reduce(other)  # type: ignore[arg-type]
