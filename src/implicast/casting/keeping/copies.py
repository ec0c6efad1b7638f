"""Comparing copies: what a node answers for, and what its right neighbours keep of it, become the same.

A summary goes along the right neighbours. A neighbour that has something else sends all it has of it and gets all the
other has: both know the newest word about each entry afterwards.
"""

from collections.abc import Callable

from implicast.casting.keeping.messages import OFFER, REPLY, Compare, Rows, Summary, SyncRound, SyncSoon
from implicast.casting.keeping.share import Share
from implicast.casting.keeping.strays import Strays
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles
from implicast.peer.memory import Recent
from implicast.space.ring import up_to

SOON_US = 300_000
"""A change of neighbours, or news, is followed by a comparison after this."""
SOON_TIMES = 3
"""So many comparisons, each after four times the wait, unless there are further news: nobody confirms a comparison that
finds nothing, and where messages get lost one in five does not arrive. The next regular one is far."""
VOUCHED_MAX = 64
"""Ranges of which one remembers when their owners last vouched for them."""


class Comparisons(Part):
    """One node's share in keeping copies equal."""

    __slots__ = ("_asks", "_came_back", "_news", "_repairs", "_ring", "_share", "_soon", "_strays", "_vouched_us")

    def __init__(
        self, address: Address, host: Host, share: Share, strays: Strays, came_back: Callable[[], None]
    ) -> None:
        """`came_back()`: this node may have missed what was told to all."""
        super().__init__(address, host)
        self._share, self._strays, self._came_back = share, strays, came_back
        self._ring = share.chord.ring
        self._vouched_us: Recent[tuple[int, int], int] = Recent(VOUCHED_MAX)
        self._news = self._repairs = self._asks = 0
        self._soon = False

    def stand(self) -> None:
        """Begin with regular comparisons at any phase."""
        if self._share.settings.sync_us:
            phase_us = int(self.host.rng.random() * self._share.settings.sync_us)
            self.host.after(phase_us, SyncRound(self._ring.me.life))

    def begin(self) -> None:
        if self._share.settings.sync_us:
            wait_us = int(self._share.settings.sync_us * (0.5 + self.host.rng.random()))
            self.host.after(wait_us, SyncRound(self._ring.me.life))

    def soon(self) -> None:
        """Compare in a moment, and twice more."""
        if not self._soon:
            self._soon, self._news = True, self._news + 1
            self._compare_in(SOON_US, SyncSoon(self._news, 1))

    def _compare_in(self, wait_us: int, alarm: SyncSoon) -> None:
        self.host.after(int(wait_us * (0.5 + self.host.rng.random())), alarm)

    @handles(SyncSoon)
    def on_sync_soon(self, alarm: SyncSoon) -> None:
        if alarm.news != self._news:
            return  # there are newer ones, with comparisons of their own
        self._soon = False
        if alarm.time < SOON_TIMES and self._ring.state == IN:
            self._compare_in(SOON_US << 2 * alarm.time, SyncSoon(alarm.news, alarm.time + 1))
        self._compare()

    @handles(SyncRound)
    def on_sync_round(self, alarm: SyncRound) -> None:
        if alarm.life == self._ring.me.life and self._ring.state == IN:
            self.begin()
            self._compare()

    def _compare(self) -> None:
        self._sync()
        self._ask_for_summaries()
        self._strays.give_back()  # a node that was alone on its side of a partition keeps much that others want

    def _sync(self) -> None:
        ring, share = self._ring, self._share
        if ring.state == IN and share.is_ready and ring.right != ring.me and share.settings.copies:
            low = share.low()
            summary = Summary(ring.me, low, *share.rows.summary(low, share.own), share.settings.copies)
            ring.tell_right(summary)

    def _ask_for_summaries(self) -> None:
        """A node that has come near enough to keep copies here may not know."""
        share = self._share
        if share.is_ready and (self._has_doubts() or share.is_further(share.copies_low(), share.floor_key)):
            for ref in self._ring.lefts[: share.settings.copies]:
                self.host.send(ref.address, Compare())

    def _has_doubts(self) -> bool:
        """Whether this node has come back lately, and has not asked a few times what it lacks."""
        self._asks = max(0, self._asks - 1)
        return self._asks > 0

    def notice_return(self) -> None:
        """The link from the left was repaired: nothing may have come over it for a while. A node that was passed over
        lacks copies of what was laid meanwhile, though its neighbours are the same, and those beyond the nearest do not
        know that it is back. And it did not hear what was told to all: whether its own entries are lost."""
        repairs = self._ring.lnum[0]
        if repairs != self._repairs:
            self._repairs, self._asks = repairs, SOON_TIMES + 1
            self._came_back()

    @handles(Compare)
    def on_compare(self, sender: Address, compare: Compare) -> None:
        if self._ring.state == IN:
            self.soon()

    @handles(Summary)
    def on_summary(self, sender: Address, summary: Summary) -> None:
        ring, share = self._ring, self._share
        if ring.state != IN or summary.by == ring.me:
            return
        high = share.chord.table.key_of(summary.by)
        if share.rows.summary(summary.low, high) == (summary.count, summary.total):
            self._vouched(summary.low, high)
        else:
            self._send(summary.by, OFFER, summary.low, high)
        if summary.more > 1 and ring.right not in (ring.me, summary.by):
            onward = Summary(summary.by, summary.low, summary.count, summary.total, summary.more - 1)
            ring.tell_right(onward)

    def _vouched(self, low: int, high: int) -> None:
        """What is kept of (low, high] is what its owner keeps: it vouches for it. Noted a few times per lease."""
        now_us, share = self.host.now_us, self._share
        if self._vouched_us.get((low, high), 0) + share.settings.lease_us // 10 <= now_us:
            self._vouched_us[low, high] = now_us
            for entry in share.rows.within(low, high):
                if not share.chord.owns(entry.row.key):
                    entry.vouch(now_us)
        is_more = share.is_ready and share.is_further(low, share.floor_key)
        if is_more and (high == share.floor_key or up_to(share.floor_key, high, share.own)):
            share.has_from(low)

    @handles(Rows)
    def on_rows(self, sender: Address, rows: Rows) -> None:
        if self._ring.state != IN:
            return
        self._share.learn((row for row in rows.rows if self._share.rows.is_news(row)), sender)
        if rows.kind == OFFER and rows.part == rows.parts - 1:
            self._send(rows.by, REPLY, rows.low, rows.high)

    def _send(self, to: Ref, kind: int, low: int, high: int) -> None:
        for part in self._share.parts(low, high):
            self.host.send(to.address, Rows(self._ring.me, kind, low, high, *part))
