"""The finger table of Chord#, with what the nodes ahead add up to. Pure: no messages.

Fingers go by count, not by distance: level i names the node 2^i places ahead, found by asking level i-1 for *its* level
i-1 (Chord#, sections 2.1.1 and 2.1.2 of the condcast paper). The same answer brings the aggregate of level i-1: the arc
from that node on that 2^(i-1) nodes cover, and their values combined (sections 3.3 to 3.5). Plain Chord# is the case
in which no node has a value.

Level -1, the node itself, is `me`, `own`. The range of a level starts at its node's key, so only its end is kept.
An end and a value of None are *unknown*: they prove nothing.

**Age.** Where tables are kept in rounds everything in them has an age, and what a level says of an arc counts only
while the oldest thing that went into it is younger than `stale_us`; beyond that it is unknown and hides nobody. That
one rule carries the promise of what stands on the overlay: *whatever was so for longer than `stale_us` is in every
aggregate that is used*. For each part of an aggregate was said by the node that held that part of the circle, at most
so long ago; and the ring has one holder for each key at every moment.

Parts are put together only where they touch. Two levels learnt at different times may leave a gap between them in which
a node stands that neither knows: then the whole is unknown.
"""

from operator import lt

from implicast.overlay.chord_sharp.messages import LEVELS_MAX, Ent, Freight
from implicast.overlay.links.refs import Ref
from implicast.space.ring import Arc, Key

Mark = tuple[bool, Key]
"""A key as seen from a node: whether it lies behind where the circle starts anew, then the key. In clockwise order."""

UNKNOWN = Ent(None, None, None)
NEVER_US = 1 << 62


