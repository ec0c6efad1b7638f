"""The surface as a part of a peer, and the routing of plain payloads over it (ICE used alone)."""

from collections import OrderedDict

from implicast.overlay.ice.giving import Giving
from implicast.overlay.ice.ground import Tenant
from implicast.overlay.ice.messages import Route
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract

HANDLED_MAX = 1024
"""Routes remembered so that a payload is delivered once although several branches may pass by."""


class Ice(Giving):
    """One peer's share of the surface."""

    __slots__ = ("handled", "serial")

    def __init__(
        self, address: Address, host: Host, tenant: Tenant, dimensions: int, cosine: float, merge: bool = True
    ) -> None:
        super().__init__(address, host, tenant, dimensions, cosine, merge)
        self.handled: OrderedDict[tuple[Address, int], None] = OrderedDict()
        self.serial = 0

    def send_to(self, tract: Tract, payload: bytes) -> None:
        """Route a payload to every peer that owns a part of the tract."""
        self.serial += 1
        self.on_route(self.address, Route(self.address, self.serial, tract, payload))

    @handles(Route)
    def on_route(self, sender: Address, route: Route) -> None:
        self.route(
            route.tract,
            deliver=lambda part: self._deliver_once(route),
            branch=lambda part: Route(route.origin, route.serial, part, route.payload),
        )

    def _deliver_once(self, route: Route) -> None:
        key = (route.origin, route.serial)
        if key not in self.handled:
            self.handled[key] = None
            if len(self.handled) > HANDLED_MAX:
                self.handled.popitem(last=False)
            self.tenant.routed(route.payload)
