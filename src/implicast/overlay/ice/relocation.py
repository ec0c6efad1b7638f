"""Relocation of surplus extents, and the leaving of a peer.

A peer with several extents comes back to one as in CAN, by two ordinary handoffs. A surplus extent
goes to the owner of its sibling if the sibling is one extent. Otherwise it goes to a peer deeper
inside the sibling's area whose own extent has such a sibling, and which then hands its own extent
to that sibling's owner.

A leaving peer hands each extent to the owner of its sibling, else to a backup, else to any
neighbour. It stays while it holds the backup copy of a silent peer, because that copy may be the
last one.
"""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.item_store import Code
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import Bits, OwnershipClaim
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message, Part, handles, in_order
from implicast.peer.events import Left
from implicast.space.morton import BITS
from implicast.space.prefix import sibling


class RelocationQuery(Message):
    """Searches the area (a prefix) for a peer that can take a surplus extent and hand its own one
    to the owner of its sibling.
    """

    wire = 0x0914
    surplus: OwnershipClaim
    low: Code
    bits: Bits
    requester: Address
    depth: Annotated[int, Meta(ge=0, le=BITS)]


class RelocationOffer(Message):
    """The sender can take that surplus extent."""

    wire = 0x0915
    surplus: OwnershipClaim


class DepartureDue(Message):
    """Fires when a leaving peer without extents has stayed reachable for long enough."""


