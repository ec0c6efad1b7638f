"""Receiving side of a handoff: the extent is provisional from the last part until the commit.

`handoff.py` describes the protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.item_store import Item, Number, check_items
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import (
    Backups,
    Items,
    Neighbour,
    OwnershipClaim,
    PartNumber,
    Surroundings,
)
from implicast.overlay.ice.ownership import PROVISIONAL, TAKEN_OVER, ExtentStatus, Ownership
from implicast.overlay.ice.ownership_map import tract_of
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message, in_order
from implicast.peer.errors import RemoteError
from implicast.peer.fields import Micros
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests
from implicast.space.tract import Tract


class HandoffOffer(Message):
    """One part of a handoff: the receiver's future claim, the sender's neighbours, and a share of
    the items.
    """

    wire = 0x0908
    number: Number
    part: PartNumber
    parts: PartNumber
    claim: OwnershipClaim
    around: Surroundings
    items: Items


class HandoffProgress(Message):
    """Progress of a handoff: the receiver has this part and is working on it."""

    wire = 0x0909
    number: Number
    part: PartNumber


class HandoffPrepared(Message):
    """The receiver and all its backups have the items. The receiver does not answer for the extent
    before `HandoffCommit`.
    """

    wire = 0x090A
    number: Number
    claim: OwnershipClaim
    backups: Backups
    stamp_us: Micros
    """By the receiver's clock; supersedes its earlier statements about its backup set."""


class HandoffCommit(Message):
    """The sender has given up its claim: the extent belongs to the receiver alone."""

    wire = 0x090B
    number: Number


class HandoffAbort(Message):
    """Ends a handoff without effect: the receiver declines, or the sender does not know the
    handoff. The sender keeps the extent.
    """

    wire = 0x090C
    number: Number


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


