"""Chord on top of a kept ring: hashed identifiers, fingers by distance, routing.

Designs route their own messages: a message has a `key`; whoever gets it asks `owns(key)` and otherwise sends the same
message on to `next_hop(key)`. Each hop comes strictly nearer, so a look-up ends after at most n of them, about half of
log2 n when fingers are right.

A newcomer looks its fingers up one after the other, then tells those whose fingers it has become; a leaver tells the
same ones who follows it: O(log^2 N) messages, as the paper has it (SIGCOMM, "Node joins"), after which the tables are
exact without standing upkeep. `refresh_us` adds the later paper's refresh of one random level at a time, which mends
what changes at the same moment have left askew.
"""

from bisect import bisect_left
from typing import ClassVar

from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.above import Above
from implicast.overlay.links.links import Links
from implicast.overlay.links.messages import Departed
from implicast.overlay.links.refs import Place, Ref
from implicast.overlay.links.stabilise import Stabilise
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.space.ring import ID_BITS, up_to

RETRY_US = 2_000_000
"""Patience with the look-up of a finger."""


class Tenant:
    """What Chord tells the design that stands on it."""

    __slots__ = ()

    def entered(self) -> None:
        """This node has become a member."""

    def departed(self) -> None:
        """This node is a member no more, by its own wish."""

    def moved(self) -> None:
        """A neighbour has changed, and with it perhaps the keys this node answers for."""

    def floor(self, left: Ref) -> Ref:
        """Up to where, going left, this node answers for keys: to its left neighbour, unless keys are on the move."""
        return left


class SeekFinger(Message):
    """Who is the successor of `key`? Routed."""

    key: int
    level: int
    origin: Ref


class FingerIs(Message):
    """I am."""

    level: int
    finger: Ref


class TakeFinger(Message):
    """To every node of the arc (low, high]: your finger of this level is now `finger` (instead of `gone`)."""

    key: int
    low: int
    high: int
    level: int
    finger: Ref
    gone: Ref | None


class FingerLate(Message):
    """Rings when the look-up of a finger should have been answered."""

    life: int
    level: int


class RefreshRound(Message):
    """Rings when one level is to be looked up afresh."""

    upkeep: ClassVar[bool] = True
    life: int


CHORD_KINDS: tuple[type, ...] = (SeekFinger, FingerIs, TakeFinger)


