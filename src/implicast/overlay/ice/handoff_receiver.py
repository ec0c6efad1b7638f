"""Receiving side of a handoff: the extent is provisional from the last part until the commit.

`handoff.py` describes the protocol.
"""

from dataclasses import dataclass

from implicast.overlay.ice.item_store import Item, check_items
from implicast.overlay.ice.messages import (
    HandoffAbort,
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
    Neighbour,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import PROVISIONAL, TAKEN_OVER, ExtentStatus
from implicast.overlay.ice.ownership_map import tract_of
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, handles, in_order
from implicast.peer.errors import RemoteError


@dataclass(slots=True)
class IncomingHandoff:
    """An extent that this peer is receiving."""

    number: int
    sender: Address
    claim: OwnershipClaim
    around: tuple[Neighbour, ...]
    last_us: int
    """When the last part arrived."""
    items: dict[int, tuple[Item, ...]]
    complete: bool = False
    """All parts have arrived."""
    prepared_us: int = -1
    """When `HandoffPrepared` was first sent; -1: not yet."""
    has_own_items: bool = False
    """This peer held backup copies of items there, which the sender may not have."""

    def put(self, offer: HandoffOffer, now_us: int) -> bool:
        """Store a part; true if it was the last one missing."""
        self.items[offer.part], self.last_us = offer.items, now_us
        self.complete = len(self.items) == offer.parts
        return self.complete

    def note_own_items(self, held: tuple[Item, ...]) -> None:
        """Record whether this peer had items of its own there."""
        self.has_own_items = bool(held)

    def mark_prepared(self, now_us: int) -> None:
        self.prepared_us = now_us if self.prepared_us < 0 else self.prepared_us


class HandoffReceiver(SurfacePart):
    """Receives extents, one at a time."""

    __slots__ = ("handoff",)

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.handoff: IncomingHandoff | None = None
        # While the sender is silent the extent stays provisional, until a death poll decides
        # (`takeover.py`).
        surface.requests.topic(
            "prepared",
            self.timers.retry_policy(self.timers.tries_prepared),
            surface.members.on_unanswered,
        )

    @property
    def is_first(self) -> bool:
        """True if the handoff is all that this peer owns, so that its sender has all items and can
        serve as backup. It has none of the items of extents that were taken over.
        """
        ownership = self.surface.ownership
        return not (self.surface.backups or ownership.committed or ownership.of_status(TAKEN_OVER))

    def complete_from(self, sender: Address) -> IncomingHandoff | None:
        """The complete, provisional handoff from this peer."""
        return (
            self.handoff
            if self.handoff is not None and self.handoff.complete and self.handoff.sender == sender
            else None
        )

    def _handoff_from(self, sender: Address, number: int) -> IncomingHandoff | None:
        handoff = self.handoff
        return (
            handoff
            if handoff is not None and (handoff.sender, handoff.number) == (sender, number)
            else None
        )

    @handles(HandoffOffer)
    def on_offer(self, sender: Address, offer: HandoffOffer) -> None:
        if offer.part >= offer.parts or offer.claim.owner != self.address:
            raise RemoteError(
                f"handoff part {offer.part} of {offer.parts} with a claim for {offer.claim.owner}"
            )
        check_items(offer.items)
        surface, ended_handoffs = self.surface, self.surface.handoff_sender.ended
        surface.members.state_of(sender)
        surface.members.heard_from(sender)
        handoff, ended = (
            self._handoff_from(sender, offer.number),
            ended_handoffs.get((sender, offer.number)),
        )
        if handoff is not None:
            self._next_part(handoff, offer)
        elif ended == "taken":
            pass  # a late repeat: `HandoffPrepared` was answered long ago
        elif ended is not None or not self._accepts(sender, offer):
            ended_handoffs[sender, offer.number] = "declined"
            self.host.send(sender, HandoffAbort(offer.number))
            surface.heartbeats.correct(sender, [offer.claim])
        elif offer.part == 0:
            self.handoff = IncomingHandoff(
                offer.number, sender, offer.claim, offer.around, self.host.now_us, {}
            )
            self._next_part(self.handoff, offer)

    def _accepts(self, sender: Address, offer: HandoffOffer) -> bool:
        surface = self.surface
        if surface.leaving:
            leaves_too = (
                bool(surface.ownership.extents) and surface.members.state_of(sender).leaving
            )
            if not (leaves_too and in_order(self.address) < in_order(sender)):
                return False
        return self.handoff is None and not surface.ownership.claim_map.better_than(offer.claim)

    def _next_part(self, handoff: IncomingHandoff, offer: HandoffOffer) -> None:
        self.host.send(handoff.sender, HandoffProgress(offer.number, offer.part))
        if (
            not handoff.complete
            and offer.part not in handoff.items
            and handoff.put(offer, self.host.now_us)
        ):
            self._prepare(handoff)

    def _prepare(self, handoff: IncomingHandoff) -> None:
        """All parts have arrived: the extent is provisional until the commit."""
        surface, ownership, claim = self.surface, self.surface.ownership, handoff.claim
        if ownership.claim_map.better_than(claim):
            self._end(handoff, "declined")
            self.host.send(handoff.sender, HandoffAbort(handoff.number))
            return
        tract = (claim.low, claim.high)
        ownership.claim_map.learn(claim)
        ownership.status[claim.low] = ExtentStatus(PROVISIONAL, handoff.sender, handoff.number)
        surface.heartbeats.next_version()  # a heartbeat on its way does not list the extent
        ownership.refresh()
        surface.learn_around(handoff.around)
        surface.store.accept(
            tuple(item for part in sorted(handoff.items) for item in handoff.items[part]), tract
        )
        # If this peer holds a copy of an owner that never told it of the handoff, the sender took
        # the extent over, perhaps with an older copy: a backup that was cut off and replaced misses
        # later writes.
        others = (
            copy for owner, copy in surface.backup_copies.held.items() if owner != handoff.sender
        )
        held = tuple(item for copy in others for item in copy.within(tract))
        surface.store.accept(held, tract)
        handoff.note_own_items(held)
        if self.is_first:
            self.send_prepared(handoff)
        else:
            surface.replicate(surface.store.pack(tract), lambda: self.send_prepared(handoff))

    def send_prepared(self, handoff: IncomingHandoff) -> None:
        surface = self.surface
        if self.handoff is handoff and not surface.requests.open("prepared", handoff.number):
            handoff.mark_prepared(self.host.now_us)
            backups = surface.backups or ((handoff.sender,) if surface.settings.assured else ())
            message = HandoffPrepared(handoff.number, handoff.claim, backups, handoff.prepared_us)
            surface.requests.ask("prepared", handoff.number, handoff.sender, message)

    @handles(HandoffCommit)
    def on_commit(self, sender: Address, commit: HandoffCommit) -> None:
        surface, handoff = self.surface, self._handoff_from(sender, commit.number)
        surface.members.heard_from(sender)
        if handoff is not None:
            if self.is_first and surface.settings.assured:
                surface.backup_set.set_backups((sender,), handoff.prepared_us)
                if handoff.has_own_items:
                    surface.replicate(
                        surface.store.pack((handoff.claim.low, handoff.claim.high)), lambda: None
                    )
            self.commit_handoff(handoff)

    def commit_handoff(self, handoff: IncomingHandoff) -> None:
        """The extent belongs to this peer alone."""
        self._end(handoff, "taken")
        self.surface.commit(PROVISIONAL, handoff.number, {handoff.sender})

    def _end(self, handoff: IncomingHandoff, end: str) -> None:
        self.surface.requests.drop("prepared", handoff.number)
        self.surface.handoff_sender.ended[handoff.sender, handoff.number] = end
        self.handoff = None

    def on_refused(self, sender: Address, number: int) -> None:
        """The sender does not know the handoff: drop the claim."""
        handoff, ownership = self._handoff_from(sender, number), self.surface.ownership
        if handoff is not None and handoff.complete:
            extents, neighbours = ownership.of_status(PROVISIONAL), ownership.neighbours()
            ownership.claim_map.drop(extents)
            ownership.refresh()
            self.surface.on_claims_lost(tract_of(extents), neighbours, [])

    def on_claims_lost(self) -> None:
        """Better claims took a tract from this peer: end the handoff if it was that one."""
        if (
            self.handoff is not None
            and self.handoff.complete
            and not self.surface.ownership.of_status(PROVISIONAL)
        ):
            self._end(self.handoff, "declined")

    def expire(self) -> None:
        """End a handoff whose parts have stopped arriving: the sender aborted or is dead."""
        handoff, late_us = self.handoff, self.host.now_us - 2 * self.timers.give_up_us
        if handoff is not None and not handoff.complete and handoff.last_us < late_us:
            self._end(handoff, "declined")
