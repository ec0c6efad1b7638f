"""The owner's side of replicated lists: puts entries, retries until all values are confirmed,
renews them.

Confirmation is tracked by value range, so an interrupted walk resumes where it stopped. Entries of
one verb form a group; the verb is complete when all of them are confirmed. Afterwards each is
renewed at the holder that confirmed it, and put again when that holder does not own it any longer,
does not answer, or is reported lost.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from implicast.casting.replicated_lists.entry_table import PAST_MAX
from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.messages import (
    STAMP_BITS,
    EntryOutdated,
    ListEntry,
    NewerListEntry,
    PutAck,
    PutEntry,
    PutRepeated,
)
from implicast.casting.replicated_lists.own_entry import (
    RETRY_CHECK_US,
    DurableEntry,
    ListRange,
    OwnEntry,
    ValueRange,
    overlap,
    values,
    without,
)
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Incarnation, Message, handles
from implicast.peer.name import has_next
from implicast.space.ring import up_to

SECRET_BITS = 61
OWN_ENTRIES_MAX = 65_536
"""Own entries of one peer; more are refused."""


class PutRetry(Message):
    """Fires while a put is not confirmed for all its values."""


class OwnEntries(HolderPart):
    """The entries that one peer has in lists or is putting there."""

    __slots__ = (
        "_armed",
        "_contact",
        "_groups",
        "_holder",
        "_holders",
        "_holders_most",
        "_on_done",
        "_on_later_incarnation",
        "_open",
        "_stamp",
        "by_serial",
    )

    def __init__(
        self,
        state: HolderState,
        holder: ListHolder,
        incarnation: Incarnation,
        on_done: Callable[[Any], None],
        on_later_incarnation: Callable[[Incarnation], None],
    ) -> None:
        """`on_done(group)`: all entries of a group are confirmed.
        `on_later_incarnation(incarnation)`: a holder has entries of this later incarnation.
        """
        super().__init__(state)
        self._contact, self._holder = state.contact, holder
        self._on_done, self._on_later_incarnation = on_done, on_later_incarnation
        self.by_serial: dict[int, OwnEntry] = {}
        self._open: dict[int, OwnEntry] = {}
        self._groups: dict[int, tuple[Hashable, set[int]]] = {}
        """By serial: the group of an entry, and the serials of that group that are not confirmed
        yet.
        """
        self._holders: set[Address] = set()
        """Holders of own entries, and some former ones, for membership tests only. Rebuilt when
        larger than `_holders_most`.
        """
        self._holders_most = PAST_MAX
        self._armed = False
        self.set_incarnation(incarnation)

    def set_incarnation(self, incarnation: Incarnation) -> None:
        """Issue stamps of this incarnation from now on."""
        self._stamp = incarnation << STAMP_BITS

    def stamp(self, count: int = 1) -> int:
        """Return a new stamp, larger than all before; `count` stamps are used up."""
        self._stamp += count
        return self._stamp

    def new_entry(self, where: ListRange, number: int, packed: bytes) -> OwnEntry:
        """Create an entry to be put; empty `packed`: a removal."""
        namespace, attribute, low, high, walks = where
        stamp, key = self.stamp(), self._state.key_of(attribute, low)
        # In a signed network the serial is random, so that only nodes on the path of a request can
        # acknowledge it.
        serial = self.host.rng.getrandbits(SECRET_BITS) if self._state.proofs.signed else stamp
        return OwnEntry(
            serial,
            namespace,
            attribute,
            low,
            high,
            key,
            number,
            packed,
            stamp,
            walks,
            ((low, high),),
        )

    def restore(self, own_entries: Iterable[DurableEntry]) -> list[OwnEntry]:
        """Take over the entries of an earlier incarnation under their old serials. Return the
        removals that it did not complete, to be put again.
        """
        removals = []
        for namespace, attribute, low, high, number, packed, walks, serial in own_entries:
            own_entry = self.new_entry((namespace, attribute, low, high, walks), number, packed)
            if packed:
                self.by_serial[serial] = replace(own_entry, serial=serial, missing=())
            else:
                removals.append(own_entry)
        return removals

    def restore_put(self, own_entry: OwnEntry, holder: Address) -> ListEntry:
        """Record an entry that is already stored at `holder`, in an assembled population; return it
        as its holder stores it for the lowest value.
        """
        if self._state.settings.lease_us:
            own_entry.confirm(own_entry.low, own_entry.high, (holder, own_entry.stamp))
            self._holders.add(holder)
            self.by_serial[own_entry.serial] = own_entry
        packed = self._state.proofs.sign(self._contact, own_entry, own_entry.low, own_entry.high)
        slot = (own_entry.namespace, own_entry.attribute, own_entry.low)
        return ListEntry(
            own_entry.key, slot, self._contact, own_entry.number, own_entry.stamp, packed
        )

    def removal(self, own_entry: OwnEntry) -> OwnEntry:
        """Stop renewing an entry and return its removal."""
        self.forget(own_entry)
        return self._out(own_entry, own_entry.low, own_entry.high)

    def _out(self, own_entry: OwnEntry, low: Scalar, high: Scalar) -> OwnEntry:
        """Return the removal of these values of an entry."""
        return self.new_entry(
            (own_entry.namespace, own_entry.attribute, low, high, own_entry.walks),
            own_entry.number,
            b"",
        )

    def narrow(self, own_entry: OwnEntry, low: Scalar, high: Scalar) -> list[OwnEntry]:
        """Restrict an entry to these values and return removals of the others. Adds no values."""
        wanted, whole = (
            overlap((own_entry.low, own_entry.high), (low, high)),
            (own_entry.low, own_entry.high),
        )
        if wanted == whole:
            return []
        if wanted is None:
            return [self.removal(own_entry)]
        own_entry.narrow(*wanted, self._state.key_of(own_entry.attribute, wanted[0]))
        if not own_entry.missing:
            self._close(own_entry)
        return [self._out(own_entry, *each) for each in without(whole, *wanted)]

    def progress(self) -> tuple[int, int, int]:
        """Return a value that changes whenever the stored entries change: a new put has a new
        stamp, and a confirmation changes a count.
        """
        return self._stamp, len(self._open), len(self.by_serial)

    def forget(self, own_entry: OwnEntry) -> None:
        self.by_serial.pop(own_entry.serial, None)
        self._close(own_entry)

    def put(self, group: Hashable, own_entries: Iterable[OwnEntry]) -> None:
        """Put these entries; calls `on_done(group)` when all are confirmed."""
        put = self._agreeing(list(own_entries))
        awaited = {own_entry.serial for own_entry in put}
        for own_entry in put:
            self._groups[own_entry.serial] = group, awaited
            if len(self.by_serial) < OWN_ENTRIES_MAX:
                self.by_serial[own_entry.serial] = self._open[own_entry.serial] = own_entry
                self._send_out(own_entry)
        if not put:
            self._on_done(group)

    def _agreeing(self, own_entries: list[OwnEntry]) -> list[OwnEntry]:
        """Cut removals, new ones and those under way, so that they spare what is wanted now: a
        retried removal has a new stamp and would undo a later put.
        """
        under_way = [own_entry for own_entry in self._open.values() if not own_entry.packed]
        if not under_way and all(own_entry.packed for own_entry in own_entries):
            return own_entries
        wanted: dict[tuple[str, str, int], list[ValueRange]] = {}
        for own_entry in (*self.by_serial.values(), *own_entries):
            if own_entry.packed:
                wanted.setdefault(
                    (own_entry.namespace, own_entry.attribute, own_entry.number), []
                ).append((own_entry.low, own_entry.high))
        agreed: list[OwnEntry] = []
        for own_entry in (*own_entries, *under_way):
            agreed += [own_entry] if own_entry.packed else self._cut(own_entry, wanted)
        return agreed

    def _cut(
        self, removal: OwnEntry, wanted: dict[tuple[str, str, int], list[ValueRange]]
    ) -> list[OwnEntry]:
        """Return what of a removal is still to be put: the whole of it if it meets nothing wanted,
        nothing if that is under way already.
        """
        left = [(removal.low, removal.high)]
        for low, high in wanted.get((removal.namespace, removal.attribute, removal.number), ()):
            left = [part for each in left for part in without(each, low, high)]
        if left == [(removal.low, removal.high)]:
            return [] if removal.serial in self._open else [removal]
        self.forget(removal)
        return [self._out(removal, *part) for part in left]

    def _close(self, own_entry: OwnEntry) -> None:
        """The entry needs no further puts; complete its group if it was the last."""
        if self._open.pop(own_entry.serial, None) is not None and own_entry.serial in self._groups:
            group, awaited = self._groups.pop(own_entry.serial)
            awaited.remove(own_entry.serial)
            if not awaited:
                self._on_done(group)

    def _send_out(self, own_entry: OwnEntry) -> None:
        own_entry.wait(
            self.host.now_us, 1 if own_entry.low == own_entry.high else self._chord.nodes_estimate()
        )
        if self._ring.state == IN:
            for low, high in own_entry.missing:
                key = (
                    own_entry.key
                    if low == own_entry.low
                    else self._state.key_of(own_entry.attribute, low)
                )
                packed = self._state.proofs.sign(self._contact, own_entry, low, high)
                request = PutEntry(
                    key,
                    own_entry.namespace,
                    own_entry.attribute,
                    low,
                    high,
                    self._contact,
                    own_entry.number,
                    own_entry.stamp,
                    packed,
                    own_entry.serial,
                    own_entry.walks,
                    False,
                )
                self._holder.on_request(self.address, request)
                if own_entry.holder is not None:
                    self.host.send(own_entry.holder, request)
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self._open and self._state.settings.lease_us:
            self._armed = True
            self.host.after(RETRY_CHECK_US, PutRetry())

    @handles(PutRetry)
    def on_put_retry(self, alarm: PutRetry) -> None:
        self._armed = False
        for own_entry in list(self._open.values()):
            if own_entry.due_us <= self.host.now_us and own_entry.serial in self._open:
                self._chord.set_detour(1 + int(self.host.rng.random() * 2))
                self._send_out(own_entry)
        self._chord.set_detour(0)
        self._arm()

    @handles(PutAck)
    def on_put_ack(self, sender: Address, ack: PutAck) -> None:
        own_entry = self.by_serial.get(ack.serial)
        if own_entry is None or ack.stamp < own_entry.stamp:
            return  # acknowledges a put before the entry was lost
        own_entry.confirm(
            ack.low, ack.high, (ack.holder, ack.stamp) if self._state.settings.lease_us else None
        )
        if self._state.settings.lease_us:
            self._holders.add(ack.holder)
            if len(self._holders) > self._holders_most:
                self._holders = {holder for _, _, holder in self.confirmed()}
                self._holders_most = 2 * len(self._holders) + PAST_MAX
        if not own_entry.missing and own_entry.serial in self._open:
            if not own_entry.packed or not self._state.settings.lease_us:
                del self.by_serial[own_entry.serial]  # neither renewed nor read again
            self._close(own_entry)
            if not self._open:  # a dict does not shrink by itself
                self._open, self._groups = {}, {}

    @handles(PutRepeated)
    def on_put_repeated(self, sender: Address, answer: PutRepeated) -> None:
        if (own_entry := self._open.get(answer.serial)) is not None:
            own_entry.holder = sender

    @handles(EntryOutdated)
    def on_outdated(self, sender: Address, outdated: EntryOutdated) -> None:
        """A holder has a newer version. If its stamp is above all of this incarnation, this peer
        restarted from an old copy of its disk and continues above that stamp. Otherwise the entry
        expired or a retry came late, and it is put again with a new stamp.
        """
        if outdated.stamp > self._stamp:
            if not self._state.proofs.signed and has_next(outdated.stamp >> STAMP_BITS):
                self._on_later_incarnation(outdated.stamp >> STAMP_BITS)
        elif (
            own_entry := self._open.get(outdated.serial)
        ) is not None and own_entry.stamp <= outdated.stamp:
            self.put_again([(own_entry, value_range) for value_range in own_entry.missing])

    @handles(NewerListEntry)
    def on_newer_entry(self, sender: Address, later: NewerListEntry) -> None:
        """In a signed network: this peer's own entry, signed in an incarnation that its disk does
        not know.
        """
        entry = later.entry
        if (
            entry.owner.name == self._contact.name
            and entry.stamp > self._stamp
            and self._state.proofs.are_valid((entry,))
        ):
            self._on_later_incarnation(entry.stamp >> STAMP_BITS)

    @handles(EntryOutdated)
    def on_outdated_here(self, alarm: EntryOutdated) -> None:
        """The same where this peer is the holder itself."""
        self.on_outdated(self.address, alarm)

    def put_again(self, held: Iterable[tuple[OwnEntry, ValueRange]]) -> None:
        """Put ranges again with a new stamp, so that no tombstone of the old version prevails.
        Entries that were replaced meanwhile are skipped: they must not override their successors.
        """
        for own_entry, (low, high) in [each for each in held if each[0].serial in self.by_serial]:
            own_entry.lose(low, high, self.stamp(), self.host.now_us)
            self._open[own_entry.serial] = own_entry
        self._arm()

    def put_all_again(self) -> None:
        """Put all own entries again: a holder considered this peer crashed, and holders may have
        dropped its entries.
        """
        self.put_again(
            [
                (each, part)
                for each in self.by_serial.values()
                for part in (*each.confirmed, *each.missing)
            ]
        )

    def on_suspect(self, suspect: Address) -> None:
        """A holder is reported crashed. Its successor should have all copies, but only the owner of
        an entry can make sure.
        """
        if (
            suspect in self._holders
        ):  # hardly ever true: the test saves 7 % of a run with 1,000 peers
            self.put_again(
                [
                    (own_entry, value_range)
                    for own_entry, value_range, holder in self.confirmed()
                    if holder == suspect
                ]
            )

    def on_range_lost(self, low: int, high: int) -> None:
        """All copies of the lists of (low, high] are lost: put again the own entries there."""
        key_of = self._state.key_of
        self.put_again(
            [
                (own_entry, value_range)
                for own_entry, value_range, _ in self.confirmed()
                if any(
                    up_to(low, key_of(own_entry.attribute, value), high)
                    for value in values(value_range)
                )
            ]
        )

    def confirmed(self) -> Iterator[tuple[OwnEntry, ValueRange, Address]]:
        """Iterate over the confirmed value ranges of all own entries, with their holders."""
        for own_entry in self.by_serial.values():
            for value_range, (holder, _) in own_entry.confirmed.items():
                yield own_entry, value_range, holder
