"""Range handoff: moves entries when a node joins or leaves, and detects ranges that were lost.

A joining node pulls the range it now owns from its successor, and queues reads until it has
arrived. A leaving node pushes all its entries to its successor and leaves when they are
acknowledged. A node that takes over the range of a crashed predecessor without having copies of all
of it concludes that the holder and all copies crashed together, and broadcasts that the range is
lost (`ring_broadcast.py`).
"""

from collections.abc import Callable
from functools import partial

from implicast.casting.replicated_lists.anti_entropy import AntiEntropy
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.messages import (
    PullRange,
    RangeEntries,
    RangeTaken,
    SuspectReport,
)
from implicast.casting.replicated_lists.ring_broadcast import RingBroadcast
from implicast.overlay.links import Ref, RingListener
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Message, handles
from implicast.peer.events import Left

HANDOFF_WAIT_US = 1_500_000
"""Wait for the successor's answer to a pull or a push; with jitter of one half."""
HANDOFF_TRIES_MAX = 8
"""Attempts to pull or push. After the last one, a joining node starts with what it has and
broadcasts its range as lost, for the silent successor may have crashed with all copies. A leaving
node leaves; anti-entropy repairs the rest.
"""
TURNS = 256


class HandoffRetry(Message):
    """Fires when a pull or a push has not been answered in time."""

    incarnation: int
    turn: int


