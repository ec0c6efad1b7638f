"""Keeps lists for others so that they outlive their keeper: what a node answers for, its right neighbours have too.

- *Laying.* The node that answers for a value takes the entry and sends it along its right neighbours; the last of
  `copies` tells whoever asked. So an entry counts as laid only when it is copied.
- *Comparing.* Now and then, and soon after the neighbourhood has changed, a node sends a summary of what it answers for
  along the same way. Whoever has something else sends all it has of it and gets all the other has: both know the newest
  word about each entry afterwards. That heals whatever was lost on the way or came to the wrong one.
- *Promotion.* Who inherits the keys of a dead neighbour has its lists already.
- *Returning.* What a node keeps beyond its own keys and copies is sent to whoever answers for it.
- *Lack.* A node knows how far to the left it has everything (`floor`). When it inherits more than that, all copies of
  the rest died together: it tells everybody (`lacking.py`), and those whose entries were there lay them again.

A newcomer claims from its right neighbour what it now answers for and is silent to askers until that has come; a leaver
makes sure that its right neighbour has everything. Left out: summaries finer than one per node.
"""

from collections.abc import Callable, Iterable, Iterator

from implicast.casting.keeping.messages import (
    BEQUEST,
    CLAIMED,
    OFFER,
    REPLY,
    ClaimLate,
    ClaimRows,
    Compare,
    Copy,
    LaidAt,
    Lay,
    Renew,
    Renewed,
    Return,
    Returned,
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
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.space.ring import up_to

ROWS_PER_MESSAGE = 500
"""Entries in one message."""
SOON_US = 300_000
"""A change of neighbours is followed by a comparison after this."""
VOUCHED_MAX = 64
"""Ranges of which one remembers when their owners last vouched for them."""
CLAIM_US = 1_500_000
"""Patience with a neighbour that was asked for an estate or given one; jittered by half."""
CLAIMS_MAX = 8
"""Attempts to claim or to bequeath; then a newcomer begins with what it has, a leaver goes: comparing does the rest."""

KeyOf = Callable[[str, Scalar], int]


class Keeper(Part, Tenant):
    """One peer's share of all lists."""

    __slots__ = (
        "_going",
        "_look_us",
        "_looked_through",
        "_parts",
        "_soon",
        "_tries",
        "_vouched_us",
        "chord",
        "floor_key",
        "is_ready",
        "joined",
        "key_of",
        "lacks",
        "laid",
        "left_ring",
        "rows",
        "settings",
    )  # fmt: skip

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
        self.is_ready = False
        """Whether this node has what it answers for."""
        self.floor_key = chord.table.own
        """It has everything of (floor, own]; the whole circle when they are equal."""
        self._parts: set[int] = set()
        self._vouched_us: dict[tuple[int, int], int] = {}
        self._looked_through = (0, 0)
        self._look_us = self._tries = 0
        self._going = self._soon = False

    # Where this node stands

    @property
    def _own(self) -> int:
        return self.chord.table.own

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

    # Coming, staying, going

    def stand(self) -> None:
        """Be part of a ring that has stood for long, with nothing kept yet."""
        self.is_ready = True
        self.floor_key = self._copies_low()
        self.chord.stand()
        self.host.after(int(self.host.rng.random() * self.settings.sync_us), SyncRound(self.chord.ring.me.life))

    def entered(self) -> None:
        self._parts, self._tries, self.is_ready = set(), 0, False
        self.floor_key = self._own
        self._next_sync()
        self._claim()

    def _claim(self) -> None:
        ring = self.chord.ring
        self._tries += 1
        if ring.right == ring.me or self._tries > CLAIMS_MAX:
            self._begin_serving()
            return
        self._try_again_later()
        self.host.send(ring.right.address, ClaimRows(ring.me, self._low()))

    def _begin_serving(self) -> None:
        self.is_ready = True
        self.floor_key = self._low()
        self.joined()
        self._sync_soon()
        if self._going:
            self.leave()

    def _try_again_later(self) -> None:
        wait_us = int(CLAIM_US * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, ClaimLate(self.chord.ring.me.life))

    @handles(ClaimLate)
    def on_claim_late(self, alarm: ClaimLate) -> None:
        ring = self.chord.ring
        if alarm.life != ring.me.life or ring.state != IN:
            return
        if not self.is_ready:
            self._claim()
        elif self._going:
            self._bequeath()

    @handles(ClaimRows)
    def on_claim(self, sender: Address, claim: ClaimRows) -> None:
        if self.is_ready and self.chord.ring.state == IN:
            assert isinstance(claim.by.key, int), "Chord's keys are identifiers"
            self._send_rows(claim.by, CLAIMED, claim.low, claim.by.key)

    def leave(self) -> None:
        """Make sure that the right neighbour has everything, then leave the ring. A newcomer first arrives."""
        first, self._going = not self._going, True
        ring = self.chord.ring
        if ring.state == OUT or (ring.state == IN and ring.right == ring.me):
            ring.leave()
        elif ring.state == IN and self.is_ready and first:
            self._tries = 0
            self._bequeath()

    def _bequeath(self) -> None:
        ring = self.chord.ring
        self._tries += 1
        if self._tries > CLAIMS_MAX or ring.right == ring.me:
            ring.leave()
            return
        self._try_again_later()
        self._send_rows(ring.right, BEQUEST, self._low(), self._own)

    @handles(RowsTaken)
    def on_taken(self, sender: Address, taken: RowsTaken) -> None:
        if self._going and self.chord.ring.state == IN:
            self._going = False
            self.chord.ring.leave()

    def departed(self) -> None:
        self.rows.clear()
        self.is_ready = self._going = False
        self.left_ring()

    def moved(self) -> None:
        """Neighbours have changed: what is answered for, and of whom copies are kept."""
        if not self.is_ready:
            return
        if self._is_further(self.floor_key, beyond := self._copies_low()):
            self.floor_key = beyond  # copies from further away do not come here any more
        low = self._low()
        if self._is_further(low, self.floor_key):
            before, self.floor_key = self.floor_key, low
            self.lacks(low, before)
        self._sync_soon()

    # Laying

    @handles(Lay)
    def on_lay(self, sender: Address, lay: Lay) -> None:
        if not self.comes_by(sender, lay):
            return
        own = self.own_values(lay.attribute, lay.low, lay.high)
        rows = tuple(Row(key, (lay.shelf, lay.attribute, value), lay.name, lay.stamp, lay.packed) for key, value in own)
        last = own[-1][1]
        if self._take(rows):
            me = self.chord.ring.me
            self._copy_on(Copy(me, rows, self.settings.copies, lay.origin, lay.serial, lay.low, last))
        if last != lay.high:
            assert isinstance(last, int), "only ranges of numbers go on"
            onward = Lay(
                self.key_of(lay.attribute, last + 1), lay.shelf, lay.attribute, last + 1, lay.high, lay.name, lay.stamp,
                lay.packed, lay.origin, lay.serial, lay.walks, lay.walks,
            )  # fmt: skip
            self.on_lay(self.address, onward)

    def comes_by(self, sender: Address, request: Message) -> bool:
        """Whether a request for a range is to be served here; otherwise it has been sent on."""
        key, walking = request.key, request.walking  # type: ignore[attr-defined]
        ring = self.chord.ring
        if walking and ring.state == IN and not self.chord.owns(key) and sender != self.address:
            if ring.right != ring.me:
                self.host.send(ring.right.address, request)
            return False
        return not self.chord.pass_on(key, request, None if walking else sender)

    def own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """The leading values of a range that belong here, with their keys."""
        if isinstance(low, str) or isinstance(high, str):
            return [(self.key_of(attribute, low), low)]
        found: list[tuple[int, Scalar]] = []
        for value in range(low, high + 1):
            key = self.key_of(attribute, value)
            if found and not self.chord.owns(key):
                break
            found.append((key, value))
        return found

    def _take(self, rows: Iterable[Row]) -> bool:
        now_us = self.host.now_us
        refused = [row for row in rows if not self.rows.take(row, now_us)]
        return not refused

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        if self.chord.ring.state == IN and copy.by != self.chord.ring.me and self._take(copy.rows):
            self._copy_on(Copy(copy.by, copy.rows, copy.more - 1, copy.origin, copy.serial, copy.low, copy.high))

    def _copy_on(self, copy: Copy) -> None:
        right = self.chord.ring.right
        if copy.more > 0 and right not in (self.chord.ring.me, copy.by):
            self.host.send(right.address, copy)
            return
        laid = LaidAt(copy.serial, copy.rows[0].stamp, copy.low, copy.high, copy.by.address)
        if copy.origin == self.address:
            self.laid(laid)
        else:
            self.host.send(copy.origin, laid)

    @handles(Renew)
    def on_renew(self, sender: Address, renew: Renew) -> None:
        self.host.send(sender, Renewed(tuple(self.lost_of(renew))))

    def lost_of(self, renew: Renew) -> list[tuple[int, Scalar, Scalar]]:
        """Which of these this node does not answer for, or has not; the others are renewed."""
        lost = []
        for serial, shelf, attribute, low, high, name, stamp in renew.pieces:
            values = [low] if isinstance(low, str) or isinstance(high, str) else range(low, high + 1)
            if not self.is_ready or not all(self._renew(shelf, attribute, value, name, stamp) for value in values):
                lost.append((serial, low, high))
        return lost

    def _renew(self, shelf: str, attribute: str, value: Scalar, name: int | tuple[str, int], stamp: int) -> bool:
        entry = self.rows.get((shelf, attribute, value), name)
        if entry is None or entry.row.stamp < stamp or not entry.row.packed or not self.chord.owns(entry.row.key):
            return False
        entry.heard_us = self.host.now_us
        return True

    # Comparing

    def _next_sync(self) -> None:
        wait_us = int(self.settings.sync_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, SyncRound(self.chord.ring.me.life))

    def _sync_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self.host.after(int(SOON_US * (0.5 + self.host.rng.random())), SyncSoon(self.chord.ring.me.life))

    @handles(SyncSoon)
    def on_sync_soon(self, alarm: SyncSoon) -> None:
        self._soon = False
        self._sync()
        self._ask_for_summaries()

    def _ask_for_summaries(self) -> None:
        """Whoever has come near enough to keep copies here may not know."""
        if self.is_ready and self._is_further(self._copies_low(), self.floor_key):
            for ref in self.chord.ring.lefts[: self.settings.copies]:
                self.host.send(ref.address, Compare())

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
        joins = high == self.floor_key or up_to(self.floor_key, high, self._own)
        if self.is_ready and joins and self._is_further(low, self.floor_key):
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
        self._take(rows.rows)
        if rows.kind == OFFER and rows.part == rows.parts - 1:
            self._send_rows(rows.by, REPLY, rows.low, rows.high)
        elif rows.kind == BEQUEST and rows.part == rows.parts - 1:
            self.host.send(rows.by.address, RowsTaken())
        elif rows.kind == CLAIMED and not self.is_ready:
            self._parts.add(rows.part)
            if len(self._parts) == rows.parts:
                self._begin_serving()

    # Returning

    def _return_what_is_not_ours(self) -> None:
        """Also forgets what is over. Nothing has to be looked through again while nothing changes."""
        beyond, now_us = self._copies_low(), self.host.now_us
        seen = (self.rows.changes, beyond)
        if not self.is_ready or (seen == self._looked_through and now_us < self._look_us):
            return
        self._look_us = now_us + self.settings.lease_us // 10
        self.rows.expire(now_us, self.settings.lease_us)
        self._looked_through = (self.rows.changes, beyond)
        if beyond == self._own:
            return
        strays = [entry.row for entry in self.rows.entries() if not up_to(beyond, entry.row.key, self._own)]
        strays.sort(key=lambda row: row.key)
        if strays:
            self._looked_through = (0, 0)
            self._send_back(Return(strays[0].key, tuple(strays[:ROWS_PER_MESSAGE]), self.address))

    def _send_back(self, back: Return) -> None:
        if not self.chord.pass_on(back.key, back):
            self.on_return(self.address, back)

    @handles(Return)
    def on_return(self, sender: Address, back: Return) -> None:
        if self.chord.pass_on(back.key, back, sender) or not self.is_ready:
            return
        self._take(row for row in back.rows if self.chord.owns(row.key))
        if back.origin != self.address:
            self.host.send(back.origin, Returned(self._low(), self._own))
        rest = tuple(row for row in back.rows if not self.chord.owns(row.key))
        if rest:
            self._send_back(Return(rest[0].key, rest, back.origin))

    @handles(Returned)
    def on_returned(self, sender: Address, returned: Returned) -> None:
        beyond = self._copies_low()
        if beyond != self._own:
            theirs = (entry.row for entry in self.rows.within(returned.low, returned.high))
            self.rows.drop([row for row in theirs if not up_to(beyond, row.key, self._own)])

    def held(self) -> Iterator[Row]:
        """Everything that is kept here."""
        return (entry.row for entry in self.rows.entries())
