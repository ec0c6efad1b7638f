"""Range handoff: moves entries when a node joins or leaves, and detects ranges that were lost.

A joining node pulls the range it now owns from its successor, and queues reads until it has
arrived. A leaving node pushes all its entries to its successor and leaves when they are
acknowledged. A node that takes over the range of a crashed predecessor without having copies of all
of it concludes that the holder and all copies crashed together, and broadcasts that the range is
lost (`ring_broadcast.py`).

| node | event | next |
|---|---|---|
| outside | linked into the ring | pulling, unless it is alone: then serving |
| pulling | all parts have arrived, or no answer to `HANDOFF_TRIES_MAX` pulls | serving |
| serving | `leave` | pushing, unless it is alone: then outside |
| pushing | all parts are acknowledged, or no answer to `HANDOFF_TRIES_MAX` pushes | outside |
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from implicast.casting.replicated_lists.anti_entropy import AntiEntropy
from implicast.casting.replicated_lists.entries import ListEntry, Part, RingKey, SomeEntries
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.ring_broadcast import RingBroadcast
from implicast.casting.replicated_lists.settings import ENTRIES_PER_MESSAGE
from implicast.overlay.links import Ref, RingListener
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.silence import NO_UNCERTAINTY, Uncertainty
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Message, handles
from implicast.peer.events import Left
from implicast.peer.fields import Flag, Micros
from implicast.peer.handoff import IncomingRange, OutgoingRange, in_parts
from implicast.space.ring import up_to

HANDOFF_WAIT_US = 1_500_000
"""Wait for the successor's answer to a pull or a push; with jitter of one half."""
HANDOFF_TRIES_MAX = 8
"""Attempts to pull or push. After the last one, a joining node starts with what it has and
broadcasts its range as lost, for the silent successor may have crashed with all copies. A leaving
node leaves; anti-entropy repairs the rest.
"""
TURNS = 256


LostRanges = Annotated[tuple[tuple[RingKey, RingKey, Micros], ...], Meta(max_length=256)]
"""Key ranges (low, high] whose entries were lost with all copies, each with the time since then."""


class PullRange(Message):
    """Range handoff on a join: the sender is the new predecessor, owns (low, own key] and asks for
    its entries.
    """

    wire = 0x060A
    by: Ref
    low: RingKey
    turn: Flag


class RangeEntries(Message):
    """Range handoff: one part of the entries of a range. `pushed`: the sender is leaving and sends
    all it holds; otherwise this answers `PullRange`.
    """

    wire = 0x060B
    by: Ref
    pushed: bool
    turn: Flag
    part: Part
    parts: Part
    entries: SomeEntries
    lost: LostRanges = ()
    """Ranges whose entries were lost a short while ago and may not have been put again."""
    uncertainty: Uncertainty = NO_UNCERTAINTY
    """What the sender knows of silent nodes: the receiver joins after they were reported."""


class RangeTaken(Message):
    """Acknowledges one part of a pushed range."""

    wire = 0x060C
    turn: Flag
    part: Part
    parts: Part


class HandoffRetry(Message):
    """Fires when a pull or a push has not been answered in time."""

    incarnation: int
    turn: int


