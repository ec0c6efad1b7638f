"""Routing of messages to tracts: acknowledged hops, detours round suspects, and parking.

A part of a destination goes to its owner if the owner is known, to the owner's first live backup if
the owner is suspect, and otherwise to a neighbour that is strictly nearer (Listings 6 and 7 of the
thesis). Where no neighbour is nearer a *detour* begins: the message records how near it had come
and which peers it has visited, and may move away until it is nearer than that. Outside a detour
each hop is nearer or rests on a better claim; inside one no peer is visited twice. So no message
loops. Dropping a message is safe, since its originator repeats it.

Without assurance only the two listings apply: a message is sent once and its header carries nothing
but the tract.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from implicast.overlay.ice.item_store import RouteHeader, check_tract
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FindOwner,
    HopAck,
    JoinRequest,
    LatencyProbe,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import TAKEN_OVER
from implicast.overlay.ice.routing_decision import NO_HOPS, NextHop, RoutingDecision
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.overlay.ice.table import SurfaceTable, rows_of
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest
from implicast.space.prefix import box_of
from implicast.space.tract import EMPTY, Tract, contains, intersect, subtract, unite

REROUTED = 4
"""Hops that are added to a message when one hop fails and another one is tried."""
OVERLAY_KINDS = (JoinRequest, FindOwner, LatencyProbe)
"""Routed messages of the overlay itself; all others belong to the store."""
Routed = Any
"""A message with a field `way`."""
Routable = TypeVar("Routable")


class SurfaceRouting(SurfacePart):
    """Chooses next hops, acknowledges hops, and parks messages."""

    __slots__ = ("_seen_before", "_table", "parked", "seen")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.parked: list[tuple[int, Routed]] = []
        self.seen: dict[Address, Recent[int, None]] = {}
        """Hop numbers that each peer sent lately, to recognise repeats, which arrive within
        seconds.
        """
        self._seen_before: dict[Address, Recent[int, None]] = {}
        """Hop numbers of the previous interval; older ones are dropped."""
        self._table: SurfaceTable | None = None
        if surface.settings.assured:
            surface.requests.topic(
                "hop", self.timers.retry_policy(self.timers.tries_hop), self._on_hop_lost
            )

    # --- routing table

    @property
    def table(self) -> SurfaceTable:
        """Routing table of the neighbours that are not suspect, one row each."""
        if self._table is None:
            ownership, members, dimensions = (
                self.surface.ownership,
                self.surface.members,
                self.surface.settings.dimensions,
            )
            others = [each for each in ownership.others if not members.is_suspect(each.owner)]
            owners = [each.owner for each in others]
            latencies = np.array([members.latency_us(each) for each in owners], np.float64)
            own, rows = (
                rows_of((box_of(each.low, each.bits, dimensions) for each in claims), dimensions)
                for claims in (ownership.extents, others)
            )
            self._table = SurfaceTable(dimensions, owners, (own, rows, latencies))
        return self._table

    def set_table(self, table: SurfaceTable | None = None) -> None:
        """The ownership map or the suspects have changed: use this table, or rebuild one at its
        next use.
        """
        self._table = table

    # --- arrival

    @handles(*OVERLAY_KINDS)
    def on_routed(self, sender: Address, message: Routed) -> None:
        """A routed message has arrived."""
        surface, way = self.surface, message.way
        if not surface.settings.assured:
            self._forward_unassured(sender, message, way.tract)
            return
        self.host.send(sender, HopAck(way.number))
        surface.members.heard_from(sender)
        if not surface.joining.joined:
            # the sender takes this peer for its previous incarnation
            surface.heartbeats.send_to([sender])
        if not self.is_repeat(sender, way.number):
            if type(message) is JoinRequest and sender == message.newcomer:
                surface.joining.introduce(sender)
            surface.heartbeats.check_version(sender, way.version)
            self.route(sender, message)

    def _forward_unassured(self, sender: Address, message: Routed, tract: Tract) -> None:
        """`route` without assurance. A single code, the usual case, takes half the time."""
        ownership = self.surface.ownership
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

    def is_repeat(self, sender: Address, number: int) -> bool:
        seen, before = self.seen.get(sender), self._seen_before.get(sender)
        if seen is None:
            seen = self.seen[sender] = Recent(self.timers.seen_max)
        return (before is not None and number in before) or not seen.once(number, None)

    def expire_hops(self) -> None:
        """Start the next interval."""
        self._seen_before, self.seen = self.seen, {}

    # --- forwarding

    def route(self, sender: Address, message: Routed) -> None:
        """Deliver this peer's part, or park it while it cannot be answered; forward the rest."""
        surface = self.surface
        # At the edge of a hole a message waits for the owner; only a query for the owner passes
        # round the hole.
        wander = surface.ownership.gap is None or type(message) in OVERLAY_KINDS
        own, hops, waiting = self.decide(message.way, wander)
        for hop, way in hops:
            if surface.settings.assured:
                number = surface.next_number()
                numbered = RouteHeader(
                    way.tract, number, way.version, way.hops, way.stuck, way.visited
                )
                surface.requests.ask("hop", (number, hop), hop, replace(message, way=numbered))
            else:
                self.host.send(hop, message if way is message.way else replace(message, way=way))
        if waiting and type(message) is FindOwner:
            # An extent that is taken over and not committed yet has an owner to be told of, too.
            claims = [*surface.ownership.others, *surface.ownership.of_status(TAKEN_OVER)]
            self._send_claims(
                message.requester,
                [each for each in claims if intersect((each.low, each.high), waiting)],
            )
        elif waiting:
            self.park(message, waiting)
        if own:
            self.deliver(sender, own, message)

    def deliver(self, sender: Address, part: Tract, message: Routed) -> None:
        """Handle a message that has arrived: kinds of the overlay here, all others in the store."""
        if type(message) is JoinRequest:
            self.surface.joining.on_join_request(message, part[0])
        elif type(message) is FindOwner:
            self._send_claims(message.requester, self.surface.ownership.committed_extents())
        elif type(message) is LatencyProbe:
            self.surface.joining.on_latency_probe(message, part[0])
        else:
            self.surface.store.on_arrival(sender, part, message)

    def _send_claims(self, requester: Address, claims: list[OwnershipClaim]) -> None:
        if requester != self.address and claims:
            self.host.send(requester, ClaimUpdate(tuple(claims)))

    def decide(self, way: RouteHeader, wander: bool = True) -> RoutingDecision:
        """Divide a destination into the part to answer for, next hops, and the part that waits.
        `wander`: begin a detour where no neighbour is nearer; otherwise that part waits.
        """
        surface, ownership, tract = self.surface, self.surface.ownership, way.tract
        if surface.settings.assured and not (surface.joining.joined or ownership.extents):
            return RoutingDecision(EMPTY, NO_HOPS, tract)  # its senders are nearer than this peer
        if len(tract) == 2 and tract[1] - tract[0] == 1 and not (ownership.unsettled or way.stuck):
            found = self._decide_one_code(surface, way, tract)
            if found is not None:
                return found
        if not surface.settings.assured:
            return self._decide_unassured(tract)
        own, rest, waiting = self._divide(tract)
        if own and surface.is_unconfirmed:
            own, waiting = EMPTY, unite(own, waiting)
        hops = list[NextHop]()
        if rest and (own or way.hops <= self.timers.hops_max):
            # A message that has reached a part of its destination counts its hops anew.
            way = replace(way, hops=0) if own else way
            waiting = unite(waiting, self._route_rest(way, rest, hops, wander))
        return RoutingDecision(own, hops, waiting)

    def _divide(self, tract: Tract) -> tuple[Tract, Tract, Tract]:
        """The committed part, the part of other owners, and the part in transit."""
        check_tract(tract)
        ownership = self.surface.ownership
        own = intersect(tract, ownership.committed)
        rest = subtract(tract, ownership.committed) if own else tract
        waiting = intersect(rest, ownership.unsettled) if rest and ownership.unsettled else EMPTY
        return own, subtract(rest, waiting) if waiting else rest, waiting

    def _decide_unassured(self, tract: Tract) -> RoutingDecision:
        """Listings 6 and 7 alone."""
        own, rest, waiting = self._divide(tract)
        settings, hops = self.surface.settings, list[NextHop]()
        for hop, part in self.table.branches(rest, settings.cosine, settings.merge) if rest else ():
            if hop is None:
                waiting = unite(waiting, part)
            else:
                hops.append((hop, RouteHeader(part)))
        return RoutingDecision(own, hops, waiting)

    def _decide_one_code(
        self, surface: IceSurface, way: RouteHeader, tract: Tract
    ) -> RoutingDecision | None:
        """Fast path for one code without complications, at a quarter of the cost; None if it does
        not apply.
        """
        code, assured = tract[0], surface.settings.assured
        if bisect_right(surface.ownership.committed, code) & 1:
            return (
                None
                if assured and surface.backup_set.is_unconfirmed
                else RoutingDecision(tract, NO_HOPS, EMPTY)
            )
        table = self._table or self.table
        if assured and (way.hops > self.timers.hops_max or not self._has_no_suspects(table)):
            return None
        hop = table.next_hop(code)
        if hop is None:
            return None if assured else RoutingDecision(EMPTY, NO_HOPS, tract)
        return RoutingDecision(
            EMPTY, [(hop, self._next_way(way, tract) if assured else way)], EMPTY
        )

    def _has_no_suspects(self, table: SurfaceTable) -> bool:
        """True if no neighbour is suspect."""
        return 0 < len(table.owners) == len(self.surface.ownership.others)

    def _next_way(
        self,
        way: RouteHeader,
        tract: Tract,
        stuck: tuple[int, ...] = (),
        visited: tuple[Address, ...] = (),
    ) -> RouteHeader:
        return RouteHeader(tract, 0, self.surface.heartbeats.version, way.hops + 1, stuck, visited)

    def sort_by_hop(
        self, codes: Sequence[int], things: Sequence[Routable]
    ) -> tuple[list[Routable], dict[Address | None, list[Routable]]]:
        """Sort things by location: those of this peer, and the others by next hop (None: to be
        parked).
        """
        ours: list[Routable] = []
        others: dict[Address | None, list[Routable]] = {}
        committed, unsettled = self.surface.ownership.committed, self.surface.ownership.unsettled
        for code, hop, thing in zip(codes, self.table.next_hops(codes), things, strict=True):
            if contains(committed, code):
                ours.append(thing)
            else:
                to = None if unsettled and contains(unsettled, code) else hop
                others.setdefault(to, []).append(thing)
        return ours, others

    # --- detours

    def _route_rest(
        self, way: RouteHeader, rest: Tract, hops: list[NextHop], wander: bool
    ) -> Tract:
        """Choose next hops for the rest; returns the part that waits. While no neighbour is suspect
        Listings 6 and 7 decide. Otherwise known owners, and backups in place of suspects, get their
        own parts. A backup may be far away and know no claim there; so that it does not send the
        message back, the route to it is a detour, and on a detour a peer consults the claims of its
        backup copies too.
        """
        parts: dict[tuple[Address, bool], Tract] = {}
        if way.stuck or not self._has_no_suspects(self.table):
            copies = self.surface.backup_copies.held.values() if way.stuck else ()
            for claim in (
                *self.surface.ownership.others,
                *(each for copy in copies for each in copy.claims),
            ):
                if part := intersect(rest, (claim.low, claim.high)):
                    whom = self._owner_or_backup(claim.owner, way.visited)
                    parts[whom] = unite(parts.get(whom, EMPTY), part)
                    rest = subtract(rest, part)
        waiting = parts.pop((self.address, False), EMPTY)
        for (hop, owns), part in parts.items():
            detour = (
                () if owns else (way.stuck or self.table.rank(part), (*way.visited, self.address))
            )
            hops.append((hop, self._next_way(way, part, *detour)))
        if rest:
            waiting = unite(waiting, self._route_by_table(way, rest, hops, wander))
        return waiting

    def _owner_or_backup(self, owner: Address, visited: Sequence[Address]) -> tuple[Address, bool]:
        """The owner (True), or its first live backup while the owner is suspect; this peer if it is
        that backup, or if the backup was visited already.
        """
        members = self.surface.members
        first = next(
            (each for each in (owner, *members.backups_of(owner)) if not members.is_suspect(each)),
            self.address,
        )
        asked = first != owner and (first in visited or len(visited) >= self.timers.visited_max)
        return (self.address, False) if asked else (first, first == owner)

    def _route_by_table(
        self, way: RouteHeader, rest: Tract, hops: list[NextHop], wander: bool
    ) -> Tract:
        """Next hops by Listings 6 and 7; begin or continue a detour where there are none. Returns
        the part that waits.
        """
        settings, table, waiting = self.surface.settings, self.table, EMPTY
        if way.stuck and table.rank(rest) >= way.stuck:
            if not wander:
                return rest
            self._detour(way, rest, way.stuck, (*way.visited, self.address), hops)
            return EMPTY
        for hop, part in (
            table.branches(rest, settings.cosine, settings.merge) if len(table.rows) else ()
        ):
            if hop is not None:
                hops.append((hop, self._next_way(way, part)))
            elif wander:
                self._detour(way, part, table.rank(part), (self.address,), hops)
            else:
                waiting = unite(waiting, part)
        return waiting

    def _detour(
        self,
        way: RouteHeader,
        part: Tract,
        stuck: tuple[int, ...],
        visited: tuple[Address, ...],
        hops: list[NextHop],
    ) -> None:
        hop = self.table.nearest(part, visited) if len(visited) <= self.timers.visited_max else None
        if hop is not None:
            hops.append((hop, self._next_way(way, part, stuck, visited)))

    # --- hops

    @handles(HopAck)
    def on_hop_ack(self, sender: Address, ack: HopAck) -> None:
        self.surface.members.heard_from(sender)
        if self.surface.requests.answered("hop", (ack.number, sender)) is None:
            self.surface.joining.on_hop_ack(sender)

    def _on_hop_lost(self, key: Any, question: PendingRequest) -> None:
        """A hop was given up: choose another."""
        self.surface.members.suspect(question.to)
        message: Routed = question.message
        self.route(
            self.address,
            replace(message, way=replace(message.way, hops=message.way.hops + REROUTED)),
        )

    # --- parking

    def park(self, message: Routed, part: Tract) -> None:
        """Keep a message for a part that no peer answers for at present, for `gap_us` and up to
        `parked_max`.
        """
        if len(self.parked) < self.timers.parked_max:
            waiting = replace(message, way=replace(message.way, tract=part))
            self.parked.append((self.host.now_us + self.timers.gap_us, waiting))
            self.surface.start()

    def route_parked(self) -> None:
        """Route all parked messages again; the store does the same with its own."""
        self.surface.store.retry_waiting()
        waiting, self.parked = self.parked, []
        for until_us, message in waiting:
            if until_us > self.host.now_us:
                before = len(self.parked)
                self.route(self.address, message)
                self.parked[before:] = [
                    (min(until_us, due_us), again) for due_us, again in self.parked[before:]
                ]
