"""What a peer does with the destination of a message."""

from typing import NamedTuple

from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address
from implicast.space.tract import Tract, subtract

NextHop = tuple[Address, RouteHeader]
"""The next peer, and the header of the message to it."""
NO_HOPS: list[NextHop] = []


class RoutingDecision(NamedTuple):
    """What a peer does with a destination."""

    own: Tract
    """The part that this peer answers for."""
    hops: list[NextHop]
    waiting: Tract
    """The part that no peer answers for at present: extents in transit or of a dead owner."""

    def rest_of(self, tract: Tract) -> Tract:
        """The part that is neither answered for here nor forwarded. No route to it may be known, so
        it must not count as covered.
        """
        tract = subtract(tract, self.own) if self.own else tract
        for _, way in self.hops:
            tract = subtract(tract, way.tract)
        return tract