class RangeHandoff(HolderPart, RingListener):
    """Moves ranges on join, leave and crash."""

    __slots__ = (
        "_anti_entropy",
        "_broadcast",
        "_fell_silent",
        "_lefts",
        "_missing_range",
        "_on_joined",
        "_pull",
        "_pulled_low",
        "_push",
        "_reported_us",
        "_right",
        "_turn",
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
        self._anti_entropy, self._broadcast, self._on_joined = anti_entropy, broadcast, on_joined
        self._fell_silent = self._ring.liveness.detector.suspected_within
        """Whether a node was suspected within a time."""
        self._turn = 0
        """Number of the pull or push under way."""
        self._pull = IncomingRange(HANDOFF_TRIES_MAX)
        self._push: OutgoingRange[ListEntry] = OutgoingRange(HANDOFF_TRIES_MAX)
        self._missing_range = (0, 0)
        """The missing range that was announced last for a joining node."""
        self._pulled_low = state.own
        """Lower end of the range that was pulled last."""
        self._lefts: tuple[Ref, ...] = ()
        self._right = self._ring.me
        """The right neighbour before the last change of neighbours."""
        self._reported_us: dict[Ref, int] = {}
        """Suspected nodes between the predecessor and this node that were reported, and when."""
        state.chord.set_listener(self)

    def restore(self) -> None:
        """Be a member of a converged ring that stores all entries of its range."""
        self._state.set_complete_from(self._state.copies_low())
        self._lefts, self._right = self._ring.lefts, self._ring.right
        self._chord.fingers.schedule_fix_fingers()
        self._anti_entropy.start_rounds(least=0.0)

    # Join

    def on_joined(self) -> None:
        self._pull.abort()
        self._state.reset()
        self._anti_entropy.start_rounds()
        self._pull_range()

    def _pull_range(self) -> None:
        ring, is_alone = self._ring, self._ring.right == self._ring.me
        self._pulled_low = self._state.low()
        if not is_alone and self._pull.start(self._next_turn()):
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
        self._anti_entropy.sync_soon()
        if self._state.is_leaving:
            self.leave()

    def _next_turn(self) -> int:
        self._turn = (self._turn + 1) % TURNS
        return self._turn

    def _arm_retry(self) -> None:
        alarm = HandoffRetry(self._ring.me.incarnation, self._turn)
        self._ring.after_jittered(HANDOFF_WAIT_US, alarm)

    @handles(HandoffRetry)
    def on_handoff_retry(self, alarm: HandoffRetry) -> None:
        is_current = (alarm.incarnation, alarm.turn) == (self._ring.me.incarnation, self._turn)
        if not is_current or self._ring.state != IN:
            return
        if not self._state.is_ready:
            self._pull_range()
        elif self._state.is_leaving and not self._push.is_complete:
            self._push_all()

    @handles(PullRange)
    def on_pull_range(self, sender: Address, pull: PullRange) -> None:
        """Send a joining node its range. A node that joins where a holder and its copies have
        crashed cannot know that it receives only a part; this node can, and broadcasts the missing
        range.
        """
        state, ring = self._state, self._ring
        if not state.is_ready or ring.state != IN:
            return
        low, key = pull.low, self._chord.table.key_of(pull.by)
        lost = [
            (first, last, age_us)
            for first, last, age_us in state.recently_lost()
            if up_to(first, key, last) or up_to(low, last, key)
        ]
        missing = (low, state.floor_key)
        if state.is_further(*missing):
            lost.append((*missing, 0))
        more = tuple(lost), ring.liveness.silent.shared()
        held = [held.entry for held in state.entries.within(low, key)]
        for part in in_parts(held, ENTRIES_PER_MESSAGE):
            self.host.send(pull.by.address, RangeEntries(ring.me, False, pull.turn, *part, *more))
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
            self._push.abort()
            self._push_all()

    def _push_all(self) -> None:
        """Push copies and strays too: a node that owned a key for a moment may have the newest
        version of an entry.
        """
        ring, own = self._ring, self._state.own
        every = [held.entry for held in self._state.entries.within(own, own)]
        if ring.right == ring.me or not self._push.start(
            self._next_turn(), every, ENTRIES_PER_MESSAGE
        ):
            ring.leave()
            return
        self._arm_retry()
        for part in self._push.due():
            ring.send_right(RangeEntries(ring.me, True, self._turn, *part))

    @handles(RangeEntries)
    def on_range_entries(self, sender: Address, given: RangeEntries) -> None:
        state, push = self._state, self._push
        if self._ring.state != IN or (given.pushed and push.is_complete):
            # a pushed range would leave with this node: the sender retries with another successor
            return
        is_new = self._anti_entropy.merge(filter(state.entries.is_relevant, given.entries))
        if given.pushed:
            taken = RangeTaken(given.turn, given.part, given.parts)
            self.host.send(given.by.address, taken)
            if state.is_leaving and state.is_ready and is_new:
                self._push_all()  # its own successor must have what a leaving node receives
        elif not state.is_ready and self._pull.put(given.turn, given.part, given.parts):
            self._ring.liveness.silent.inherit(given.uncertainty)
            for low, high, age_us in given.lost:
                state.note_lost(low, high, age_us)
                self._broadcast.watch_range_lost(low, high)
            self._begin_serving()

    @handles(RangeTaken)
    def on_range_taken(self, sender: Address, taken: RangeTaken) -> None:
        is_leaving = self._state.is_leaving and self._ring.state == IN
        if is_leaving and self._push.acknowledge(taken.turn, taken.part):
            self._ring.leave()

    def on_departed(self) -> None:
        self._state.entries.clear()
        self._state.reset()
        self._state.set_leaving(False)
        self._push.abort()
        self.host.deliver(Left())

    # Membership changes of others

    def on_neighbours_changed(self) -> None:
        """The neighbours have changed, hence the owned range and the range of copies."""
        state = self._state
        if not state.is_ready:
            return
        self._anti_entropy.note_repair()
        self._report_suspects()
        state.limit_to(state.copies_low())
        self._announce_missing()
        before, self._right = self._right, self._ring.right
        if self._ring.me != before and lies_between(self._ring.me, self._ring.right, before):
            self._broadcast.arcs.inform_right(self._chord.table.key_of(before))
        self._anti_entropy.sync_soon()

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
        self._lefts, self._reported_us, now_us = ring.lefts, {}, self.host.now_us
        for ref in dict.fromkeys((*before, *ring.liveness.unreachable)):
            if ref in ring.lefts or not lies_between(ring.left, ref, ring.me):
                continue
            if self._fell_silent(ref, now_us + 1):
                self._reported_us[ref] = reported_us.get(ref, now_us)
                if ref not in reported_us or self._fell_silent(ref, now_us - reported_us[ref]):
                    self._reported_us[ref] = now_us
                    self._broadcast.announce_suspect(ref)
