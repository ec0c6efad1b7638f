"""Handoff of an extent from one live peer to another: offer, prepared, commit, each repeated until
it is answered.

From `HandoffOffer` on the sender does not answer for the extent, and until `HandoffCommit` the
receiver does not either: the extent is *provisional* there, known only to the receiver's backups,
which have all items before it sends `HandoffPrepared`. If the receiver is silent or declines, the
sender aborts and keeps the extent under a better claim than the receiver was to have. A receiver
whose sender dies keeps the extent once a death poll finds no veto (`takeover.py`). Epochs: split
+1, merge largest +1, handoff +2, abort +3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.backup_copy import ChunkedTransfer, split_into_parts
from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.handoff_receiver import (
    HandoffAbort,
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
    HandoffReceiver,
)
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import Neighbour, OwnershipClaim
from implicast.overlay.ice.ownership import HANDING_OFF, PROVISIONAL, ExtentStatus, Ownership
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Part, handles
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests, PendingRequest


@dataclass(slots=True)
class OutgoingHandoff(ChunkedTransfer):
    """An extent that this peer is handing off."""

    extent: OwnershipClaim
    claim: OwnershipClaim
    """The receiver's future claim."""
    around: tuple[Neighbour, ...]


class Handoff(Part):
    """Hands off extents, one at a time; passes messages for the other direction to the receiver."""

    __slots__ = (
        "_backup_set",
        "_declined_until",
        "_exchange",
        "_members",
        "_numbers",
        "_on_handed_off",
        "_ownership",
        "_requests",
        "_store",
        "_timers",
        "outgoing",
        "receiver",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: AbstractRequests,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        receiver: HandoffReceiver,
        on_handed_off: Callable[[], None],
    ) -> None:
        super().__init__(site.address, site.host)
        self._timers, self._store, self._numbers = site.settings.timers, site.store, site.numbers
        self._requests, self._ownership, self._members = requests, ownership, members
        self._backup_set, self._exchange = backup_set, exchange
        self.receiver, self._on_handed_off = receiver, on_handed_off
        self.outgoing: OutgoingHandoff | None = None
        self._declined_until: Recent[Address, int] = Recent(self._timers.members_max)
        """Peers that declined, and until when they get no offer."""
        requests.topic(
            "offer", self._timers.retry_policy(self._timers.tries_offer), self._on_offer_lost
        )

    @property
    def is_busy(self) -> bool:
        """True if an extent is being handed off."""
        return self.outgoing is not None

    def hand_off(self, extent: OwnershipClaim, receiver: Address) -> None:
        """Hand off a committed extent."""
        ownership, number = self._ownership, self._numbers.next()
        around = self._surroundings(extent)
        parts = split_into_parts(
            self._store.pack((extent.low, extent.high)), self._timers.part_bytes
        )
        claim = OwnershipClaim(extent.low, extent.bits, extent.epoch + 2, receiver)
        self.outgoing = OutgoingHandoff(number, parts, extent, claim, around)
        ownership.set_status(extent, ExtentStatus(HANDING_OFF, receiver, number))
        ownership.next_version()
        ownership.refresh()
        self._members.state_of(receiver)
        self.send_part(self.outgoing)

    def _surroundings(self, extent: OwnershipClaim) -> tuple[Neighbour, ...]:
        """All known claims but this one and provisional ones, each with its owner's backups."""
        granted = self._ownership.of_status(PROVISIONAL)
        return tuple(
            (
                each,
                self._backup_set.backups
                if each.owner == self.address
                else self._members.backups_of(each.owner),
            )
            for each in self._ownership.claim_map.claims.values()
            if each.low != extent.low and each not in granted
        )

    def send_part(self, handoff: OutgoingHandoff) -> None:
        around = handoff.around if handoff.at == 0 else ()
        message = HandoffOffer(
            handoff.number,
            handoff.at,
            len(handoff.parts),
            handoff.claim,
            around,
            handoff.parts[handoff.at],
        )
        self._requests.ask("offer", handoff.number, handoff.claim.owner, message)

    def _on_offer_lost(self, key: Any, question: PendingRequest) -> None:
        self._members.suspect(question.to)
        self.abort_handoff()

    def _handoff_to(self, receiver: Address, number: int) -> OutgoingHandoff | None:
        """The handoff to this peer under this number, if it is the current one."""
        handoff = self.outgoing
        return (
            handoff
            if handoff is not None and (handoff.claim.owner, handoff.number) == (receiver, number)
            else None
        )

    @handles(HandoffProgress)
    def on_progress(self, sender: Address, progress: HandoffProgress) -> None:
        self._members.heard_from(sender)
        handoff = self._handoff_to(sender, progress.number)
        if handoff is not None:
            self._requests.note_progress("offer", handoff.number)
            if progress.part == handoff.at and handoff.next_part():
                self.send_part(handoff)

    @handles(HandoffPrepared)
    def on_prepared(self, sender: Address, prepared: HandoffPrepared) -> None:
        self._members.heard_from(sender)
        handoff = self._handoff_to(sender, prepared.number)
        if handoff is not None:
            self.commit_handoff(handoff, prepared.backups, prepared.stamp_us)
        if (sender, prepared.number) in self.receiver.ended:
            self.host.send(sender, HandoffCommit(prepared.number))
        else:  # aborted, and parts of the extent may have been lost to other owners since
            self._exchange.correct(sender, [prepared.claim])
            self.host.send(sender, HandoffAbort(prepared.number))

    def commit_handoff(
        self, handoff: OutgoingHandoff, backups: tuple[Address, ...], stamp_us: int = -1
    ) -> None:
        ownership, copies = self._ownership, self._backup_set.copies
        before, receiver = ownership.neighbours(), handoff.claim.owner
        if backups == (self.address,):  # the items of the handoff are all that the receiver has
            copies.begin(receiver, handoff.around, stamp_us)
        items = [item for part in handoff.parts for item in part]
        copies.add_extent(handoff.claim, items, stamp_us)
        self._requests.drop("offer", handoff.number)
        self.outgoing = None
        self.receiver.note_end(receiver, handoff.number, "done")
        ownership.learn_all([handoff.claim])
        self._exchange.note_relinquished([handoff.claim])
        self._store.drop((handoff.extent.low, handoff.extent.high))
        self._exchange.announce({*before, receiver})
        self._on_handed_off()

    @handles(HandoffAbort)
    def on_abort(self, sender: Address, abort: HandoffAbort) -> None:
        self._members.heard_from(sender)
        if self._handoff_to(sender, abort.number):
            self.abort_handoff()
        self.receiver.on_abort(sender, abort.number)

    def abort_handoff(self) -> None:
        """The receiver declines or is silent: what is left of the extent is committed again."""
        handoff, ownership = self.outgoing, self._ownership
        assert handoff is not None
        self._declined_until[handoff.claim.owner] = self.host.now_us + 6 * self._timers.rto_us
        before = ownership.neighbours()
        self._requests.drop("offer", handoff.number)
        self.outgoing = None
        ownership.put(self._claims_if_aborted(handoff))
        ownership.commit(HANDING_OFF, handoff.number)
        self._exchange.announce(before)

    def abort_lost(self) -> None:
        """Better claims took a tract: abort the handoff if its extent is not owned any more."""
        if self.outgoing is not None and self.outgoing.extent not in self._ownership.extents:
            self.abort_handoff()

    def _claims_if_aborted(self, handoff: OutgoingHandoff) -> tuple[OwnershipClaim, ...]:
        """Claims to what is left of the extent, as they are after an abort."""
        epoch = handoff.extent.epoch + 3
        return tuple(
            OwnershipClaim(each.low, each.bits, epoch, self.address)
            for each in self._ownership.of_status(HANDING_OFF)
        )

    def in_transit_with(self, peer: Address) -> tuple[OwnershipClaim, ...]:
        """Extents that this peer hands off to another one, or receives from it; no third peer may
        claim them. The claim after an abort beats the receiver's claim, so it must not be learnt
        yet: if the handoff is committed after all, no peer would own the extent.
        """
        if self.outgoing is not None and self.outgoing.claim.owner == peer:
            return self._claims_if_aborted(self.outgoing)
        return tuple(self._ownership.of_status(PROVISIONAL, peer))

    def abort_unsent(self) -> None:
        """Abort a handoff that is not being sent because the request table was full."""
        if self.outgoing is not None and not self._requests.open("offer", self.outgoing.number):
            self.abort_handoff()

    def has_declined(self, peer: Address) -> bool:
        """True if the peer declined lately."""
        return self._declined_until.get(peer, 0) > self.host.now_us

    # --- the other direction

    @handles(HandoffOffer)
    def on_offer(self, sender: Address, offer: HandoffOffer) -> None:
        self.receiver.on_offer(sender, offer)

    @handles(HandoffCommit)
    def on_commit(self, sender: Address, commit: HandoffCommit) -> None:
        self.receiver.on_commit(sender, commit)
