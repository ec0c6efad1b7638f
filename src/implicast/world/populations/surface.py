"""A converged ICE surface for large experiments: the state that peers reach by joining one after
the other.

Newcomers draw a point and halve the region they find there, as `joining.py` and `handoff.py` do by
messages. Neighbour tables are computed for all peers together: the neighbour across a face that is
at least as large as a tile owns the box beside it, which is one search; the smaller neighbours are
the same pairs seen from the other side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from implicast.overlay.ice.fixed_surface import FixedSurface
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.state import CopyState, FixedState, NeighbourState, SurfaceState
from implicast.overlay.ice.surface import IceSurface
from implicast.overlay.ice.table import SurfaceTable, table_of
from implicast.peer.contract import Address
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS, side
from implicast.space.prefix import sibling
from implicast.world.populations.curve import Codes, codes, places

LatencyUs = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Tiling:
    """The owner of each aligned interval: arrays by peer, and the order along the curve."""

    dimensions: int
    low: Codes
    bits: Codes
    order: Codes
    """Peers in the order of the first code they own."""
    boxes: Codes

    @property
    def peers(self) -> int:
        return len(self.low)

    def owner(self, code: int) -> int:
        return int(self.owners(np.array([code], np.int64))[0])

    def owners(self, at: Codes) -> Codes:
        starts = self.low[self.order]
        return self.order[np.searchsorted(starts, at, side="right") - 1]


def tiling(points: Sequence[int], dimensions: int) -> Tiling:
    """The surface after peers joined at these points, in order. The first point has no effect."""
    owner_at, bits_at = {0: 0}, {0: 0}
    for newcomer, point in enumerate(points[1:], start=1):
        low = _region_at(point, bits_at)
        bits = bits_at[low] + 1
        assert bits <= BITS, "a region of a single place cannot be halved"
        upper = low + (1 << (BITS - bits))
        if point < upper:
            owner_at[low], owner_at[upper] = newcomer, owner_at[low]
        else:
            owner_at[upper] = newcomer
        bits_at[low] = bits_at[upper] = bits
    return _tiling(sorted(bits_at), owner_at, bits_at, dimensions)


def _region_at(point: int, bits_at: dict[int, int]) -> int:
    """The first code of the region that contains a point. The number of its bits is found by binary
    search: three seconds for a million peers, where a sorted list of codes takes minutes.

    Every prefix of the point that is no longer than its region's begins where some region begins.
    """
    short, long = 0, BITS
    while short < long:
        bits = (short + long + 1) >> 1
        low = point >> (BITS - bits) << (BITS - bits)
        found = bits_at.get(low)
        if found is None:
            long = bits - 1
        elif found < bits:
            return low
        else:
            short = bits
    return point >> (BITS - short) << (BITS - short)


def _tiling(
    starts: list[int], owner_at: dict[int, int], bits_at: dict[int, int], dimensions: int
) -> Tiling:
    order = np.array([owner_at[start] for start in starts], np.int64)
    low, bits = np.empty_like(order), np.empty_like(order)
    low[order] = starts
    bits[order] = [bits_at[start] for start in starts]
    return tiles_of(low, bits, dimensions)


def tiles_of(low: Codes, bits: Codes, dimensions: int) -> Tiling:
    """The tiling whose tile i is the prefix of `bits[i]` bits that begins at `low[i]`."""
    corner = places(low, dimensions)
    halvings = np.stack(
        [(bits - each + dimensions - 1) // dimensions for each in range(dimensions)], axis=1
    )
    edges = side(dimensions) >> np.maximum(halvings, 0)
    return Tiling(
        dimensions, low, bits, np.argsort(low), np.concatenate([corner, corner + edges], axis=1)
    )


def adjacency(tiles: Tiling) -> tuple[Codes, Codes]:
    """All pairs of neighbours, in both orders, sorted by the first and then by the second's
    position on the curve.
    """
    dimensions, count = tiles.dimensions, tiles.peers
    corner, edges = (
        tiles.boxes[:, :dimensions],
        tiles.boxes[:, dimensions:] - tiles.boxes[:, :dimensions],
    )
    every = np.arange(count)
    found = []
    for dimension in range(dimensions):
        for step in (edges[:, dimension], -edges[:, dimension]):
            beside = corner.copy()
            beside[:, dimension] = (beside[:, dimension] + step) & (side(dimensions) - 1)
            there = tiles.owners(codes(beside))
            larger = (tiles.bits[there] <= tiles.bits) & (there != every)
            found.append(every[larger] * count + there[larger])
            found.append(there[larger] * count + every[larger])
    pairs = np.unique(np.concatenate(found))
    one, other = pairs // count, pairs % count
    rank = np.empty(count, np.int64)
    rank[tiles.order] = every
    along = np.lexsort((rank[other], one))
    return one[along], other[along]


def settle(tiles: Tiling, surfaces: Sequence[FixedSurface], latency_us: LatencyUs) -> None:
    """Place surface i on tile i with the claims of its neighbours."""
    one, other = adjacency(tiles)
    claims = [
        OwnershipClaim(low, bits, 0, surface.address)
        for surface, low, bits in zip(
            surfaces, tiles.low.tolist(), tiles.bits.tolist(), strict=True
        )
    ]
    ends = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
    around = [other[start:stop].tolist() for start, stop in pairwise(ends)]
    if not surfaces or surfaces[0].settings.assured:
        _settle_alive(claims, around, surfaces, latency_us)
        return
    for peer, surface in enumerate(surfaces):
        others = [claims[each] for each in around[peer]]
        table = partial(
            first_table, tiles.dimensions, claims[peer], others, peer, around[peer], latency_us
        )
        if isinstance(surface, IceSurface):
            surface.restore(SurfaceState((claims[peer],), tuple(others), table=table))
        else:
            surface.restore_fixed(
                FixedState(surface.born_us, [claims[peer]], partial(list, others), table)
            )


def first_table(
    dimensions: int,
    claim: OwnershipClaim,
    others: list[OwnershipClaim],
    peer: int,
    near: list[int],
    latency_us: LatencyUs,
) -> SurfaceTable:
    """Routing table of a peer with the latencies to the peers that own the neighbouring claims."""
    latencies = [max(1.0, float(latency_us(peer, each))) for each in near]
    return table_of(dimensions, [claim], others, latencies)


def _settle_alive(
    claims: list[OwnershipClaim],
    around: list[list[int]],
    surfaces: Sequence[FixedSurface],
    latency_us: LatencyUs,
) -> None:
    """The same with assurance: peers also know their neighbours' backups, which hold copies. First
    heartbeats are spread over a period.
    """
    backups = [
        first_backups(
            claims[peer],
            [claims[each] for each in around[peer]],
            surface.settings.timers.backups,
        )
        for peer, surface in enumerate(surfaces)
    ]
    for peer, surface in enumerate(surfaces):
        assert isinstance(surface, IceSurface), "an assured surface has all parts"
        known = {
            each: _neighbour(
                surface,
                surfaces[each],
                backups[each],
                max(1, 2 * int(latency_us(peer, each))),
            )
            for each in around[peer]
        }
        others = tuple(claims[each] for each in around[peer])
        surface.restore(SurfaceState((claims[peer],), others, backups[peer], tuple(known.values())))
    copy_to_backups(surfaces)


def copy_to_backups(surfaces: Sequence[FixedSurface]) -> None:
    """Give all backups complete copies."""
    by_address = {surface.address: surface for surface in surfaces}
    for surface in surfaces:
        for backup in surface.backups:
            holder = by_address[backup]
            assert isinstance(surface, IceSurface), "a peer with backups has all parts"
            assert isinstance(holder, IceSurface), "a backup has all parts"
            holder.copies.restore([copy_of(surface)])


def copy_of(surface: IceSurface) -> CopyState:
    """A complete copy of a peer's items."""
    return CopyState(
        surface.address,
        tuple(surface.extents),
        surface.backups,
        surface.members.with_backups(surface.ownership.others),
        surface.store.pack(surface.tract),
    )


