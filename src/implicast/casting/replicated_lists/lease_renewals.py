"""Renews the leases of the own entries at their holders.

An entry is put again if its holder answers that it does not own or have it, or does not answer at
all; routing then finds its present holder.
"""

from collections.abc import Iterable

from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState, in_parts
from implicast.casting.replicated_lists.messages import EntriesRenewed, RenewEntries
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.casting.replicated_lists.own_entry import OwnEntry, ValueRange
from implicast.language.target import Scalar
from implicast.peer.contract import Address, StandingAlarm, handles
from implicast.peer.requests import PendingRequest, RetryPolicy, UpkeepRequests

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


class RenewRound(StandingAlarm):
    """Fires when the own entries are due for renewal."""


class LeaseRenewals(HolderPart):
    """Renews all own entries `RENEWALS` times per lease, and on demand."""

    __slots__ = ("_entries", "_holder", "_renew_us", "_requests", "_turn")

    def __init__(
        self,
        state: HolderState,
        holder: ListHolder,
        requests: UpkeepRequests,
        entries: OwnEntries,
    ) -> None:
        super().__init__(state)
        self._holder, self._requests, self._entries = holder, requests, entries
        self._renew_us, self._turn = state.settings.lease_us // RENEWALS, 0
        if self._renew_us:
            requests.topic(
                RENEWING,
                RetryPolicy(min(RENEW_WAIT_US, self._renew_us // 8), SILENT_MAX),
                self._lost,
            )
            self._ring.after_jittered(self._renew_us, RenewRound())

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self._ring.after_jittered(self._renew_us, RenewRound())
        self.renew_all()

    def renew_all(self) -> None:
        """Ask every holder to renew the entries that it confirmed."""
        by_holder: dict[Address, list[tuple[OwnEntry, ValueRange]]] = {}
        for own_entry, value_range, holder in self._entries.confirmed():
            by_holder.setdefault(holder, []).append((own_entry, value_range))
        for holder, held in by_holder.items():
            if holder == self.address:
                self._put_lost_again(self._holder.lost_of(self._renewal(held), holder))
                continue
            for _, _, some in in_parts(held, RANGES_PER_MESSAGE):
                self._turn += 1
                self._requests.ask(
                    RENEWING, (holder, self._turn), holder, self._renewal(some), some
                )

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

    def _lost(self, key: tuple[Address, int], request: PendingRequest) -> None:
        """A holder never answered a renewal: put its entries again."""
        self._entries.put_again(
            [
                (own_entry, part)
                for own_entry, part in request.context
                if own_entry.confirmed.get(part, (None,))[0] == key[0]
            ]
        )

    def _put_lost_again(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        self._entries.put_again(
            [
                (self._entries.by_serial[serial], (low, high))
                for serial, low, high in lost
                if serial in self._entries.by_serial
            ]
        )