class Table:
    """What one node knows of those ahead of it.

    `stale_us`: how old entries may grow; 0: their age is not kept. `since_us`: since when what a level says is true at
    the latest (own clock); `rounds`: the round it was learnt in.
    """

    __slots__ = (
        "_bounds",
        "_fresh_until_us",
        "_joined",
        "_sums",
        "_tidy",
        "ends",
        "me",
        "nodes",
        "own",
        "rounds",
        "since_us",
        "stale_us",
        "values",
    )

    def __init__(self, me: Ref, own: Freight | None = None, stale_us: int = 0) -> None:
        self.me, self.own, self.stale_us = me, own, stale_us
        self.nodes: list[Ref] = []
        self.ends: list[Key | None] = []
        self.values: list[Freight | None] = []
        self.since_us: list[int] = _NONE
        self.rounds: list[int] = _NONE
        if stale_us:
            self.since_us, self.rounds = [], []
        self._sums: list[Freight | None] = _NO_SUMS
        self._bounds: list[Mark] | None = None
        self._tidy: bool | None = None
        self._joined = 1
        """So many levels from 0 on are known to leave no gap."""
        self._fresh_until_us = NEVER_US

    def __len__(self) -> int:
        """Levels from 0 up: ceil(log2 n) when settled."""
        return len(self.nodes)

    # --- refreshing

    def hold(self, own: Freight | None) -> None:
        """The node's own value as it is now."""
        if own is not self.own:
            self.own = own
            self._sums = []

    def follow(self, successor: Ref) -> None:
        """The ring has another right neighbour for this node."""
        if successor.address == self.me.address:
            self.cut(0)
        else:
            self._put(0, successor)

    def take(self, level: int, ent: Ent) -> bool:
        """The answer of the node at this level to `get_ent(level)`. True when the round is complete: no level above."""
        node, end, value, me, nodes, above = (
            ent.node,
            ent.end,
            ent.value,
            self.me,
            self.nodes,
            level + 1,
        )
        if node is not None and node.address == me.address:
            node = None  # the walk has gone round; or an earlier life of this peer, at another place, is still named
        own, key = me.key, nodes[level].key
        circulated = (
            node is None or (node.key < own, node.key) <= (key < own, key) or above == LEVELS_MAX
        )
        if node is None or circulated:
            self.cut(above)
        elif above >= len(nodes) or nodes[above] != node:
            self._put(above, node)
        if value is not None and self.own is not None and not self.own.alike(value):
            end = value = None
        # Nearly always nothing is new: what was worked out from it stays (a quarter less work for each answer).
        if end != self.ends[level]:
            self._shift(level)
        if end != self.ends[level] or value != self.values[level]:
            self.ends[level], self.values[level] = end, value
            del self._sums[above:]
        return circulated

    def learn(self, level: int, ent: Ent, since_us: int, number: int) -> bool:
        """What the node at this level answered in a round; true since then at the latest. True: no level above.

        A node that knows less than before does not make false what it said before.
        """
        end, value = self.ends[level], self.values[level]
        circulated = self.take(level, ent)
        self.rounds[level] = number
        if value is not None and self.values[level] is None:
            self.ends[level], self.values[level] = end, value
        else:
            self.since_us[level] = since_us
            self._fresh_until_us = min(self._fresh_until_us, since_us + self.stale_us)
        return circulated

    def go_on(self, level: int, number: int) -> None:
        """Nothing will be learnt of this level in this round."""
        self.rounds[level] = number

    def expire(self, now_us: int) -> None:
        """Forget what is stale. One comparison when nothing is."""
        if now_us <= self._fresh_until_us:
            return
        until_us = NEVER_US
        for level, since_us in enumerate(self.since_us):
            if self.values[level] is None:
                continue
            if since_us + self.stale_us < now_us:
                self.ends[level] = self.values[level] = None
                self._shift(level)
                del self._sums[level + 1 :]
            else:
                until_us = min(until_us, since_us + self.stale_us)
        self._fresh_until_us = until_us

    def answer(self, level: int, now_us: int = 0) -> tuple[Ent, int]:
        """What the node 2^level places behind wants to know (getEnt): its next finger, and what the nodes up to it
        hold; and how old the oldest part of that is. The level above the top one has no node, yet all that is known has
        a sum. An unknown part makes the whole unknown (the paper is silent).
        """
        if now_us > self._fresh_until_us:
            self.expire(now_us)
        nodes, sums = self.nodes, self._sums
        if not 0 <= level <= len(nodes) or not nodes:
            return UNKNOWN, 0
        node = nodes[level] if level < len(nodes) else None
        is_whole = level <= self._joined or self._touching(level)
        value = None if not is_whole else sums[level] if level < len(sums) else self._sum(level)
        end = self.ends[level - 1] if level else nodes[0].key
        if value is None or end is None:
            return Ent(node, None, None), 0
        age_us = now_us - min(self.since_us[:level]) if level and self.since_us else 0
        return Ent(node, end, value), age_us  # type: ignore[arg-type]

    def _touching(self, levels: int) -> bool:
        """Whether the arcs of the lowest levels leave no gap: each begins where the one before ends, or sooner."""
        while self._joined < levels:
            low, high = self.nodes[self._joined - 1 : self._joined + 1]
            end = self.ends[self._joined - 1]
            if end is None or self.mark(low.key) < self.mark(end) < self.mark(high.key):
                return False
            self._joined += 1
        return True

    def _shift(self, level: int) -> None:
        """What was worked out from where this level begins and ends does not hold any more."""
        self._bounds = self._tidy = None
        self._joined = min(self._joined, max(1, level))

    def cut(self, level: int) -> None:
        """Drop this level and all above."""
        if level < len(self.nodes):
            del self.nodes[level:], self.ends[level:], self.values[level:], self._sums[level + 1 :]
            if self.stale_us:
                del self.since_us[level:], self.rounds[level:]
            self._shift(level)

    def replace(self, gone: Ref, heir: Ref) -> list[int]:
        """A node that leaves names the one on its right, which takes its place. What was known of the others stays
        true. Level 0 is the ring's affair. Returns the levels that have another node now."""
        levels = [level for level, node in enumerate(self.nodes) if level and node == gone != heir]
        if heir.address == self.me.address:
            self.cut(max(1, self.nodes.index(gone)) if gone in self.nodes else len(self.nodes))
            return []
        for level in levels:
            arc = self.range(level)
            if arc is None or heir.key not in arc:  # then there is nobody else in it
                self.ends[level] = self.values[level] = None
                del self._sums[level + 1 :]
            self.nodes[level] = heir
            self._shift(level)
        return levels

    def widen(self, key: Key, value: Freight) -> None:
        """The node at this key has this value: add it to every aggregate whose range the key lies in."""
        for level, old in enumerate(self.values):
            arc = self.range(level)
            if arc is not None and key in arc and old is not None:
                self.values[level] = combine(old, value)
                del self._sums[level + 1 :]

    # --- looking

    def mark(self, key: Key) -> Mark:
        return key < self.me.key, key  # type: ignore[operator]  # keys of one ring are of one kind

    def bounds(self) -> list[Mark]:
        """The marks of the node itself, of all fingers from level 0, and of the node again, a full turn on."""
        if self._bounds is None:
            own = self.me.key
            self._bounds = [
                (False, own),
                *[(node.key < own, node.key) for node in self.nodes],
                (True, own),
            ]
        return self._bounds

    def range(self, level: int) -> Arc | None:
        """The arc that the value of this level speaks of; None when unknown."""
        end = self.ends[level]
        return None if end is None else Arc(self.nodes[level].key, end)

    def tidy(self) -> bool:
        """Whether each level lies beyond the one before and speaks of the arc up to the next: so it is at rest."""
        if self._tidy is None:
            bounds = self.bounds()
            ups = all(map(lt, bounds, bounds[1:]))
            full = False not in [
                end in (None, key) for end, (_, key) in zip(self.ends, bounds[2:-1], strict=False)
            ]
            end = (
                self.ends[-1] if self.ends else None
            )  # the top level goes up to the node itself, or beyond
            self._tidy = (
                ups and full and (end is None or end == self.me.key or self.mark(end) <= bounds[-2])
            )
        return self._tidy

    # --- inside

    def _put(self, level: int, node: Ref) -> None:
        if level == len(self.nodes):
            self.nodes.append(node)
            self.ends.append(None)
            self.values.append(None)
            if self.stale_us:
                self.since_us.append(0)
                self.rounds.append(-1)
        elif self.nodes[level] != node:
            # What was said of the arc from the old node on may be false from the new one on: unknown until asked.
            self.nodes[level], self.ends[level], self.values[level] = node, None, None
            del self._sums[level + 1 :]
            if self.stale_us:
                self.since_us[level], self.rounds[level] = 0, -1
        else:
            return
        self._shift(level)

    def _sum(self, level: int) -> Freight | None:
        """Own value and those of the levels below combined; kept until one of them changes."""
        sums = self._sums or [self.own]
        while len(sums) <= level:
            sums.append(combine(sums[-1], self.values[len(sums) - 1]))
        self._sums = sums
        return sums[level]

    def settle(
        self, nodes: list[Ref], ends: list[Key | None], values: list[Freight | None], now_us: int
    ) -> None:
        """All of it is as it is now."""
        self.nodes, self.ends, self.values = nodes, ends, values
        if self.stale_us:
            self.since_us, self.rounds = [now_us] * len(nodes), [0] * len(nodes)
            self._fresh_until_us = now_us + self.stale_us


_NONE: list[int] = []
_NO_SUMS: list[Freight | None] = []
"""Shared by tables that keep none; replaced, never changed."""


def combine(one: Freight | None, other: Freight | None) -> Freight | None:
    """Two values of one kind made one; unknown if one of them is, or they are of two kinds."""
    return None if one is None or other is None or not one.alike(other) else one.reduce(other)  # type: ignore[arg-type]
