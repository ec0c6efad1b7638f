"""Durable state of the surface."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.ice.messages import CLAIMS_MAX, OwnershipClaim
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Micros


class DurableSurface(Message):
    """Durable state: what a peer stores so that its next incarnation can rejoin quickly."""

    born_us: Micros
    contacts: Annotated[tuple[Address, ...], Meta(max_length=CLAIMS_MAX)]
    """Neighbours, backups and owners of held backup copies. The next incarnation sends them
    heartbeats first, so that they learn at once that the previous one is dead.
    """
    claims: Annotated[tuple[OwnershipClaim, ...], Meta(max_length=CLAIMS_MAX)] = ()
    """The own extents. The next incarnation reclaims them if no other peer claims them."""
    neighbour_claims: Annotated[tuple[OwnershipClaim, ...], Meta(max_length=CLAIMS_MAX)] = ()
