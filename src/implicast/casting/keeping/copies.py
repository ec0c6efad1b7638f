"""Comparing copies: what a node answers for, and what its right neighbours keep of it, become the same.

A summary goes along the right neighbours. A neighbour that has something else sends all it has of it and gets all the
other has: both know the newest word about each entry afterwards. Entries kept where they do not belong go back to the
node that answers for them; once arrived they are forgotten here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from implicast.casting.keeping.messages import (
    OFFER,
    REPLY,
    Compare,
    Return,
    Returned,
    Row,
    Rows,
    Summary,
)
from implicast.casting.keeping.rows import REMEMBERED_US
from implicast.casting.keeping.share import Share, Shareholder
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, StandingAlarm, handles
from implicast.peer.memory import Recent
from implicast.space.ring import up_to

SOON_US = 300_000
"""A change of neighbours, or news, is followed by a comparison after this."""
SOON_TIMES = 3
"""So many comparisons, each after four times the wait, unless there are further news: nobody confirms a comparison that
finds nothing, and where messages get lost one in five does not arrive. The next regular one is far."""
VOUCHED_MAX = 64
"""Ranges of which one remembers when their owners last vouched for them."""
RETURN_ROWS = 40
"""Entries that are returned together: they go from owner to owner, so where messages get lost a long row of them would
hardly get on. A node that was alone on its side of a partition returns most of what it keeps."""


class SyncRound(StandingAlarm):
    """Rings when copies are to be compared."""

    incarnation: int


class SyncSoon(StandingAlarm):
    """Rings a moment after neighbours have changed or there were news: which news, and for the how manieth time."""

    news: int
    time: int


class Comparisons(Shareholder):
    """One node's share in keeping copies equal, and nothing for good that is none of its business or is over."""

    __slots__ = (
        "_asks",
        "_came_back",
        "_look_us",
        "_looked_through",
        "_news",
        "_repairs",
        "_soon",
        "_vouched_us",
    )

    def __init__(self, share: Share, came_back: Callable[[], None]) -> None:
        """`came_back()`: this node may have missed what was told to all."""
        super().__init__(share)
        self._came_back = came_back
        self._vouched_us: Recent[tuple[int, int], int] = Recent(VOUCHED_MAX)
        self._news = self._repairs = self._asks = self._look_us = 0
        self._looked_through = (0, 0)
        self._soon = False

    def begin(self, least: float = 0.5) -> None:
        """Compare regularly from now on; `least`: the first time after so much of a period at least."""
        if self._share.settings.sync_us:
            self._ring.later(
                self._share.settings.sync_us, SyncRound(self._ring.me.incarnation), least
            )

    def soon(self) -> None:
        """Compare in a moment, and twice more."""
        if not self._soon:
            self._soon, self._news = True, self._news + 1
            self._ring.later(SOON_US, SyncSoon(self._news, 1))

    @handles(SyncSoon)
    def on_sync_soon(self, alarm: SyncSoon) -> None:
        if alarm.news != self._news:
            return  # there are newer ones, with comparisons of their own
        self._soon = False
        if alarm.time < SOON_TIMES and self._ring.state == IN:
            self._ring.later(SOON_US << 2 * alarm.time, SyncSoon(alarm.news, alarm.time + 1))
        self._compare()

    @handles(SyncRound)
    def on_sync_round(self, alarm: SyncRound) -> None:
        if alarm.incarnation == self._ring.me.incarnation and self._ring.state == IN:
            self.begin()
            self._compare()

    def _compare(self) -> None:
        self._sync()
        share = self._share
        if share.is_ready and (
            self._has_doubts() or share.is_further(share.copies_low(), share.floor_key)
        ):
            # A node that has come near enough to keep copies here may not know.
            for ref in self._ring.lefts[: share.settings.copies]:
                self.host.send(ref.address, Compare())
        self._give_back()  # a node that was alone on its side of a partition keeps much that others want

    def _sync(self) -> None:
        ring, share = self._ring, self._share
        if ring.state == IN and share.is_ready and ring.right != ring.me and share.settings.copies:
            low = share.low()
            ring.tell_right(
                Summary(ring.me, low, *share.rows.summary(low, share.own), share.settings.copies)
            )

    def _has_doubts(self) -> bool:
        """Whether this node has come back lately, and has not asked a few times what it lacks."""
        self._asks = max(0, self._asks - 1)
        return self._asks > 0

    def notice_return(self) -> None:
        """The link from the left was repaired: a node that was passed over lacks copies of what was laid meanwhile, and
        did not hear what was told to all: whether its own entries are lost."""
        if (repairs := self._ring.lnum[0]) != self._repairs:
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
        high = self._chord.table.key_of(summary.by)
        if share.rows.summary(summary.low, high) == (summary.count, summary.total):
            self._vouched(summary.low, high)
        else:
            self._send(summary.by, OFFER, summary.low, high)
        if summary.more > 1 and ring.right not in (ring.me, summary.by):
            ring.tell_right(replace(summary, more=summary.more - 1))

    def _vouched(self, low: int, high: int) -> None:
        """What is kept of (low, high] is what its owner keeps: it vouches for it. Noted a few times per lease."""
        now_us, share = self.host.now_us, self._share
        if self._vouched_us.get((low, high), 0) + share.settings.lease_us // 10 <= now_us:
            self._vouched_us[low, high], owns = now_us, self._chord.table.owns
            for entry in share.rows.within(low, high):
                if not owns(entry.row.key):
                    entry.vouch(now_us)
        is_more = share.is_ready and share.is_further(low, share.floor_key)
        if is_more and (high == share.floor_key or up_to(share.floor_key, high, share.own)):
            share.open(low)

    @handles(Rows)
    def on_rows(self, sender: Address, rows: Rows) -> None:
        if self._ring.state != IN:
            return
        self.learn((row for row in rows.rows if self._share.rows.is_news(row)), sender)
        if rows.kind == OFFER and rows.part == rows.parts - 1:
            self._send(rows.by, REPLY, rows.low, rows.high)

    def _send(self, to: Ref, kind: int, low: int, high: int) -> None:
        for part in self._share.parts(low, high):
            self.host.send(to.address, Rows(self._ring.me, kind, low, high, *part))

    def learn(self, rows: Iterable[Row], sender: Address | None = None) -> bool:
        """From copies and from what came back: was anything new? The keepers of copies of it are told soon. What is not
        its owner's word is not taken; but from the keeper itself, `sender`, that a lease is over."""
        share, before = self._share, self._share.rows.changes
        if share.deeds.signed:
            rows = [row for row in rows if self._is_told(row, sender)]
        share.take(row for row in rows if share.key_of(row.slot[1], row.slot[2]) == row.key)
        if share.rows.changes != before:
            self.soon()
        return share.rows.changes != before

    def _is_told(self, row: Row, sender: Address | None) -> bool:
        if (
            known := self._share.rows.get(row.slot, row.ident)
        ) is not None and known.row.packed == row.packed:
            return False  # most of what copies tell each other is known
        return self._share.deeds.are_sound((row,)) if row.packed else self._answers(sender, row.key)

    def _answers(self, who: Address | None, key: int) -> bool:
        """Whether this is a left neighbour that answers for a key, as far as is known here."""
        lefts = self._ring.lefts
        keys = [*map(self._chord.table.key_of, lefts), self._share.own]
        return any(
            ref.address == who and up_to(keys[at + 1], key, keys[at])
            for at, ref in enumerate(lefts)
        )

    # What is kept where it does not belong

    def _give_back(self) -> None:
        """Also forgets what is over. Nothing has to be looked through again while nothing changes."""
        share, now_us = self._share, self.host.now_us
        rows, beyond, lease_us = share.rows, share.copies_low(), share.settings.lease_us
        if not share.is_ready or (
            self._looked_through == (rows.changes, beyond) and now_us < self._look_us
        ):
            return
        if lease_us:
            self._look_us = now_us + min(lease_us // 10, REMEMBERED_US)
            rows.expire(now_us, lease_us)
        held = rows.within(share.own, beyond) if beyond != share.own else []
        strays = sorted((each.row for each in held), key=lambda row: row.key)
        self._looked_through = (0, 0) if strays else (rows.changes, beyond)
        for part in in_rows(strays, RETURN_ROWS):
            self.on_return(self.address, Return(part[0].key, part, self.address))

    @handles(Return)
    def on_return(self, sender: Address, back: Return) -> None:
        share, chord = self._share, self._chord
        if chord.pass_on(back.key, back, sender) or not share.is_ready:
            return
        low, mask, owns = share.low(), chord.table.mask, chord.owns
        ours = sorted(
            (row for row in back.rows if owns(row.key)), key=lambda row: (row.key - low - 1) & mask
        )
        self.learn(ours)
        if (
            back.origin != self.address and ours
        ):  # only as far as this row went: others may still be on their way
            self.host.send(back.origin, Returned((ours[0].key - 1) & mask, ours[-1].key))
        rest = tuple(row for row in back.rows if not owns(row.key))
        if rest:
            self.on_return(self.address, Return(rest[0].key, rest, back.origin))

    @handles(Returned)
    def on_returned(self, sender: Address, returned: Returned) -> None:
        """Forget what has arrived; but not on the word of a left neighbour that, as far as is known here, does not
        answer for it: it has lost sight of those between, and what it keeps alone dies with it."""
        share, beyond, near = (
            self._share,
            self._share.copies_low(),
            [ref.address for ref in self._ring.lefts],
        )
        is_told = sender not in near or self._answers(sender, returned.high)
        if (
            is_told and beyond != share.own and share.settings.copies
        ):  # the only other one may belong to a leaver
            share.retract()
            theirs = (entry.row for entry in share.rows.within(returned.low, returned.high))
            share.rows.drop([row for row in theirs if not up_to(beyond, row.key, share.own)])


def in_rows(rows: Sequence[Row], most: int) -> Iterator[tuple[Row, ...]]:
    """Rows in order of their keys, about so many at a time; those of one key stay together."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or (end - start >= most and rows[end].key != rows[end - 1].key):
            yield tuple(rows[start:end])
            start = end
