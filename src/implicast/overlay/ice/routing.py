"""Routing of messages to tracts by Listings 6 and 7 of the thesis.

A part of a destination goes to a neighbour that is strictly nearer; a part that no peer answers for
at present is parked. This form sends each message once and its header carries nothing but the
tract. `assured_routing.py` adds acknowledged hops and detours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from implicast.overlay.ice.item_store import Number, RouteHeader, check_tract
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FindOwner,
    JoinRequest,
    LatencyProbe,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import Extents
from implicast.overlay.ice.routing_decision import NO_HOPS, NextHop, RoutingDecision
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.overlay.ice.table import SurfaceTable
from implicast.peer.contract import Address, Message, Part, handles
from implicast.space.tract import EMPTY, Tract, contains, intersect, subtract, unite

OVERLAY_KINDS = (JoinRequest, FindOwner, LatencyProbe)
"""Routed messages of the overlay itself; all others belong to the store."""
Routed = Any
"""A message with a field `way`."""
Routable = TypeVar("Routable")
Arrivals = Mapping[Any, Callable[..., None]]
"""By kind of routed message of the overlay: its handler, which takes the message and the first code
of the part that has arrived.
"""
NO_ARRIVALS: Arrivals = {}
NONE_PARKED: tuple[tuple[int, Routed], ...] = ()


class HopAck(Message):
    """Acknowledges one hop of a routed message by the number that the message had on this hop."""

    wire = 0x0905
    number: Number


class SurfaceRouting(Part):
    """Chooses next hops, and parks messages."""

    __slots__ = (
        "_arrivals",
        "_first_table",
        "_make_table",
        "_on_parked",
        "_ownership",
        "_settings",
        "_store",
        "_table",
        "parked",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Extents,
        make_table: Callable[[], SurfaceTable],
        arrivals: Arrivals,
        on_parked: Callable[[], None],
    ) -> None:
        """`on_parked` is called when a message is parked."""
        super().__init__(site.address, site.host)
        self._settings, self._store, self._ownership = site.settings, site.store, ownership
        self._make_table, self._arrivals, self._on_parked = make_table, arrivals, on_parked
        self.parked = NONE_PARKED
        """Parked messages, each with the time until which it waits."""
        self._table: SurfaceTable | None = None
        self._first_table: Callable[[], SurfaceTable] | None = None

    def restore(self, make_table: Callable[[], SurfaceTable]) -> None:
        """Use this routing table, computed at its first use, until the neighbours change."""
        self._first_table, self._table = make_table, None

    def expire_hops(self) -> int:
        """Forget old hop numbers; returns how many."""
        return 0

    @property
    def table(self) -> SurfaceTable:
        """Routing table of the neighbours, one row for each of their extents."""
        if self._table is None:
            self._table, self._first_table = (self._first_table or self._make_table)(), None
        return self._table

    def forget_table(self) -> None:
        """The ownership map or the suspects have changed: make a new table at its next use."""
        self._table = self._first_table = None

    # --- arrival

    @handles(*OVERLAY_KINDS)
    def on_overlay_message(self, sender: Address, message: Routed) -> None:
        self.on_routed(sender, message)

    def on_routed(self, sender: Address, message: Routed) -> None:
        """A routed message has arrived. A single code, the usual case, takes half the time."""
        ownership, tract = self._ownership, message.way.tract
        committed = ownership.committed
        if (
            len(committed) == 2 == len(tract)
            and tract[1] - tract[0] == 1
            and not ownership.unsettled
        ):
            if committed[0] <= tract[0] < committed[1]:
                self.deliver(sender, tract, message)
                return
            hop = (self._table or self.table).next_hop(tract[0])
            if hop is not None:
                self.host.send(hop, message)
                return
        self.route(sender, message)

    @handles(HopAck)
    def on_hop_ack(self, sender: Address, ack: HopAck) -> None:
        self.on_acked(sender, ack)

    def on_acked(self, sender: Address, ack: HopAck) -> bool:
        """A hop was acknowledged; true if it was waiting for that. Without assurance none does."""
        return False

    # --- forwarding

    def route(self, sender: Address, message: Routed) -> None:
        """Deliver this peer's part, or park it while it cannot be answered; forward the rest."""
        # At the edge of a hole a message waits for the owner; only a query for the owner passes
        # round the hole.
        wander = self._ownership.gap is None or type(message) in OVERLAY_KINDS
        own, hops, waiting = self.decide(message.way, wander)
        for hop, way in hops:
            self.send_on(hop, message, way)
        if waiting and type(message) is FindOwner:
            self._send_claims(
                message.requester,
                [
                    each
                    for each in self._ownership.claims_to_name()
                    if intersect((each.low, each.high), waiting)
                ],
            )
        elif waiting:
            self.park(message, waiting)
        if own:
            self.deliver(sender, own, message)

    def send_on(self, hop: Address, message: Routed, way: RouteHeader) -> None:
        """Send a message to the next hop."""
        self.host.send(hop, message if way is message.way else replace(message, way=way))

    def deliver(self, sender: Address, part: Tract, message: Routed) -> None:
        """Handle a message that has arrived: kinds of the overlay here, all others in the store."""
        on_arrival = self._arrivals.get(type(message))
        if on_arrival is None:
            self._store.on_arrival(sender, part, message)
        else:
            on_arrival(message, part[0])

    def answer_find_owner(self, query: FindOwner, claims: list[OwnershipClaim]) -> None:
        """A query for the owner of a code of this peer has arrived."""
        self._send_claims(query.requester, claims)

    def _send_claims(self, requester: Address, claims: list[OwnershipClaim]) -> None:
        if requester != self.address and claims:
            self.host.send(requester, ClaimUpdate(tuple(claims)))

    def decide(self, way: RouteHeader, wander: bool = True) -> RoutingDecision:
        """Divide a destination into the part to answer for, next hops, and the part that waits.
        `wander`: begin a detour where no neighbour is nearer; otherwise that part waits.
        """
        ownership, tract = self._ownership, way.tract
        if len(tract) == 2 and tract[1] - tract[0] == 1 and not ownership.unsettled:
            if contains(ownership.committed, tract[0]):
                return RoutingDecision(tract, NO_HOPS, EMPTY)
            to = (self._table or self.table).next_hop(tract[0])
            if to is None:
                return RoutingDecision(EMPTY, NO_HOPS, tract)
            return RoutingDecision(EMPTY, [(to, way)], EMPTY)
        own, rest, waiting = self._divide(tract)
        settings, hops = self._settings, list[NextHop]()
        for hop, part in self.table.branches(rest, settings.cosine, settings.merge) if rest else ():
            if hop is None:
                waiting = unite(waiting, part)
            else:
                hops.append((hop, RouteHeader(part)))
        return RoutingDecision(own, hops, waiting)

    def _divide(self, tract: Tract) -> tuple[Tract, Tract, Tract]:
        """The committed part, the part of other owners, and the part in transit."""
        check_tract(tract)
        ownership = self._ownership
        own = intersect(tract, ownership.committed)
        rest = subtract(tract, ownership.committed) if own else tract
        waiting = intersect(rest, ownership.unsettled) if rest and ownership.unsettled else EMPTY
        return own, subtract(rest, waiting) if waiting else rest, waiting

    def sort_by_hop(
        self, codes: Sequence[int], things: Sequence[Routable]
    ) -> tuple[list[Routable], dict[Address | None, list[Routable]]]:
        """Sort things by location: those of this peer, and the others by next hop (None: to be
        parked).
        """
        ours: list[Routable] = []
        others: dict[Address | None, list[Routable]] = {}
        committed, unsettled = self._ownership.committed, self._ownership.unsettled
        for code, hop, thing in zip(codes, self.table.next_hops(codes), things, strict=True):
            if contains(committed, code):
                ours.append(thing)
            else:
                to = None if unsettled and contains(unsettled, code) else hop
                others.setdefault(to, []).append(thing)
        return ours, others

    # --- parking

    def park(self, message: Routed, part: Tract) -> None:
        """Keep a message for a part that no peer answers for at present, for `gap_us` and up to
        `parked_max`.
        """
        timers = self._settings.timers
        if len(self.parked) < timers.parked_max:
            waiting = replace(message, way=replace(message.way, tract=part))
            self.parked = (*self.parked, (self.host.now_us + timers.gap_us, waiting))
            self._on_parked()

    def route_parked(self) -> None:
        """Route all parked messages again; the store does the same with its own."""
        self._store.retry_waiting()
        waiting, self.parked = self.parked, NONE_PARKED
        for until_us, message in waiting:
            if until_us > self.host.now_us:
                before = len(self.parked)
                self.route(self.address, message)
                added = self.parked[before:]
                again = tuple((min(until_us, due_us), one) for due_us, one in added)
                self.parked = self.parked[:before] + again
