"""Keeps lists for others: takes entries in, tells askers what is in a list, renews.

The node that answers for a value takes the entry and sends it along its right neighbours; the last of `copies` tells
the owner. So an entry counts as laid only when it is copied, and a node that inherits the keys of a dead neighbour has
its lists already. What was lost on the way, or came to the wrong node, is healed by comparing (`copies.py`); what died
with all its copies by those who laid it (`rumours.py`). Left out: summaries finer than one per node.
"""

from collections.abc import Callable
from itertools import takewhile

from msgspec.structs import replace

from implicast.casting.keeping.doubts import Doubts
from implicast.casting.keeping.messages import (
    Ask,
    Copy,
    EntriesRenewed,
    EntryOutdated,
    Found,
    LaidAt,
    LaterEntry,
    Lay,
    Listed,
    RenewEntries,
    Row,
    Slot,
)
from implicast.casting.keeping.pieces import values
from implicast.casting.keeping.rows import Ident
from implicast.casting.keeping.share import Share, Shareholder, in_parts
from implicast.language.target import Scalar
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, handles

WAITING_MAX = 4_096
"""Questions that wait at a newcomer for what it is to answer for."""
LIST_ITEMS = 4_096
"""Entries per message of a list: whole registrations stay below a megabyte."""


class Keeper(Shareholder):
    """One peer's service to the owners of entries and to askers."""

    __slots__ = ("_doubts", "_hear", "_latest", "_waiting")

    def __init__(
        self, share: Share, doubts: Doubts, hear: Callable[[Address, Message], None]
    ) -> None:
        """`hear(sender, answer)`: answers to this peer's own requests."""
        super().__init__(share)
        self._doubts, self._hear = doubts, hear
        self._waiting: list[tuple[Address, Ask]] = []
        self._latest: tuple[int, list[Slot], list[Found]] = (-1, [], [])
        """The answer given last: to which state of the rows it belongs, to which lists, and what was in them."""

    @handles(Lay, Ask)
    def on_request(self, sender: Address, request: Lay | Ask) -> None:
        """Do what concerns the leading values, if they belong here; ranges of numbers go on to the node of the next."""
        goes_on = (
            self._walks_on(request)
            if request.walking
            else self._chord.pass_on(request.key, request, sender)
        )
        own = [] if goes_on else self._own_values(request.attribute, request.low, request.high)
        if not own:
            return
        is_done = (
            self._lay(request, own)
            if isinstance(request, Lay)
            else self._answer(sender, request, own)
        )
        last = own[-1][1]
        if (
            is_done
            and isinstance(last, int)
            and isinstance(request.high, int)
            and last < request.high
        ):
            key = self._share.key_of(request.attribute, last + 1)
            self.on_request(
                self.address, replace(request, key=key, low=last + 1, walking=request.walks)
            )

    def _walks_on(self, request: Lay | Ask) -> bool:
        """Whether a request that goes through a range by right neighbours has been sent on."""
        chord, ring = self._chord, self._ring
        if ring.state != IN or chord.owns(request.key) or ring.right == ring.me:
            return chord.pass_on(request.key, request)
        if not chord.has_gone_by(request.key, request):
            ring.tell_right(request)
        return True

    def _own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """The leading values of a range that belong here, with their keys; none if there is no such range."""
        key_of = self._share.key_of
        if isinstance(low, str) or isinstance(high, str):
            return [(key_of(attribute, low), low)] if low == high else []
        if not 0 <= high - low < self._share.settings.values_max:
            return []
        keys = ((key_of(attribute, value), value) for value in range(low, high + 1))
        return [next(keys), *takewhile(lambda each: self._chord.owns(each[0]), keys)]

    def _tell(self, to: Address, answer: LaidAt | Listed) -> None:
        if to == self.address:
            self._hear(to, answer)
        else:
            self.host.send(to, answer)

    # Entries are laid

    def _lay(self, lay: Lay, own: list[tuple[int, Scalar]]) -> bool:
        what = (lay.owner, lay.number, lay.stamp, lay.packed)
        rows = tuple([Row(key, (lay.shelf, lay.attribute, value), *what) for key, value in own])
        if not self._share.deeds.are_sound(rows):
            return False
        self._doubts.incarnations(lay.owner.name)
        if self._keeps(rows, lay.serial):
            copies = self._share.settings.copies or int(
                self._share.is_going
            )  # a leaver's heir may have its estate
            self._copy_on(Copy(self._ring.me, rows, copies, lay.serial, lay.low, own[-1][1]))
        return True

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        ring, share = self._ring, self._share
        if not share.deeds.are_sound(copy.rows):
            return
        self._doubts.incarnations(copy.rows[0].owner.name)
        are_placed = all(share.key_of(*row.slot[1:]) == row.key for row in copy.rows)
        # With more between, who was at this address before is meant: the keeper does not know yet that it has died.
        between = (
            0
            if ring.left == copy.by
            else sum(lies_between(copy.by, ref, ring.me) for ref in ring.lefts)
        )
        is_near = between < max(1, share.settings.copies)
        is_ours = (
            is_near and are_placed and ring.state == IN and copy.by != ring.me and copy.more > 0
        )
        if is_ours and self._keeps(copy.rows, copy.serial):
            self._copy_on(replace(copy, more=copy.more - 1))

    def _copy_on(self, copy: Copy) -> None:
        if copy.more > 0 and self._ring.right not in (self._ring.me, copy.by):
            self._ring.tell_right(copy)
        else:
            laid = LaidAt(copy.serial, copy.rows[0].stamp, copy.low, copy.high, copy.by.address)
            self._tell(copy.rows[0].owner.address, laid)

    def _keeps(self, rows: tuple[Row, ...], serial: int) -> bool:
        """Take what an owner laid. An owner that lays what is older than what is known of it is told so; and where
        words are signed it believes in its later life only when it sees its own word."""
        newer, owner = self._share.take(rows), rows[0].owner.address
        if newer <= 0:
            return not newer
        outdated = EntryOutdated(serial, newer)
        if owner == self.address:
            self.host.after(0, outdated)
            return False
        entry = self._share.rows.get(rows[0].slot, rows[0].ident)
        if self._share.deeds.signed and entry is not None and entry.row.packed:
            self.host.send(owner, LaterEntry(serial, entry.row))
        self.host.send(owner, outdated)
        return False

    @handles(RenewEntries)
    def on_renew(self, sender: Address, renew: RenewEntries) -> None:
        self.host.send(sender, EntriesRenewed(renew.turn, tuple(self.lost_of(renew, sender))))

    def lost_of(self, renew: RenewEntries, sender: Address) -> list[tuple[int, Scalar, Scalar]]:
        """Which of these this node does not answer for, or has not; the others are renewed."""
        lost = []
        for serial, shelf, attribute, low, high, number, stamp in renew.pieces:
            ident = number or renew.owner
            kept = (
                self._renew((shelf, attribute, value), ident, stamp, sender)
                for value in values((low, high))
            )
            if not self._share.is_ready or not all(kept):
                lost.append((serial, low, high))
        return lost

    def _renew(self, slot: Slot, ident: Ident, stamp: int, sender: Address) -> bool:
        entry = self._share.rows.get(slot, ident)
        if entry is None or (self._share.deeds.signed and sender != entry.row.owner.address):
            return False
        if entry.row.stamp < stamp or not entry.in_force or not self._chord.owns(entry.row.key):
            return False
        entry.vouch(self.host.now_us)
        return True

    # Lists are asked for

    def serve_those_who_wait(self) -> None:
        """What this node answers for has come."""
        waiting, self._waiting = self._waiting, []
        for sender, ask in waiting:
            self.on_request(sender, ask)

    def _answer(self, sender: Address, ask: Ask, own: list[tuple[int, Scalar]]) -> bool:
        """All own values in one answer, in as many parts as it takes; an empty answer is an answer."""
        if not self._share.is_ready:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((sender, ask))
            return False
        slots = [(ask.shelf, ask.attribute, value) for _, value in own]
        head = (ask.cast, ask.piece, ask.low, own[-1][1])
        if ask.counts:
            count = sum(len(self._share.rows.listed(slot)) for slot in slots)
            self._tell(ask.origin, Listed(*head, 0, 1, (), count))
            return True
        for part in in_parts(self._found(slots), LIST_ITEMS):
            self._tell(ask.origin, Listed(*head, *part))
        return True

    def _found(self, slots: list[Slot]) -> list[Found]:
        """What is in these lists. Busy ones are asked for again and again: the last answer is kept while it holds."""
        rows, (changes, asked, found) = self._share.rows, self._latest
        if changes != rows.changes or asked != slots:
            found = [
                (row.owner, row.number, row.packed) for slot in slots for row in rows.listed(slot)
            ]
            self._latest = rows.changes, slots, found
        return found
