"""Keeps lists for others so that they outlive their keeper: what a node answers for, its right neighbours have too.

- *Laying.* The node that answers for a value takes the entry and sends it along its right neighbours; the last of
  `copies` tells whoever asked. So an entry counts as laid only when it is copied.
- *Comparing.* Now and then, and soon after the neighbourhood has changed, a node sends a summary of what it answers for
  along the same way. Whoever has something else sends all it has of it and gets all the other has: both know the newest
  word about each entry afterwards. That heals whatever was lost on the way or came to the wrong one.
- *Promotion.* Who inherits the keys of a dead neighbour has its lists already.
- *Returning.* What a node keeps beyond its own keys and copies is sent to whoever answers for it.
- *Lack.* A node knows how far to the left it has everything (`floor`). When it inherits more than that, all copies of
  the rest died together: it tells everybody (`lacking.py`), and those whose entries were there lay them again.

A newcomer claims from its right neighbour what it now answers for and is silent to askers until that has come; a leaver
makes sure that its right neighbour has everything. Left out: summaries finer than one per node.
"""

from implicast.casting.keeping.messages import (
    BEQUEST,
    CLAIMED,
    ClaimLate,
    ClaimRows,
    Copy,
    LaidAt,
    Lay,
    Renew,
    Renewed,
    Row,
    RowsTaken,
    SyncRound,
)
from implicast.casting.keeping.returning import Returning
from implicast.language.target import Scalar
from implicast.overlay.links import Ref
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Message, handles

CLAIM_US = 1_500_000
"""Patience with a neighbour that was asked for an estate or given one; jittered by half."""
CLAIMS_MAX = 8
"""Attempts to claim or to bequeath; then a newcomer begins with what it has, a leaver goes: comparing does the rest."""


