"""Chord on top of a kept ring: hashed identifiers, fingers by distance, routing.

Designs route their own messages: a message has a `key`; whoever gets it calls `pass_on(key, message, sender)`, which
sends the same message on, or answers False: it has arrived. Each hop comes strictly nearer, so a look-up ends after at
most n of them, about half of log2 n when fingers are right.

Where peers may crash (the ring has a detector), fingers are soft state that mends itself by being used:

- A finger is heard of whenever it is used: the node that gets a routed message says so (`Heard`, at most one a second
  to each), and a finger that was not heard lately is *probed with the message itself*: repeated until it answers.
- A finger that stays silent is dropped, the next lower one is used, and its levels are looked up afresh. A wrong
  suspicion costs hops: the look-up brings the finger back.
- A message that has come past its key, because a neighbour has news that this node lacks, goes to the left.
- A message that comes by twice within a second ends: so none makes more hops in a second than there are nodes.
- Whoever repeats a request may let it begin with another finger (`turn_off`).

The right pointer alone decides who is responsible; messages sent to a dead right neighbour are lost until the ring has
healed, so requests are repeated from end to end.
"""

from bisect import bisect_left
from collections.abc import Sequence

from implicast.overlay.chord.fingers import Fingers
from implicast.overlay.chord.messages import Heard
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.above import Above
from implicast.overlay.links.links import Links
from implicast.overlay.links.messages import Departed
from implicast.overlay.links.refs import Place, Ref, lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.memory import Recent, Repeats
from implicast.space.ring import ID_BITS

QUIET_US = 3_000_000
"""A finger heard within this time is taken to be there."""
HEARD_US = 1_000_000
"""One says so at most this often to each sender."""
PASSED_US = 1_000_000
"""A message that comes by once more within this time has been here before; requests are repeated later than that."""
PASSED_MAX = 256
"""Messages remembered as passed on."""
SENDERS_MAX = 512
"""Senders remembered as told."""
LED_US = 12_000_000
"""A seeker that comes by twice within this time seems to have lost a question."""
SEEKERS_MAX = 64
"""Seekers remembered."""


