"""The holder's side of replicated lists: stores entries, answers reads, renews leases.

The owner of a key stores an entry and forwards it along `copies` successors; the last of them
acknowledges to the owner of the entry. So an acknowledged entry has all its copies, and a node that
takes over the keys of a crashed predecessor already has its lists. Copies that were lost or
misplaced are repaired by anti-entropy (`anti_entropy.py`). Entries of which all copies are lost are
put again by their owners (`ring_broadcast.py`). Left out: digests finer than one per node.
"""

from collections.abc import Callable
from itertools import takewhile

from msgspec.structs import replace

from implicast.casting.replicated_lists.entry_table import Ident
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState, in_parts
from implicast.casting.replicated_lists.messages import (
    CopyEntries,
    EntriesRenewed,
    EntryOutdated,
    FetchLists,
    Found,
    ListEntry,
    ListsFetched,
    NewerListEntry,
    PutAck,
    PutEntry,
    PutRepeated,
    RenewEntries,
    Slot,
)
from implicast.casting.replicated_lists.own_entry import values
from implicast.casting.replicated_lists.owner_probes import OwnerProbes
from implicast.language.target import Scalar
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Message, handles

WAITING_MAX = 4_096
"""Reads queued at a joining node until it has the entries that it owns."""
LIST_ITEMS = 4_096
"""Entries in one message: whole registrations stay below 1 MB."""