class Relocation(Part):
    """Hands off surplus extents, and all extents when the peer leaves."""

    __slots__ = (
        "_departing",
        "_exchange",
        "_handoff",
        "_members",
        "_ownership",
        "_relocate_us",
        "_set",
        "_timers",
        "left",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        handoff: Handoff,
    ) -> None:
        super().__init__(site.address, site.host)
        self._timers, self._ownership, self._members = site.settings.timers, ownership, members
        self._set, self._exchange, self._handoff = backup_set, exchange, handoff
        self.left = self._departing = False
        self._relocate_us = 0
        """When the next surplus extent may be relocated."""

    def can_receive(self, peer: Address) -> bool:
        """True if the peer can be offered an extent and is not leaving."""
        return self._can_be_offered(peer) and not self._members.states[peer].leaving

    def _can_be_offered(self, peer: Address) -> bool:
        state = self._members.states.get(peer)
        return (
            state is not None
            and state.suspect_since_us < 0
            and not self._handoff.has_declined(peer)
        )

    # --- surplus extents

    def relocate_surplus(self) -> None:
        """At each tick of a peer with several extents: one step towards a single extent, if one is
        due.
        """
        ownership = self._ownership
        if not self._relocate_us:
            self._schedule_relocation()
        if (
            self.host.now_us < self._relocate_us
            or self._handoff.is_busy
            or self._set.is_unconfirmed
        ):
            return
        self._schedule_relocation()
        extents = sorted(ownership.committed_extents(), key=lambda claim: (-claim.bits, claim.low))
        for extent in extents:
            other = ownership.lone_sibling(extent)
            if other is not None and self.can_receive(other.owner):
                self._handoff.hand_off(extent, other.owner)
                return
        if extents:
            # The choice is random, so that an extent which no peer can take does not block the
            # others.
            extent = self.host.rng.choice(extents)
            self._search_inside(
                RelocationQuery(
                    extent, sibling(extent.low, extent.bits), extent.bits, self.address, 0
                )
            )

    def _schedule_relocation(self) -> None:
        """The more surplus extents, the shorter the pause: after a partition one peer may own half
        the surface.
        """
        pause_us = self._timers.relocate_us * (0.5 + self.host.rng.random())
        self._relocate_us = self.host.now_us + int(
            pause_us / max(1, len(self._ownership.extents) - 1)
        )

    def _search_inside(self, query: RelocationQuery) -> None:
        """Forward the query to the owner of the smallest known extent inside the area."""
        high = query.low + (1 << (BITS - query.bits))
        inside = [
            each for each in self._ownership.others if query.low <= each.low and each.high <= high
        ]
        inside = [
            each
            for each in inside
            if each.owner != query.requester and self.can_receive(each.owner)
        ]
        if inside and query.depth < BITS:
            smallest = min(inside, key=lambda claim: (-claim.bits, claim.low))
            self.host.send(
                smallest.owner,
                RelocationQuery(
                    query.surplus, query.low, query.bits, query.requester, query.depth + 1
                ),
            )

    @handles(RelocationQuery)
    def on_relocation_query(self, sender: Address, query: RelocationQuery) -> None:
        ownership = self._ownership
        self._members.heard_from(sender)
        if (
            self._exchange.leaving
            or len(ownership.extents) != 1
            or not ownership.committed
            or query.requester == self.address
        ):
            return
        extent = ownership.extents[0]
        other = ownership.lone_sibling(extent)
        if other is not None:
            if other.owner != query.requester and self.can_receive(other.owner):
                self.host.send(query.requester, RelocationOffer(query.surplus))
        elif extent.bits > query.bits:
            self._search_inside(
                RelocationQuery(
                    query.surplus,
                    sibling(extent.low, extent.bits),
                    extent.bits,
                    query.requester,
                    query.depth,
                )
            )

    @handles(RelocationOffer)
    def on_relocation_offer(self, sender: Address, offer: RelocationOffer) -> None:
        ownership = self._ownership
        self._members.heard_from(sender)
        busy = (
            self._handoff.is_busy
            or self._exchange.leaving
            or self._set.is_unconfirmed
            or len(ownership.extents) < 2
        )
        if offer.surplus in ownership.committed_extents() and not busy and sender != self.address:
            self._handoff.hand_off(offer.surplus, sender)

    # --- leaving

    def leave(self) -> None:
        """Hand off every extent, stay reachable for late messages for a while, then leave."""
        if not self._exchange.leaving:
            self._exchange.begin_leaving()
            self.leave_step()

    def leave_step(self) -> None:
        """The next step of leaving; called at each tick and after each handoff."""
        ownership = self._ownership
        if not self._exchange.leaving or self._handoff.is_busy or self._handoff.receiver.is_busy:
            return
        if not (ownership.extents and ownership.others):
            self._depart()
        elif not self._holds_copy_of_silent() and not self._set.is_unconfirmed:
            self._hand_off_next()

    def _holds_copy_of_silent(self) -> bool:
        """True if this peer holds a backup copy of a peer that may be dead."""
        return self._set.copies.has_silent_owner(self._timers.suspect_after_us)

    def _hand_off_next(self) -> None:
        """If all peers leave at once, each hands off to those with smaller addresses; the last one
        has no receiver.
        """
        ownership, near = self._ownership, self._ownership.neighbours()
        extents = ownership.committed_extents()
        before_us = (each for each in near if in_order(each) < in_order(self.address))
        receivers = list(filter(self.can_receive, near)) or list(
            filter(self._can_be_offered, before_us)
        )
        if extents and receivers:
            extent = min(extents, key=lambda claim: (claim.bits, claim.low))
            best = min(receivers, key=lambda each: ownership.preference(extent, each))
            backups = [
                each
                for each in self._set.backups
                if each in receivers and ownership.preference(extent, best)[0]
            ]
            self._handoff.hand_off(extent, backups[0] if backups else best)

    def _depart(self) -> None:
        if not self._departing and not self._holds_copy_of_silent():
            self._departing = True
            backups, owners = self._set.backups, self._set.copies.held
            affected = {*backups, *owners, *self._ownership.neighbours()}
            self._set.set_backups((), 0)  # nothing is left to be replicated
            self._exchange.announce(affected)
            self.host.after(self._timers.departure_us, DepartureDue())

    @handles(DepartureDue)
    def on_departure_due(self, alarm: DepartureDue) -> None:
        ownership = self._ownership
        if (
            self._holds_copy_of_silent()
            or self._handoff.receiver.is_busy
            or (ownership.extents and ownership.others)
        ):
            self._departing = (
                False  # extents of a dead peer were taken over meanwhile: hand these off too
            )
        elif not self.left:
            self.left = True
            self.host.deliver(Left())
