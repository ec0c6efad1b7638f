"""ICE: one peer's part of a surface that all peers share out among themselves.

`IceSurface` makes the parts of the overlay and hands each what it needs, then coordinates them: at
each tick, when the extents have been announced, and when better claims took an extent away.
`surface_of` chooses this form or the one for a surface on which nothing changes
(`fixed_surface.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from implicast.overlay.ice.assured_routing import AssuredRouting
from implicast.overlay.ice.backup_copies import BackupCopies
from implicast.overlay.ice.backup_set import BackupSet, Unreplicated
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.claiming import Claiming
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.fixed_surface import FixedSurface, SharedParts, ignore
from implicast.overlay.ice.gaps import Gaps
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.handoff_receiver import HandoffReceiver
from implicast.overlay.ice.heartbeats import Heartbeats
from implicast.overlay.ice.item_store import Item, ItemStore
from implicast.overlay.ice.joining import Joining
from implicast.overlay.ice.members import Everyone, Members
from implicast.overlay.ice.messages import FindOwner, JoinRequest, LatencyProbe, OwnershipClaim
from implicast.overlay.ice.neighbour_watch import NeighbourWatch, Unwatched
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.reclaim import Reclaim
from implicast.overlay.ice.relocation import Relocation
from implicast.overlay.ice.routing import Arrivals, SurfaceRouting
from implicast.overlay.ice.settings import CALM_TICKS, SurfaceSettings
from implicast.overlay.ice.state import SurfaceState
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.overlay.ice.table import SurfaceTable, table_of
from implicast.overlay.ice.takeover import Takeover
from implicast.peer.contract import Address, Host
from implicast.peer.requests import OverlayRequests, UpkeepRequests
from implicast.space.tract import Tract, contains

FORGET_TICKS = 8
"""Ticks between two removals of expired state."""
LATE = 3
"""A tick that comes this many periods after the previous one shows that the process was suspended.
"""


class IceSurface(
    FixedSurface,
    parts={
        "requests": OverlayRequests,
        "heartbeat_requests": UpkeepRequests,
        "heartbeats": Heartbeats,
        "backup_set": BackupSet,
        "handoff": Handoff,
        "joining": Joining,
        "relocation": Relocation,
        "takeover": Takeover,
    },
):
    """One peer's part of a surface."""

    __slots__ = (
        "_forget_us",
        "_previous",
        "_reclaim",
        "_watch",
        "backup_set",
        "claiming",
        "copies",
        "exchange",
        "gaps",
        "handoff",
        "heartbeat_requests",
        "heartbeats",
        "joining",
        "members",
        "relocation",
        "requests",
        "takeover",
    )
    kinds: ClassVar[Mapping[str, Any]] = {
        "requests": OverlayRequests,
        "ownership": Ownership,
        "members": Members,
        "backup_copies": BackupCopies,
        "backup_set": BackupSet,
        "receiver": HandoffReceiver,
        "handoff": Handoff,
        "claiming": Claiming,
        "takeover": Takeover,
        "relocation": Relocation,
    }
    """Classes of the parts with assurance; tests replace some to leave out a rule."""
    ownership: Ownership
    members: Members
    backup_set: BackupSet
    claiming: Claiming
    copies: BackupCopies
    handoff: Handoff
    heartbeat_requests: UpkeepRequests
    heartbeats: Heartbeats
    joining: Joining
    relocation: Relocation
    requests: OverlayRequests
    takeover: Takeover

    def for_settings(self, site: SurfaceSite, durable: DurableSurface | None) -> SharedParts:
        settings, address, host = self.settings, self.address, self.host
        timers, kinds = settings.timers, self.kinds
        self._previous = durable
        self._forget_us = FORGET_TICKS * timers.tick_us
        """Time of the next removal of expired state."""
        if settings.assured:
            site.numbers.begin()
        members = kinds["members"] if settings.assured else Everyone
        self.members = members(site, self._forget_table, site.store.on_partition_healed)
        on_round_trip = self.members.on_round_trip
        self.requests = kinds["requests"](address, host, timers.requests_max, on_round_trip)
        self.heartbeat_requests = UpkeepRequests(address, host, timers.requests_max, on_round_trip)
        ownership: Ownership = kinds["ownership"](
            address, settings.dimensions, self.born_us + 1, self._forget_table
        )
        own, known = ownership, self.members
        asking = site, self.requests, own, known
        self.copies = kinds["backup_copies"](site, own, known)
        self.backup_set = (kinds["backup_set"] if settings.assured else Unreplicated)(
            *asking, self.copies, self._announce, self._on_confirmed
        )
        backups, beating = self.backup_set, (site, self.heartbeat_requests, own, known)
        exchange = self.exchange = ClaimExchange(
            *beating, backups, self._on_announced, self._on_learnt, self._on_claims_lost
        )
        receiver = kinds["receiver"](*asking, backups, exchange, self._on_refused)
        self.handoff = kinds["handoff"](*asking, backups, exchange, receiver, self._on_handed_off)
        self.claiming = kinds["claiming"](site, own, backups, exchange, self._acquaintances)
        self.takeover = kinds["takeover"](
            site, own, known, backups, exchange, self.handoff, self.claiming, self.send
        )
        previous = durable if settings.assured else None
        self._reclaim = Reclaim(site, own, exchange, self.claiming, previous)
        self.joining = Joining(
            site, own, known, exchange, self.handoff, self.claiming, self._reclaim, self.start
        )
        self.heartbeats = Heartbeats(
            *beating, backups, exchange, self._on_incarnation, self._reclaim.learn_claims
        )
        self.relocation = kinds["relocation"](site, own, known, backups, exchange, self.handoff)
        arrivals: Arrivals = {
            JoinRequest: self.joining.on_join_request,
            LatencyProbe: self.joining.on_latency_probe,
            FindOwner: self._on_find_owner,
        }
        table, start = self._make_table, self.start
        routing = (
            AssuredRouting(*asking, backups, exchange, self.joining, table, arrivals, start)
            if settings.assured
            else SurfaceRouting(site, own, table, arrivals, start)
        )
        self.gaps = Gaps(site, own, known, self.claiming, routing)
        self._watch = (
            NeighbourWatch(site, own, known, backups, exchange, self.takeover)
            if settings.monitored
            else Unwatched()
        )
        return own, routing, known.heard_from if settings.assured else ignore

    # --- state

    def restore(self, state: SurfaceState) -> None:
        """Take a place on a surface that the simulator assembles."""
        self.ownership.restore(list(state.extents), lambda: state.others)
        self.backup_set.set_backups(state.backups, self.host.now_us)
        self.joining.restore()
        if state.table is None:
            self.ownership.refresh()
        else:
            self.routing.restore(state.table)
        if self._watch.is_periodic:
            self.start()
        self.members.restore(state.neighbours, state.backups)
        self.copies.restore(state.copies)

    def state(self) -> SurfaceState:
        """State at rest, from which another object can be restored."""
        others = self.ownership.claims_of_others()
        extents, known = tuple(self.extents), self.members.state()
        return SurfaceState(extents, others, self.backups, known, self.copies.state())

    def durable_state(self) -> DurableSurface:
        contacts = dict.fromkeys((*self.ownership.neighbours(), *self.backups, *self.copies.held))
        around = tuple(self.ownership.others)
        if self._previous is not None and not self.ownership.extents:
            # A crash before this incarnation owns an extent must not forget the one before.
            contacts.update(dict.fromkeys(self._previous.contacts))
            around = self._previous.neighbour_claims
        return self._durable(contacts, self._reclaim.claims, around)

    def _make_table(self) -> SurfaceTable:
        """Routing table of the neighbours that are not suspect."""
        members = self.members
        others = [each for each in self.ownership.others if not members.is_suspect(each.owner)]
        latencies = [members.latency_us(each.owner) for each in others]
        return table_of(self.settings.dimensions, self.ownership.extents, others, latencies)

    def _forget_table(self) -> None:
        self.routing.forget_table()

    # --- called by the store

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.joining.join(introducers)

    def leave(self) -> None:
        self.relocation.leave()

    def replicate(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        return self.backup_set.replicate(items, then)

    def suspect(self, peer: Address) -> bool:
        return self.members.suspect(peer)

    def is_heard(self, peer: Address, within_us: int) -> bool:
        return self.members.is_heard(peer, within_us)

    def has_silent(self, within_us: int) -> bool:
        return self.members.has_silent(within_us)

    @property
    def backups(self) -> tuple[Address, ...]:
        return self.backup_set.backups

    @property
    def leaving(self) -> bool:
        return self.exchange.leaving

    @property
    def claims(self) -> Mapping[int, OwnershipClaim]:
        return self.ownership.claim_map.claims

    @property
    def unsettled(self) -> list[str]:
        return sorted({status.kind for status in self.ownership.status.values()})

    @property
    def is_whole(self) -> bool:
        is_suspect, ownership = self.members.is_suspect, self.ownership
        return ownership.gap is None and not any(map(is_suspect, ownership.neighbours()))

    @property
    def is_unconfirmed(self) -> bool:
        return self.backup_set.is_unconfirmed

    def answers(self, code: int) -> bool:
        return contains(self.ownership.committed, code) and not self.backup_set.is_unconfirmed

    def holdings(self) -> tuple[object, ...]:
        """Other peers' claims, the backup set and held backup copies, to be encoded."""
        return self.ownership.claims_of_others(), *self.backup_set.holdings()

    # --- ticks

    def start(self) -> None:
        if not self.relocation.left:
            super().start()

    def do_tick(self, elapsed_us: int) -> int:
        """Send heartbeats, check silent peers, and resume work that no message triggers."""
        timers, now_us = self.settings.timers, self.host.now_us
        if elapsed_us > LATE * timers.tick_us + timers.rto_us // 2:
            self.members.reset_silence()
        troubled = self._watch.check()
        self._settle_pending()
        calm = not (troubled or self._is_unsettled())
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * timers.tick_us
            self._expire()
        if self.relocation.left or (calm and not self._watch.is_periodic):
            return 0
        return timers.tick_us * CALM_TICKS if calm else timers.tick_us

    def _expire(self) -> None:
        """Remove expired state."""
        self.handoff.receiver.expire()
        self.exchange.expire_relinquished()
        self.routing.expire_hops()
        self.copies.expire()
        self.members.evict_strangers(
            {*self.ownership.neighbours(), *self.backups, *self.copies.held}
        )

    def _is_unsettled(self) -> bool:
        """True if something is pending that should not wait for a second tick."""
        ownership, handoff = self.ownership, self.handoff
        moving = handoff.is_busy or handoff.receiver.is_busy or ownership.status
        waiting = self.routing.parked or self.leaving or self.backup_set.is_lacking()
        return bool(moving or waiting or ownership.gap or len(ownership.extents) != 1)

    def _settle_pending(self) -> None:
        """Resume pending work: a gap, leaving, relocation, an unsent handoff, parked messages."""
        self.gaps.fill_gap()
        if self.leaving:
            self.relocation.leave_step()
        elif len(self.ownership.extents) > 1:
            self.relocation.relocate_surplus()
        self.handoff.abort_unsent()
        if self.routing.parked:
            self.routing.route_parked()

    # --- reports of the parts

    def _announce(self, before: Iterable[Address]) -> None:
        self.exchange.announce(before)

    def _on_announced(self) -> None:
        """The extents, their status or the backups have changed."""
        self.store.settled()
        self.routing.route_parked()
        self.start()
        self.joining.on_committed()

    def _on_learnt(self) -> None:
        """Claims of other peers have changed."""
        self.routing.route_parked()

    def _on_confirmed(self) -> None:
        """Backups acknowledge this peer again."""
        self.store.settled()
        self.routing.route_parked()

    def _on_claims_lost(
        self, tract: Tract, neighbours: list[Address], winners: list[OwnershipClaim]
    ) -> None:
        """Better claims took a tract. The store offers its items to the present owners."""
        self.handoff.abort_lost()
        self.handoff.receiver.on_claims_lost()
        self.store.on_tract_lost(tract)
        self.exchange.announce({*neighbours, *(each.owner for each in winners)})
        if not self.ownership.extents:
            self._rejoin()

    def _on_refused(self, tract: Tract, neighbours: list[Address]) -> None:
        """The sender of a handoff does not know it."""
        self._on_claims_lost(tract, neighbours, [])

    def _on_handed_off(self) -> None:
        if not self.ownership.extents and not self.leaving:
            self._rejoin()  # the other extents were lost while this one was being handed off
        self.relocation.leave_step()

    def _rejoin(self) -> None:
        """This peer has lost all its extents: join again by way of the peers it knows."""
        known = [*self.ownership.neighbours(), *self.backups, *self.members.lost]
        self.backup_set.clear()
        self.joining.rejoin(known)
        self.claiming.forget()

    def _on_incarnation(self, peer: Address, born_us: int) -> None:
        """A heartbeat states the incarnation of its sender. If an earlier one was known, it is
        dead.
        """
        if self.members.is_new_incarnation(peer, born_us):
            self.takeover.on_incarnation(peer, born_us)
            self.joining.on_new_incarnation(peer)

    def _acquaintances(self) -> list[Address]:
        return self.joining.acquaintances()

    def _on_find_owner(self, query: FindOwner, code: int) -> None:
        self.routing.answer_find_owner(query, self.ownership.committed_extents())


def surface_of(
    address: Address,
    host: Host,
    store: ItemStore,
    settings: SurfaceSettings,
    durable: DurableSurface | None = None,
) -> FixedSurface:
    """The form of a surface that these settings need."""
    kind = FixedSurface if settings.is_fixed else IceSurface
    return kind(address, host, store, settings, durable)
