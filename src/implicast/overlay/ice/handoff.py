"""Handoff of an extent from one live peer to another: offer, prepared, commit, each repeated until
it is answered.

From `HandoffOffer` on the sender does not answer for the extent, and until `HandoffCommit` the
receiver does not either: the extent is *provisional* there, known only to the receiver's backups,
which have all items before it sends `HandoffPrepared`. If the receiver is silent or declines, the
sender aborts and keeps the extent under a better claim than the receiver was to have. A receiver
whose sender dies keeps the extent once a death poll finds no veto (`takeover.py`). Epochs: split
+1, merge largest +1, handoff +2, abort +3.
"""

from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.backup_copies import BackupCopy, ChunkedTransfer, split_into_parts
from implicast.overlay.ice.messages import (
    HandoffAbort,
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
    Neighbour,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import HANDING_OFF, PROVISIONAL, ExtentStatus
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest


@dataclass(slots=True)
class OutgoingHandoff(ChunkedTransfer):
    """An extent that this peer is handing off."""

    extent: OwnershipClaim
    claim: OwnershipClaim
    """The receiver's future claim."""
    around: tuple[Neighbour, ...]


class HandoffSender(SurfacePart):
    """Hands off extents, one at a time."""

    __slots__ = ("declined_until", "ended", "handoff")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.handoff: OutgoingHandoff | None = None
        self.ended: Recent[tuple[Address, int], str] = Recent(self.timers.seen_max)
        """Ended handoffs of both directions and their outcome, so that repeats get the same answer.
        """
        self.declined_until: Recent[Address, int] = Recent(self.timers.members_max)
        """Peers that declined, and until when they get no offer."""
        surface.requests.topic(
            "offer", self.timers.retry_policy(self.timers.tries_offer), self._on_offer_lost
        )

    def hand_off(self, extent: OwnershipClaim, receiver: Address) -> None:
        """Hand off a committed extent."""
        surface, ownership, number = (
            self.surface,
            self.surface.ownership,
            self.surface.next_number(),
        )
        commit_handoff = ownership.of_status(PROVISIONAL)
        around = tuple(
            (
                each,
                surface.backups
                if each.owner == self.address
                else surface.members.backups_of(each.owner),
            )
            for each in ownership.claim_map.claims.values()
            if each.low != extent.low and each not in commit_handoff
        )
        parts = split_into_parts(
            surface.store.pack((extent.low, extent.high)), self.timers.part_bytes
        )
        self.handoff = OutgoingHandoff(
            number,
            parts,
            extent,
            OwnershipClaim(extent.low, extent.bits, extent.epoch + 2, receiver),
            around,
        )
        ownership.status[extent.low] = ExtentStatus(HANDING_OFF, receiver, number)
        surface.heartbeats.next_version()
        ownership.refresh()
        surface.members.state_of(receiver)
        self.send_part(self.handoff)

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
        self.surface.requests.ask("offer", handoff.number, handoff.claim.owner, message)

    def _on_offer_lost(self, key: Any, question: PendingRequest) -> None:
        self.surface.members.suspect(question.to)
        self.abort_handoff()

    def _handoff_to(self, receiver: Address, number: int) -> OutgoingHandoff | None:
        """The handoff to this peer under this number, if it is the current one."""
        handoff = self.handoff
        return (
            handoff
            if handoff is not None and (handoff.claim.owner, handoff.number) == (receiver, number)
            else None
        )

    @handles(HandoffProgress)
    def on_progress(self, sender: Address, progress: HandoffProgress) -> None:
        self.surface.members.heard_from(sender)
        handoff = self._handoff_to(sender, progress.number)
        if handoff is not None:
            self.surface.requests.note_progress("offer", handoff.number)
            if progress.part == handoff.at and handoff.next_part():
                self.send_part(handoff)

    @handles(HandoffPrepared)
    def on_prepared(self, sender: Address, prepared: HandoffPrepared) -> None:
        self.surface.members.heard_from(sender)
        handoff = self._handoff_to(sender, prepared.number)
        if handoff is not None:
            self.commit_handoff(handoff, prepared.backups, prepared.stamp_us)
        if (sender, prepared.number) in self.ended:
            self.host.send(sender, HandoffCommit(prepared.number))
        else:  # aborted, and parts of the extent may have been lost to other owners since
            self.surface.heartbeats.correct(sender, [prepared.claim])
            self.host.send(sender, HandoffAbort(prepared.number))

    def commit_handoff(
        self, handoff: OutgoingHandoff, backups: tuple[Address, ...], stamp_us: int = -1
    ) -> None:
        surface, ownership = self.surface, self.surface.ownership
        before, receiver = ownership.neighbours(), handoff.claim.owner
        if backups == (self.address,):  # the items of the handoff are all that the receiver has
            surface.backup_copies.held.setdefault(
                receiver, BackupCopy(-1, (), backups, handoff.around, stamp_us)
            )
        if receiver in surface.backup_copies.held:
            surface.backup_copies.held[receiver].add_extent(
                handoff.claim, [item for part in handoff.parts for item in part], stamp_us
            )
        surface.requests.drop("offer", handoff.number)
        self.handoff = None
        self.ended[receiver, handoff.number] = "done"
        ownership.claim_map.learn(handoff.claim)
        surface.heartbeats.relinquished.append((self.host.now_us, handoff.claim))
        surface.store.drop((handoff.extent.low, handoff.extent.high))
        surface.announce({*before, receiver})
        if not ownership.extents and not surface.leaving:
            surface.rejoin()  # the other extents were lost while this one was being handed off
        surface.relocation.leave_step()

    @handles(HandoffAbort)
    def on_abort(self, sender: Address, abort: HandoffAbort) -> None:
        self.surface.members.heard_from(sender)
        if self._handoff_to(sender, abort.number):
            self.abort_handoff()
        self.surface.handoff_receiver.on_refused(sender, abort.number)

    def abort_handoff(self) -> None:
        """The receiver declines or is silent: what is left of the extent is committed again."""
        handoff, ownership = self.handoff, self.surface.ownership
        assert handoff is not None
        self.declined_until[handoff.claim.owner] = self.host.now_us + 6 * self.timers.rto_us
        before = ownership.neighbours()
        self.surface.requests.drop("offer", handoff.number)
        self.handoff = None
        ownership.claim_map.put(self.claims_if_aborted(handoff))
        ownership.commit(HANDING_OFF, handoff.number)
        self.surface.announce(before)

    def claims_if_aborted(self, handoff: OutgoingHandoff) -> tuple[OwnershipClaim, ...]:
        """Claims to what is left of the extent, as they are after an abort."""
        epoch = handoff.extent.epoch + 3
        return tuple(
            OwnershipClaim(each.low, each.bits, epoch, self.address)
            for each in self.surface.ownership.of_status(HANDING_OFF)
        )

    def abort_unsent(self) -> None:
        """Abort a handoff that is not being sent because the request table was full."""
        if self.handoff is not None and not self.surface.requests.open(
            "offer", self.handoff.number
        ):
            self.abort_handoff()

    def has_declined(self, peer: Address) -> bool:
        """True if the peer declined lately."""
        return self.declined_until.get(peer, 0) > self.host.now_us
