"""The holder's side of replicated lists: stores entries with their copies, renews leases.

The owner of a key stores an entry and forwards it along `copies` successors; the last of them
acknowledges to the owner of the entry. So an acknowledged entry has all its copies, and a node that
takes over the keys of a crashed predecessor already has its lists. Copies that were lost or
misplaced are repaired by anti-entropy (`anti_entropy.py`). Entries of which all copies are lost are
put again by their owners (`ring_broadcast.py`). Left out: digests finer than one per node.
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from implicast.casting.replicated_lists.entries import (
    ListEntry,
    Packed,
    RingKey,
    Scalar,
    Slot,
    Stamp,
)
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.owner_probes import OwnerProbes
from implicast.overlay.links import Ref
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Contact, Message, Name, handles
from implicast.peer.fields import Text, Token
from implicast.peer.replica_table import Ident
from implicast.space.steps import values

Few = Annotated[int, Meta(ge=0, le=8)]
"""Successors to which a message is still to be forwarded."""


class PutEntry(Message):
    """Put this entry into the lists of the values low..high. Routed to the holder of the lowest
    value. From there it goes to the holder of each next value: along successors if `walking`, else
    by finger routing. `walks` says which of the two the rest of the range uses.
    """

    wire = 0x0601
    key: RingKey
    namespace: Text
    attribute: Text
    low: Scalar
    high: Scalar
    owner: Contact
    number: Token
    stamp: Stamp
    packed: Packed
    serial: Stamp
    walks: bool
    walking: bool


class CopyEntries(Message):
    """Store copies of these entries, all of one owner, and forward them to `more` further
    successors. The last one sends `PutAck` to the owner.
    """

    wire = 0x0602
    by: Ref
    entries: Annotated[tuple[ListEntry, ...], Meta(min_length=1, max_length=1 << 20)]
    more: Few
    serial: Stamp
    low: Scalar
    high: Scalar


class PutAck(Message):
    """Positive answer to `PutEntry`: `holder` stores the values low..high with this stamp, and all
    copies are made.
    """

    wire = 0x0603
    serial: Stamp
    stamp: Stamp
    low: Scalar
    high: Scalar
    holder: Address


class PutRepeated(Message):
    """Answer to a repeated `PutEntry`: the sender has stored this put before, so its acknowledgement
    or that of the copies was lost. The owner sends further repeats to the sender directly.
    """

    wire = 0x0617
    serial: Stamp


class EntryOutdated(Message):
    """Negative answer to `PutEntry`: the holder has a newer entry of this owner; `stamp` is its
    stamp. As an alarm: the same, where the owner is its own holder.
    """

    wire = 0x0604
    serial: Stamp
    stamp: Stamp


class NewerListEntry(Message):
    """Sent with `EntryOutdated` in a signed network: the newer entry itself, which the owner can
    verify.
    """

    wire = 0x0616
    serial: Stamp
    entry: ListEntry


class RenewEntries(Message):
    """Renew the leases of these entries. Each: serial, namespace, attribute, low, high, number,
    stamp.
    """

    wire = 0x0605
    owner: Name
    turn: Token
    ranges: Annotated[
        tuple[tuple[Stamp, Text, Text, Scalar, Scalar, Token, Stamp], ...], Meta(max_length=1_024)
    ]


class EntriesRenewed(Message):
    """Answer to `RenewEntries`: all are renewed except these (serial, low, high), which the sender
    does not own or does not have.
    """

    wire = 0x0606
    turn: Token
    lost: Annotated[tuple[tuple[Stamp, Scalar, Scalar], ...], Meta(max_length=1_024)]


class ListHolder(HolderPart):
    """Serves the owners of entries."""

    __slots__ = ("_on_own_ack", "_owner_probes")

    def __init__(
        self,
        state: HolderState,
        owner_probes: OwnerProbes,
        on_own_ack: Callable[[Address, PutAck], None],
    ) -> None:
        """`on_own_ack(holder, ack)`: an entry of this peer itself is stored with its copies."""
        super().__init__(state)
        self._owner_probes, self._on_own_ack = owner_probes, on_own_ack

    @handles(PutEntry)
    def on_put(self, sender: Address, put: PutEntry) -> None:
        if not self.goes_on(sender, put):
            for request, own in self.owned_parts(put):
                if not self._put(request, own):
                    return

    def _put(self, put: PutEntry, own: list[tuple[int, Scalar]]) -> bool:
        """Store an entry for these values; whether the put may go on to the next holder."""
        state, owner = self._state, put.owner
        what = (owner, put.number, put.stamp, put.packed)
        entries: tuple[ListEntry, ...] = ()
        for key, value in own:
            entries += (ListEntry(key, (put.namespace, put.attribute, value), *what),)
        if state.proofs.signed and not state.proofs.are_valid(entries):
            return False
        if owner.name in self._owner_probes.doubted:
            self._owner_probes.note_alive(owner.name)
        known = state.entries.get(entries[0].slot, put.number or owner.name)
        if known is not None and known.entry.stamp == put.stamp and owner.address != self.address:
            self.host.send(owner.address, PutRepeated(put.serial))
        # a leaving node may have pushed its range already
        copies = state.settings.copies or int(state.is_leaving)
        self._store(CopyEntries(self._ring.me, entries, copies, put.serial, put.low, own[-1][1]))
        return True

    @handles(CopyEntries)
    def on_copy(self, sender: Address, copy: CopyEntries) -> None:
        ring, state = self._ring, self._state
        if state.proofs.signed and not state.proofs.are_valid(copy.entries):
            return
        if (owner := copy.entries[0].owner.name) in self._owner_probes.doubted:
            self._owner_probes.note_alive(owner)
        for entry in copy.entries:
            if state.key_of(entry.slot[1], entry.slot[2]) != entry.key:
                return
        is_ours = ring.state == IN and copy.by != ring.me and copy.more > 0
        if is_ours and self._is_near(copy.by):
            self._store(replace(copy, more=copy.more - 1))

    def _is_near(self, holder: Ref) -> bool:
        """Whether this node is to hold copies for `holder`. With more nodes between, the copy was
        meant for an earlier peer at this address, whose crash the holder has not yet detected.
        """
        ring, copies = self._ring, max(1, self._state.settings.copies)
        if holder in ring.lefts[:copies]:
            return True
        return sum(lies_between(holder, ref, ring.me) for ref in ring.lefts) < copies

    def _store(self, copy: CopyEntries) -> None:
        """Store entries of one owner and pass them on to the next node, or acknowledge them. An
        owner that sends an outdated version receives `EntryOutdated`. In a signed network it also
        receives the newer entry, since it moves to a later incarnation only on its own signature.
        """
        newer, entry = self._state.store(copy.entries), copy.entries[0]
        owner = entry.owner.address
        if not newer:
            self.forward_copy(copy)
        elif newer > 0 and owner == self.address:
            self.host.after(0, EntryOutdated(copy.serial, newer))
        elif newer > 0:
            held = self._state.entries.get(entry.slot, entry.ident)
            if self._state.proofs.signed and held is not None and held.entry.packed:
                self.host.send(owner, NewerListEntry(copy.serial, held.entry))
            self.host.send(owner, EntryOutdated(copy.serial, newer))

    def forward_copy(self, copy: CopyEntries) -> None:
        """Send a copy to the next successor; the last one acknowledges."""
        right = self._ring.right
        if copy.more > 0 and right != self._ring.me and right != copy.by:
            self._ring.send_right(copy)
        else:
            self.acknowledge(copy)

    def acknowledge(self, copy: CopyEntries) -> None:
        """Tell the owner that all copies are made."""
        entry, holder = copy.entries[0], copy.by.address
        ack = PutAck(copy.serial, entry.stamp, copy.low, copy.high, holder)
        if entry.owner.address == self.address:
            self._on_own_ack(self.address, ack)
        else:
            self.host.send(entry.owner.address, ack)

    # Renewals

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