class ListHolder(HolderPart):
    """Serves the owners of entries and the readers of lists."""

    __slots__ = ("_latest", "_owner_probes", "_receive", "_waiting")

    def __init__(
        self,
        state: HolderState,
        owner_probes: OwnerProbes,
        receive: Callable[[Address, Message], None],
    ) -> None:
        """`receive(sender, answer)`: handles answers to this peer's own requests."""
        super().__init__(state)
        self._owner_probes, self._receive = owner_probes, receive
        self._waiting: list[tuple[Address, FetchLists]] = []
        self._latest: tuple[int, list[Slot], list[Found]] = (-1, [], [])
        """The last answer, for reuse: change counter of the table, lists read, entries found."""

    @handles(PutEntry, FetchLists)
    def on_request(self, sender: Address, request: PutEntry | FetchLists) -> None:
        """Handle the leading values of the range that this node owns, then send the rest of the
        range on.
        """
        goes_on = (
            self._walks_on(request)
            if request.walking
            else self._chord.forward(request.key, request, sender)
        )
        own = [] if goes_on else self._own_values(request.attribute, request.low, request.high)
        if not own:
            return
        is_done = (
            self._put(request, own)
            if isinstance(request, PutEntry)
            else self._answer(sender, request, own)
        )
        last = own[-1][1]
        if (
            is_done
            and isinstance(last, int)
            and isinstance(request.high, int)
            and last < request.high
        ):
            key = self._state.key_of(request.attribute, last + 1)
            self.on_request(
                self.address, replace(request, key=key, low=last + 1, walking=request.walks)
            )

    def _walks_on(self, request: PutEntry | FetchLists) -> bool:
        """Whether a request that walks along successors was sent on. After one turn round the ring,
        routing drops it.
        """
        chord, ring = self._chord, self._ring
        if ring.state != IN or chord.owns(request.key) or ring.right == ring.me:
            return chord.forward(request.key, request)
        if not chord.has_passed(request.key, request):
            ring.send_right(request)
        return True

    def _own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """Return the leading values of a range that this node owns, with their keys; empty for an
        invalid range.
        """
        key_of = self._state.key_of
        if isinstance(low, str) or isinstance(high, str):
            return [(key_of(attribute, low), low)] if low == high else []
        if not 0 <= high - low < self._state.settings.values_max:
            return []
        keys = ((key_of(attribute, value), value) for value in range(low, high + 1))
        return [next(keys), *takewhile(lambda each: self._chord.owns(each[0]), keys)]

    def answer_to(self, to: Address, answer: PutAck | ListsFetched) -> None:
        if to == self.address:
            self._receive(to, answer)
        else:
            self.host.send(to, answer)

    # Puts

    def _put(self, put: PutEntry, own: list[tuple[int, Scalar]]) -> bool:
        what = (put.owner, put.number, put.stamp, put.packed)
        entries = tuple(
            [ListEntry(key, (put.namespace, put.attribute, value), *what) for key, value in own]
        )
        if not self._state.proofs.are_valid(entries):
            return False
        self._owner_probes.note_alive(put.owner.name)
        known = self._state.entries.get(entries[0].slot, entries[0].ident)
        is_repeated = known is not None and known.entry.stamp == put.stamp
        if is_repeated and put.owner.address != self.address:
            self.host.send(put.owner.address, PutRepeated(put.serial))
        if self._stores(entries, put.serial):
            copies = self._state.settings.copies or int(
                self._state.is_leaving
            )  # a leaving node may have pushed its range already
            self.forward_copy(
                CopyEntries(self._ring.me, entries, copies, put.serial, put.low, own[-1][1])
            )
        return True

    @handles(CopyEntries)
    def on_copy(self, sender: Address, copy: CopyEntries) -> None:
        ring, state = self._ring, self._state
        if not state.proofs.are_valid(copy.entries):
            return
        self._owner_probes.note_alive(copy.entries[0].owner.name)
        are_placed = all(state.key_of(*entry.slot[1:]) == entry.key for entry in copy.entries)
        # With more nodes between, the copy was meant for an earlier peer at this address, whose
        # crash the holder has not yet detected.
        between = (
            0
            if ring.left == copy.by
            else sum(lies_between(copy.by, ref, ring.me) for ref in ring.lefts)
        )
        is_near = between < max(1, state.settings.copies)
        is_ours = (
            is_near and are_placed and ring.state == IN and copy.by != ring.me and copy.more > 0
        )
        if is_ours and self._stores(copy.entries, copy.serial):
            self.forward_copy(replace(copy, more=copy.more - 1))

    def forward_copy(self, copy: CopyEntries) -> None:
        if copy.more > 0 and self._ring.right not in (self._ring.me, copy.by):
            self._ring.send_right(copy)
        else:
            ack = PutAck(copy.serial, copy.entries[0].stamp, copy.low, copy.high, copy.by.address)
            self.answer_to(copy.entries[0].owner.address, ack)

    def _stores(self, entries: tuple[ListEntry, ...], serial: int) -> bool:
        """Store entries of an owner. An owner that sends an outdated version receives
        `EntryOutdated`. In a signed network it also receives the newer entry, since it moves to a
        later incarnation only on its own signature.
        """
        newer, owner = self._state.store(entries), entries[0].owner.address
        if newer <= 0:
            return not newer
        outdated = EntryOutdated(serial, newer)
        if owner == self.address:
            self.host.after(0, outdated)
            return False
        held = self._state.entries.get(entries[0].slot, entries[0].ident)
        if self._state.proofs.signed and held is not None and held.entry.packed:
            self.host.send(owner, NewerListEntry(serial, held.entry))
        self.host.send(owner, outdated)
        return False

    @handles(RenewEntries)
    def on_renew(self, sender: Address, renew: RenewEntries) -> None:
        self.host.send(sender, EntriesRenewed(renew.turn, tuple(self.lost_of(renew, sender))))

    def lost_of(self, renew: RenewEntries, sender: Address) -> list[tuple[int, Scalar, Scalar]]:
        """Renew these entries; return those that this node does not own or does not have."""
        lost = []
        for serial, namespace, attribute, low, high, number, stamp in renew.ranges:
            ident = number or renew.owner
            renewed = (
                self._renew((namespace, attribute, value), ident, stamp, sender)
                for value in values((low, high))
            )
            if not self._state.is_ready or not all(renewed):
                lost.append((serial, low, high))
        return lost

    def _renew(self, slot: Slot, ident: Ident, stamp: int, sender: Address) -> bool:
        held = self._state.entries.get(slot, ident)
        if held is None or (self._state.proofs.signed and sender != held.entry.owner.address):
            return False
        if held.entry.stamp < stamp or not held.in_force or not self._chord.owns(held.entry.key):
            return False
        held.renew(self.host.now_us)
        return True

    # Reads

    def serve_waiting(self) -> None:
        """Serve the reads that waited until this node had the entries that it owns."""
        waiting, self._waiting = self._waiting, []
        for sender, request in waiting:
            self.on_request(sender, request)

    def _answer(self, sender: Address, request: FetchLists, own: list[tuple[int, Scalar]]) -> bool:
        """Answer a read for all own values, in as many parts as needed; an empty list is an answer
        too.
        """
        if not self._state.is_ready:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((sender, request))
            return False
        slots = [(request.namespace, request.attribute, value) for _, value in own]
        head = (request.cast, request.range_number, request.low, own[-1][1])
        if request.counts:
            count = sum(len(self._state.entries.listed(slot)) for slot in slots)
            self.answer_to(request.origin, ListsFetched(*head, 0, 1, (), count))
            return True
        state = self._state
        silent = tuple(
            (entry.owner, entry.number, entry.packed)
            for entry in state.entries.silent_in(slots, self.host.now_us)
        )[:LIST_ITEMS]
        more = 0, silent, int(any(state.may_lack(key) for key, _ in own))
        for part in in_parts(self._found(slots), LIST_ITEMS):
            self.answer_to(request.origin, ListsFetched(*head, *part, *more))
        return True

    def _found(self, slots: list[Slot]) -> list[Found]:
        """Return the entries of these lists. Popular lists are read repeatedly: the last answer is
        reused while nothing changes.
        """
        entries, (changes, asked, found) = self._state.entries, self._latest
        if changes != entries.changes or asked != slots:
            found = [
                (entry.owner, entry.number, entry.packed)
                for slot in slots
                for entry in entries.listed(slot)
            ]
            self._latest = entries.changes, slots, found
        return found
