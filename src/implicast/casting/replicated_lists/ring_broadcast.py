"""Reliable broadcast to all nodes of the ring, along fingers, for what only one node can detect.

Each node forwards a report to its fingers, each of which covers the arc up to the next finger: n
messages, each acknowledged and retried. A finger that does not acknowledge may have crashed, with
its arc behind it: retries are routed to its *key*, so the node that owns the key now covers the
arc. A node that receives a report twice forwards it only as far as the second one reaches further.

- `RangeLost`: a node takes over keys of which it has no copies. Owners of entries there put them
  again. Sent three times, since a node that crashes while forwarding takes its arc with it. More
  nodes are missing than their neighbours can name, so all nodes are uncertain for a while
  (`overlay/links/silence.py`).
- `SuspectReport`: a node has repaired the ring over a silent predecessor. It may be wrong, so
  receivers do not rely on it: those that hold entries of the suspect probe it (`owner_probes.py`),
  and those that have it as a finger check it. Owners of entries that the suspect holds put them
  again, in case its copies are lost too.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from implicast.casting.replicated_lists.entries import RingKey
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.overlay.links import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, StandingAlarm, handles
from implicast.peer.fields import Token
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.ring import from_on

REPEAT_US = 2_000_000
REPEATS_MAX = 14
"""Attempts to reach one arc, over 28 s: an arc behind a crashed node is reachable once the ring is
repaired.
"""
ROUNDS = 3
"""How often `RangeLost` is sent."""
ROUND_US = 6_000_000
KNOWN_MAX = 1024
"""Reports remembered for duplicate detection."""
KNOWN_US = 180_000_000
"""How long they are remembered: a report passes at most six hops, each delayed by up to 30 s of
retries.
"""
RECENT_US = 60_000_000
"""Reports of this time are passed on to nodes that were bypassed when they were sent."""
RECENT_MAX = 64
"""Reports that are remembered for this; the oldest is forgotten first."""
ROUNDS_MAX = 64
"""Repetitions of `RangeLost` under way; beyond that a report is sent once."""
UNACKED_MAX = 1024
"""Messages awaiting acknowledgement; beyond that they are sent once."""


class RangeLost(Message):
    """Broadcast: all copies of the lists of (low, high] are lost, so owners of entries there must
    put them again. Routed to `key`, and forwarded to all nodes from there up to `limit`.
    """

    wire = 0x060F
    serial: Token
    low: RingKey
    high: RingKey
    key: RingKey
    limit: RingKey
    by: Address


class SuspectReport(Message):
    """Broadcast: the peer at address `who`, the predecessor of the reporting node, is suspected to
    have crashed. Receivers probe it themselves. Routed to `key`, and forwarded to all nodes from
    there up to `limit`.
    """

    wire = 0x0610
    serial: Token
    who: Address
    key: RingKey
    limit: RingKey
    by: Address
    silent: Ref | None = None
    """The node at this address."""


class BroadcastAck(Message):
    """Acknowledges a broadcast: the sender forwards it from `key` up to `limit`."""

    wire = 0x0611
    serial: Token
    key: RingKey
    limit: RingKey


Report = RangeLost | SuspectReport


class LossRound(NamedTuple):
    """A report of a lost range that is to be sent, `left` times from now on. With `unless_since_us`,
    only if no such report was received since then.
    """

    due_us: int
    low: int
    high: int
    left: int
    unless_since_us: int | None = None


class BroadcastRetry(StandingAlarm):
    """Fires while messages are unacknowledged or repetitions are due."""


class RingBroadcast(HolderPart):
    """One node's part in all broadcasts."""

    __slots__ = (
        "_armed",
        "_known",
        "_on_suspect",
        "_recent",
        "_rounds",
        "_serial",
        "_unacked",
        "on_range_lost",
    )

    def __init__(
        self,
        state: HolderState,
        on_range_lost: Callable[[int, int], None],
        on_suspect: Callable[[Address], None],
    ) -> None:
        """`on_range_lost(low, high)`: put own entries of that range again. `on_suspect(address)`:
        the peer there may have crashed.
        """
        super().__init__(state)
        self.on_range_lost, self._on_suspect = on_range_lost, on_suspect
        self._known: Recent[tuple[int, object, int], tuple[int, int]] = Recent(KNOWN_MAX)
        """Reports received: how far clockwise they were forwarded, and when they were last
        received.
        """
        self._unacked: dict[tuple[int, int, int], tuple[Report, int]] = {}
        self._recent: Recent[int, tuple[Report, int]] = Recent(RECENT_MAX)
        """By serial, the reports that were received lately, and when."""
        self._rounds: list[LossRound] = []
        self._serial = 0
        self._armed = False

    def announce_range_lost(self, low: int, high: int) -> None:
        self._state.note_lost(low, high)
        self.announce(RangeLost, low, high)
        if len(self._rounds) < ROUNDS_MAX:
            self._rounds.append(LossRound(self.host.now_us + ROUND_US, low, high, ROUNDS - 1))
        self._arm()

    def announce(self, kind: Callable[..., Report], *subject: int | Address) -> None:
        """Start one broadcast under a new serial, which tells acknowledgements of simultaneous
        reports apart.
        """
        own, self._serial = self._chord.table.own, self._serial + 1
        serial = digest_bits(62, own, self.host.now_us, self._serial)
        self._accept(kind(serial, *subject, own, own, self.address))

    def _accept(self, report: Report) -> None:
        table, now_us, silent = self._chord.table, self.host.now_us, self._ring.liveness.silent
        about = (report.low, report.high) if isinstance(report, RangeLost) else (report.who, 0)
        subject = report.serial, *about
        known = self._known.pop(subject, (None, 0))[0]
        # otherwise the arc ends before this node
        is_within = from_on(report.key, table.own, report.limit)
        reach = (report.limit - table.own - 1) & table.mask if is_within else 0
        self._known.drop_while(lambda reached: reached[1] <= now_us - KNOWN_US)
        self._known[subject] = max(reach, known or 0), now_us
        self._recent.once(report.serial, (report, now_us))
        if known is None and isinstance(report, RangeLost):
            silent.uncertain_for(OWED_US)
            self.on_range_lost(report.low, report.high)
        elif known is None and isinstance(report, SuspectReport):
            silent.add(() if report.silent is None else (report.silent,))
            self._chord.check_finger(report.who)
            self._on_suspect(report.who)
        if known is None or reach > known:
            self._forward(report, reach, known or 0)

    def _forward(self, report: Report, reach: int, known: int) -> None:
        """Send the report to each finger within reach; each covers the arc up to the next, as far
        as it is not covered yet.
        """
        table, own, mask = self._chord.table, self._chord.table.own, self._chord.table.mask
        within = table.distances[: bisect_right(table.distances, reach)]
        keys = [(own + far) & mask for far in within]
        limits = [*keys[1:], report.limit]
        for address, key, limit in zip(table.addresses, keys, limits, strict=False):
            if (limit - own - 1) & mask > known:
                self._send(address, replace(report, key=key, limit=limit, by=self.address))
        self._arm()

    def inform_right(self, limit: int) -> None:
        """The right neighbour is nearer than before: up to the key `limit` there may be nodes that
        were bypassed when recent reports were sent.
        """
        over_us, right = self.host.now_us - RECENT_US, self._ring.right
        self._recent.drop_while(lambda received: received[1] <= over_us)
        for report, _ in self._recent.values():
            self._send(right.address, replace(report, key=right.key, limit=limit, by=self.address))
        self._arm()

    def _send(self, to: Address, report: Report) -> None:
        if len(self._unacked) < UNACKED_MAX:
            self._unacked[report.serial, report.key, report.limit] = (report, REPEATS_MAX)
        self.host.send(to, report)

    @handles(RangeLost, SuspectReport)
    def on_report(self, sender: Address, report: Report) -> None:
        if self._ring.state == IN and not self._chord.forward(report.key, report, sender):
            ack = BroadcastAck(report.serial, report.key, report.limit)
            if report.by == self.address:  # the addressee has left, and this node owns its key now
                self.on_broadcast_ack(sender, ack)
            else:
                self.host.send(report.by, ack)
            self._accept(report)

    @handles(BroadcastAck)
    def on_broadcast_ack(self, sender: Address, ack: BroadcastAck) -> None:
        self._unacked.pop((ack.serial, ack.key, ack.limit), None)

    def _arm(self) -> None:
        if not self._armed and (self._unacked or self._rounds):
            self._armed = True
            self.host.after(REPEAT_US, BroadcastRetry())

    @handles(BroadcastRetry)
    def on_broadcast_retry(self, alarm: BroadcastRetry) -> None:
        self._armed = False
        for name, (report, left) in list(self._unacked.items()):
            if left and self._chord.forward(report.key, report):
                self._unacked[name] = (report, left - 1)
            else:  # the limit is reached, or this node owns the key itself
                del self._unacked[name]
        rounds, self._rounds, now_us = self._rounds, [], self.host.now_us
        for each in rounds:
            if each.due_us > now_us:
                self._rounds.append(each)
                continue
            if self._ring.state == IN and not self._was_reported(each):
                self.announce(RangeLost, each.low, each.high)
            if each.left > 1:
                due_us = now_us + 2 * ROUND_US
                self._rounds.append(each._replace(due_us=due_us, left=each.left - 1))
        self._arm()

    def watch_range_lost(self, low: int, high: int) -> None:
        """This node owns keys of a range that another node has reported as lost. Report it again if
        no report comes within a while: the other node may have failed.
        """
        if len(self._rounds) < ROUNDS_MAX:
            now_us = self.host.now_us
            due_us = now_us + int(ROUND_US * (1 + 2 * self.host.rng.random()))
            self._rounds.append(LossRound(due_us, low, high, 1, now_us))
        self._arm()

    def _was_reported(self, loss: LossRound) -> bool:
        if loss.unless_since_us is None:
            return False
        mask, since_us = self._chord.table.mask, loss.unless_since_us
        return any(
            isinstance(report, RangeLost)
            and at_us >= since_us
            and (loss.low - report.low) & mask <= (loss.high - report.low - 1) & mask
            and (loss.high - report.low - 1) & mask <= (report.high - report.low - 1) & mask
            for report, at_us in self._recent.values()
        )