class Chord(Part, Above):
    """One peer's fingers."""

    __slots__ = ("awaited", "defers", "refresh_us", "ring", "table", "tenant")

    def __init__(
        self, address: Address, host: Host, ring: Links | Stabilise, bits: int = ID_BITS, refresh_us: int = 0
    ) -> None:
        super().__init__(address, host)
        self.ring = ring
        ring.above = self
        self.table = FingerTable(ring.me, bits)
        self.tenant = Tenant()
        self.refresh_us = refresh_us
        self.awaited = -1
        self.defers = False
        """True: a member that sends everything to its right neighbour, for it is about to leave."""

    # The ring speaks

    def linked(self) -> None:
        self.table.reset(self.ring.me)
        self._take_neighbours()
        self._seek(self.table.first_level())
        if self.refresh_us:
            self._next_refresh()
        self.tenant.entered()

    def moved(self) -> None:
        if self.ring.state == IN:
            self._take_neighbours()
            self.tenant.moved()

    def unlinked(self) -> None:
        self.awaited = -1
        if self.table.me == self.ring.me and self.table.right != self.table.me:  # else nobody ever pointed here
            self._tell_those_who_point_here(self.ring.right, gone=self.ring.me)
        self.tenant.departed()

    def lost(self, ref: Ref) -> None:
        """A finger has left and its farewell did not arrive: do without, and look those levels up afresh."""
        for level in self.table.forget(ref):
            seek = SeekFinger(self.table.start(level), level, self.ring.me)
            self.pass_on(seek.key, seek)

    def nearest_before(self, place: Place) -> Ref | None:
        assert isinstance(place[0], int), "Chord's keys are identifiers"
        return self.table.next_hop(place[0]) if self.ring.state == IN else None

    def _take_neighbours(self) -> None:
        ring = self.ring
        floor = self.tenant.floor(ring.left) if ring.left is not None else None
        self.table.set_neighbours(floor, ring.right)

    # Routing

    def owns(self, key: int) -> bool:
        return self.table.owns(key)

    def pass_on(self, key: int, message: Message, sender: Address | None = None) -> bool:
        """Send a routed message one step nearer to its key. False: it has arrived, this node is responsible.

        A peer that has left, or has given away what it kept, knows nobody better than the node on its right; one that
        has left also tells the sender, whose finger must be stale.
        """
        table = self.table
        if self.ring.state is IN and not self.defers:
            # `owns` and `next_hop` written out: every hop of every look-up comes by (0.30 us instead of 0.40).
            far = (key - table.own) & table.mask
            if -far & table.mask < table.span:
                return False
            if far > table.right_distance:
                self.host.send(table.addresses[bisect_left(table.distances, far) - 1], message)
                return True
        if self.ring.right.address == self.address:
            return False
        self.host.send(self.ring.right.address, message)
        if self.ring.state is OUT and sender is not None and sender != self.address:
            self.host.send(sender, Departed(self.ring.me))
        return True

    # Fingers

    def _seek(self, level: int) -> None:
        """Look up this level; the answer starts the next one that it does not cover, the last tells the others."""
        while level < self.table.bits and self.table.owns(self.table.start(level)):
            level += 1  # the circle is closed: this node itself
        if level >= self.table.bits:
            self.awaited = -1
            self._tell_those_who_point_here(self.ring.me, gone=None)
            return
        self.awaited = level
        self.host.after(RETRY_US, FingerLate(self.ring.me.life, level))
        self._ask_for(level)

    def _ask_for(self, level: int) -> None:
        seek = SeekFinger(self.table.start(level), level, self.ring.me)
        if not self.pass_on(seek.key, seek):
            self.awaited = -1

    @handles(SeekFinger)
    def on_seek_finger(self, sender: Address, seek: SeekFinger) -> None:
        if not self.pass_on(seek.key, seek, sender) and seek.origin.address != self.address:
            self.host.send(seek.origin.address, FingerIs(seek.level, self.ring.me))

    @handles(FingerIs)
    def on_finger_is(self, sender: Address, answer: FingerIs) -> None:
        if self.ring.state != IN:
            return
        if answer.level != self.awaited:
            self.table.set_finger(answer.level, answer.finger)  # a refresh
            return
        level = answer.level
        far = self.table.far(answer.finger)
        while level < self.table.bits and 1 << level <= far:
            self.table.set_finger(level, answer.finger)
            level += 1
        self._seek(max(level, answer.level + 1))

    @handles(FingerLate)
    def on_finger_late(self, alarm: FingerLate) -> None:
        if (alarm.life, alarm.level) == (self.ring.me.life, self.awaited) and self.ring.state == IN:
            self.host.after(RETRY_US, alarm)
            self._ask_for(alarm.level)

    def _tell_those_who_point_here(self, finger: Ref, gone: Ref | None) -> None:
        """finger[i] of p is this node if p + 2^i lies after the left neighbour and not after this node."""
        table = self.table
        own, left = table.own, _identifier(self.ring.left or self.ring.me)
        if left == own:
            return  # nobody is known to be there
        for level in range(self._lowest_level_pointing_here(left), table.bits):
            low, high = (left - (1 << level)) & table.mask, (own - (1 << level)) & table.mask
            take = TakeFinger((low + 1) & table.mask, low, high, level, finger, gone)
            if gone is None and table.owns(take.key):
                self.on_take_finger(self.address, take)
            elif (step := table.next_hop(take.key)).address != self.address:
                self.host.send(step.address, take)

    def _lowest_level_pointing_here(self, left: int) -> int:
        """The left neighbour's pointer is its ring's affair; the one before it reaches over it from this level on."""
        lefts = self.ring.lefts if isinstance(self.ring, Links) else ()
        return ((left - _identifier(lefts[1])) & self.table.mask).bit_length() if len(lefts) > 1 else 0

    @handles(TakeFinger)
    def on_take_finger(self, sender: Address, take: TakeFinger) -> None:
        table = self.table
        if self.ring.state != IN or not table.owns(take.key):
            self.pass_on(take.key, take, sender)
            return
        if not up_to(take.low, table.own, take.high):
            return
        if take.gone is None or table.levels.get(take.level) == take.gone:
            table.set_finger(take.level, take.finger)
        if table.own != take.high and up_to(table.own, _identifier(self.ring.right), take.high):
            onward = TakeFinger(
                (table.own + 1) & table.mask, take.low, take.high, take.level, take.finger, take.gone
            )  # fmt: skip
            self.host.send(self.ring.right.address, onward)

    # Standing refresh, off by default

    def _next_refresh(self) -> None:
        self.host.after(int(self.refresh_us * (0.5 + self.host.rng.random())), RefreshRound(self.ring.me.life))

    @handles(RefreshRound)
    def on_refresh_round(self, alarm: RefreshRound) -> None:
        if alarm.life != self.ring.me.life or self.ring.state != IN:
            return
        first = self.table.first_level()
        if first < self.table.bits:
            level = first + int(self.host.rng.random() * (self.table.bits - first))
            seek = SeekFinger(self.table.start(level), level, self.ring.me)
            if not self.pass_on(seek.key, seek):
                self.table.set_finger(level, self.ring.me)
        self._next_refresh()


def _identifier(ref: Ref) -> int:
    assert isinstance(ref.key, int), "Chord's keys are identifiers"
    return ref.key
