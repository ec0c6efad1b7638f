"""Anti-entropy: makes the copies at a node's successors equal to what the node itself stores.

A node sends a digest of its owned range along its successors. A successor whose digest differs
sends all its entries of the range and receives all of the node's; afterwards both have the newest
version of each. Entries that a node holds without owning them or keeping copies for their owner are
*strays*: they are returned to their owner by routing, and dropped once acknowledged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from implicast.casting.replicated_lists.entries import ListEntry, Part, RingKey, SomeEntries
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.settings import ENTRIES_PER_MESSAGE
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, StandingAlarm, handles
from implicast.peer.fields import Flag, Token
from implicast.peer.handoff import in_parts
from implicast.peer.memory import Recent
from implicast.peer.replica_table import TOMBSTONE_US
from implicast.space.ring import up_to

SOON_US = 300_000
"""Delay of the first comparison after a change of neighbours or of entries."""
SOON_TIMES = 3
"""Comparisons after a change, each after four times the previous delay. A digest that matches is
not acknowledged, and with message loss one in five does not arrive; the next periodic round is far.
"""
PAUSE_PERIODS = 4
"""Periods without a comparison after which this node counts as having been suspended."""
CONFIRMED_MAX = 64
"""Ranges for which the time of the last matching digest is remembered."""
RETURN_ENTRIES = 40
"""Entries in one `ReturnEntries`. The message visits one owner after the other, so with message
loss a long one would rarely arrive in full. A node that was alone on its side of a partition
returns most of what it stores.
"""


Sum = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Few = Annotated[int, Meta(ge=0, le=8)]
"""Successors to which a message is still to be forwarded."""
OFFER, REPLY = range(2)


class RangeDigest(Message):
    """Anti-entropy: count and digest of the entries that `by` owns, in (low, key of `by`].
    Forwarded along `more` successors, which hold copies of them.
    """

    wire = 0x0607
    by: Ref
    low: RingKey
    count: Token
    total: Sum
    more: Few


class DigestRequest(Message):
    """Anti-entropy: the sender holds copies of the receiver's entries, or should, and asks for a
    `RangeDigest`.
    """

    wire = 0x0608


class SyncEntries(Message):
    """Anti-entropy: entries of the keys (low, high], part `part` of `parts`. OFFER asks for the
    receiver's entries of that range in return; REPLY does not.
    """

    wire = 0x0609
    by: Ref
    kind: Flag
    low: RingKey
    high: RingKey
    part: Part
    parts: Part
    entries: SomeEntries


class ReturnEntries(Message):
    """Entries that `origin` holds although it neither owns them nor keeps copies for their owner.
    Routed to the first key; each node on the way stores those it owns and forwards the rest.
    """

    wire = 0x060D
    key: RingKey
    entries: SomeEntries
    origin: Address


class EntriesReturned(Message):
    """Acknowledges `ReturnEntries`: the sender owns (low, high] and stored what was returned."""

    wire = 0x060E
    low: RingKey
    high: RingKey


class SyncRound(StandingAlarm):
    """Fires when the next periodic comparison is due."""

    incarnation: int


class SyncAfterChange(StandingAlarm):
    """Fires shortly after a change of neighbours or entries: number of the change, and which of its
    `SOON_TIMES` comparisons.
    """

    news: int
    time: int


class AntiEntropy(HolderPart):
    """Keeps copies equal, returns strays and drops expired entries."""

    __slots__ = (
        "_asks",
        "_confirmed_us",
        "_news",
        "_next_scan_us",
        "_on_missed_broadcasts",
        "_repairs",
        "_round_us",
        "_scanned",
        "_sync_armed",
    )

    def __init__(self, state: HolderState, on_missed_broadcasts: Callable[[], None]) -> None:
        """`on_missed_broadcasts()`: called when this node was bypassed and may have missed
        broadcasts.
        """
        super().__init__(state)
        self._on_missed_broadcasts = on_missed_broadcasts
        self._confirmed_us: Recent[tuple[int, int], int] = Recent(CONFIRMED_MAX)
        self._news = self._repairs = self._asks = self._next_scan_us = 0
        self._scanned = (0, 0)
        self._sync_armed = False
        self._round_us = -1
        """Time of the last periodic comparison; -1: none yet."""

    def start_rounds(self, least: float = 0.5) -> None:
        """Start periodic comparison; `least`: least part of a period before the first."""
        if self._state.settings.sync_us:
            alarm = SyncRound(self._ring.me.incarnation)
            self._ring.after_jittered(self._state.settings.sync_us, alarm, least)

    def sync_soon(self) -> None:
        """Compare after `SOON_US`, and twice more."""
        if not self._sync_armed:
            self._sync_armed, self._news = True, self._news + 1
            self._ring.after_jittered(SOON_US, SyncAfterChange(self._news, 1))

    @handles(SyncAfterChange)
    def on_sync_soon(self, alarm: SyncAfterChange) -> None:
        if alarm.news != self._news:
            return  # a newer change has its own comparisons
        self._sync_armed = False
        if alarm.time < SOON_TIMES and self._ring.state == IN:
            again = SyncAfterChange(alarm.news, alarm.time + 1)
            self._ring.after_jittered(SOON_US << 2 * alarm.time, again)
        self._compare()

    @handles(SyncRound)
    def on_sync_round(self, alarm: SyncRound) -> None:
        if alarm.incarnation == self._ring.me.incarnation and self._ring.state == IN:
            self._extend_leases_after_pause()
            self._round_us = self.host.now_us
            self.start_rounds()
            self._compare()

    def _extend_leases_after_pause(self) -> None:
        """A suspended node receives no renewals. When periodic comparisons stopped for more than
        four periods, the pause does not count in leases: an expired entry would otherwise become a
        removal that wins against the renewed entry at the other holders.
        """
        pause_us = self.host.now_us - self._round_us
        if self._round_us >= 0 and pause_us > PAUSE_PERIODS * self._state.settings.sync_us:
            self._round_us = self.host.now_us
            self._state.entries.extend_leases(pause_us)

    def _compare(self) -> None:
        self.send_digest()
        state = self._state
        if state.is_ready and (
            self.wants_digests() or state.is_further(state.copies_low(), state.floor_key)
        ):
            # A node that has just moved into the copies of a predecessor may be unknown to it.
            for ref in self._ring.lefts[: state.settings.copies]:
                self.host.send(ref.address, DigestRequest())
        # a node that was alone on its side of a partition holds entries of many others
        self._return_strays()

    def send_digest(self) -> None:
        ring, state = self._ring, self._state
        if ring.state == IN and state.is_ready and ring.right != ring.me and state.settings.copies:
            low = state.low()
            digest = state.entries.summary(low, state.own)
            ring.send_right(RangeDigest(ring.me, low, *digest, state.settings.copies))

    def wants_digests(self) -> bool:
        """Whether this node was bypassed recently and still has requests for digests to make."""
        self._asks = max(0, self._asks - 1)
        return self._asks > 0

    def note_repair(self) -> None:
        """The link from the predecessor was repaired. A node that was bypassed lacks copies of what
        was put meanwhile, and missed broadcasts, among them that its own entries are lost.
        """
        if (repairs := self._ring.lnum[0]) != self._repairs:
            self._repairs, self._asks = repairs, SOON_TIMES + 1
            self._on_missed_broadcasts()

    @handles(DigestRequest)
    def on_compare(self, sender: Address, compare: DigestRequest) -> None:
        if self._ring.state == IN:
            self.sync_soon()

    @handles(RangeDigest)
    def on_summary(self, sender: Address, summary: RangeDigest) -> None:
        ring, state = self._ring, self._state
        if ring.state != IN or summary.by == ring.me:
            return
        high = self._chord.table.key_of(summary.by)
        if summary.more == 1 and state.is_ready:
            state.limit_to(summary.low)  # copies of keys before these end at an earlier node
        if state.entries.summary(summary.low, high) == (summary.count, summary.total):
            self._note_confirmed(summary.low, high)
        else:
            self._send(summary.by, OFFER, summary.low, high)
        if summary.more > 1 and ring.right not in (ring.me, summary.by):
            ring.send_right(replace(summary, more=summary.more - 1))

    def _note_confirmed(self, low: int, high: int) -> None:
        """The copies of (low, high] equal those of their holder: renew them, at most ten times per
        lease. If the range adjoins the complete one, extend `floor_key` to it.
        """
        now_us, state = self.host.now_us, self._state
        if self._confirmed_us.get((low, high), 0) + state.settings.lease_us // 10 <= now_us:
            self._confirmed_us[low, high], owns = now_us, self._chord.table.owns
            for held in state.entries.within(low, high):
                if not owns(held.entry.key):
                    held.renew(now_us)
        is_more = state.is_ready and state.is_further(low, state.floor_key)
        if is_more and (high == state.floor_key or up_to(state.floor_key, high, state.own)):
            state.set_complete_from(low)

    @handles(SyncEntries)
    def on_sync_entries(self, sender: Address, entries: SyncEntries) -> None:
        if self._ring.state != IN:
            return
        self.merge(filter(self._state.entries.is_relevant, entries.entries), sender)
        if entries.kind == OFFER and entries.part == entries.parts - 1:
            self._send(entries.by, REPLY, entries.low, entries.high)

    def _send(self, to: Ref, kind: int, low: int, high: int) -> None:
        held = [held.entry for held in self._state.entries.within(low, high)]
        for part in in_parts(held, ENTRIES_PER_MESSAGE):
            self.host.send(to.address, SyncEntries(self._ring.me, kind, low, high, *part))

    def merge(self, entries: Iterable[ListEntry], sender: Address | None = None) -> bool:
        """Store entries received from other copies; return whether anything changed, in which case
        the successors are compared soon. In a signed network an entry needs its owner's proof; an
        unsigned removal (expired lease) is accepted from its holder `sender` only.
        """
        state, before = self._state, self._state.entries.changes
        if state.proofs.signed:
            entries = [entry for entry in entries if self._is_acceptable(entry, sender)]
        state.store(entry for entry in entries if state.key_of(*entry.slot[1:]) == entry.key)
        if is_changed := state.entries.changes != before:
            self.sync_soon()
        return is_changed

    def _is_acceptable(self, entry: ListEntry, sender: Address | None) -> bool:
        known = self._state.entries.get(entry.slot, entry.ident)
        if known is not None and known.entry.packed == entry.packed:
            return False  # most entries received in anti-entropy are known
        if not entry.packed:
            return self._owns_key(sender, entry.key)
        return self._state.proofs.are_valid((entry,))

    def _owns_key(self, who: Address | None, key: int) -> bool:
        """Whether this address is a predecessor that owns the key, as far as this node knows."""
        lefts = self._ring.lefts
        keys = [*map(self._chord.table.key_of, lefts), self._state.own]
        return any(
            ref.address == who and up_to(keys[at + 1], key, keys[at])
            for at, ref in enumerate(lefts)
        )

    # Strays

    def _return_strays(self) -> None:
        """Drop expired entries and return strays. Skipped while nothing has changed since the last
        scan.
        """
        state, now_us = self._state, self.host.now_us
        entries, beyond, lease_us = state.entries, state.copies_low(), state.settings.lease_us
        if not state.is_ready or (
            self._scanned == (entries.changes, beyond) and now_us < self._next_scan_us
        ):
            return
        if lease_us:
            self._extend_leases_after_pause()
            self._next_scan_us = now_us + min(lease_us // 10, TOMBSTONE_US)
            entries.expire(now_us, lease_us)
        held = entries.within(state.own, beyond) if beyond != state.own else []
        strays = sorted((each.entry for each in held), key=lambda entry: entry.key)
        self._scanned = (0, 0) if strays else (entries.changes, beyond)
        for part in in_batches(strays, RETURN_ENTRIES):
            self.on_return(self.address, ReturnEntries(part[0].key, part, self.address))

    @handles(ReturnEntries)
    def on_return(self, sender: Address, back: ReturnEntries) -> None:
        state, chord = self._state, self._chord
        if chord.forward(back.key, back, sender) or not state.is_ready:
            return
        low, mask = state.low(), chord.table.mask
        ours = sorted(
            (entry for entry in back.entries if chord.owns(entry.key)),
            key=lambda entry: (entry.key - low - 1) & mask,
        )
        self.merge(ours)
        if back.origin != self.address and ours:
            # only up to the last entry of this message: others may still be on their way
            self.host.send(back.origin, EntriesReturned((ours[0].key - 1) & mask, ours[-1].key))
        rest = tuple(entry for entry in back.entries if not chord.owns(entry.key))
        if rest:
            self.on_return(self.address, ReturnEntries(rest[0].key, rest, back.origin))

    @handles(EntriesReturned)
    def on_returned(self, sender: Address, returned: EntriesReturned) -> None:
        """Drop strays that have arrived. An acknowledgement from a predecessor that, as far as this
        node knows, does not own the keys is ignored: that node has lost sight of nodes in between,
        and would hold the only copy.
        """
        state, beyond = self._state, self._state.copies_low()
        is_near = any(ref.address == sender for ref in self._ring.lefts)
        if is_near and not self._owns_key(sender, returned.high):
            return
        # without copies, the only other copy may be at a leaving node
        if beyond != state.own and state.settings.copies:
            state.limit_to(beyond)
            held = [held.entry for held in state.entries.within(returned.low, returned.high)]
            state.entries.drop([entry for entry in held if not up_to(beyond, entry.key, state.own)])


def in_batches(entries: Sequence[ListEntry], most: int) -> Iterator[tuple[ListEntry, ...]]:
    """Split entries, sorted by key, into batches of about `most`; one key stays together."""
    start = 0
    for end in range(1, len(entries) + 1):
        if end == len(entries) or (
            end - start >= most and entries[end].key != entries[end - 1].key
        ):
            yield tuple(entries[start:end])
            start = end
