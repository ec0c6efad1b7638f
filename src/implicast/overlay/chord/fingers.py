"""Maintenance of a node's Chord fingers: lookup on join, updates to other nodes, periodic fix.

A joining node looks its fingers up one after the other, then updates the nodes whose finger it has
become. A leaving node names its successor to the same nodes. This takes O(log^2 N) messages
(SIGCOMM 2001, "Node joins") and leaves exact tables without periodic maintenance. `refresh_us` adds
fix_fingers of the later paper, one random level at a time, which corrects what simultaneous changes
have left wrong.
"""

from msgspec.structs import replace

from implicast.overlay.chord.messages import (
    FindFinger,
    FindFingerTimeout,
    FingerFound,
    FixFingers,
    UpdateFinger,
)
from implicast.overlay.chord.routing import Forward
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.links import Links
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Part, handles
from implicast.space.ring import up_to

RETRY_US = 2_000_000
"""Timeout of the lookup of a finger."""
MISSING_RATE = 6
"""While fingers are missing, levels are looked up this many times as often."""


class Fingers(Part):
    """Maintains the finger table of one node."""

    __slots__ = ("_forward", "_pending_level", "_refresh_us", "_ring", "_table")

    def __init__(self, ring: Links, table: FingerTable, forward: Forward, refresh_us: int) -> None:
        super().__init__(ring.address, ring.host)
        self._ring, self._table, self._forward = ring, table, forward
        self._refresh_us = refresh_us
        self._pending_level = -1

    def start(self) -> None:
        """This node has become a member: look up all levels."""
        self._find_levels_from(self._table.first_level())
        self.schedule_fix_fingers()

    def schedule_fix_fingers(self) -> None:
        """Schedule the lookup of one level; sooner while some have no finger."""
        if self._refresh_us:
            wait_us = self._refresh_us // (MISSING_RATE if self._missing_levels() else 1)
            self._ring.after_jittered(wait_us, FixFingers(self._ring.me.incarnation))

    def _missing_levels(self) -> list[int]:
        """Levels that have no finger: the lookup was lost, or the finger has failed."""
        table = self._table
        return [
            level
            for level in range(table.first_level(), table.bits)
            if level not in table.levels and not table.owns(table.start(level))
        ]

    def stop(self) -> None:
        """This node has left."""
        self._pending_level = -1
        # Otherwise no other node has a finger to this one.
        if self._table.me == self._ring.me and self._table.right != self._table.me:
            self._update_others(self._ring.right, gone=self._ring.me)

    def drop_finger(self, ref: Ref) -> None:
        """A finger has left or is suspected: remove it and look its levels up again."""
        for level in self._table.remove_node(ref):
            self._send_find_finger(level)

    def _find_levels_from(self, level: int) -> None:
        """Look up the first level from here on whose start this node does not own. The answer
        continues with the next level that it does not cover; after the last one other nodes are
        updated.
        """
        table = self._table  # levels whose start this node owns have no finger
        level = next(
            (each for each in range(level, table.bits) if not table.owns(table.start(each))),
            table.bits,
        )
        if level == table.bits:
            self._pending_level = -1
            self._update_others(self._ring.me, gone=None)
            return
        self._pending_level = level
        self._request_level(level)

    def _request_level(self, level: int) -> None:
        self.host.after(RETRY_US, FindFingerTimeout(self._ring.me.incarnation, level))
        if not self._send_find_finger(level):
            self._pending_level = -1

    def _send_find_finger(self, level: int) -> bool:
        """Look up the finger of a level. False: this node is the successor itself."""
        find = FindFinger(self._table.start(level), level, self._ring.me)
        return self._forward(find.key, find)

    @handles(FindFinger)
    def on_find_finger(self, sender: Address, find: FindFinger) -> None:
        if not self._forward(find.key, find, sender) and find.origin.address != self.address:
            self.host.send(find.origin.address, FingerFound(find.level, self._ring.me))

    @handles(FingerFound)
    def on_finger_found(self, sender: Address, answer: FingerFound) -> None:
        if self._ring.state != IN:
            return
        if sender == answer.finger.address:  # the node itself answers: end a false suspicion
            self._ring.liveness.on_message_from(answer.finger)
        if answer.level != self._pending_level:
            # not the awaited level: a single lookup
            self._table.set_finger(answer.level, answer.finger)
            return
        above = self._table.far(
            answer.finger
        ).bit_length()  # the lowest level that starts beyond it
        for level in range(answer.level, above):
            self._table.set_finger(level, answer.finger)
        self._find_levels_from(max(above, answer.level + 1))

    @handles(FindFingerTimeout)
    def on_find_finger_timeout(self, alarm: FindFingerTimeout) -> None:
        if (alarm.incarnation, alarm.level) == (
            self._ring.me.incarnation,
            self._pending_level,
        ) and self._ring.state == IN:
            self._request_level(alarm.level)

    def _update_others(self, finger: Ref, gone: Ref | None) -> None:
        """Tell the nodes whose finger this node is: finger[i] of p is this node if p + 2^i lies
        after the left neighbour and not after this node.
        """
        table = self._table
        own, left = table.own, table.key_of(self._ring.left or self._ring.me)
        if left == own:
            return  # no left neighbour is known
        # The left neighbour's own pointer is the ring's task. The node before it can have a finger
        # to this node from this level on.
        lefts = self._ring.lefts
        lowest = (
            ((left - table.key_of(lefts[1])) & table.mask).bit_length() if len(lefts) > 1 else 0
        )
        for level in range(lowest, table.bits):
            low, high = (left - (1 << level)) & table.mask, (own - (1 << level)) & table.mask
            update = UpdateFinger((low + 1) & table.mask, low, high, level, finger, gone)
            if gone is None and table.owns(update.key):
                self.on_update_finger(self.address, update)
            elif (step := table.next_hop(update.key)).address != self.address:
                self.host.send(step.address, update)

    @handles(UpdateFinger)
    def on_update_finger(self, sender: Address, update: UpdateFinger) -> None:
        table = self._table
        if self._ring.state != IN or not table.owns(update.key):
            self._forward(update.key, update, sender)
            return
        if not up_to(update.low, table.own, update.high):
            return
        if update.gone is None or table.levels.get(update.level) == update.gone:
            table.set_finger(update.level, update.finger)
        right = self._ring.right
        if table.own != update.high and up_to(table.own, table.key_of(right), update.high):
            self._ring.send_right(replace(update, key=(table.own + 1) & table.mask))

    @handles(FixFingers)
    def on_fix_fingers(self, alarm: FixFingers) -> None:
        if alarm.incarnation != self._ring.me.incarnation or self._ring.state != IN:
            return
        levels = self._missing_levels() or range(self._table.first_level(), self._table.bits)
        if levels:
            level = levels[int(self.host.rng.random() * len(levels))]
            if not self._send_find_finger(level):
                self._table.set_finger(level, self._ring.me)
        self.schedule_fix_fingers()
