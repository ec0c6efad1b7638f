"""ICE alone, as in thesis section 7.2: hops from point to point, messages to many points, packets
with landmarks.

Pure functions from parameters to plain rows; randomness comes from the seed. They walk assembled
tables directly, by the routing code of the peers, without a simulated world.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from implicast.overlay.ice.table import SurfaceTable, table_of_boxes
from implicast.space.angle import cosine_of
from implicast.space.digest import stream
from implicast.space.morton import BITS, CODES
from implicast.space.tract import Tract, intersect, subtract, union
from implicast.world.populations.landmarks import landmark_points
from implicast.world.populations.surface import LatencyUs, Tiling, adjacency, tiling, uniform_points

HOPS_MAX = 100_000
"""A longer route is a loop."""
Row = dict[str, Any]


class StaticSurface:
    """An assembled surface without peers: tables only."""

    def __init__(self, tiles: Tiling, latency_us: LatencyUs | None = None) -> None:
        self.tiles = tiles
        one, other = adjacency(tiles)
        ends = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
        self.neighbours = [other[start:stop].tolist() for start, stop in pairwise(ends)]
        self.tables = [self._table(peer, latency_us) for peer in range(tiles.peers)]

    def _table(self, peer: int, latency_us: LatencyUs | None) -> SurfaceTable:
        owners = self.neighbours[peer]
        latencies = [
            1.0 if latency_us is None else max(1.0, float(latency_us(peer, each)))
            for each in owners
        ]
        own, *boxes = [
            (tuple(row[: self.tiles.dimensions]), tuple(row[self.tiles.dimensions :]))
            for row in self.tiles.boxes[[peer, *owners]].tolist()
        ]
        return table_of_boxes(self.tiles.dimensions, [own], boxes, list(owners), latencies)

    def tract(self, peer: int) -> Tract:
        low = int(self.tiles.low[peer])
        return low, low + (1 << (BITS - int(self.tiles.bits[peer])))

    def path(self, source: int, code: int) -> list[int]:
        """The peers on a message's path to a code, source and owner included."""
        passed, owner = [source], self.tiles.owner(code)
        while passed[-1] != owner:
            hop = self.tables[passed[-1]].next_hop(code)
            assert isinstance(hop, int), f"{passed[-1]} knows no peer nearer to {code}"
            assert len(passed) < HOPS_MAX, f"a message to {code} loops"
            passed.append(hop)
        return passed


@dataclass(frozen=True, slots=True)
class TractSpread:
    """The result of one multipoint route."""

    messages: int
    deliveries: dict[int, int]
    """By owner in the destination: the hops after which it was first reached."""
    arrivals: dict[int, int]
    """By owner in the destination: the number of messages that carried a part of its tract."""


def spread(
    surface: StaticSurface, source: int, tract: Tract, branch_factor: float, merge: bool = True
) -> TractSpread:
    """Listing 7: route from a source to all owners in a tract."""
    cosine = cosine_of(branch_factor)
    waiting: deque[tuple[int, Tract, int]] = deque([(source, tract, 0)])
    messages = 0
    deliveries: dict[int, int] = {}
    arrivals: dict[int, int] = {}
    while waiting:
        peer, rest, hops = waiting.popleft()
        own = surface.tract(peer)
        if intersect(rest, own):
            deliveries.setdefault(peer, hops)
            arrivals[peer] = arrivals.get(peer, 0) + 1
        rest = subtract(rest, own)
        for hop, part in surface.tables[peer].branches(rest, cosine, merge) if rest else ():
            assert isinstance(hop, int), f"{peer} knows no peer nearer to {part}"
            messages += 1
            waiting.append((hop, part, hops + 1))
    return TractSpread(messages, deliveries, arrivals)


def uniform_surface(peers: int, dimensions: int, seed: int) -> StaticSurface:
    return StaticSurface(
        tiling(uniform_points(peers, stream(seed, "surface").getrandbits), dimensions)
    )


