"""Chord on the linked ring: hashed identifiers, fingers by distance, routing.

Theory of operation
-------------------
State. The ring (`overlay/links`) says who owns a key. `table` holds for each level i that the right
neighbour does not cover a node at or after self + 2^i.

Invariants. The right pointer alone decides ownership. A finger never lies before its start, so a
wrong one costs hops and never gives a wrong answer. Each hop comes strictly nearer to the key: a
lookup ends after at most n hops, about half of log2 n when the fingers are correct.

Designs route their own messages. A message has a `key`; each node that receives it calls
`forward(key, message, sender)`, which sends the same message one hop on, or returns False when the
message has arrived. Messages to a failed right neighbour are lost until the ring is repaired, so
requests are retried end to end.

| level | event | action | next |
|---|---|---|---|
| empty | the node has joined | FindFinger, one level after the other | looked up |
| looked up | FingerFound | covered levels are set; after the last one UpdateFinger to others | known |
| looked up | FindFingerTimeout | FindFinger again | looked up |
| known | UpdateFinger, a node came in between | the nearer node is the finger | known |
| known | the finger leaves (UpdateFinger, StaleRoute) or is suspected | FindFinger | empty |
| any | FixFingers, one random level a period | FindFinger | unchanged until the answer |

Parts: `table` (no I/O), `routing` (next hop; checked where peers may crash), `fingers` (upkeep of
the table). `FIDELITY.md` lists the differences from the papers.
"""

from collections.abc import Sequence

from implicast.overlay.chord.fingers import Fingers
from implicast.overlay.chord.messages import ForwardAck
from implicast.overlay.chord.routing import QUIET_US, CheckedRouting, Forward, Routing
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.links import Links
from implicast.overlay.links.listener import RingListener
from implicast.overlay.links.refs import Place, Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.memory import Recent
from implicast.space.ring import ID_BITS

LOOKUP_REPEAT_US = 12_000_000
"""The same place lookup within this time is a retry: the earlier one may have been lost."""
LOOKUPS_MAX = 64
"""Place lookups that are remembered."""


class Chord(Part, RingListener, parts={"fingers": Fingers}):
    """One peer's part of a Chord ring: finger table and routing."""

    __slots__ = ("_listener", "_lookups_us", "fingers", "forward", "ring", "routing", "table")
    forward: Forward

    def __init__(
        self, address: Address, host: Host, ring: Links, bits: int = ID_BITS, refresh_us: int = 0
    ) -> None:
        super().__init__(address, host)
        self.ring = ring
        ring.set_listener(self)
        self.table = FingerTable(ring.me, bits)
        self.routing = (
            Routing(ring, self.table)
            if ring.detector is None
            else CheckedRouting(ring, self.table, self.drop_finger)
        )
        self.forward = self.routing.forward
        self.fingers = Fingers(ring, self.table, self.forward, refresh_us)
        self._listener = RingListener()
        self._lookups_us: Recent[Place, int] = Recent(LOOKUPS_MAX)

    def set_listener(self, listener: RingListener) -> None:
        self._listener = listener

    def restore(self, levels: dict[int, Ref]) -> None:
        """Restore the fingers by level in a converged ring; its neighbours are known."""
        self.table.restore(self.ring.me, self.ring.left, self.ring.right, levels)

    # --- ring callbacks

    def on_joined(self) -> None:
        self.table.restore(self.ring.me, self.ring.left, self.ring.right, {})
        self.fingers.start()
        self._listener.on_joined()

    def on_neighbours_changed(self) -> None:
        if self.ring.state == IN:
            self.table.set_neighbours(self.ring.left, self.ring.right)
            self.on_left_list_changed()

    def on_left_list_changed(self) -> None:
        self._listener.on_neighbours_changed()

    def on_departed(self) -> None:
        self.fingers.stop()
        self._listener.on_departed()

    def on_node_left(self, ref: Ref) -> None:
        if ref != self.table.right:
            self.drop_finger(ref)

    def on_node_suspected(self, ref: Ref) -> None:
        if self.ring.state == IN:
            self.on_node_left(ref)

    def drop_finger(self, ref: Ref) -> None:
        self.fingers.drop_finger(ref)

    def known_nodes(self) -> Sequence[Ref]:
        return self.table.fingers()

    def closest_preceding(self, place: Place) -> Ref | None:
        """The next step of a place lookup. A repeated lookup avoids fingers that are being probed,
        and its step is probed as well: otherwise failed fingers whose suspicion has expired would
        swallow every lookup of a joining node.
        """
        if self.ring.state != IN:
            return None
        table, detector, origin = self.table, self.ring.liveness.detector, Ref(*place)
        far, step = table.far(origin), table.next_hop(origin.key)
        if step == self.ring.right or not self.is_repeated_lookup(place):
            return step
        for ref in reversed(table.fingers()):
            if table.far(ref) < far and ref != table.right and not detector.is_probing(ref):
                detector.check(ref, QUIET_US)
                return ref
        return self.ring.right

    def is_repeated_lookup(self, place: Place) -> bool:
        """Whether this place was looked up a short while ago: the earlier lookup may have been lost
        nearby.
        """
        now_us, before_us = self.host.now_us, self._lookups_us.get(place)
        self._lookups_us.put(place, now_us)
        return before_us is not None and before_us + LOOKUP_REPEAT_US > now_us

    def check_finger(self, address: Address) -> None:
        """Probe a peer that another node believes dead, if it is a finger here, before lookups run
        into it.
        """
        for ref in self.table.fingers_at(address):
            if ref != self.table.right:
                self.ring.liveness.detector.check(ref, QUIET_US)

    def nodes_estimate(self) -> float:
        """Estimated number of nodes on the ring, from the density of the own neighbourhood."""
        table = self.table
        if table.right == table.me:
            return 1.0
        others = [ref for ref in self.ring.lefts if ref.address != table.me.address]
        reach = table.right_distance + max(
            (-table.far(ref) & table.mask for ref in others), default=0
        )
        return (1 + len(others)) * (1 << table.bits) / max(1, reach)

    # --- routing

    @handles(ForwardAck)
    def on_forward_ack(self, sender: Address, ack: ForwardAck) -> None:
        self.routing.on_forward_ack(sender, ack)

    def owns(self, key: int) -> bool:
        return self.table.owns(key)

    def set_detour(self, fingers: int) -> None:
        """Let messages that start here also go by the finger this many below the best one."""
        self.routing.set_detour(fingers)

    def has_passed(self, key: int, message: Message) -> bool:
        """Whether a message that goes from neighbour to neighbour has passed its key."""
        return self.routing.has_passed(key, message)
