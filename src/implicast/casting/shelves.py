"""What a node of a hashed ring keeps for others: lists under keys, which follow their keys when the ring changes.

A newcomer claims from its right neighbour what it now answers for; until that has come, what is asked of it waits.
A leaver offers everything to its right neighbour; when that is ready it gives, and sends on whatever still reaches it;
then it leaves the ring. Who has welcomed an estate does not give its own away before it has come: else two neighbours
that leave together would send their estates round and round.
So at every moment one node serves a key, and it has what was kept under it. Losing a node loses its lists: copies at
successors belong to a world with crashes.

Shared by the designs on Chord. Items are opaque here; they travel packed.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from implicast.casting.shelf_messages import CededOver, Claim, Estate, EstateLate, Offer, Taken, Welcome
from implicast.overlay.chord import Chord, Tenant
from implicast.overlay.links import Ref
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Part, handles

AGAIN_US = 2_000_000
"""Patience with a neighbour that was asked for an estate or given one; jittered by half."""
CEDED_US = 5_000_000
"""How long what a newcomer claimed counts as its own before the ring's news of it has come. A claim that was repeated
on the way can arrive after its sender has left again; this ends the mistake."""
PAST_MAX = 64
"""Leavers whose estates came here and who are remembered, so that their late claims are ignored."""
EXPECT_US = 500_000
"""How long a welcomed estate is expected."""
ESTATE_ITEMS = 2_000
"""Items per message of an estate: below a megabyte with whole registrations."""
WAITING_MAX = 65_536
"""Requests that may wait at a newcomer; beyond, they are dropped and their askers ask again."""


Row = tuple[int, Any, Any, Any]
"""key, slot (the name of the list: a tag, or an attribute with one of its values), name within the list, item."""


class Shelves(Part, Tenant):
    """One peer's lists. `serve` is how a request that had to wait is handed to the peer again."""

    __slots__ = (
        "_bequeathed", "_ceded", "_expected_us", "_going", "_heirloom", "_parts", "_past", "_rows", "_waiting",
        "chord", "joined", "keys", "left_ring", "lists", "serve",
    )  # fmt: skip

    def __init__(self, address: Address, host: Host, chord: Chord, rows: Any) -> None:
        """`rows`: the type of a list of rows, for unpacking what others send."""
        super().__init__(address, host)
        self.chord = chord
        chord.tenant = self
        self.lists: dict[Any, dict[Any, Any]] = {}
        self.keys: dict[Any, int] = {}
        self.joined: Callable[[], None] = lambda: None
        self.left_ring: Callable[[], None] = lambda: None
        self.serve: Callable[[Address, Message], None] = lambda sender, message: None
        self._rows = rows
        self._waiting: list[tuple[Address, Message]] | None = None
        self._parts: dict[Ref, dict[int, bytes]] = {}
        self._going = self._bequeathed = False
        self._expected_us = 0
        self._ceded: Ref | None = None
        self._heirloom: tuple[Ref, Ref] | None = None
        self._past: dict[Ref, None] = {}

    # Lists

    def put(self, key: int, slot: Any, name: Any, item: Any) -> None:
        found = self.lists.get(slot)
        if found is None:
            found = self.lists[slot] = {}
            self.keys[slot] = key
        found[name] = item

    def get(self, slot: Any) -> dict[Any, Any]:
        return self.lists.get(slot, {})

    def drop(self, slot: Any, name: Any) -> None:
        found = self.lists.get(slot)
        if found is not None and found.pop(name, None) is not None and not found:
            del self.lists[slot], self.keys[slot]

    def rows(self) -> Iterator[Row]:
        for slot, items in self.lists.items():
            key = self.keys[slot]
            for name, item in items.items():
                yield key, slot, name, item

    def admit(self, key: int, sender: Address, message: Message) -> bool:
        """Whether to serve a routed request here and now. Otherwise it has been sent on, or waits."""
        if self.chord.pass_on(key, message, sender):
            return False
        return self._waiting is None or not self._must_wait(sender, message)

    def _must_wait(self, sender: Address, message: Message) -> bool:
        if self._waiting is None:
            return False
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append((sender, message))
        return True

    # Coming and going

    def entered(self) -> None:
        self._bequeathed = self.chord.defers = False
        self._ceded = self._heirloom = None
        self._parts = {}
        ring = self.chord.ring
        if ring.right == ring.me:
            self._ready()
            return
        self._waiting = []
        self._claim()

    def _claim(self) -> None:
        ring = self.chord.ring
        self._try_again_later()
        if ring.right != ring.me:
            self.host.send(ring.right.address, Claim(ring.me))
        else:
            self._ready()  # everybody else has gone; what they kept came here

    def _try_again_later(self) -> None:
        wait_us = int(AGAIN_US * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, EstateLate(self.chord.ring.me.life))

    def leave(self) -> None:
        """Give everything to the right neighbour, then leave the ring. Who is on its way in, or still waits to be
        given its share, first arrives: its right neighbour has already ceded what it is about to get."""
        self._going = True
        ring = self.chord.ring
        if ring.state == OUT or (ring.state == IN and ring.right == ring.me):
            ring.leave()
        elif ring.state == IN and self._waiting is None:
            self._try_again_later()
            if self._bequeathed:
                self._give()
            else:
                self.host.send(ring.right.address, Offer(ring.me))

    def _give(self) -> None:
        ring = self.chord.ring
        self._bequeathed = self.chord.defers = True
        self._send_estate(ring.right, list(self.rows()), self.floor(ring.left or ring.me))

    @handles(Offer)
    def on_offer(self, sender: Address, offer: Offer) -> None:
        if self.chord.ring.state != IN or self._bequeathed:
            self._pass_right(offer)
        elif offer.by.address != self.address and not self._must_wait(sender, offer):
            self._expected_us = self.host.now_us + EXPECT_US
            self.host.send(offer.by.address, Welcome())

    @handles(Welcome)
    def on_welcome(self, sender: Address, welcome: Welcome) -> None:
        is_free = self.chord.ring.state == IN and not self._bequeathed and self.host.now_us >= self._expected_us
        if self._going and is_free and self.chord.ring.right != self.chord.ring.me:
            self._give()

    def departed(self) -> None:
        self.lists, self.keys = {}, {}
        self._going = self._bequeathed = self.chord.defers = False
        self.left_ring()

    def floor(self, left: Ref) -> Ref:
        """A leaver's keys are the heir's before the ring knows; a newcomer's are its own before its heir is told."""
        if self._ceded is not None:
            if left != self._ceded and lies_between(left, self._ceded, self.chord.ring.me):
                return self._ceded
            self._ceded = None
        if self._heirloom is not None:
            if self._heirloom[0] == left:
                return self._heirloom[1]
            self._heirloom = None
        return left

    @handles(EstateLate)
    def on_estate_late(self, alarm: EstateLate) -> None:
        ring = self.chord.ring
        if alarm.life != ring.me.life or ring.state != IN:
            return
        if self._waiting is not None:
            self._claim()
        elif self._going:
            self.leave()

    # Estates

    @handles(Claim)
    def on_claim(self, sender: Address, claim: Claim) -> None:
        ring, me = self.chord.ring, self.chord.ring.me
        floor = self.floor(ring.left or me)
        if ring.state != IN or self._bequeathed:
            self._pass_right(claim)
        elif floor not in (claim.by, me) and lies_between(claim.by, floor, me):
            self.host.send(floor.address, claim)  # what is claimed was given to somebody nearer
        elif claim.by not in self._past and not self._must_wait(sender, claim):
            self._send_estate(claim.by, [row for row in self.rows() if not self._stays(claim.by, row[0])], None)
            self._ceded = claim.by
            self.host.after(CEDED_US, CededOver(claim.by))
            self.chord.moved()

    @handles(CededOver)
    def on_ceded_over(self, alarm: CededOver) -> None:
        if self._ceded == alarm.by:
            self._ceded = None
            self.chord.moved()

    def _stays(self, left: Ref, key: int) -> bool:
        """Whether a key is this node's when `left` is the left neighbour."""
        table = self.chord.table
        return (table.own - key) & table.mask < -table.far(left) & table.mask

    def _pass_right(self, message: Message) -> None:
        right = self.chord.ring.right
        if right.address != self.address:
            self.host.send(right.address, message)

    def _send_estate(self, to: Ref, rows: list[Row], floor: Ref | None) -> None:
        chunks = [rows[start : start + ESTATE_ITEMS] for start in range(0, len(rows), ESTATE_ITEMS)] or [[]]
        for part, chunk in enumerate(chunks):
            packed = msgspec.msgpack.encode(chunk)
            self.host.send(to.address, Estate(to, self.chord.ring.me, part, len(chunks), floor, packed))

    @handles(Estate)
    def on_estate(self, sender: Address, estate: Estate) -> None:
        if estate.floor is not None:
            self._inherit(sender, estate, estate.floor)
        elif estate.to == self.chord.ring.me and self.chord.ring.state == IN:
            if self._waiting is not None and self._is_whole(estate):
                self._ready()
            if self._waiting is None:
                self.host.send(estate.by.address, Taken(self.chord.ring.me, False))

    def _inherit(self, sender: Address, estate: Estate, floor: Ref) -> None:
        ring = self.chord.ring
        if ring.state != IN or self._bequeathed:
            self._pass_right(estate)
            return
        if self._must_wait(sender, estate) or not self._is_whole(estate):
            return
        self._past[estate.by] = None
        if len(self._past) > PAST_MAX:
            del self._past[next(iter(self._past))]
        if self._ceded == estate.by:
            self._ceded = None
        if ring.left == estate.by:
            self._heirloom = (estate.by, floor)
        self._expected_us = 0
        self.chord.moved()
        self.host.send(estate.by.address, Taken(ring.me, True))

    def _is_whole(self, estate: Estate) -> bool:
        """Gather the parts of an estate; with the last of them, put its items on the shelves."""
        parts = self._parts.setdefault(estate.by, {})
        parts[estate.part] = estate.packed
        if len(parts) < estate.parts:
            return False
        del self._parts[estate.by]
        for _, packed in sorted(parts.items()):
            for key, slot, name, item in msgspec.msgpack.decode(packed, type=self._rows):
                if name not in self.get(slot):  # what was said here since is newer
                    self.put(key, slot, name, item)
        return True

    def _ready(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        self.joined()
        for sender, message in waiting:
            self.serve(sender, message)
        if self._going:
            self.leave()

    @handles(Taken)
    def on_taken(self, sender: Address, taken: Taken) -> None:
        if taken.bequest:
            if self._bequeathed and self._going:
                self._going = False  # given once and for all; the rest is the ring's affair
                self.chord.ring.leave()
        elif taken.by not in self._past and taken.by in (self._ceded, self.chord.ring.left):  # else it came back here
            for slot in [slot for slot, key in self.keys.items() if not self._stays(taken.by, key)]:
                del self.lists[slot], self.keys[slot]