def point_to_point(peers: int, dimensions: int, routes: int = 1000, seed: int = 1) -> Row:
    """Mean hops between random places (thesis Fig. 7.4b), beside d n^(1/d) / 4."""
    surface, rng = uniform_surface(peers, dimensions, seed), stream(seed, "routes")
    hops = [
        len(surface.path(rng.randrange(peers), rng.getrandbits(BITS))) - 1 for _ in range(routes)
    ]
    expected = dimensions * peers ** (1 / dimensions) / 4
    return {
        "peers": peers,
        "dimensions": dimensions,
        "seed": seed,
        "routes": routes,
        "hops_mean": sum(hops) / routes,
        "hops_max": max(hops),
        "hops_expected": expected,
    }


def random_tract(surface: StaticSurface, owners: int, rng: Random) -> Tract:
    """A random tract that meets about `owners` owners: extents of random size at random places."""
    tiles, chosen, parts = surface.tiles, set[int](), list[tuple[int, int]]()
    while len(chosen) < owners:
        shift = rng.randrange(BITS - 12, BITS - 2) // tiles.dimensions * tiles.dimensions
        low = rng.randrange(CODES >> shift) << shift
        inside = (tiles.low < low + (1 << shift)) & (tiles.low + (1 << (BITS - tiles.bits)) > low)
        found = np.flatnonzero(inside).tolist()
        if len(chosen.union(found)) <= owners * 1.1:
            chosen.update(found)
            parts.append((low, low + (1 << shift)))
    return union(parts)


def scattered_tract(surface: StaticSurface, owners: int, rng: Random) -> Tract:
    """Single places of `owners` owners, spread over the surface."""
    codes: dict[int, int] = {}
    while len(codes) < owners:
        code = rng.getrandbits(BITS)
        codes.setdefault(surface.tiles.owner(code), code)
    return union((code, code + 1) for code in codes.values())


TRACTS = {"extents": random_tract, "points": scattered_tract}
"""Kinds of destination; the thesis says only that it meets about half of the peers."""


def multipoint(
    branch_factor: float,
    dimensions: int,
    peers: int = 1000,
    owners: int = 500,
    routes: int = 50,
    seed: int = 1,
    merge: bool = True,
    destination: str = "extents",
) -> Row:
    """Messages per route and mean hops to a destination (thesis Fig. 7.6)."""
    surface, rng, draw = (
        uniform_surface(peers, dimensions, seed),
        stream(seed, "multipoint"),
        TRACTS[destination],
    )
    found = [
        spread(surface, rng.randrange(peers), draw(surface, owners, rng), branch_factor, merge)
        for _ in range(routes)
    ]
    reached = [hops for each in found for hops in each.deliveries.values()]
    messages = sum(each.messages for each in found)
    return {
        "branch_factor": branch_factor,
        "dimensions": dimensions,
        "peers": peers,
        "seed": seed,
        "merge": merge,
        "destination": destination,
        "owners_mean": len(reached) / routes,
        "messages_mean": messages / routes,
        "messages_per_owner": messages / len(reached),
        "hops_mean": sum(reached) / len(reached),
        "arrivals_max": max(max(each.arrivals.values()) for each in found),
    }


def landmark_packets(
    landmarks: int,
    latency_us: LatencyUs,
    packets: Callable[[int, int], int],
    peers: int = 2000,
    dimensions: int = 3,
    routes: int = 1000,
    seed: int = 1,
) -> Row:
    """Physical packets per route between random places (thesis Fig. 7.7). `packets` gives the
    physical links between two peers.
    """
    rng = stream(seed, "surface")
    points = landmark_points(peers, landmarks, dimensions, latency_us, rng.getrandbits)
    surface, rng = StaticSurface(tiling(points, dimensions), latency_us), stream(seed, "routes")
    paths = [surface.path(rng.randrange(peers), rng.getrandbits(BITS)) for _ in range(routes)]
    counted = [sum(packets(a, b) for a, b in pairwise(path)) for path in paths]
    took_us = [sum(latency_us(a, b) for a, b in pairwise(path)) for path in paths]
    return {
        "landmarks": landmarks,
        "dimensions": dimensions,
        "peers": peers,
        "seed": seed,
        "packets_mean": sum(counted) / routes,
        "hops_mean": sum(len(path) - 1 for path in paths) / routes,
        "latency_us_mean": sum(took_us) / routes,
    }
