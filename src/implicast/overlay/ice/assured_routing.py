"""Routing with assurance: acknowledged hops, and detours round suspects.

A part of a destination goes to its owner if the owner is known, to the owner's first live backup if
the owner is suspect, and otherwise to a neighbour that is strictly nearer (Listings 6 and 7 of the
thesis). Where no neighbour is nearer a *detour* begins: the message records how near it had come
and which peers it has visited, and may move away until it is nearer than that. Outside a detour
each hop is nearer or rests on a better claim; inside one no peer is visited twice. So no message
loops. Dropping a message is safe, since its originator repeats it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.joining import Joining
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import JoinRequest
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.routing import Arrivals, HopAck, Routed, SurfaceRouting
from implicast.overlay.ice.routing_decision import NO_HOPS, NextHop, RoutingDecision
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.overlay.ice.table import SurfaceTable
from implicast.peer.contract import Address
from implicast.peer.memory import Recent
from implicast.peer.requests import AbstractRequests, PendingRequest
from implicast.space.tract import EMPTY, Tract, intersect, subtract, unite

REROUTED = 4
"""Hops that are added to a message when one hop fails and another one is tried."""


class AssuredRouting(SurfaceRouting):
    """Chooses next hops, acknowledges hops, and parks messages."""

    __slots__ = (
        "_backup_set",
        "_exchange",
        "_joining",
        "_map",
        "_members",
        "_numbers",
        "_requests",
        "_seen_before",
        "_timers",
        "seen",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: AbstractRequests,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        joining: Joining,
        make_table: Callable[[], SurfaceTable],
        arrivals: Arrivals,
        on_parked: Callable[[], None],
    ) -> None:
        super().__init__(site, ownership, make_table, arrivals, on_parked)
        self._timers, self._numbers, self._requests = site.settings.timers, site.numbers, requests
        self._map, self._members, self._backup_set = ownership, members, backup_set
        self._exchange, self._joining = exchange, joining
        self.seen: dict[Address, Recent[int, None]] = {}
        """Hop numbers that each peer sent lately, to recognise repeats, which arrive within
        seconds.
        """
        self._seen_before: dict[Address, Recent[int, None]] = {}
        """Hop numbers of the previous interval; older ones are dropped."""
        requests.topic("hop", self._timers.retry_policy(self._timers.tries_hop), self._on_hop_lost)

    # --- arrival

    def on_routed(self, sender: Address, message: Routed) -> None:
        way = message.way
        self.host.send(sender, HopAck(way.number))
        self._members.heard_from(sender)
        if not self._map.has_owned:
            # the sender takes this peer for its previous incarnation
            self._exchange.send_to([sender])
        if not self.is_repeat(sender, way.number):
            if type(message) is JoinRequest and sender == message.newcomer:
                self._joining.introduce(sender)
            self._exchange.check_version(sender, way.version)
            self.route(sender, message)

    def is_repeat(self, sender: Address, number: int) -> bool:
        seen, before = self.seen.get(sender), self._seen_before.get(sender)
        if seen is None:
            seen = self.seen[sender] = Recent(self._timers.seen_max)
        return (before is not None and number in before) or not seen.once(number, None)

    def expire_hops(self) -> int:
        """Start the next interval of hop numbers, and forget those before the last one."""
        forgotten = sum(map(len, self._seen_before.values()))
        self._seen_before, self.seen = self.seen, {}
        return forgotten

    # --- hops

    def send_on(self, hop: Address, message: Routed, way: RouteHeader) -> None:
        """Send a message until the next hop acknowledges it."""
        number = self._numbers.next()
        numbered = RouteHeader(way.tract, number, way.version, way.hops, way.stuck, way.visited)
        self._requests.ask("hop", (number, hop), hop, replace(message, way=numbered))

    def on_acked(self, sender: Address, ack: HopAck) -> bool:
        self._members.heard_from(sender)
        if self._requests.answered("hop", (ack.number, sender)) is not None:
            return True
        self._joining.on_hop_ack(sender)
        return False

    def _on_hop_lost(self, key: Any, question: PendingRequest) -> None:
        """A hop was given up: choose another."""
        self._members.suspect(question.to)
        message: Routed = question.message
        way = replace(message.way, hops=message.way.hops + REROUTED)
        self.route(self.address, replace(message, way=way))

    # --- decision

    def decide(self, way: RouteHeader, wander: bool = True) -> RoutingDecision:
        ownership, tract = self._map, way.tract
        if not (ownership.has_owned or ownership.extents):
            return RoutingDecision(EMPTY, NO_HOPS, tract)  # its senders are nearer than this peer
        if len(tract) == 2 and tract[1] - tract[0] == 1 and not (ownership.unsettled or way.stuck):
            found = self._decide_one_code(way, tract)
            if found is not None:
                return found
        own, rest, waiting = self._divide(tract)
        if own and self._backup_set.is_unconfirmed:
            own, waiting = EMPTY, unite(own, waiting)
        hops = list[NextHop]()
        if rest and (own or way.hops <= self._timers.hops_max):
            # A message that has reached a part of its destination counts its hops anew.
            way = replace(way, hops=0) if own else way
            waiting = unite(waiting, self._route_rest(way, rest, hops, wander))
        return RoutingDecision(own, hops, waiting)

    def _decide_one_code(self, way: RouteHeader, tract: Tract) -> RoutingDecision | None:
        """Fast path for one code without complications, at a quarter of the cost; None if it does
        not apply.
        """
        if bisect_right(self._map.committed, tract[0]) & 1:
            unconfirmed = self._backup_set.is_unconfirmed
            return None if unconfirmed else RoutingDecision(tract, NO_HOPS, EMPTY)
        table = self._table or self.table
        if way.hops > self._timers.hops_max or not self._has_no_suspects(table):
            return None
        hop = table.next_hop(tract[0])
        if hop is None:
            return None
        return RoutingDecision(EMPTY, [(hop, self._next_way(way, tract))], EMPTY)

    def _has_no_suspects(self, table: SurfaceTable) -> bool:
        """True if no neighbour is suspect."""
        return 0 < len(table.owners) == len(self._map.others)

    def _next_way(
        self,
        way: RouteHeader,
        tract: Tract,
        stuck: tuple[int, ...] = (),
        visited: tuple[Address, ...] = (),
    ) -> RouteHeader:
        return RouteHeader(tract, 0, self._map.version, way.hops + 1, stuck, visited)

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
            copies = self._backup_set.copies.held.values() if way.stuck else ()
            for claim in (*self._map.others, *(each for copy in copies for each in copy.claims)):
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
        members = self._members
        first = next(
            (each for each in (owner, *members.backups_of(owner)) if not members.is_suspect(each)),
            self.address,
        )
        asked = first != owner and (first in visited or len(visited) >= self._timers.visited_max)
        return (self.address, False) if asked else (first, first == owner)

    def _route_by_table(
        self, way: RouteHeader, rest: Tract, hops: list[NextHop], wander: bool
    ) -> Tract:
        """Next hops by Listings 6 and 7; begin or continue a detour where there are none. Returns
        the part that waits.
        """
        settings, table, waiting = self._settings, self.table, EMPTY
        if way.stuck and table.rank(rest) >= way.stuck:
            if not wander:
                return rest
            self._detour(way, rest, way.stuck, (*way.visited, self.address), hops)
            return EMPTY
        for hop, part in (
            table.branches(rest, settings.cosine, settings.merge) if table.owners else ()
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
        if len(visited) <= self._timers.visited_max:
            hop = self.table.nearest(part, visited)
            if hop is not None:
                hops.append((hop, self._next_way(way, part, stuck, visited)))
