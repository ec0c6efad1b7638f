"""State of a surface as typed values: what a peer can be restored from.

`SurfaceState` is the whole state of a peer at rest, for an assembled network. `DurableSurface`
(`durable.py`) is the part that survives a crash, with which the next incarnation joins.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.messages import Neighbour, OwnershipClaim
from implicast.overlay.ice.table import SurfaceTable
from implicast.peer.contract import Address


@dataclass(frozen=True, slots=True)
class NeighbourState:
    """What a peer knows of a neighbour that it has just heard."""

    peer: Address
    version: int
    backups: tuple[Address, ...]
    round_trip_us: int
    heartbeat_due_us: int


@dataclass(frozen=True, slots=True)
class CopyState:
    """A complete backup copy of an owner's items."""

    owner: Address
    claims: tuple[OwnershipClaim, ...]
    backups: tuple[Address, ...]
    around: tuple[Neighbour, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class SurfaceState:
    """State of a peer at rest."""

    extents: tuple[OwnershipClaim, ...]
    others: tuple[OwnershipClaim, ...]
    """Claims of the neighbours."""
    backups: tuple[Address, ...] = ()
    neighbours: tuple[NeighbourState, ...] = ()
    copies: tuple[CopyState, ...] = ()
    table: Callable[[], SurfaceTable] | None = None
    """Computes the first routing table; None: the peer makes it of the latencies that it knows."""


@dataclass(frozen=True, slots=True)
class FixedState:
    """State of a peer on a surface where nothing changes. The simulator holds it in columns: the
    claims around the peer and its routing table are computed from them at their first use.
    """

    born_us: int
    extents: list[OwnershipClaim]
    others: Callable[[], Iterable[OwnershipClaim]]
    table: Callable[[], SurfaceTable]
