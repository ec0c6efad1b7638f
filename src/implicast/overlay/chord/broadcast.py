"""Reliable broadcast to all nodes of a Chord ring, along fingers.

Each node forwards a report to its fingers, each of which covers the arc up to the next finger: n
messages, each acknowledged and retried. A finger that does not acknowledge may have crashed, with
its arc behind it: retries are routed to its *key*, so the node that owns the key now covers the
arc. A node that receives a report twice forwards it only as far as the second one reaches further.

A report is a message of the layer above with the fields `serial`, `key`, `limit` and `by`: it is
routed to `key`, and forwarded by `by` to all nodes from there up to `limit`.

| report | event | next |
|---|---|---|
| unknown | `announce`, `on_report` | known: `on_first`, forwarded to every finger within its arc |
| known | `on_report` with a longer arc | forwarded to the fingers of the rest |
| sent to a finger | `BroadcastAck` | done |
| sent to a finger | `REPEAT_US` have passed, at most `REPEATS_MAX` times | routed to the finger's key |
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from implicast.overlay.chord.chord import Chord
from implicast.overlay.chord.messages import RingKey
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.peer.fields import Token
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.ring import from_on

REPEAT_US = 2_000_000
REPEATS_MAX = 14
"""Attempts to reach one arc, over 28 s: an arc behind a crashed node is reachable once the ring is
repaired.
"""
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
UNACKED_MAX = 1024
"""Messages awaiting acknowledgement; beyond that they are sent once."""


class BroadcastAck(Message):
    """Acknowledges a broadcast: the sender forwards it from `key` up to `limit`."""

    wire = 0x0611
    serial: Token
    key: RingKey
    limit: RingKey


class BroadcastRetry(StandingAlarm):
    """Fires while messages are unacknowledged, or the layer above has something to report later."""


class ArcBroadcast(Part):
    """One node's part in all broadcasts."""

    __slots__ = (
        "_armed",
        "_chord",
        "_known",
        "_on_first",
        "_on_tick",
        "_serial",
        "_unacked",
        "recent",
    )

    def __init__(
        self, chord: Chord, on_first: Callable[[Any], None], on_tick: Callable[[], None]
    ) -> None:
        """`on_first(report)`: a report is new here. `on_tick()`: called at each retry."""
        super().__init__(chord.address, chord.host)
        self._chord, self._on_first, self._on_tick = chord, on_first, on_tick
        self._known: Recent[Message, tuple[int, int]] = Recent(KNOWN_MAX)
        """Reports received, without key, limit and sender: how far clockwise they were forwarded,
        and when they were last received.
        """
        self._unacked: dict[tuple[int, int, int], tuple[Any, int]] = {}
        self.recent: Recent[int, tuple[Any, int]] = Recent(RECENT_MAX)
        """By serial, the reports that were received lately, and when."""
        self._serial, self._armed = 0, False

    def announce(self, kind: Callable[..., Any], *subject: int | Address) -> None:
        """Start one broadcast under a new serial, which tells acknowledgements of simultaneous
        reports apart.
        """
        own, self._serial = self._chord.table.own, self._serial + 1
        serial = digest_bits(62, own, self.host.now_us, self._serial)
        self._accept(kind(serial, *subject, own, own, self.address))

    def on_report(self, sender: Address, report: Any) -> None:
        """A report has arrived, for this node or for one nearer to its key."""
        if self._chord.ring.state == IN and not self._chord.forward(report.key, report, sender):
            ack = BroadcastAck(report.serial, report.key, report.limit)
            if report.by == self.address:  # the addressee has left, and this node owns its key now
                self.on_broadcast_ack(sender, ack)
            else:
                self.host.send(report.by, ack)
            self._accept(report)

    def _accept(self, report: Any) -> None:
        own, mask, now_us = self._chord.table.own, self._chord.table.mask, self.host.now_us
        subject = replace(report, key=0, limit=0, by=0)
        known = self._known.pop(subject, (None, 0))[0]
        # otherwise the arc ends before this node
        is_within = from_on(report.key, own, report.limit)
        reach = (report.limit - own - 1) & mask if is_within else 0
        self._known.drop_while(lambda reached: reached[1] <= now_us - KNOWN_US)
        self._known[subject] = max(reach, known or 0), now_us
        self.recent.once(report.serial, (report, now_us))
        if known is None:
            self._on_first(report)
        if known is None or reach > known:
            self._forward(report, reach, known or 0)

    def _forward(self, report: Any, reach: int, known: int) -> None:
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
        self.arm()

    def inform_right(self, limit: int) -> None:
        """The right neighbour is nearer than before: up to the key `limit` there may be nodes that
        were bypassed when recent reports were sent.
        """
        over_us, right = self.host.now_us - RECENT_US, self._chord.ring.right
        self.recent.drop_while(lambda received: received[1] <= over_us)
        for report, _ in self.recent.values():
            self._send(right.address, replace(report, key=right.key, limit=limit, by=self.address))
        self.arm()

    def _send(self, to: Address, report: Any) -> None:
        if len(self._unacked) < UNACKED_MAX:
            self._unacked[report.serial, report.key, report.limit] = (report, REPEATS_MAX)
        self.host.send(to, report)

    @handles(BroadcastAck)
    def on_broadcast_ack(self, sender: Address, ack: BroadcastAck) -> None:
        self._unacked.pop((ack.serial, ack.key, ack.limit), None)

    def arm(self, has_more: bool = False) -> None:
        """Fire after `REPEAT_US` if a message is unacknowledged, or the layer above has more."""
        if not self._armed and (self._unacked or has_more):
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
        self._on_tick()
        self.arm()
