"""How a node of a Chord comes by its fingers: looks them up, is told of newcomers and leavers, looks again.

A newcomer looks its fingers up one after the other, then tells those whose fingers it has become; a leaver tells the
same ones who follows it: O(log^2 N) messages, as the paper has it (SIGCOMM, "Node joins"), after which the tables are
exact without standing upkeep. `refresh_us` adds the later paper's refresh of one random level at a time, which mends
what changes at the same moment have left askew.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from implicast.overlay.chord.messages import (
    FingerIs,
    FingerLate,
    RefreshRound,
    SeekFinger,
    TakeFinger,
)
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Part, handles
from implicast.space.ring import up_to

if TYPE_CHECKING:
    from implicast.overlay.chord.chord import Chord

RETRY_US = 2_000_000
"""Patience with the look-up of a finger."""


class Fingers(Part):
    """The upkeep of one node's table."""

    __slots__ = ("_awaited", "_pass_on", "_refresh_us", "_ring", "_table")

    def __init__(self, chord: "Chord", refresh_us: int) -> None:
        super().__init__(chord.address, chord.host)
        self._ring, self._table, self._pass_on, self._refresh_us = (
            chord.ring,
            chord.table,
            chord.pass_on,
            refresh_us,
        )
        self._awaited = -1

    def begin(self) -> None:
        """This node has become a member: look all levels up."""
        self._seek(self._table.first_level())
        self.start_refreshing()

    def start_refreshing(self) -> None:
        """Look one level up afresh in a while."""
        if self._refresh_us:
            self._ring.later(self._refresh_us, RefreshRound(self._ring.me.incarnation))

    def end(self) -> None:
        """This node has left."""
        self._awaited = -1
        if (
            self._table.me == self._ring.me and self._table.right != self._table.me
        ):  # else nobody ever pointed here
            self._tell_those_who_point_here(self._ring.right, gone=self._ring.me)

    def drop(self, ref: Ref) -> None:
        """A finger has left, or fell silent: do without, and look those levels up afresh."""
        for level in self._table.forget(ref):
            self._ask_for(level)

    def _seek(self, level: int) -> None:
        """Look up this level; the answer starts the next one that it does not cover, the last tells the others."""
        table = self._table  # where the circle is closed this node itself is its finger
        level = next(
            (each for each in range(level, table.bits) if not table.owns(table.start(each))),
            table.bits,
        )
        if level == table.bits:
            self._awaited = -1
            self._tell_those_who_point_here(self._ring.me, gone=None)
            return
        self._awaited = level
        self._ask_in_turn(level)

    def _ask_in_turn(self, level: int) -> None:
        self.host.after(RETRY_US, FingerLate(self._ring.me.incarnation, level))
        if not self._ask_for(level):
            self._awaited = -1

    def _ask_for(self, level: int) -> bool:
        """False: this node is the successor itself."""
        seek = SeekFinger(self._table.start(level), level, self._ring.me)
        return self._pass_on(seek.key, seek)

    @handles(SeekFinger)
    def on_seek_finger(self, sender: Address, seek: SeekFinger) -> None:
        if not self._pass_on(seek.key, seek, sender) and seek.origin.address != self.address:
            self.host.send(seek.origin.address, FingerIs(seek.level, self._ring.me))

    @handles(FingerIs)
    def on_finger_is(self, sender: Address, answer: FingerIs) -> None:
        if self._ring.state != IN:
            return
        if sender == answer.finger.address:  # a suspicion was wrong
            self._ring.company.heard(answer.finger)
        if answer.level != self._awaited:
            self._table.set_finger(answer.level, answer.finger)  # a refresh
            return
        above = self._table.far(
            answer.finger
        ).bit_length()  # the lowest level that starts beyond it
        for level in range(answer.level, above):
            self._table.set_finger(level, answer.finger)
        self._seek(max(above, answer.level + 1))

    @handles(FingerLate)
    def on_finger_late(self, alarm: FingerLate) -> None:
        if (alarm.incarnation, alarm.level) == (
            self._ring.me.incarnation,
            self._awaited,
        ) and self._ring.state == IN:
            self._ask_in_turn(alarm.level)

    def _tell_those_who_point_here(self, finger: Ref, gone: Ref | None) -> None:
        """finger[i] of p is this node if p + 2^i lies after the left neighbour and not after this node."""
        table = self._table
        own, left = table.own, table.key_of(self._ring.left or self._ring.me)
        if left == own:
            return  # nobody is known to be there
        # The left neighbour's pointer is its ring's affair; the one before it reaches over it from this level on.
        lefts = self._ring.lefts
        lowest = (
            ((left - table.key_of(lefts[1])) & table.mask).bit_length() if len(lefts) > 1 else 0
        )
        for level in range(lowest, table.bits):
            low, high = (left - (1 << level)) & table.mask, (own - (1 << level)) & table.mask
            take = TakeFinger((low + 1) & table.mask, low, high, level, finger, gone)
            if gone is None and table.owns(take.key):
                self.on_take_finger(self.address, take)
            elif (step := table.next_hop(take.key)).address != self.address:
                self.host.send(step.address, take)

    @handles(TakeFinger)
    def on_take_finger(self, sender: Address, take: TakeFinger) -> None:
        table = self._table
        if self._ring.state != IN or not table.owns(take.key):
            self._pass_on(take.key, take, sender)
            return
        if not up_to(take.low, table.own, take.high):
            return
        if take.gone is None or table.levels.get(take.level) == take.gone:
            table.set_finger(take.level, take.finger)
        right = self._ring.right
        if table.own != take.high and up_to(table.own, table.key_of(right), take.high):
            self._ring.tell_right(replace(take, key=(table.own + 1) & table.mask))

    @handles(RefreshRound)
    def on_refresh_round(self, alarm: RefreshRound) -> None:
        if alarm.incarnation != self._ring.me.incarnation or self._ring.state != IN:
            return
        first, bits = self._table.first_level(), self._table.bits
        if first < bits:
            level = first + int(self.host.rng.random() * (bits - first))
            if not self._ask_for(level):
                self._table.set_finger(level, self._ring.me)
        self.start_refreshing()