class Keeper(Returning):
    """One peer's share of all lists."""

    __slots__ = ()

    # Coming, staying, going

    def stand(self) -> None:
        """Be part of a ring that has stood for long, with nothing kept yet."""
        self.is_ready = True
        self.floor_key = self._copies_low()
        self._lefts = self.chord.ring.lefts
        self.chord.stand()
        self.host.after(int(self.host.rng.random() * self.settings.sync_us), SyncRound(self.chord.ring.me.life))

    def entered(self) -> None:
        self._parts, self._tries, self.is_ready = set(), 0, False
        self.floor_key = self._own
        self._next_sync()
        self._claim()

    def _claim(self) -> None:
        ring = self.chord.ring
        self._tries += 1
        if ring.right == ring.me or self._tries > CLAIMS_MAX:
            self.begin_serving()
            return
        self._try_again_later()
        self.host.send(ring.right.address, ClaimRows(ring.me, self._low()))

    def begin_serving(self) -> None:
        self.is_ready = True
        self._lefts = self.chord.ring.lefts
        self.floor_key = self._low()
        self.joined()
        self._sync_soon()
        if self._going:
            self.leave()

    def _try_again_later(self) -> None:
        wait_us = int(CLAIM_US * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, ClaimLate(self.chord.ring.me.life))

    @handles(ClaimLate)
    def on_claim_late(self, alarm: ClaimLate) -> None:
        ring = self.chord.ring
        if alarm.life != ring.me.life or ring.state != IN:
            return
        if not self.is_ready:
            self._claim()
        elif self._going:
            self._bequeath()

    @handles(ClaimRows)
    def on_claim(self, sender: Address, claim: ClaimRows) -> None:
        if self.is_ready and self.chord.ring.state == IN:
            assert isinstance(claim.by.key, int), "Chord's keys are identifiers"
            self._send_rows(claim.by, CLAIMED, claim.low, claim.by.key)
            self._tell_what_is_lacking(claim.low)

    def _tell_what_is_lacking(self, low: int) -> None:
        """A newcomer came to keys whose keeper and copies have died: it has from us what we have, and cannot know that
        it is not all."""
        if self._is_further(low, self.floor_key) and self._lacked != (low, self.floor_key):
            self._lacked = (low, self.floor_key)
            self.lacks(low, self.floor_key)

    def leave(self) -> None:
        """Make sure that the right neighbour has everything, then leave the ring. A newcomer first arrives."""
        self._going = True
        ring = self.chord.ring
        if ring.state == OUT or (ring.state == IN and ring.right == ring.me):
            ring.leave()
        elif ring.state == IN and self.is_ready:
            self._tries = 0
            self._bequeath()

    def _bequeath(self) -> None:
        ring = self.chord.ring
        self._tries += 1
        if self._tries > CLAIMS_MAX or ring.right == ring.me:
            ring.leave()
            return
        self._try_again_later()
        self._parts = set()
        # Copies and strays too: whoever answered for a key for a moment may have the newest word about it.
        self._send_rows(ring.right, BEQUEST, self._own, self._own)

    @handles(RowsTaken)
    def on_taken(self, sender: Address, taken: RowsTaken) -> None:
        self._parts.add(taken.part)
        if self._going and self.chord.ring.state == IN and len(self._parts) == taken.parts:
            self._going = False
            self.chord.ring.leave()

    def departed(self) -> None:
        self.rows.clear()
        self.is_ready = self._going = False
        self.left_ring()

    def moved(self) -> None:
        """Neighbours have changed: what is answered for, and of whom copies are kept."""
        if not self.is_ready:
            return
        self._notice_return()
        self._notice_deaths()
        if self._is_further(self.floor_key, beyond := self._copies_low()):
            self.floor_key = beyond  # copies from further away do not come here any more
        low = self._low()
        if self._is_further(low, self.floor_key):
            before, self.floor_key = self.floor_key, low
            self.lacks(low, before)
        self._sync_soon()

    def _notice_deaths(self) -> None:
        """Those on the left that fell silent, now that the ring is repaired behind them: neighbours, and whoever came
        between and died before it was one. Each is told of once, unless it was there again and fell silent anew."""
        ring, before, told_us = self.chord.ring, self._lefts, self._told_us
        self._lefts, self._told_us = ring.lefts, {}
        for ref in dict.fromkeys((*before, *ring.missed)):
            if ref not in ring.lefts and lies_between(ring.left, ref, ring.me) and self._fell_silent(ref):
                self._told_us[ref] = told_us.get(ref, self.host.now_us)
                if ref not in told_us or self._fell_silent(ref, since_us=told_us[ref]):
                    self._told_us[ref] = self.host.now_us
                    self.died(ref.address)

    def _fell_silent(self, ref: Ref, since_us: int = -1) -> bool:
        detector = self.chord.ring.detector
        return detector is not None and detector.suspected_within(ref, self.host.now_us - since_us)

    # Laying

    @handles(Lay)
    def on_lay(self, sender: Address, lay: Lay) -> None:
        if not self.comes_by(sender, lay):
            return
        own = self.own_values(lay.attribute, lay.low, lay.high)
        rows = tuple(Row(key, (lay.shelf, lay.attribute, value), lay.name, lay.stamp, lay.packed) for key, value in own)
        last = own[-1][1]
        self.lives(lay.origin)
        if self._take(rows):
            me = self.chord.ring.me
            self._copy_on(Copy(me, rows, self.settings.copies, lay.origin, lay.serial, lay.low, last))
        if last != lay.high:
            assert isinstance(last, int), "only ranges of numbers go on"
            onward = Lay(
                self.key_of(lay.attribute, last + 1), lay.shelf, lay.attribute, last + 1, lay.high, lay.name, lay.stamp,
                lay.packed, lay.origin, lay.serial, lay.walks, lay.walks,
            )  # fmt: skip
            self.on_lay(self.address, onward)

    def comes_by(self, sender: Address, request: Message) -> bool:
        """Whether a request for a range is to be served here; otherwise it has been sent on."""
        key, walking = request.key, request.walking  # type: ignore[attr-defined]
        ring = self.chord.ring
        if walking and ring.state == IN and not self.chord.owns(key) and sender != self.address:
            if ring.right != ring.me:
                self.host.send(ring.right.address, request)
            return False
        return not self.chord.pass_on(key, request, None if walking else sender)

    def own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """The leading values of a range that belong here, with their keys."""
        if isinstance(low, str) or isinstance(high, str):
            return [(self.key_of(attribute, low), low)]
        found: list[tuple[int, Scalar]] = []
        for value in range(low, high + 1):
            key = self.key_of(attribute, value)
            if found and not self.chord.owns(key):
                break
            found.append((key, value))
        return found

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        self.lives(copy.origin)
        if self.chord.ring.state == IN and copy.by != self.chord.ring.me and self._take(copy.rows):
            self._copy_on(Copy(copy.by, copy.rows, copy.more - 1, copy.origin, copy.serial, copy.low, copy.high))

    def _copy_on(self, copy: Copy) -> None:
        right = self.chord.ring.right
        if copy.more > 0 and right not in (self.chord.ring.me, copy.by):
            self.host.send(right.address, copy)
            return
        laid = LaidAt(copy.serial, copy.rows[0].stamp, copy.low, copy.high, copy.by.address)
        if copy.origin == self.address:
            self.laid(laid)
        else:
            self.host.send(copy.origin, laid)

    @handles(Renew)
    def on_renew(self, sender: Address, renew: Renew) -> None:
        self.host.send(sender, Renewed(tuple(self.lost_of(renew))))

    def lost_of(self, renew: Renew) -> list[tuple[int, Scalar, Scalar]]:
        """Which of these this node does not answer for, or has not; the others are renewed."""
        lost = []
        for serial, shelf, attribute, low, high, name, stamp in renew.pieces:
            values = [low] if isinstance(low, str) or isinstance(high, str) else range(low, high + 1)
            if not self.is_ready or not all(self._renew(shelf, attribute, value, name, stamp) for value in values):
                lost.append((serial, low, high))
        return lost

    def _renew(self, shelf: str, attribute: str, value: Scalar, name: int | tuple[str, int], stamp: int) -> bool:
        entry = self.rows.get((shelf, attribute, value), name)
        if entry is None or entry.row.stamp < stamp or not entry.row.packed or not self.chord.owns(entry.row.key):
            return False
        entry.heard_us = self.host.now_us
        return True