class Chord(Part, Above, parts={"fingers": Fingers}):
    """One peer's place on the circle."""

    __slots__ = (
        "_detour",
        "_is_sure",
        "_led_us",
        "_passed",
        "_resident",
        "_told",
        "fingers",
        "ring",
        "table",
    )

    def __init__(
        self, address: Address, host: Host, ring: Links, bits: int = ID_BITS, refresh_us: int = 0
    ) -> None:
        super().__init__(address, host)
        self.ring = ring
        ring.carry(self)
        self.table = FingerTable(ring.me, bits)
        self._is_sure = ring.detector is None
        """Whether nobody ever crashes."""
        self.fingers = Fingers(self, refresh_us)
        self._resident = Above()
        self._told: Repeats[Address] = Repeats(SENDERS_MAX)
        self._passed: Repeats[Message] = Repeats(PASSED_MAX)
        self._led_us: Recent[Place, int] = Recent(SEEKERS_MAX)
        self._detour = 0

    def house(self, resident: Above) -> None:
        """Tell this one from now on."""
        self._resident = resident

    def turn_off(self, fingers: int) -> None:
        """Messages that begin here leave out so many of the best fingers, until further notice."""
        self._detour = fingers

    # The ring speaks

    def entered(self) -> None:
        self.table.reset(self.ring.me)
        self.table.set_neighbours(self.ring.left, self.ring.right)
        self.fingers.begin()
        self._resident.entered()

    def moved(self) -> None:
        if self.ring.state == IN:
            self.table.set_neighbours(self.ring.left, self.ring.right)
            self.surrounded()

    def surrounded(self) -> None:
        self._resident.moved()

    def departed(self) -> None:
        self.fingers.end()
        self._resident.departed()

    def lost(self, ref: Ref) -> None:
        if ref != self.table.right:
            self.fingers.drop(ref)

    def silent(self, ref: Ref) -> None:
        if self.ring.state == IN:
            self.lost(ref)

    def acquaintances(self) -> Sequence[Ref]:
        return self.table.fingers()

    def nearest_before(self, place: Place) -> Ref | None:
        """A seeker's next step. When it seeks again it goes round those who are being asked whether they are there, and
        its step is asked beside it: else dead fingers whose suspicion has lapsed swallow all that a newcomer asks."""
        if self.ring.state != IN:
            return None
        table, detector, seeker = self.table, self.ring.detector, Ref(*place)
        far, step = table.far(seeker), table.next_hop(seeker.key)
        if detector is None or step == self.ring.right or not self._led_before(place):
            return step
        for ref in reversed(table.fingers()):
            if table.far(ref) < far and ref != table.right and not detector.is_probing(ref):
                detector.check(ref, QUIET_US)
                return ref
        return self.ring.right

    def _led_before(self, place: Place) -> bool:
        """Whether somebody seeks this place once more after a short while: its question may be lost near here."""
        now_us, before_us = self.host.now_us, self._led_us.get(place)
        self._led_us.put(place, now_us)
        return before_us is not None and before_us + LED_US > now_us

    def doubt(self, who: Address) -> None:
        """A peer is believed dead elsewhere: if it is a finger here, it is asked, before look-ups have to find out."""
        for ref in self.table.fingers() if who in self.table.addresses else ():
            if ref.address == who and ref != self.table.right and self.ring.detector is not None:
                self.ring.detector.check(ref, QUIET_US)

    def nodes_estimate(self) -> float:
        """How many nodes the ring has, judging by how densely the neighbourhood is settled."""
        table = self.table
        if table.right == table.me:
            return 1.0
        others = [ref for ref in self.ring.lefts if ref.address != table.me.address]
        reach = table.right_distance + max(
            (-table.far(ref) & table.mask for ref in others), default=0
        )
        return (1 + len(others)) * (1 << table.bits) / max(1, reach)

    # Routing

    def owns(self, key: int) -> bool:
        return self.table.owns(key)

    def pass_on(self, key: int, message: Message, sender: Address | None = None) -> bool:
        """Send a routed message one step nearer to its key. False: it has arrived, this node is responsible."""
        ring, table = self.ring, self.table
        if self._is_sure and ring.state is IN:
            # `owns` and `next_hop` written out: every hop of every look-up comes by (0.30 us instead of 0.40).
            far = (key - table.own) & table.mask
            if -far & table.mask < table.span:
                return False
            if far <= table.right_distance:
                self.host.send(ring.right.address, message)
            else:
                self.host.send(table.addresses[bisect_left(table.distances, far) - 1], message)
            return True
        return self._pass_on_with_care(key, message, sender)

    def _pass_on_with_care(self, key: int, message: Message, sender: Address | None) -> bool:
        """Where those on the way may be dead."""
        ring, table, now_us, other = (
            self.ring,
            self.table,
            self.host.now_us,
            None if sender == self.address else sender,
        )
        if other is not None and ring.detector and not self._told.came_by(other, now_us, HEARD_US):
            self.host.send(other, Heard(ring.me))
        if ring.state != IN:
            return self._pass_on_from_outside(message, other)
        if table.owns(key):
            return False
        while (step := table.next_hop(key)) != table.right and ring.company.is_lost(step):
            self.fingers.drop(step)  # somebody named it after it had fallen silent here
        if other is None:
            step = self._other_way(key, step)
        elif self._passed.came_by(message, now_us, PASSED_US):
            return True  # or it goes in a circle, because neighbours do not agree yet: its origin sends it again
        elif self._is_past(key):
            step = ring.left
        self._send(step, message)
        return True

    @handles(Heard)
    def on_heard(self, sender: Address, heard: Heard) -> None:
        """A finger to another that was at this address before leads astray, though whoever is there answers pings."""
        if self.ring.detector is not None:
            self.ring.detector.timed(heard.by)
            self.ring.company.heard(heard.by)
        for ref in (
            self.table.fingers()
            if sender == heard.by.address and sender in self.table.addresses
            else ()
        ):
            if ref.address == sender and ref not in (heard.by, self.table.right):
                self.fingers.drop(ref)

    def _pass_on_from_outside(self, message: Message, sender: Address | None) -> bool:
        """A node that is not in sends it to its right neighbour. One that has left also tells the sender so."""
        ring = self.ring
        if ring.right.address != self.address:
            self.host.send(ring.right.address, message)
            if ring.state is OUT and sender is not None:
                self.host.send(sender, Departed(ring.me))
        return True

    def _other_way(self, key: int, step: Ref) -> Ref:
        if not self._detour:
            return step
        before = [
            ref
            for ref in self.table.fingers()
            if self.table.far(ref) < (key - self.table.own) & self.table.mask
        ]
        return before[-1 - self._detour % len(before)] if before else step

    def has_gone_by(self, key: int, message: Message) -> bool:
        """Whether a message that goes from neighbour to neighbour is past its key, or was here a moment ago: while
        neighbours do not agree nobody may own the key, and it would go round for ever."""
        if self.ring.detector is None:
            return False
        return self._is_past(key) or self._passed.came_by(message, self.host.now_us, PASSED_US)

    def _is_past(self, key: int) -> bool:
        """Whether a key lies a little to the left: among the left neighbours that this node knows."""
        lefts = self.ring.lefts
        return len(lefts) > 1 and lies_between(lefts[-1], Ref(key, self.address), self.ring.me)

    def _send(self, step: Ref, message: Message) -> None:
        """A finger that was not heard lately is probed with the message itself."""
        detector = self.ring.detector
        if (
            detector is not None
            and step != self.ring.right
            and detector.is_doubtful(step, QUIET_US)
        ):
            detector.probe(step, message)
        else:
            self.host.send(step.address, message)