class RangeHandoff(HolderPart, RingListener):
    """Moves ranges on join, leave and crash."""

    __slots__ = (
        "_broadcast",
        "_handed_off",
        "_lefts",
        "_missing_range",
        "_on_joined",
        "_parts",
        "_pulled_low",
        "_reported_us",
        "_right",
        "_tries",
        "_turn",
        "anti_entropy",
    )

    def __init__(
        self,
        state: HolderState,
        anti_entropy: AntiEntropy,
        broadcast: RingBroadcast,
        on_joined: Callable[[], None],
    ) -> None:
        """`on_joined()`: this node has the entries of its range."""
        super().__init__(state)
        self.anti_entropy, self._broadcast, self._on_joined = anti_entropy, broadcast, on_joined
        self._turn = self._tries = self._parts = 0
        """`_turn`: number of the pull or push under way, to discard late answers to earlier ones;
        `_tries`: attempts without answer; `_parts`: bit set of the parts that have arrived.
        """
        self._handed_off = False
        """Whether a successor has acknowledged everything, so that this node may leave."""
        self._missing_range = (0, 0)
        self._pulled_low = state.own
        """Lower end of the range that was pulled last."""
        self._lefts: tuple[Ref, ...] = ()
        self._right = state.chord.ring.me
        """The right neighbour before the last change of neighbours."""
        self._reported_us: dict[Ref, int] = {}
        """Suspected nodes between the predecessor and this node that were reported, and when."""
        state.chord.set_listener(self)

    def restore(self) -> None:
        """Start as a member of an assembled ring, with no entries yet."""
        self._state.set_complete_from(self._state.copies_low())
        self._lefts, self._right = self._ring.lefts, self._ring.right
        self._chord.fingers.schedule_fix_fingers()
        self.anti_entropy.start_rounds(least=0.0)

    # Join

    def on_joined(self) -> None:
        self._tries = 0
        self._state.reset()
        self.anti_entropy.start_rounds()
        self._pull()

    def _pull(self) -> None:
        ring, is_alone = self._ring, self._ring.right == self._ring.me
        self._pulled_low = self._state.low()
        if not is_alone and self._tries < HANDOFF_TRIES_MAX:
            self._arm_retry()
            ring.send_right(PullRange(ring.me, self._pulled_low, self._turn))
            return
        if not is_alone:
            self._broadcast.announce_range_lost(self._pulled_low, self._state.own)
        self._begin_serving()

    def _begin_serving(self) -> None:
        """All losses are announced before the reads that waited are served."""
        self._state.set_complete_from(self._pulled_low)
        self._announce_missing()
        self._lefts, self._right = self._ring.lefts, self._ring.right
        self._on_joined()
        self.anti_entropy.sync_soon()
        if self._state.is_leaving:
            self.leave()

    def _arm_retry(self) -> None:
        self._tries, self._turn, self._parts = self._tries + 1, (self._turn + 1) % TURNS, 0
        self._ring.after_jittered(
            HANDOFF_WAIT_US, HandoffRetry(self._ring.me.incarnation, self._turn)
        )

    @handles(HandoffRetry)
    def on_handoff_retry(self, alarm: HandoffRetry) -> None:
        if (alarm.incarnation, alarm.turn) != (
            self._ring.me.incarnation,
            self._turn,
        ) or self._ring.state != IN:
            return
        if not self._state.is_ready:
            self._pull()
        elif self._state.is_leaving and not self._handed_off:
            self._push()

    @handles(PullRange)
    def on_pull_range(self, sender: Address, pull: PullRange) -> None:
        """Send a joining node its range. A node that joins where a holder and its copies have
        crashed cannot know that it receives only a part; this node can, and broadcasts the missing
        range.
        """
        state = self._state
        if not state.is_ready or self._ring.state != IN:
            return
        missing, key = (pull.low, state.floor_key), self._chord.table.key_of(pull.by)
        lost = state.lost_in(pull.low, key)
        if state.is_further(*missing):
            lost += ((*missing, 0),)
        uncertainty = lost, self._ring.liveness.silent.shared()
        for part in state.parts(pull.low, key):
            entries = RangeEntries(self._ring.me, False, pull.turn, *part, *uncertainty)
            self.host.send(pull.by.address, entries)
        if state.is_further(*missing) and self._missing_range != missing:
            self._missing_range = missing
            self._broadcast.announce_range_lost(*missing)

    # Leave

    def leave(self) -> None:
        """Push all entries to the successor, then leave the ring. A node that is still joining
        completes its join first.
        """
        self._state.set_leaving(True)
        ring = self._ring
        if ring.state == OUT or (ring.state == IN and ring.right == ring.me):
            ring.leave()
        elif ring.state == IN and self._state.is_ready:
            self._tries = 0
            self._push()

    def _push(self) -> None:
        ring, own = self._ring, self._state.own
        if self._tries >= HANDOFF_TRIES_MAX or ring.right == ring.me:
            ring.leave()
            return
        self._arm_retry()
        # Copies and strays too: a node that owned a key for a moment may have the newest version of
        # an entry.
        for part in self._state.parts(own, own):
            ring.send_right(RangeEntries(ring.me, True, self._turn, *part))

    @handles(RangeEntries)
    def on_range_entries(self, sender: Address, range_entries: RangeEntries) -> None:
        state = self._state
        if self._ring.state != IN or (range_entries.pushed and self._handed_off):
            # a pushed range would leave with this node: the sender retries with another successor
            return
        is_relevant = self.anti_entropy.merge(
            entry for entry in range_entries.entries if state.entries.is_relevant(entry)
        )
        if range_entries.pushed:
            self.host.send(
                range_entries.by.address,
                RangeTaken(range_entries.turn, range_entries.part, range_entries.parts),
            )
            if state.is_leaving and state.is_ready and is_relevant:
                self._push()  # its own successor must have what a leaving node receives
        elif not state.is_ready and self._completes(range_entries):
            self._ring.liveness.silent.inherit(range_entries.uncertainty)
            for low, high, age_us in range_entries.lost:
                state.note_lost(low, high, age_us)
                self._broadcast.watch_range_lost(low, high)
            self._begin_serving()

    def _completes(self, range_entries: RangeEntries | RangeTaken) -> bool:
        """Whether all parts of the pull or push under way have arrived."""
        if range_entries.turn == self._turn and range_entries.part < range_entries.parts:
            self._parts |= 1 << range_entries.part
        return self._parts.bit_count() == range_entries.parts

    @handles(RangeTaken)
    def on_range_taken(self, sender: Address, taken: RangeTaken) -> None:
        if self._state.is_leaving and self._ring.state == IN and self._completes(taken):
            self._handed_off = True
            self._ring.leave()

    def on_departed(self) -> None:
        self._state.entries.clear()
        self._state.reset()
        self._state.set_leaving(False)
        self._handed_off = False
        self.host.deliver(Left())

    # Membership changes of others

    def on_neighbours_changed(self) -> None:
        """The neighbours have changed, hence the owned range and the range of copies."""
        state = self._state
        if not state.is_ready:
            return
        self.anti_entropy.note_repair()
        self._report_suspects()
        state.limit_to_copies()
        self._announce_missing()
        before, self._right = self._right, self._ring.right
        if self._ring.me != before and lies_between(self._ring.me, self._ring.right, before):
            self._broadcast.inform_right(self._chord.table.key_of(before))
        self.anti_entropy.sync_soon()

    def _announce_missing(self) -> None:
        """If this node owns keys of which it does not have the entries, these are lost."""
        state = self._state
        missing = (state.low(), state.floor_key)
        if state.is_further(*missing):
            state.set_complete_from(missing[0])
            self._broadcast.announce_range_lost(*missing)

    def _report_suspects(self) -> None:
        """Report predecessors that stopped answering, once the ring is repaired behind them; also
        nodes that joined in between and crashed before they became neighbours. Each is reported
        once, or again if it answered in between and stopped anew.
        """
        ring, before, reported_us = self._ring, self._lefts, self._reported_us
        self._lefts, self._reported_us = ring.lefts, {}
        for ref in dict.fromkeys((*before, *ring.liveness.unreachable)):
            if (
                ref not in ring.lefts
                and lies_between(ring.left, ref, ring.me)
                and self._fell_silent(ref)
            ):
                self._reported_us[ref] = reported_us.get(ref, self.host.now_us)
                if ref not in reported_us or self._fell_silent(ref, since_us=reported_us[ref]):
                    self._reported_us[ref] = self.host.now_us
                    self._broadcast.announce(partial(SuspectReport, silent=ref), ref.address)

    def _fell_silent(self, ref: Ref, since_us: int = -1) -> bool:
        detector = self._ring.detector
        return detector is not None and detector.suspected_within(ref, self.host.now_us - since_us)
