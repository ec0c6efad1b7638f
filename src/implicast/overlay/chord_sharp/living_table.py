"""A finger table in which everything has an age. Pure: no messages.

What a level says of an arc counts only while the oldest thing that went into it is younger than `stale_us`; beyond that
it is unknown and hides nobody. That one rule carries the promise of whoever stands on the overlay: *whatever was so
for longer than `stale_us` is in every aggregate that is used*. For each part of an aggregate was said by the node that
held that part of the circle, at most so long ago; and the ring has one holder for each key at every moment.

Parts are put together only where they touch. Two levels learnt at different times may leave a gap between them in which
somebody stands whom neither knows: then the whole is unknown.
"""

from implicast.overlay.chord_sharp.messages import Ent, Freight
from implicast.overlay.chord_sharp.table import Table
from implicast.overlay.links.refs import Ref

NEVER_US = 1 << 62
UNKNOWN = Ent(None, None, None)


class LivingTable(Table):
    """Per level also: since when what it says is true at the latest (own clock), and the round it was learnt in."""

    __slots__ = ("_all_fresh_until_us", "rounds", "since_us", "stale_us")

    def __init__(self, me: Ref, stale_us: int, own: Freight | None = None) -> None:
        super().__init__(me, own)
        self.stale_us = stale_us
        self.since_us: list[int] = []
        self.rounds: list[int] = []
        self._all_fresh_until_us = NEVER_US

    @classmethod
    def settled(cls, table: Table, stale_us: int, now_us: int) -> "LivingTable":
        """The same table, all of it learnt now."""
        living = cls(table.me, stale_us, table.own)
        living.nodes, living.ends, living.values = table.nodes, table.ends, table.values
        living.since_us, living.rounds = [now_us] * len(table), [0] * len(table)
        living._all_fresh_until_us = now_us + stale_us
        return living

    def hold(self, own: Freight | None) -> None:
        """The node's own value as it is now."""
        if own is not self.own:
            self.own = own
            self._sums = []

    def learn(self, level: int, ent: Ent, since_us: int, number: int) -> bool:
        """What the node at this level answered in a round; true since then at the latest. True: no level above.

        A node that knows less than before does not make false what it said before.
        """
        before, sums, next_before = (self.ends[level], self.values[level]), self._sums[level + 1 :], self._above(level)
        tidy = self._tidy
        circulated = self.take(level, ent)
        self.rounds[level] = number
        if (self.ends[level], self.values[level]) == before and self._above(level) == next_before:
            # Nothing new, as nearly always: what was worked out from it stays (a quarter less work for each answer).
            self._sums += sums
            self._tidy = tidy
        if self.values[level] is None and before[1] is not None:
            self.ends[level], self.values[level] = before
        else:
            self.since_us[level] = since_us
            self._all_fresh_until_us = min(self._all_fresh_until_us, since_us + self.stale_us)
        return circulated

    def _above(self, level: int) -> Ref | None:
        return self.nodes[level + 1] if level + 1 < len(self.nodes) else None

    def expire(self, now_us: int) -> None:
        """Forget what is stale. One comparison when nothing is."""
        if now_us <= self._all_fresh_until_us:
            return
        until_us = NEVER_US
        for level, since_us in enumerate(self.since_us):
            if self.values[level] is None:
                continue
            if since_us + self.stale_us < now_us:
                self.ends[level] = self.values[level] = None
                self._tidy = None
                del self._sums[level + 1 :]
            else:
                until_us = min(until_us, since_us + self.stale_us)
        self._all_fresh_until_us = until_us

    def answer(self, level: int, now_us: int) -> tuple[Ent, int]:
        """What the node 2^level places behind wants to know, and how old the oldest part of it is.

        The level above the top one has no node, yet all that is known has a sum.
        """
        self.expire(now_us)
        if level > len(self.nodes) or not self.nodes:
            return UNKNOWN, 0
        node = self.nodes[level] if level < len(self.nodes) else None
        value = self._sum(level) if self._touching(level) else None
        if value is None:
            return Ent(node, None, None), 0
        end = self.ends[level - 1] if level else self.nodes[0].key
        return Ent(node, end, value), now_us - min(self.since_us[:level], default=now_us)

    def _touching(self, levels: int) -> bool:
        """Whether the arcs of the lowest levels leave no gap: each begins where the one before ends, or sooner."""
        if self._tidy:
            return True
        for level in range(levels - 1):
            end = self.ends[level]
            if end is None:
                return False
            reach = self.mark(end)
            past_me = reach <= self.mark(self.nodes[level].key)
            if not past_me and self.mark(self.nodes[level + 1].key) > reach:
                return False
        return True

    def cut(self, level: int) -> None:
        super().cut(level)
        del self.since_us[level:], self.rounds[level:]

    def _put(self, level: int, node: Ref) -> None:
        new = level == len(self.nodes)
        same = not new and self.nodes[level] == node
        super()._put(level, node)
        if new:
            self.since_us.append(0)
            self.rounds.append(-1)
        elif not same:
            self.since_us[level], self.rounds[level] = 0, -1
