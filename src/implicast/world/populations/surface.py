"""A converged surface at once, for large experiments: what peers joining one after the other would arrive at.

Newcomers draw a place and halve the region they find there, exactly as `entry.py` and `gives.py` do by messages.
Neighbour tables are found for all peers together: the neighbour across a face that is at least as large as we are owns
the box beside ours, which is one search; the smaller ones are the same pairs seen from the other side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.surface import Surface
from implicast.overlay.ice.table import Rows, SurfaceTable
from implicast.peer.contract import Address
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS, Codes, codes, places, side
from implicast.space.prefix import sibling

LatencyUs = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Who owns which aligned interval: arrays by peer, plus the order along the curve."""

    dimensions: int
    low: Codes
    bits: Codes
    order: Codes
    """Peers by the first code they own."""
    boxes: Rows

    @property
    def peers(self) -> int:
        return len(self.low)

    def owner(self, code: int) -> int:
        return int(self.owners(np.array([code], np.int64))[0])

    def owners(self, at: Codes) -> Codes:
        starts = self.low[self.order]
        return self.order[np.searchsorted(starts, at, side="right") - 1]


def tiling(points: Sequence[int], dimensions: int) -> Tiling:
    """The surface after peers have joined at these points, in order; the first point does not matter."""
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
    """The first code of the region that has a point. How many bits it has is searched for by halves: to keep a list of
    a million codes in order takes minutes, this three seconds.

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
    """All pairs of neighbours, both ways round, sorted by the first and then by the second's place on the curve."""
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


def settle(tiles: Tiling, surfaces: Sequence[Surface], latency_us: LatencyUs) -> None:
    """Place surface i on tile i; everybody knows its neighbours."""
    one, other = adjacency(tiles)
    titles = [
        Title(low, bits, 0, surface.address)
        for surface, low, bits in zip(
            surfaces, tiles.low.tolist(), tiles.bits.tolist(), strict=True
        )
    ]
    ends = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
    around = [other[start:stop].tolist() for start, stop in pairwise(ends)]
    if not surfaces or surfaces[0].terms.assured:
        _settle_alive(titles, around, surfaces, latency_us)
        return
    latencies = [
        max(1.0, float(latency_us(a, b))) for a, b in zip(one.tolist(), other.tolist(), strict=True)
    ]
    rows, paces = tiles.boxes[other], np.array(latencies, np.float64)
    for peer, surface in enumerate(surfaces):
        start, stop = ends[peer], ends[peer + 1]
        owners, own = (
            [surfaces[each].address for each in around[peer]],
            tiles.boxes[peer : peer + 1],
        )
        table = SurfaceTable(tiles.dimensions, owners, (own, rows[start:stop], paces[start:stop]))
        others = [titles[each] for each in around[peer]]
        surface.rest_on(titles[peer], partial(list, others), table)


def _settle_alive(
    titles: list[Title], around: list[list[int]], surfaces: Sequence[Surface], latency_us: LatencyUs
) -> None:
    """Everybody knows its neighbours' heirs too, and these have copies; greetings are spread over a period."""
    for peer, surface in enumerate(surfaces):
        others = [titles[each] for each in around[peer]]
        surface.settle_into(
            titles[peer], others, first_heirs(titles[peer], others, surface.terms.timers.heirs)
        )
    for peer, surface in enumerate(surfaces):
        for each in around[peer]:
            _acquaint(surface, surfaces[each], max(1, 2 * int(latency_us(peer, each))))
    bequeath(surfaces)


def bequeath(surfaces: Sequence[Surface]) -> None:
    """All heirs have complete copies of what they may inherit."""
    by_address = {surface.address: surface for surface in surfaces}
    for surface in surfaces:
        for heir in surface.heirs:
            by_address[heir].estates.inherit_from(surface)


def first_heirs(title: Title, others: list[Title], count: int) -> tuple[Address, ...]:
    """The owner of the sibling, then the smallest tracts, then the smallest ids: as living peers choose."""

    def preference(each: Title) -> tuple[bool, int, Address]:
        is_sibling = (
            each.bits == title.bits
            and title.bits > 0
            and each.low == sibling(title.low, title.bits)
        )
        return not is_sibling, -each.bits, each.owner

    return tuple(each.owner for each in sorted(others, key=preference)[:count])


def _acquaint(surface: Surface, other: Surface, trip_us: int) -> None:
    pair = sorted((repr(surface.address), repr(other.address)))
    phase = digest_bits(16, "greeting", *pair) / 2**16
    later = 0.1 * (pair[0] != repr(surface.address))
    greet_us = surface.host.now_us + int((phase + later) * surface.terms.timers.hello_us)
    surface.circle.acquaint(other.address, other.greetings.mark, other.heirs, trip_us, greet_us)


def uniform_points(peers: int, draw: Callable[[int], int]) -> list[int]:
    """Places drawn anywhere on the surface; `draw` gives so many random bits."""
    return [draw(BITS) for _ in range(peers)]
