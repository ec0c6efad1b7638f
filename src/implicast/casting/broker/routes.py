"""Casts on their way through a backbone whose tree changes: confirmed when every broker beyond has them.

A broker that is asked to carry a cast passes it to its neighbours and says `Carried` to whoever asked when those have
said so. A neighbour that asks vouches for its own side, so for it all others have to have answered. If a cast enters at
two places (a client's broker died and the client asked another) both meet and wait for the rest, never for each other.

With a new view everything begins again: nobody remembers what was under way, and the clients who cast ask once more,
as they do until they are told. So a broker that dies with a cast in its hands takes no part of the tree with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from implicast.casting.broker.messages import Carried, Onward, Pass, Publish
from implicast.overlay.backbone.living import LivingBackbone
from implicast.peer.contract import Address, CastId, Host, Part, handles
from implicast.peer.pending import Pending

REPEAT_US = 2_000_000
REPEATS_MAX = 20
"""Of one hop of a cast, every two seconds; then the neighbour is left to the next view."""
ROUTES_MAX = 4_096
"""Casts remembered in one view; the oldest goes first. One that comes again is carried again, and told nobody twice."""


@dataclass(slots=True)
class Route:
    """A cast in this view: who asked (in which view; None: a client), who was passed it, who has not answered."""

    asked: dict[Address, int | None] = field(default_factory=dict)
    passed: set[Address] = field(default_factory=set)
    waiting: set[Address] = field(default_factory=set)


class Routes(Part):
    """The casts that one broker carries in its present view."""

    __slots__ = ("_backbone", "_carried", "_open", "_routes")

    def __init__(
        self, address: Address, host: Host, backbone: LivingBackbone, carried: Callable[[Address, CastId], None]
    ) -> None:
        """`carried(client, cast)` is called when a client's cast has reached all brokers."""
        super().__init__(address, host)
        self._backbone, self._carried = backbone, carried
        self.begin_again()

    def begin_again(self) -> None:
        """There is a new tree."""
        self._routes: dict[CastId, Route] = {}
        self._open: Pending[tuple[Address, CastId], tuple[Pass, int]] = Pending(self.host, Onward(), REPEAT_US)

    def carry(self, asker: Address, epoch: int | None, hop: Publish | Pass) -> None:
        """Somebody asks for a cast to be carried: a broker in a view, or a client."""
        route = self._routes.get(hop.cast) or self._new_route(hop.cast)
        route.asked[asker] = epoch
        onward = Pass(hop.cast, self._backbone.epoch, hop.target, hop.payload)
        for neighbour in self._backbone.neighbours:
            vouched = neighbour == asker and epoch == self._backbone.epoch
            if not vouched and neighbour not in route.passed and self._backbone.leads(neighbour, hop.target):
                route.passed.add(neighbour)
                route.waiting.add(neighbour)
                self._open.ask((neighbour, hop.cast), (onward, REPEATS_MAX))
                self.host.send(neighbour, onward)
        self._settle(hop.cast, route)

    def _new_route(self, cast: CastId) -> Route:
        route = self._routes[cast] = Route()
        if len(self._routes) > ROUTES_MAX:
            del self._routes[next(iter(self._routes))]
        return route

    def _settle(self, cast: CastId, route: Route) -> None:
        """Answer everybody for whom all others have answered."""
        for asker, epoch in list(route.asked.items()):
            vouches = epoch == self._backbone.epoch
            if not route.waiting or (vouches and route.waiting == {asker}):
                del route.asked[asker]
                if epoch is None:
                    self._carried(asker, cast)
                else:
                    self.host.send(asker, Carried(cast, epoch))

    @handles(Carried)
    def on_carried(self, sender: Address, carried: Carried) -> None:
        route = self._routes.get(carried.cast)
        if route is not None and carried.epoch == self._backbone.epoch:
            self._open.answer((sender, carried.cast))
            route.waiting.discard(sender)
            self._settle(carried.cast, route)

    @handles(Onward)
    def on_onward(self, alarm: Onward) -> None:
        for (neighbour, cast), (onward, left) in self._open.due():
            if left:
                self._open.ask((neighbour, cast), (onward, left - 1))
                self.host.send(neighbour, onward)