def first_backups(
    claim: OwnershipClaim, others: list[OwnershipClaim], count: int
) -> tuple[Address, ...]:
    """The owner of the sibling, then the smallest tracts, then the smallest ids, as running peers
    choose.
    """

    def preference(each: OwnershipClaim) -> tuple[bool, int, Address]:
        is_sibling = (
            each.bits == claim.bits
            and claim.bits > 0
            and each.low == sibling(claim.low, claim.bits)
        )
        return not is_sibling, -each.bits, each.owner

    return tuple(each.owner for each in sorted(others, key=preference)[:count])


def _neighbour(
    surface: FixedSurface, other: FixedSurface, backups: tuple[Address, ...], round_trip_us: int
) -> NeighbourState:
    pair = sorted((repr(surface.address), repr(other.address)))
    phase = digest_bits(16, "greeting", *pair) / 2**16
    offset = 0.1 * (pair[0] != repr(surface.address))
    heartbeat_us = surface.host.now_us + int(
        (phase + offset) * surface.settings.timers.heartbeat_us
    )
    assert isinstance(other, IceSurface), "an assured surface has all parts"
    return NeighbourState(
        other.address, other.ownership.version, backups, round_trip_us, heartbeat_us
    )


def uniform_points(peers: int, draw: Callable[[int], int]) -> list[int]:
    """Random points on the surface; `draw(n)` gives n random bits."""
    return [draw(BITS) for _ in range(peers)]
