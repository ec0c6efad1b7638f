"""The form of a surface on which nothing changes and no hop is acknowledged: extents and routing
alone, so that an idle peer of an assembled surface costs little more than its routing table.

It is also the interface of both forms to the layer above.
"""

from collections.abc import Callable, Iterable, Mapping

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.heartbeats import Heartbeats
from implicast.overlay.ice.item_store import Item, ItemStore
from implicast.overlay.ice.joining import Joining
from implicast.overlay.ice.messages import CLAIMS_MAX, OwnershipClaim
from implicast.overlay.ice.ownership import Extents
from implicast.overlay.ice.relocation import Relocation
from implicast.overlay.ice.routing import NO_ARRIVALS, Routed, SurfaceRouting
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.overlay.ice.state import FixedState
from implicast.overlay.ice.surface_site import NumberSource, SurfaceSite
from implicast.overlay.ice.table import SurfaceTable, table_of
from implicast.overlay.ice.takeover import Takeover
from implicast.peer.contract import Address, Host, Part, StandingAlarm, handles
from implicast.peer.requests import OverlayRequests, UpkeepRequests
from implicast.space.morton import CODES
from implicast.space.tract import Tract, contains


class Tick(StandingAlarm):
    """Fires once per tick, or once per `CALM_TICKS` ticks when nothing is pending."""


SharedParts = tuple[Extents, SurfaceRouting, Callable[[Address], None]]
"""The parts of both forms: extents, routing, and what is done at a sign of life."""


def ignore(peer: Address) -> None:
    """Form of `heard_from` without assurance: no silence is noticed."""


class FixedSurface(Part, parts={"routing": SurfaceRouting}):
    """One peer's part of a surface without assurance on which no peer joins, leaves or fails."""

    __slots__ = ("_ticked_us", "born_us", "heard_from", "ownership", "routing", "settings", "store")
    backup_set: BackupSet | None = None
    handoff: Handoff | None = None
    heartbeat_requests: UpkeepRequests | None = None
    heartbeats: Heartbeats | None = None
    joining: Joining | None = None
    relocation: Relocation | None = None
    requests: OverlayRequests | None = None
    takeover: Takeover | None = None
    ownership: Extents
    routing: SurfaceRouting

    def __init__(
        self,
        address: Address,
        host: Host,
        store: ItemStore,
        settings: SurfaceSettings,
        durable: DurableSurface | None = None,
    ) -> None:
        super().__init__(address, host)
        self.store, self.settings = store, settings
        self.born_us = host.now_us if durable is None else max(host.now_us, durable.born_us + 1)
        """Start of this incarnation, later than that of any earlier one at this address."""
        self._ticked_us = -1
        """Time of the last tick; -1: none is scheduled."""
        site = SurfaceSite(address, host, settings, store, NumberSource(host.rng), self.born_us)
        self.ownership, self.routing, self.heard_from = self.for_settings(site, durable)
        """`heard_from`: any message from a peer is a sign of life."""

    def for_settings(self, site: SurfaceSite, durable: DurableSurface | None) -> SharedParts:
        ownership = Extents(site.address)
        routing = SurfaceRouting(site, ownership, self._make_table, NO_ARRIVALS, self.start)
        return ownership, routing, ignore

    def _make_table(self) -> SurfaceTable:
        """Routing table of a peer of which no state was restored."""
        return table_of(self.settings.dimensions, self.ownership.extents, [], [])

    def restore_fixed(self, state: FixedState) -> None:
        """Take a place on a surface that the simulator assembles."""
        self.born_us = state.born_us
        self.ownership.restore(state.extents, state.others)
        self.routing.restore(state.table)

    # --- called by the store

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask introducers for an extent; without introducers this peer owns the whole surface."""
        raise AssertionError(f"{self.address} cannot join a surface on which nothing changes")

    def leave(self) -> None:
        """Hand off every extent, stay reachable for a while, then leave."""
        raise AssertionError(f"{self.address} cannot leave a surface on which nothing changes")

    def durable_state(self) -> DurableSurface:
        """State to be written to disk, so that the next incarnation can rejoin quickly."""
        return self._durable(self.ownership.neighbours(), (), tuple(self.ownership.others))

    def _durable(
        self,
        contacts: Iterable[Address],
        reclaimed: tuple[OwnershipClaim, ...],
        around: tuple[OwnershipClaim, ...],
    ) -> DurableSurface:
        claims = (*self.ownership.extents, *reclaimed)
        return DurableSurface(
            self.born_us, tuple(contacts)[:CLAIMS_MAX], claims[:CLAIMS_MAX], around[:CLAIMS_MAX]
        )

    def send(self, message: Routed) -> None:
        """Route a message that this peer originates."""
        self.routing.route(self.address, message)

    def replicate(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Replicate items to all backups, then call `then`. False: too many batches are pending."""
        then()
        return True

    def suspect(self, peer: Address) -> bool:
        """A peer did not answer; true if it is suspect now."""
        return False

    def is_heard(self, peer: Address, within_us: int) -> bool:
        """True if a peer was heard within this time."""
        return False

    def has_silent(self, within_us: int) -> bool:
        """True if a peer fell silent within this time and has not been heard since."""
        return False

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
        return self.routing.table.centre

    @property
    def population(self) -> int:
        """Estimated number of peers, from the extents of this peer and its neighbours."""
        claims = [*self.ownership.extents, *self.ownership.others]
        codes = sum(each.high - each.low for each in claims)
        return len({each.owner for each in claims}) * CODES // codes if codes else 0

    @property
    def backups(self) -> tuple[Address, ...]:
        return ()

    @property
    def leaving(self) -> bool:
        return False

    @property
    def claims(self) -> Mapping[int, OwnershipClaim]:
        """Own and neighbouring claims, by first code."""
        return {each.low: each for each in (*self.extents, *self.ownership.others)}

    @property
    def unsettled(self) -> list[str]:
        """Why extents are not committed."""
        return []

    @property
    def is_whole(self) -> bool:
        """True if every extent around this peer has an owner, and none of them is suspect."""
        return True

    @property
    def is_unconfirmed(self) -> bool:
        """True if no backup has acknowledged this peer for `suspect_after_us`."""
        return False

    def answers(self, code: int) -> bool:
        """True if this peer owns the code, it is committed, and backups acknowledge this peer."""
        return contains(self.ownership.committed, code)

    def holdings(self) -> tuple[object, ...]:
        """Other peers' claims, to be encoded."""
        return (self.ownership.claims_of_others(),)

    # --- ticks

    def start(self) -> None:
        """Begin to tick."""
        if self._ticked_us < 0:
            self._ticked_us = self.host.now_us
            self.host.after(int(self.settings.timers.tick_us * self.host.rng.random()), Tick())

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        elapsed_us, self._ticked_us = self.host.now_us - self._ticked_us, self.host.now_us
        pause_us = self.do_tick(elapsed_us)
        if pause_us:
            self.host.after(pause_us, tick)
        else:
            self._ticked_us = -1

    def do_tick(self, elapsed_us: int) -> int:
        """Resume work that no message triggers; returns the time until the next tick, 0 for none.
        `elapsed_us`: time since the previous one.
        """
        if self.routing.parked:
            self.routing.route_parked()
        return self.settings.timers.tick_us if self.routing.parked else 0
