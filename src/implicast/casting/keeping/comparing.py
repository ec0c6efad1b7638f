"""Comparing copies: what a node answers for, and what its right neighbours keep of it, become the same.

A summary goes along the right neighbours. Whoever has something else sends all it has of it and gets all the other has:
both know the newest word about each entry afterwards. `floor_key` is how far to the left this node has everything.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator

from implicast.casting.keeping.messages import (
    BEQUEST,
    CLAIMED,
    OFFER,
    REPLY,
    Compare,
    LaidAt,
    Row,
    Rows,
    RowsTaken,
    Summary,
    SyncRound,
    SyncSoon,
)
from implicast.casting.keeping.rows import KeptRows
from implicast.casting.keeping.settings import KeepingSettings
from implicast.language.target import Scalar
from implicast.overlay.chord import LivingChord, Tenant
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.ring import up_to

ROWS_PER_MESSAGE = 500
"""Entries in one message."""
SOON_US = 300_000
"""A change of neighbours, or news, is followed by a comparison after this."""
SOON_TIMES = 3
"""So many comparisons, each after four times the wait, unless there are further news: nobody confirms a comparison that
finds nothing, and where messages get lost one in five does not arrive. The next regular one is far."""
VOUCHED_MAX = 64
"""Ranges of which one remembers when their owners last vouched for them."""

KeyOf = Callable[[str, Scalar], int]


class Comparing(Part, Tenant):
    """The entries of one node, and its share in keeping copies equal."""

    __slots__ = (
        "_asks",
        "_going",
        "_lacked",
        "_lefts",
        "_news",
        "_own",
        "_parts",
        "_repairs",
        "_soon",
        "_told_us",
        "_tries",
        "_vouched_us",
        "came_back",
        "chord",
        "died",
        "floor_key",
        "is_ready",
        "joined",
        "key_of",
        "lacks",
        "laid",
        "left_ring",
        "lives",
        "rows",
        "settings",
        "sight",
        "takes",
    )

    def __init__(
        self, address: Address, host: Host, chord: LivingChord, key_of: KeyOf, settings: KeepingSettings
    ) -> None:
        super().__init__(address, host)
        self.chord, self.key_of, self.settings = chord, key_of, settings
        chord.tenant = self
        self.rows = KeptRows()
        self.joined: Callable[[], None] = lambda: None
        self.left_ring: Callable[[], None] = lambda: None
        self.laid: Callable[[LaidAt], None] = lambda laid: None
        self.lacks: Callable[[int, int], None] = lambda low, high: None
        self.died: Callable[[Address], None] = lambda who: None
        self.came_back: Callable[[], None] = lambda: None
        self.takes: Callable[[Row], bool] = lambda row: True
        self.lives: Callable[[Address], None] = lambda who: None
        self._lefts: tuple[Ref, ...] = ()
        self._told_us: dict[Ref, int] = {}
        """Of whose death all were told, and when; of those between the left neighbour and this node."""
        self.is_ready = False
        """Whether this node has what it answers for."""
        self._own = chord.table.own
        """The own key: the same in every life."""
        self.floor_key = self._own
        """It has everything of (floor, own]; the whole circle when they are equal."""
        self._parts: set[int] = set()
        self._vouched_us: dict[tuple[int, int], int] = {}
        self._lacked = (0, 0)
        self._tries = self._news = self._repairs = self._asks = 0
        self._going = self._soon = False
        self.sight: object = None
        """What those who look from outside have left here, to be quicker the next time."""

    # Where this node stands

    def _low(self) -> int:
        """It answers for (low, own]."""
        table = self.chord.table
        return (table.own - table.span) & table.mask

    def _copies_low(self) -> int:
        """It keeps copies down to here: of so many left neighbours."""
        lefts = self.chord.ring.lefts
        beyond = lefts[self.settings.copies].key if len(lefts) > self.settings.copies else self._own
        assert isinstance(beyond, int), "Chord's keys are identifiers"
        return beyond

    def _is_further(self, low: int, other: int) -> bool:
        """Whether (low, own] is more than (other, own]."""
        mask = self.chord.table.mask
        return (self._own - low - 1) & mask > (self._own - other - 1) & mask

    def _take(self, rows: Iterable[Row]) -> bool:
        now_us = self.host.now_us
        refused = [row for row in rows if self.takes(row) and not self.rows.take(row, now_us)]
        return not refused

    def _learn(self, rows: Iterable[Row]) -> None:
        """From copies and from what came back: who keeps copies of what was new here is told soon, not next time."""
        before = self.rows.changes
        self._take(rows)
        if self.rows.changes != before:
            self._sync_soon()

    # Comparing

    def _next_sync(self) -> None:
        wait_us = int(self.settings.sync_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, SyncRound(self.chord.ring.me.life))

    def _sync_soon(self) -> None:
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
        if alarm.time < SOON_TIMES and self.chord.ring.state == IN:
            self._compare_in(SOON_US << 2 * alarm.time, SyncSoon(alarm.news, alarm.time + 1))
        self._sync()
        self._ask_for_summaries()
        self._return_what_is_not_ours()  # whoever was alone on its side of a partition keeps much that others want

    def _ask_for_summaries(self) -> None:
        """Whoever has come near enough to keep copies here may not know."""
        if self.is_ready and (self._has_doubts() or self._is_further(self._copies_low(), self.floor_key)):
            for ref in self.chord.ring.lefts[: self.settings.copies]:
                self.host.send(ref.address, Compare())

    def _has_doubts(self) -> bool:
        """Whether this node has come back lately, and has not asked a few times what it lacks."""
        self._asks = max(0, self._asks - 1)
        return self._asks > 0

    def _notice_return(self) -> None:
        """The link from the left was repaired: nothing may have come over it for a while. Who was passed over lacks
        copies of what was laid meanwhile, though its neighbours are the same, and those beyond the nearest do not know
        that it is back. And it did not hear what was told to all: whether its own entries are lost."""
        repairs = self.chord.ring.lnum[0]
        if repairs != self._repairs:
            self._repairs, self._asks = repairs, SOON_TIMES + 1
            self.came_back()

    @handles(Compare)
    def on_compare(self, sender: Address, compare: Compare) -> None:
        if self.chord.ring.state == IN:
            self._sync_soon()

    @handles(SyncRound)
    def on_sync_round(self, alarm: SyncRound) -> None:
        if alarm.life == self.chord.ring.me.life and self.chord.ring.state == IN:
            self._next_sync()
            self._sync()
            self._ask_for_summaries()
            self._return_what_is_not_ours()

    def _sync(self) -> None:
        ring = self.chord.ring
        if ring.state == IN and self.is_ready and ring.right != ring.me and self.settings.copies:
            low = self._low()
            summary = Summary(ring.me, low, *self.rows.summary(low, self._own), self.settings.copies)
            self.host.send(ring.right.address, summary)

    @handles(Summary)
    def on_summary(self, sender: Address, summary: Summary) -> None:
        ring = self.chord.ring
        if ring.state != IN or summary.by == ring.me:
            return
        high = summary.by.key
        assert isinstance(high, int), "Chord's keys are identifiers"
        if self.rows.summary(summary.low, high) == (summary.count, summary.total):
            self._vouched(summary.low, high)
        else:
            self._send_rows(summary.by, OFFER, summary.low, high)
        if summary.more > 1 and ring.right not in (ring.me, summary.by):
            onward = Summary(summary.by, summary.low, summary.count, summary.total, summary.more - 1)
            self.host.send(ring.right.address, onward)

    def _vouched(self, low: int, high: int) -> None:
        """What is kept of (low, high] is what its owner keeps: it vouches for it. Noted a few times per lease."""
        now_us = self.host.now_us
        if self._vouched_us.get((low, high), 0) + self.settings.lease_us // 10 <= now_us:
            self._vouched_us[low, high] = now_us
            if len(self._vouched_us) > VOUCHED_MAX:
                del self._vouched_us[next(iter(self._vouched_us))]
            for entry in self.rows.within(low, high):
                if not self.chord.owns(entry.row.key):
                    entry.heard_us = now_us
        is_more = self.is_ready and self._is_further(low, self.floor_key)
        if is_more and (high == self.floor_key or up_to(self.floor_key, high, self._own)):
            self.floor_key = low

    def _send_rows(self, to: Ref, kind: int, low: int, high: int) -> None:
        rows = [entry.row for entry in self.rows.within(low, high)]
        parts = max(1, -(-len(rows) // ROWS_PER_MESSAGE))
        for part in range(parts):
            chunk = tuple(rows[part * ROWS_PER_MESSAGE : (part + 1) * ROWS_PER_MESSAGE])
            self.host.send(to.address, Rows(self.chord.ring.me, kind, low, high, part, parts, chunk))

    @handles(Rows)
    def on_rows(self, sender: Address, rows: Rows) -> None:
        if self.chord.ring.state != IN:
            return
        self._learn(row for row in rows.rows if self.rows.is_news(row))
        if rows.kind == OFFER and rows.part == rows.parts - 1:
            self._send_rows(rows.by, REPLY, rows.low, rows.high)
        elif rows.kind == BEQUEST:
            self.host.send(rows.by.address, RowsTaken(rows.part, rows.parts))
        elif rows.kind == CLAIMED and not self.is_ready:
            self._parts.add(rows.part)
            if len(self._parts) == rows.parts:
                self.begin_serving()

    @abstractmethod
    def _return_what_is_not_ours(self) -> None:
        """What is kept where it does not belong goes to whoever answers for it (`returning.py`)."""

    @abstractmethod
    def begin_serving(self) -> None:
        """What this node answers for has come."""

    def held(self) -> Iterator[Row]:
        """Everything that is kept here."""
        return (entry.row for entry in self.rows.entries())
