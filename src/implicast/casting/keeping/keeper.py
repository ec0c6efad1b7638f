"""Keeps lists for others: takes entries in, tells askers what is in a list, renews.

- *Laying.* The node that answers for a value takes the entry and sends it along its right neighbours; the last of
  `copies` tells whoever asked. So an entry counts as laid only when it is copied.
- *Comparing* (`copies.py`). Now and then, and soon after the neighbourhood has changed, a node sends a summary of what
  it answers for along the same way. That heals whatever was lost on the way or came to the wrong one.
- *Promotion.* A node that inherits the keys of a dead neighbour has its lists already.
- *Returning* (`copies.py`). What a node keeps beyond its own keys and copies is sent to the node that answers for it.
- *Lack* (`tenure.py`). A node knows how far to the left it has everything. When it inherits more than that, all copies
  of the rest died together: it tells everybody, and those whose entries were there lay them again.

Left out: summaries finer than one per node.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from implicast.casting.keeping.doubts import Doubts
from implicast.casting.keeping.messages import (
    Ask,
    Copy,
    EntriesRenewed,
    EntryOutdated,
    EntryOutdatedHere,
    Found,
    LaidAt,
    LaterEntry,
    Lay,
    Listed,
    RenewEntries,
    Row,
    Slot,
)
from implicast.casting.keeping.rows import Ident
from implicast.casting.keeping.share import Share
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles

WAITING_MAX = 4_096
"""Questions that wait at a newcomer for what it is to answer for."""
LIST_ITEMS = 4_096
"""Entries per message of a list: whole registrations stay below a megabyte."""
Request = TypeVar("Request", Lay, Ask)


class Keeper(Part):
    """One peer's service to the owners of entries and to askers."""

    __slots__ = ("_chord", "_doubts", "_laid", "_latest", "_share", "_told", "_waiting")

    def __init__(
        self, address: Address, host: Host, share: Share, doubts: Doubts, laid: Callable[[LaidAt], None],
        told: Callable[[Listed], None],
    ) -> None:  # fmt: skip
        """`laid` and `told`: answers to this peer's own requests."""
        super().__init__(address, host)
        self._share, self._doubts, self._laid, self._told = share, doubts, laid, told
        self._chord = share.chord
        self._waiting: list[tuple[Address, Ask]] = []
        self._latest: tuple[int, list[Slot], list[Found]] = (-1, [], [])
        """The answer given last: to which state of the rows it belongs, to which lists, and what was in them."""

    @handles(Lay)
    def on_lay(self, sender: Address, lay: Lay) -> None:
        own = self._arrived(sender, lay)
        what = (lay.owner, lay.number, lay.stamp, lay.packed)
        rows = tuple([Row(key, (lay.shelf, lay.attribute, value), *what) for key, value in own])
        if not own or not self._share.is_sound(rows):
            return
        self._doubts.lives(lay.owner.name)
        if self._keeps(rows, lay.serial):
            self._copy_on(Copy(self._chord.ring.me, rows, self._share.copies(), lay.serial, lay.low, own[-1][1]))
        onward = self._rest(lay, own[-1][1])
        if onward is not None:
            self.on_lay(self.address, onward)

    def _arrived(self, sender: Address, request: Request) -> list[tuple[int, Scalar]]:
        """The values of a request that belong here, with their keys; none: it was sent on."""
        goes_on = self._walks_on(request) if request.walking else self._chord.pass_on(request.key, request, sender)
        return [] if goes_on else self._own_values(request.attribute, request.low, request.high)

    def _rest(self, request: Request, last: Scalar) -> Request | None:
        """What goes on to the node of the value after this one: only ranges of numbers do."""
        if not isinstance(last, int) or not isinstance(request.high, int) or last >= request.high:
            return None
        key = self._share.key_of(request.attribute, last + 1)
        return replace(request, key=key, low=last + 1, walking=request.walks)

    def _walks_on(self, request: Request) -> bool:
        """Whether a request that goes through a range by right neighbours has been sent on."""
        chord = self._chord
        right = chord.ring.right
        if chord.ring.state != IN or chord.owns(request.key) or right == chord.ring.me:
            return chord.pass_on(request.key, request)
        if not chord.has_gone_by(request.key, request):
            chord.ring.tell_right(request)
        return True

    def _own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """The leading values of a range that belong here, with their keys; none if there is no such range: it is not
        the fault of the peer that passed it on."""
        key_of = self._share.key_of
        if isinstance(low, str) or isinstance(high, str):
            return [(key_of(attribute, low), low)] if low == high else []
        if not 0 <= high - low < self._share.settings.values_max:
            return []
        found: list[tuple[int, Scalar]] = []
        for value in range(low, high + 1):
            key = key_of(attribute, value)
            if found and not self._chord.owns(key):
                break
            found.append((key, value))
        return found

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        ring = self._chord.ring
        if not self._share.is_sound(copy.rows):
            return
        self._doubts.lives(copy.rows[0].owner.name)
        if any(self._share.key_of(*row.slot[1:]) != row.key for row in copy.rows):
            return
        if ring.state == IN and copy.by != ring.me and copy.more and self._keeps(copy.rows, copy.serial):
            self._copy_on(replace(copy, more=copy.more - 1))

    def _copy_on(self, copy: Copy) -> None:
        right = self._chord.ring.right
        if copy.more > 0 and right not in (self._chord.ring.me, copy.by):
            self._chord.ring.tell_right(copy)
            return
        owner = copy.rows[0].owner.address
        laid = LaidAt(copy.serial, copy.rows[0].stamp, copy.low, copy.high, copy.by.address)
        if owner == self.address:
            self._laid(laid)
        else:
            self.host.send(owner, laid)

    def _keeps(self, rows: tuple[Row, ...], serial: int) -> bool:
        """Take what an owner laid. An owner that lays what is older than what is known of it is told so."""
        newer = self._share.take(rows)
        if newer > 0 and rows[0].owner.address != self.address:
            self._show_later(rows, serial)
            self.host.send(rows[0].owner.address, EntryOutdated(serial, newer))
        elif newer > 0:
            self.host.after(0, EntryOutdatedHere(serial, newer))
        return not newer

    def _show_later(self, rows: tuple[Row, ...], serial: int) -> None:
        """Where words are signed an owner believes in its later life only when it sees its own word."""
        entry = self._share.rows.get(rows[0].slot, rows[0].ident)
        if self._share.deeds.signed and entry is not None and entry.row.packed:
            self.host.send(rows[0].owner.address, LaterEntry(serial, entry.row))

    @handles(RenewEntries)
    def on_renew(self, sender: Address, renew: RenewEntries) -> None:
        self.host.send(sender, EntriesRenewed(renew.turn, tuple(self.lost_of(renew, sender))))

    def lost_of(self, renew: RenewEntries, sender: Address | None = None) -> list[tuple[int, Scalar, Scalar]]:
        """Which of these this node does not answer for, or has not; the others are renewed."""
        lost = []
        for serial, shelf, attribute, low, high, number, stamp in renew.pieces:
            ident = number or renew.owner
            values = [low] if isinstance(low, str) or isinstance(high, str) else range(low, high + 1)
            is_ready = self._share.is_ready
            kept = (self._renew((shelf, attribute, value), ident, stamp, sender) for value in values)
            if not is_ready or not all(kept):
                lost.append((serial, low, high))
        return lost

    def _renew(self, slot: Slot, ident: Ident, stamp: int, sender: Address | None) -> bool:
        entry = self._share.rows.get(slot, ident)
        if entry is not None and self._share.deeds.signed and sender not in (None, entry.row.owner.address):
            return False
        if entry is None or entry.row.stamp < stamp or not entry.row.in_force or not self._chord.owns(entry.row.key):
            return False
        entry.vouch(self.host.now_us)
        return True

    @handles(Ask)
    def on_ask(self, sender: Address, ask: Ask) -> None:
        own = self._arrived(sender, ask)
        if not own:
            return
        if not self._share.is_ready:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((sender, ask))
            return
        self._answer(ask, own[-1][1], [(ask.shelf, ask.attribute, value) for _, value in own])
        onward = self._rest(ask, own[-1][1])
        if onward is not None:
            self.on_ask(self.address, onward)

    def serve_those_who_wait(self) -> None:
        """What this node answers for has come."""
        waiting, self._waiting = self._waiting, []
        for sender, ask in waiting:
            self.on_ask(sender, ask)

    def _answer(self, ask: Ask, last: Scalar, slots: list[Slot]) -> None:
        """All own values in one answer, in as many parts as it takes; an empty answer is an answer."""
        rows = self._share.rows
        if ask.counts:
            count = sum(len(rows.listed(slot)) for slot in slots)
            self._tell(ask.origin, Listed(ask.cast, ask.piece, ask.low, last, 0, 1, (), count))
            return
        found = self._found(slots)
        parts = max(1, -(-len(found) // LIST_ITEMS))
        for part in range(parts):
            chunk = tuple(found[part * LIST_ITEMS : (part + 1) * LIST_ITEMS])
            self._tell(ask.origin, Listed(ask.cast, ask.piece, ask.low, last, part, parts, chunk))

    def _found(self, slots: list[Slot]) -> list[Found]:
        """What is in these lists. Busy ones are asked for again and again: the last answer is kept while it holds."""
        rows, (changes, asked, found) = self._share.rows, self._latest
        if changes != rows.changes or asked != slots:
            found = [(row.owner, row.number, row.packed) for slot in slots for row in rows.listed(slot)]
            self._latest = rows.changes, slots, found
        return found

    def _tell(self, origin: Address, told: Listed) -> None:
        if origin == self.address:
            self._told(told)
        else:
            self.host.send(origin, told)
