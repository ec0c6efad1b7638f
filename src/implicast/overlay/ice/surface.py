"""ICE: one peer's part of a surface that all peers share out among themselves.

The class composes the parts of the overlay and coordinates them: at each tick, when this peer's
extents change (`announce`), when other peers' claims arrive (`learn_claims`), and when a better
claim takes an extent away (`on_claims_lost`). Without assurance a part is made at its first use, so
that an idle peer of an assembled surface costs little more than its routing table. Without
assurance, or if nothing can change, a peer ticks only while something is pending.
"""

from collections.abc import Callable, Iterable
from typing import Any

from implicast.overlay.ice.alarms import Tick
from implicast.overlay.ice.backup_copies import BackupCopies
from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.gaps import Gaps
from implicast.overlay.ice.handoff import HandoffSender
from implicast.overlay.ice.handoff_receiver import HandoffReceiver
from implicast.overlay.ice.heartbeats import Heartbeats
from implicast.overlay.ice.item_store import Item, ItemStore
from implicast.overlay.ice.joining import Joining
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import (
    CLAIMS_MAX,
    Neighbour,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.ownership_map import OwnershipMap, overlap, tract_of
from implicast.overlay.ice.reclaim import Reclaim
from implicast.overlay.ice.relocation import Relocation
from implicast.overlay.ice.routing import Routed, SurfaceRouting
from implicast.overlay.ice.settings import CALM_TICKS, SurfaceSettings
from implicast.overlay.ice.surface_part import SurfaceRequests
from implicast.overlay.ice.table import SurfaceTable
from implicast.overlay.ice.takeover import Takeover
from implicast.peer.contract import Address, Host, Part, handles, in_order
from implicast.peer.lazy_attributes import piecemeal
from implicast.peer.requests import AbstractRequests, UpkeepRequests
from implicast.space.morton import CODES
from implicast.space.tract import Tract, contains, subtract

PARTS: dict[str, type[Part]] = {
    "members": Members,
    "requests": SurfaceRequests,
    "heartbeat_requests": UpkeepRequests,
    "ownership": Ownership,
    "heartbeats": Heartbeats,
    "routing": SurfaceRouting,
    "backup_copies": BackupCopies,
    "backup_set": BackupSet,
    "handoff_sender": HandoffSender,
    "handoff_receiver": HandoffReceiver,
    "joining": Joining,
    "reclaim": Reclaim,
    "relocation": Relocation,
    "takeover": Takeover,
    "gaps": Gaps,
}
FORGET_TICKS = 8
"""Ticks between two removals of expired state."""
LATE = 3
"""A tick that comes this many periods after the previous one shows that the process was suspended.
"""


class IceSurface(Part, parts=PARTS):
    """One peer's part of the surface."""

    __slots__ = (
        "_forget_us",
        "_number",
        "_restore",
        "_ticked_us",
        "born_us",
        "previous_state",
        "store",
        "settings",
        *PARTS,
    )
    requests: SurfaceRequests
    heartbeat_requests: UpkeepRequests
    ownership: Ownership
    members: Members
    heartbeats: Heartbeats
    routing: SurfaceRouting
    backup_copies: BackupCopies
    backup_set: BackupSet
    handoff_sender: HandoffSender
    handoff_receiver: HandoffReceiver
    joining: Joining
    reclaim: Reclaim
    relocation: Relocation
    takeover: Takeover
    gaps: Gaps

    def __init__(
        self,
        address: Address,
        host: Host,
        store: ItemStore,
        settings: SurfaceSettings,
        durable: DurableSurface | None = None,
    ) -> None:
        super().__init__(address, host)
        self.store, self.settings, self.previous_state = store, settings, durable
        self.born_us = host.now_us if durable is None else max(host.now_us, durable.born_us + 1)
        """Start of this incarnation, later than that of any earlier one at this address."""
        self._ticked_us, self._forget_us = -1, FORGET_TICKS * settings.timers.tick_us
        """Time of the last tick (-1: none is scheduled), and of the next removal of expired state.
        """
        self._number = 0
        """Last number of a handoff, hop or batch; random at first, to tell incarnations apart."""
        self._restore: Callable[[IceSurface], None] | None = None
        if settings.assured:
            self._number = host.rng.getrandbits(40)
            for name in self.parts:
                self.make_part(name)
        else:
            self.__class__ = piecemeal(type(self), IceSurface.make_part)  # type: ignore[arg-type]

    def make_part(self, name: str) -> Any:
        """Make a part at its first use."""
        kind: Any = self.parts.get(name)
        if kind is None:
            raise AttributeError(name)
        if issubclass(kind, AbstractRequests):
            most = self.settings.timers.requests_max
            part = kind(self.address, self.host, most, self.members.on_round_trip)
        else:
            part = kind(self)
        setattr(self, name, part)
        if self._restore is not None and name in ("ownership", "routing"):
            restore, self._restore = self._restore, None
            restore(self)
        return part

    def restore_lazily(self, restore: "Callable[[IceSurface], None]") -> None:
        """Have the simulator restore this peer's place, from time 0, at its first use."""
        self._restore, self.born_us = restore, 0

    @property
    def is_unchanged(self) -> bool:
        """True if extents and claims are still those that were restored."""
        return self._restore is not None or (
            self.ownership.map_version == 0 and not self.ownership.status
        )

    def next_number(self) -> int:
        self._number = (self._number or self.host.rng.getrandbits(40)) + 1
        return self._number

    # --- called by the store

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask introducers for an extent; without introducers this peer owns the whole surface."""
        previous = self.previous_state if self.settings.assured else None
        self.joining.join(introducers, previous)

    def durable_state(self) -> DurableSurface:
        """State to be written to disk, so that the next incarnation can rejoin quickly."""
        contacts = dict.fromkeys(
            (*self.ownership.neighbours(), *self.backups, *self.backup_copies.held)
        )
        claims = (*self.ownership.extents, *self.reclaim.claims)
        around = tuple(self.ownership.others)
        if self.previous_state is not None and not self.ownership.extents:
            # A crash before this incarnation owns an extent must not forget the one before.
            contacts.update(dict.fromkeys(self.previous_state.contacts))
            around = self.previous_state.neighbour_claims
        return DurableSurface(
            self.born_us, tuple(contacts)[:CLAIMS_MAX], claims[:CLAIMS_MAX], around[:CLAIMS_MAX]
        )

    def leave(self) -> None:
        """Hand off every extent, stay reachable for a while, then leave."""
        self.relocation.leave()

    def send(self, message: Routed) -> None:
        """Route a message that this peer originates."""
        self.routing.route(self.address, message)

    def replicate(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Replicate items to all backups, then call `then`. False: too many batches are pending."""
        if self.settings.assured:
            return self.backup_set.replicate(items, then)
        then()
        return True

    def heard_from(self, peer: Address) -> None:
        """Any message from a peer is a sign of life."""
        if self.settings.assured:
            self.members.heard_from(peer)

    # --- what this peer owns

    @property
    def extents(self) -> list[OwnershipClaim]:
        return self.ownership.extents

    @property
    def tract(self) -> Tract:
        """All extents, committed or not."""
        return self.ownership.tract

    @property
    def committed(self) -> Tract:
        """All committed extents: the tract that this peer may answer for."""
        return self.ownership.committed

    @property
    def centre(self) -> tuple[int, ...]:
        """Centre of the largest extent, in half units."""
        return tuple(self.routing.table.centre.tolist())

    @property
    def population(self) -> int:
        """Estimated number of peers, from the extents of this peer and its neighbours."""
        claims = [*self.ownership.extents, *self.ownership.others]
        codes = sum(each.high - each.low for each in claims)
        return len({each.owner for each in claims}) * CODES // codes if codes else 0

    @property
    def backups(self) -> tuple[Address, ...]:
        return self.backup_set.backups

    @property
    def leaving(self) -> bool:
        return self.relocation.leaving

    @property
    def is_unconfirmed(self) -> bool:
        """True if no backup has acknowledged this peer for `suspect_after_us`."""
        return self.settings.monitored and self.backup_set.is_unconfirmed

    def answers(self, code: int) -> bool:
        """True if this peer owns the code, it is committed, and backups acknowledge this peer."""
        return contains(self.ownership.committed, code) and not self.is_unconfirmed

    def holdings(self) -> tuple[object, ...]:
        """Other peers' claims, the backup set and held backup copies, to be encoded."""
        claims = self.ownership.claim_map.claims.values()
        others = tuple(each for each in claims if each.owner != self.address)
        if not self.settings.assured:
            return (others,)
        return others, self.backups, self.backup_copies.holdings()

    # --- coordination of the parts

    def start(self) -> None:
        """Begin to tick."""
        if self._ticked_us < 0 and not self.relocation.left:
            self._ticked_us = self.host.now_us
            self.host.after(int(self.settings.timers.tick_us * self.host.rng.random()), Tick())

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        """Send heartbeats, check silent peers, and resume work that no message triggers."""
        timers, now_us, monitored = self.settings.timers, self.host.now_us, self.settings.monitored
        if now_us - self._ticked_us > LATE * timers.tick_us + timers.rto_us // 2:
            self.members.reset_silence()
        self._ticked_us = now_us
        troubled = monitored and self.members.check_neighbours()
        if monitored:
            self.backup_set.choose_backups()
            self.takeover.check_silent(troubled)
            self.members.probe_lost()
        self._settle_pending()
        calm = not (troubled or self._is_unsettled())
        if now_us > self._forget_us:
            self._forget_us = now_us + FORGET_TICKS * timers.tick_us
            self.handoff_receiver.expire()
            self.heartbeats.expire_relinquished()
            self.routing.expire_hops()
            self.backup_copies.expire()
            self.members.evict_strangers()
        if self.relocation.left or (calm and not monitored):
            self._ticked_us = -1
        else:
            self.host.after(timers.tick_us * CALM_TICKS if calm else timers.tick_us, tick)

    def _is_unsettled(self) -> bool:
        """True if something is pending that should not wait for a second tick."""
        settings, ownership = self.settings, self.ownership
        moving = self.handoff_sender.handoff or self.handoff_receiver.handoff or ownership.status
        lacking = settings.assured and len(self.backup_set.backups) < settings.timers.backups
        waiting = self.routing.parked or self.relocation.leaving
        return bool(moving or waiting or lacking or ownership.gap or len(ownership.extents) != 1)

    def _settle_pending(self) -> None:
        """Resume pending work: a gap, leaving, relocation, an unsent handoff, parked messages."""
        self.gaps.fill_gap()
        if self.relocation.leaving:
            self.relocation.leave_step()
        elif len(self.ownership.extents) > 1:
            self.relocation.relocate_surplus()
        self.handoff_sender.abort_unsent()
        if self.routing.parked:
            self.routing.route_parked()

    def announce(self, before: Iterable[Address] = ()) -> None:
        """Extents, their status or backups have changed: inform neighbours and the store."""
        self.heartbeats.next_version()
        self.ownership.refresh()
        self.heartbeats.send_to(
            sorted(
                {*before, *self.ownership.neighbours(), *self.backup_set.receivers}, key=in_order
            )
        )
        self.store.settled()
        self.routing.route_parked()
        self.start()

    def commit(self, kind: str, number: int, before: set[Address]) -> None:
        """Commit the extents held under this status and number, if any are left."""
        before = before.union(self.ownership.neighbours())
        if self.ownership.commit(kind, number):
            self.announce(before)
            self.joining.on_committed()

    def learn_claims(self, claims: Iterable[OwnershipClaim], sender: Address | None = None) -> None:
        """Learn claims; give up extents that lose to them. Verify claims about third peers."""
        ownership = self.ownership
        before, neighbours = list(ownership.extents), ownership.neighbours()
        if not (learnt := ownership.learn(claims)):
            return
        hearsay = {each.owner for each in learnt if each.owner != sender}
        for each in ownership.neighbours():
            # Otherwise a claim that its owner has relinquished could circulate among other peers
            # for ever. An owner whose version is unknown is asked at its first ack in any case.
            if each in hearsay and self.members.state_of(each).version >= 0:
                self.heartbeats.request_full_state(each)
        lost = subtract(tract_of(before), ownership.tract)
        if lost:
            winners = [each for each in learnt if any(overlap(each, extent) for extent in before)]
            # A claim heard from a third peer is not passed on, for the same reason.
            self.heartbeats.note_lost_to([each for each in winners if each.owner == sender])
            self.on_claims_lost(lost, neighbours, winners)
        else:
            self.heartbeats.send_to(
                [each for each in ownership.neighbours() if each not in neighbours]
            )
            self.routing.route_parked()

    def learn_around(self, around: tuple[Neighbour, ...]) -> None:
        """Learn another owner's neighbours, as far as they are neighbours of this peer now."""
        self.learn_claims(claim for claim, _ in around)
        for claim, backups in around:
            state = self.members.states.get(claim.owner)
            if state is not None and not state.backups:
                state.set_backups(backups)

    def on_claims_lost(
        self, tract: Tract, neighbours: list[Address], winners: list[OwnershipClaim]
    ) -> None:
        """Better claims took a tract. The store offers its items to the present owners."""
        handoff = self.handoff_sender.handoff
        if handoff is not None and handoff.extent not in self.ownership.extents:
            self.handoff_sender.abort_handoff()
        self.handoff_receiver.on_claims_lost()
        self.store.on_tract_lost(tract)
        self.announce({*neighbours, *(each.owner for each in winners)})
        if not self.ownership.extents:
            self.rejoin()

    def rejoin(self) -> None:
        """This peer has lost all its extents: join again by way of the peers it knows."""
        known = [*self.ownership.neighbours(), *self.backups, *self.members.lost]
        self.backup_set.clear()
        self.joining.rejoin(known)
        self.takeover.pending.clear()

    def restore(
        self, claim: OwnershipClaim, others: list[OwnershipClaim], backups: tuple[Address, ...]
    ) -> None:
        """Take a place on a surface that the simulator assembles."""
        self.ownership.restore(OwnershipMap([claim, *others]))
        self.backup_set.set_backups(backups, self.host.now_us)
        self.joining.restore()
        self.ownership.refresh()
        if self.settings.monitored:
            self.start()

    def restore_static(
        self, claim: OwnershipClaim, others: Callable[[], list[OwnershipClaim]], table: SurfaceTable
    ) -> None:
        """Take a place on an assembled surface without assurance, with a given routing table."""
        self.ownership.restore_lazily(claim, lambda: [claim, *others()])
        self.routing.set_table(table)
