"""The owner's side of replicated lists: puts entries, retries until all values are confirmed, and
renews their leases.

Afterwards each entry is renewed at the holder that confirmed it. It is put again when that holder
does not own it any longer, does not answer, or is reported lost; routing then finds its present
holder.

When a description changes, the entries of the new one are put first, and those of the former one
that it lacks are removed `LINGER_US` after the new ones are confirmed. A cast that reads several
lists within this time finds the member in one of them, even if it read one too early and the other
too late for any one description.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from implicast.casting.replicated_lists.entries import STAMP_BITS, ListEntry, OwnEntry, Scalar, Slot
from implicast.casting.replicated_lists.holder import (
    EntriesRenewed,
    EntryOutdated,
    ListHolder,
    NewerListEntry,
    PutAck,
    PutEntry,
    PutRepeated,
    RenewEntries,
)
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.own_table import Lister, OwnEntriesState, OwnTable
from implicast.casting.replicated_lists.settings import HOP_US, LINGER_US, RETRY_CHECK_US
from implicast.language.target import Description
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Incarnation, Message, StandingAlarm, Version, handles
from implicast.peer.handoff import in_parts
from implicast.peer.name import has_next
from implicast.peer.replica_table import PAST_MAX
from implicast.peer.requests import PendingRequest, RetryPolicy, UpkeepRequests
from implicast.space.ring import up_to
from implicast.space.steps import ValueRange, values

SECRET_BITS = 61
WAIT_US = 2_000_000
"""Wait before an unconfirmed put is retried. Of the eight messages of a put over five hops, with a
quarter of all messages lost, all arrive one time in ten.
"""
RENEWALS = 2
"""Renewals per lease. Two suffice because an unanswered renewal is retried at once."""
RENEWING = "renewing"
RANGES_PER_MESSAGE = 200
"""Value ranges in one renewal message."""
SILENT_MAX = 3
"""Renewals without answer after which a holder is considered crashed and its entries are put again.
"""
RENEW_WAIT_US = 5_000_000
"""Wait for the answer to a renewal; less with short leases."""


class PutRetry(Message):
    """Fires while a put is not confirmed for all its values."""


class RenewRound(StandingAlarm):
    """Fires when the own entries are due for renewal."""


class FormerEntriesDue(Message):
    """Fires when the entries of a former description are to be removed."""

    version: Version


class OwnEntries(HolderPart):
    """The entries that one peer has in lists or is putting there."""

    __slots__ = (
        "_armed",
        "_holder",
        "_holders",
        "_holders_most",
        "_lister",
        "_pending_removals",
        "_renew_us",
        "_requests",
        "_slots",
        "_then",
        "_turn",
        "_version",
        "listed_as",
        "table",
    )

    def __init__(
        self,
        state: HolderState,
        holder: ListHolder,
        requests: UpkeepRequests,
        lister: Lister,
        incarnation: Incarnation,
    ) -> None:
        super().__init__(state)
        self._holder, self._requests, self._lister = holder, requests, lister
        rng = self.host.rng
        secret = partial(rng.getrandbits, SECRET_BITS) if state.proofs.signed else None
        self.table = OwnTable(state.key_of, secret, incarnation)
        self._holders: set[Address] = set()
        """Holders of own entries, and some former ones, for membership tests only. Rebuilt when
        larger than `_holders_most`.
        """
        self._holders_most, self._armed = PAST_MAX, False
        self.listed_as: Description | None = None
        self._slots: set[Slot] = set()
        """The lists of the present description. Never iterated."""
        self._version: Version = 0
        self._then: Callable[[], None] = _nothing
        """Called when the description of `_version` is put and the former entries are removed."""
        self._pending_removals: list[OwnEntry] = []
        """Removals that an earlier incarnation did not complete."""
        self._renew_us, self._turn = state.settings.lease_us // RENEWALS, 0
        if self._renew_us:
            policy = RetryPolicy(min(RENEW_WAIT_US, self._renew_us // 8), SILENT_MAX)
            requests.topic(RENEWING, policy, self._on_renewal_lost)
            self._ring.after_jittered(self._renew_us, RenewRound())

    def state(self) -> OwnEntriesState:
        removals = [one for one in self.table.by_serial.values() if not one.packed]
        own_entries = (*self._in_lists(), *removals, *self._pending_removals)
        return OwnEntriesState(self.listed_as, tuple(one.durable_state() for one in own_entries))

    def restore(self, state: OwnEntriesState) -> None:
        """Take over entries that are in lists, under their old serials, and removals that are not
        complete.
        """
        self.listed_as = state.listed_as
        for namespace, attribute, low, high, number, packed, walks, serial in state.entries:
            where = namespace, attribute, low, high, walks
            own_entry = self.table.new_entry((where, number, packed))
            if packed:
                self.table.restore(replace(own_entry, serial=serial, missing=()))
            else:
                self._pending_removals.append(own_entry)
        if not self._renew_us or not state.holders:
            return  # without leases entries are not renewed, and computed when they are read
        for holder, own_entry in zip(state.holders, self._described(), strict=True):
            own_entry.confirm(own_entry.low, own_entry.high, (holder, own_entry.stamp))
            self._holders.add(holder)
            self.table.restore(own_entry)

    def as_stored(self) -> list[ListEntry]:
        """Return the entries of the description as holders store them for their lowest values."""
        contact, proofs = self._state.contact, self._state.proofs
        return [
            ListEntry(one.key, one.slot, contact, one.number, one.stamp, packed)
            for one in self._in_lists()
            for packed in (proofs.sign(contact, one, one.low, one.high),)
        ]

    # The description

    def _described(self) -> list[OwnEntry]:
        """Create the entries of the description."""
        listings = [] if self.listed_as is None else self._lister.entries_for(self.listed_as)
        return list(map(self.table.new_entry, listings))

    def _in_lists(self) -> list[OwnEntry]:
        """Return the entries that this member has in lists. Without leases they are not retained,
        but computed from the description.
        """
        if self._renew_us:
            return [one for one in self.table.by_serial.values() if one.packed]
        return [*self._described(), *self._lister.numbered_entries()]

    def put_description(
        self, description: Description | None, version: Version, then: Callable[[], None]
    ) -> None:
        """Put the entries of a description and remove those of the former one; `then` is called
        when that is complete.
        """
        former, self.listed_as, self._version = self._in_lists(), description, version
        wanted = self._described()
        self._slots = {one.slot for one in wanted}
        others = []
        for one in former:
            if not one.number and one.slot in self._slots:
                self.table.forget(one)
            elif not one.number:
                others.append(one)
        if others and wanted and self._renew_us:
            self.put(wanted, partial(self._on_added, version, then))
        else:
            self.put([*wanted, *map(self.table.removal, others)], then)

    def _on_added(self, version: Version, then: Callable[[], None]) -> None:
        """The new entries of a version are confirmed."""
        if version == self._version:
            self._then = then
            self.host.after(LINGER_US, FormerEntriesDue(version))

    @handles(FormerEntriesDue)
    def on_former_entries_due(self, alarm: FormerEntriesDue) -> None:
        if alarm.version == self._version and self.listed_as is not None:
            others = [
                one for one in self._in_lists() if not one.number and one.slot not in self._slots
            ]
            self.put(list(map(self.table.removal, others)), self._then)

    def remove_all(self, then: Callable[[], None]) -> None:
        """The member leaves: remove all its entries."""
        entries, self.listed_as = self._in_lists(), None
        self.put(list(map(self.table.removal, entries)), then)

    def remove_pending(self, then: Callable[[], None]) -> None:
        """Remove what an earlier incarnation did not."""
        pending, self._pending_removals = self._pending_removals, []
        if pending:
            self.put(pending, then)

    # Puts

    def put(self, own_entries: list[OwnEntry], then: Callable[[], None]) -> None:
        """Put these entries; `then` is called when all are confirmed."""
        for own_entry in self.table.put(own_entries, then):
            self._send_out(own_entry)

    def _send_out(self, one: OwnEntry) -> None:
        hops = 1.0
        if one.low != one.high:  # the wait grows with the longest missing range
            longest = max(len(values(each)) for each in one.missing)
            hops = min(self._chord.nodes_estimate(), longest)
        one.wait_until(self.host.now_us + WAIT_US + int(HOP_US * hops))
        for low, high in one.missing if self._ring.state == IN else ():
            key = one.key if low == one.low else self._state.key_of(one.attribute, low)
            packed, contact = one.packed, self._state.contact
            if self._state.proofs.signed:
                packed = self._state.proofs.sign(contact, one, low, high)
            what = (contact, one.number, one.stamp, packed, one.serial, one.walks, False)
            put = PutEntry(key, one.namespace, one.attribute, low, high, *what)
            self._holder.on_put(self.address, put)
            if one.holder is not None:
                self.host.send(one.holder, put)
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self.table.open and self._renew_us:
            self._armed = True
            self.host.after(RETRY_CHECK_US, PutRetry())

    @handles(PutRetry)
    def on_put_retry(self, alarm: PutRetry) -> None:
        self._armed = False
        for own_entry in list(self.table.open.values()):
            if own_entry.due_us <= self.host.now_us and own_entry.serial in self.table.open:
                self._chord.set_detour(1 + int(self.host.rng.random() * 2))
                self._send_out(own_entry)
                self._chord.set_detour(0)
        self._arm()

    @handles(PutAck)
    def on_put_ack(self, sender: Address, ack: PutAck) -> None:
        own_entry = self.table.by_serial.get(ack.serial)
        if own_entry is None or ack.stamp < own_entry.stamp:
            return  # acknowledges a put before the entry was lost
        is_renewed = self._renew_us > 0
        own_entry.confirm(ack.low, ack.high, (ack.holder, ack.stamp) if is_renewed else None)
        if is_renewed:
            self._holders.add(ack.holder)
            if len(self._holders) > self._holders_most:
                self._holders = {holder for _, _, holder in self.table.confirmed()}
                self._holders_most = 2 * len(self._holders) + PAST_MAX
        if not own_entry.missing:
            self.table.confirmed_all(own_entry, is_renewed)

    @handles(PutRepeated)
    def on_put_repeated(self, sender: Address, answer: PutRepeated) -> None:
        if (own_entry := self.table.open.get(answer.serial)) is not None:
            own_entry.note_holder(sender)

    @handles(EntryOutdated)
    def on_outdated(self, sender: Address, outdated: EntryOutdated) -> None:
        """A holder has a newer version. If its stamp is above all of this incarnation, this peer
        restarted from an old copy of its disk and continues above that stamp. Otherwise the entry
        expired or a retry came late, and it is put again with a new stamp.
        """
        if outdated.stamp > self.table.newest_stamp:
            if not self._state.proofs.signed and has_next(outdated.stamp >> STAMP_BITS):
                self._lister.on_later_incarnation(outdated.stamp >> STAMP_BITS)
        elif (
            own_entry := self.table.open.get(outdated.serial)
        ) is not None and own_entry.stamp <= outdated.stamp:
            self.put_again([(own_entry, value_range) for value_range in own_entry.missing])

    @handles(NewerListEntry)
    def on_newer_entry(self, sender: Address, later: NewerListEntry) -> None:
        """In a signed network: this peer's own entry, signed in an incarnation that its disk does
        not know.
        """
        entry = later.entry
        is_own = entry.owner.name == self._state.contact.name
        is_later = is_own and entry.stamp > self.table.newest_stamp
        if is_later and self._state.proofs.are_valid((entry,)):
            self._lister.on_later_incarnation(entry.stamp >> STAMP_BITS)

    @handles(EntryOutdated)
    def on_outdated_here(self, alarm: EntryOutdated) -> None:
        """The same where this peer is the holder itself."""
        self.on_outdated(self.address, alarm)

    # Losses

    def put_again(self, held: Iterable[tuple[OwnEntry, ValueRange]]) -> None:
        """Put ranges again with a new stamp."""
        self.table.lose(held, self.host.now_us)
        self._arm()

    def put_all_again(self) -> None:
        """Put all own entries again: a holder considered this peer crashed, and holders may have
        dropped its entries.
        """
        every = self.table.by_serial.values()
        self.put_again([(one, part) for one in every for part in (*one.confirmed, *one.missing)])

    def on_suspect(self, suspect: Address) -> None:
        """A holder is reported crashed. Its successor should have all copies, but only the owner of
        an entry can make sure.
        """
        if suspect in self._holders:  # hardly ever: the test saves 7 % of a run with 1,000 peers
            confirmed = self.table.confirmed()
            self.put_again([(one, part) for one, part, holder in confirmed if holder == suspect])

    def on_range_lost(self, low: int, high: int) -> None:
        """All copies of the lists of (low, high] are lost: put again the own entries there."""
        key_of = self._state.key_of
        self.put_again(
            [
                (one, part)
                for one, part, _ in self.table.confirmed()
                if any(up_to(low, key_of(one.attribute, value), high) for value in values(part))
            ]
        )

    # Renewals

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self._ring.after_jittered(self._renew_us, RenewRound())
        self.renew_all()

    def renew_all(self) -> None:
        """Ask every holder to renew the entries that it confirmed."""
        by_holder: dict[Address, list[tuple[OwnEntry, ValueRange]]] = {}
        for own_entry, value_range, holder in self.table.confirmed():
            by_holder.setdefault(holder, []).append((own_entry, value_range))
        for holder, held in by_holder.items():
            if holder == self.address:
                self._put_lost_again(self._holder.lost_of(self._renewal(held), holder))
                continue
            for _, _, some in in_parts(held, RANGES_PER_MESSAGE):
                self._turn += 1
                key = holder, self._turn
                self._requests.ask(RENEWING, key, holder, self._renewal(some), some)

    def _renewal(self, held: Iterable[tuple[OwnEntry, ValueRange]]) -> RenewEntries:
        named = [
            (one.serial, one.namespace, one.attribute, *part, one.number, one.confirmed[part][1])
            for one, part in held
        ]
        return RenewEntries(self._state.contact.name, self._turn, tuple(named))

    @handles(EntriesRenewed)
    def on_renewed(self, sender: Address, renewed: EntriesRenewed) -> None:
        if self._requests.answered(RENEWING, (sender, renewed.turn)) is not None:
            self._put_lost_again(renewed.lost)

    def _on_renewal_lost(self, key: tuple[Address, int], request: PendingRequest) -> None:
        """A holder never answered a renewal: put its entries again."""
        self.put_again(
            [
                (own_entry, part)
                for own_entry, part in request.context
                if own_entry.confirmed.get(part, (None,))[0] == key[0]
            ]
        )

    def _put_lost_again(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        known = self.table.by_serial
        self.put_again(
            [(known[serial], (low, high)) for serial, low, high in lost if serial in known]
        )


def _nothing() -> None:
    """Default of what follows a put."""