class HandoffReceiver:
    """Receives extents, one at a time."""

    __slots__ = (
        "_address",
        "_backup_set",
        "_exchange",
        "_host",
        "_members",
        "_on_refused",
        "_ownership",
        "_requests",
        "_store",
        "_timers",
        "ended",
        "handoff",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: AbstractRequests,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        on_refused: Callable[[Tract, list[Address]], None],
    ) -> None:
        """`on_refused` is called with the dropped tract and the neighbours before, if the sender
        does not know the handoff.
        """
        self._address, self._host, self._store = site.address, site.host, site.store
        self._timers, self._requests, self._ownership = site.settings.timers, requests, ownership
        self._members, self._backup_set, self._exchange = members, backup_set, exchange
        self._on_refused = on_refused
        self.handoff: IncomingHandoff | None = None
        self.ended: Recent[tuple[Address, int], str] = Recent(self._timers.seen_max)
        """Ended handoffs of both directions and their outcome, so that repeats get the same answer.
        """
        # While the sender is silent the extent stays provisional, until a death poll decides
        # (`takeover.py`).
        requests.topic(
            "prepared",
            self._timers.retry_policy(self._timers.tries_prepared),
            members.on_unanswered,
        )

    @property
    def is_busy(self) -> bool:
        return self.handoff is not None

    def note_end(self, peer: Address, number: int, end: str) -> None:
        """A handoff with this peer has ended."""
        self.ended[peer, number] = end

    @property
    def is_first(self) -> bool:
        """True if the handoff is all that this peer owns, so that its sender has all items and can
        serve as backup. It has none of the items of extents that were taken over.
        """
        ownership = self._ownership
        return not (
            self._backup_set.backups or ownership.committed or ownership.of_status(TAKEN_OVER)
        )

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

    def on_offer(self, sender: Address, offer: HandoffOffer) -> None:
        if offer.part >= offer.parts or offer.claim.owner != self._address:
            raise RemoteError(
                f"handoff part {offer.part} of {offer.parts} with a claim for {offer.claim.owner}"
            )
        check_items(offer.items)
        self._members.state_of(sender)
        self._members.heard_from(sender)
        handoff, ended = (
            self._handoff_from(sender, offer.number),
            self.ended.get((sender, offer.number)),
        )
        if handoff is not None:
            self._next_part(handoff, offer)
        elif ended == "taken":
            pass  # a late repeat: `HandoffPrepared` was answered long ago
        elif ended is not None or not self._accepts(sender, offer):
            self.ended[sender, offer.number] = "declined"
            self._host.send(sender, HandoffAbort(offer.number))
            self._exchange.correct(sender, [offer.claim])
        elif offer.part == 0:
            self.handoff = IncomingHandoff(
                offer.number, sender, offer.claim, offer.around, self._host.now_us, {}
            )
            self._next_part(self.handoff, offer)

    def _accepts(self, sender: Address, offer: HandoffOffer) -> bool:
        if self._exchange.leaving:
            leaves_too = bool(self._ownership.extents) and self._members.state_of(sender).leaving
            if not (leaves_too and in_order(self._address) < in_order(sender)):
                return False
        return self.handoff is None and not self._ownership.claim_map.better_than(offer.claim)

    def _next_part(self, handoff: IncomingHandoff, offer: HandoffOffer) -> None:
        self._host.send(handoff.sender, HandoffProgress(offer.number, offer.part))
        if (
            not handoff.complete
            and offer.part not in handoff.items
            and handoff.put(offer, self._host.now_us)
        ):
            self._prepare(handoff)

    def _prepare(self, handoff: IncomingHandoff) -> None:
        """All parts have arrived: the extent is provisional until the commit."""
        ownership, claim, store = self._ownership, handoff.claim, self._store
        if ownership.claim_map.better_than(claim):
            self._end(handoff, "declined")
            self._host.send(handoff.sender, HandoffAbort(handoff.number))
            return
        tract = (claim.low, claim.high)
        ownership.hold(claim, ExtentStatus(PROVISIONAL, handoff.sender, handoff.number))
        ownership.next_version()  # a heartbeat on its way does not list the extent
        ownership.refresh()
        self._exchange.learn_around(handoff.around)
        store.accept(
            tuple(item for part in sorted(handoff.items) for item in handoff.items[part]), tract
        )
        # If this peer holds a copy of an owner that never told it of the handoff, the sender took
        # the extent over, perhaps with an older copy: a backup that was cut off and replaced misses
        # later writes.
        held = self._backup_set.copies.items_of_others(handoff.sender, tract)
        store.accept(held, tract)
        handoff.note_own_items(held)
        if self.is_first:
            self.send_prepared(handoff)
        else:
            self._backup_set.replicate(store.pack(tract), lambda: self.send_prepared(handoff))

    def send_prepared(self, handoff: IncomingHandoff) -> None:
        if self.handoff is handoff and not self._requests.open("prepared", handoff.number):
            handoff.mark_prepared(self._host.now_us)
            self._backup_set.note_handoff_from(handoff.sender)
            backups = self._backup_set.backups_with(handoff.sender)
            message = HandoffPrepared(handoff.number, handoff.claim, backups, handoff.prepared_us)
            self._requests.ask("prepared", handoff.number, handoff.sender, message)

    def on_commit(self, sender: Address, commit: HandoffCommit) -> None:
        handoff = self._handoff_from(sender, commit.number)
        self._members.heard_from(sender)
        if handoff is not None:
            begun = self.is_first and self._backup_set.begin_with(sender, handoff.prepared_us)
            if begun and handoff.has_own_items:
                tract = (handoff.claim.low, handoff.claim.high)
                self._backup_set.replicate(self._store.pack(tract), lambda: None)
            self.commit_handoff(handoff)

    def commit_handoff(self, handoff: IncomingHandoff) -> None:
        """The extent belongs to this peer alone."""
        self._end(handoff, "taken")
        self._exchange.commit(PROVISIONAL, handoff.number, {handoff.sender})

    def _end(self, handoff: IncomingHandoff, end: str) -> None:
        self._requests.drop("prepared", handoff.number)
        self.note_end(handoff.sender, handoff.number, end)
        self.handoff = None
        self._backup_set.note_handoff_from(None)

    def on_abort(self, sender: Address, number: int) -> None:
        """The sender does not know the handoff: drop the claim."""
        handoff, ownership = self._handoff_from(sender, number), self._ownership
        if handoff is not None and handoff.complete:
            extents, neighbours = ownership.of_status(PROVISIONAL), ownership.neighbours()
            ownership.drop(extents)
            ownership.refresh()
            self._on_refused(tract_of(extents), neighbours)

    def on_claims_lost(self) -> None:
        """Better claims took a tract from this peer: end the handoff if it was that one."""
        if (
            self.handoff is not None
            and self.handoff.complete
            and not self._ownership.of_status(PROVISIONAL)
        ):
            self._end(self.handoff, "declined")

    def expire(self) -> None:
        """End a handoff whose parts have stopped arriving: the sender aborted or is dead."""
        handoff, late_us = self.handoff, self._host.now_us - 2 * self._timers.give_up_us
        if handoff is not None and not handoff.complete and handoff.last_us < late_us:
            self._end(handoff, "declined")
