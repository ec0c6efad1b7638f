"""Physical networks without hosts: routers, links with latency, and access technologies of hosts.

Three are drawn from a seed with the router and link counts of the thesis (sections 4.3.1 and
9.3.1). `flat` is one router; `maps.py` reads real maps, `worldwide.py` draws the largest network.
As in the thesis there is no bandwidth and no queueing.
"""

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from math import asin, cos, hypot, radians, sin, sqrt
from random import Random

import numpy as np
from numpy.typing import NDArray

from implicast.space.digest import stream

Place = tuple[float, float]
"""Latitude and longitude in degrees."""

LINK_US = 1_600
KM_PER_MS = 200
"""A link takes 1.6 ms plus 1 ms per 200 km: the fit over Rocketfuel's measured backbone links."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access technology: its share of hosts and its range of latencies."""

    name: str
    share: float
    low_us: int
    high_us: int


LAN = (Access("LAN", 1.0, 1_000, 5_000),)
BROADBAND = (
    Access("LAN", 0.02, 1_000, 5_000),
    Access("DSL", 0.66, 5_000, 70_000),
    Access("cable", 0.30, 5_000, 40_000),
    Access("satellite", 0.02, 100_000, 220_000),
)
"""Thesis, Table 9.1."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Routers 0 to `routers` - 1, undirected links `(a, b, latency_us)` with a < b, sorted and
    distinct.
    """

    name: str
    routers: int
    links: tuple[tuple[int, int, int], ...]
    access: tuple[Access, ...] = LAN
    infrastructure_us: int = 1_000
    """Latency of the access link of a server or broker; 1 ms in the thesis (section 9.3.1)."""
    core: tuple[int, ...] = ()
    """Routers to which servers and brokers may be attached."""
    mesh: NDArray[np.int32] | None = field(default=None, compare=False)
    """Instead of links, the measured one-way latency of every pair of routers, in microseconds."""


class Wiring:
    """Links under construction, without loops. Of parallel links the quickest is kept."""

    def __init__(self) -> None:
        self.latency_us: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.latency_us)

    def join(self, a: int, b: int, latency_us: int) -> bool:
        """Add a link; True if it is new."""
        if a == b:
            return False
        ends = (a, b) if a < b else (b, a)
        before = self.latency_us.get(ends)
        if before is None or latency_us < before:
            self.latency_us[ends] = max(1, latency_us)
        return before is None

    def links(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((a, b, latency_us) for (a, b), latency_us in sorted(self.latency_us.items()))


def core_of(routers: int, links: Iterable[tuple[int, int, int]]) -> tuple[int, ...]:
    """The 2-core: routers left after repeatedly removing those with a single link. All routers if
    the network is a tree.
    """
    beside: list[set[int]] = [set() for _ in range(routers)]
    for a, b, _ in links:
        beside[a].add(b)
        beside[b].add(a)
    ends = [router for router in range(routers) if len(beside[router]) == 1]
    while ends:
        end = ends.pop()
        if len(beside[end]) == 1:
            (other,) = beside[end]
            beside[end].clear()
            beside[other].discard(end)
            if len(beside[other]) == 1:
                ends.append(other)
    return tuple(router for router in range(routers) if len(beside[router]) > 1) or tuple(
        range(routers)
    )


def distance_km(a: Place, b: Place) -> float:
    """Great-circle distance."""
    (lat_a, lon_a), (lat_b, lon_b) = ((radians(place[0]), radians(place[1])) for place in (a, b))
    half = sin((lat_b - lat_a) / 2) ** 2 + cos(lat_a) * cos(lat_b) * sin((lon_b - lon_a) / 2) ** 2
    return 2 * 6371.0 * asin(min(1.0, sqrt(half)))


def distance_us(km: float) -> int:
    """Latency of a link of this length."""
    return LINK_US + round(km * 1000 / KM_PER_MS)


def weighted(rng: Random, weights: Iterable[float]) -> int:
    """An index drawn in proportion to its weight."""
    sums = list(accumulate(weights))
    return min(bisect(sums, rng.random() * sums[-1]), len(sums) - 1)


def spanning_order(rng: Random, members: list[int]) -> list[tuple[int, int]]:
    """A random recursive tree over the members, as links (parent, child)."""
    return [(members[rng.randrange(i)], members[i]) for i in range(1, len(members))]


def flat() -> Topology:
    """One router, with equal access links for all hosts and servers: 20 ms between any two."""
    return Topology("flat", 1, (), (Access("equal", 1.0, 10_000, 10_000),), 10_000, (0,))


NATIONAL_ROUTERS, NATIONAL_LINKS = 150, 180
_TRANSIT, _STUB = 14, 4
_WIDTH_KM, _HEIGHT_KM = 4_500, 2_500


def national(seed: int) -> Topology:
    """A national provider after GT-ITM's transit-stub model: a core of transit routers with stubs
    of four routers.
    """
    rng = stream(seed, "network", "national")
    places = _national_places(rng)
    wiring = Wiring()

    def join(a: int, b: int) -> bool:
        return wiring.join(
            a, b, distance_us(hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]))
        )

    for a in range(
        1, _TRANSIT
    ):  # each transit router to the nearest earlier one, then ten more links in the core
        join(
            a,
            min(
                range(a),
                key=lambda b: hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]),
            ),
        )
    while len(wiring) < _TRANSIT + 9:
        join(rng.randrange(_TRANSIT), rng.randrange(_TRANSIT))
    stubs = [
        list(range(first, first + _STUB)) for first in range(_TRANSIT, NATIONAL_ROUTERS, _STUB)
    ]
    for number, stub in enumerate(stubs):
        join(number % _TRANSIT, stub[0])
        for a, b in spanning_order(rng, stub):
            join(a, b)
    # more links inside stubs, and second links of stubs to the core
    while len(wiring) < NATIONAL_LINKS:
        stub = stubs[rng.randrange(len(stubs))]
        join(rng.choice(stub), rng.choice(stub) if rng.random() < 0.5 else rng.randrange(_TRANSIT))
    # Chapter 6 places brokers on any router; only the networks of chapter 9 have them in the core.
    return Topology(
        "national", NATIONAL_ROUTERS, wiring.links(), LAN, core=tuple(range(NATIONAL_ROUTERS))
    )


def _national_places(rng: Random) -> list[tuple[float, float]]:
    """Kilometres on a plane: transit routers anywhere, stub routers within 150 km of their transit
    router.
    """
    places = [(rng.random() * _WIDTH_KM, rng.random() * _HEIGHT_KM) for _ in range(_TRANSIT)]
    for router in range(_TRANSIT, NATIONAL_ROUTERS):
        x, y = places[(router - _TRANSIT) // _STUB % _TRANSIT]
        places.append((x + rng.uniform(-150, 150), y + rng.uniform(-150, 150)))
    return places


LABORATORY_ROUTERS, LABORATORY_LINKS = 447, 612
_CLUSTERS = (128, 104, 87, 72, 56)
_BETWEEN_US, _BACKBONE_US, _EDGE_US = 5_000, 3_000, 1_000


def laboratory(seed: int) -> Topology:
    """A laboratory: five clusters joined by single links of 5 ms; inside, a backbone of 3 ms and
    edges of 1 ms.

    A sixth of a cluster's routers form its backbone, a tree; the others are attached to it. A third
    of the remaining links are further backbone links, the rest second uplinks.
    """
    rng = stream(seed, "network", "laboratory")
    wiring = Wiring()
    clusters, first = [], 0
    for size in _CLUSTERS:
        clusters.append(list(range(first, first + size)))
        first += size
    backbones = [cluster[: len(cluster) // 6] for cluster in clusters]
    for a, b in spanning_order(rng, list(range(len(clusters)))):
        wiring.join(rng.choice(backbones[a]), rng.choice(backbones[b]), _BETWEEN_US)
    for cluster, backbone in zip(clusters, backbones, strict=True):
        for a, b in spanning_order(rng, backbone):
            wiring.join(a, b, _BACKBONE_US)
        for router in cluster[len(backbone) :]:
            wiring.join(rng.choice(backbone), router, _EDGE_US)
    while len(wiring) < LABORATORY_LINKS:
        which = weighted(rng, _CLUSTERS)
        thickens = rng.random() < 1 / 3
        other = backbones[which] if thickens else clusters[which][len(backbones[which]) :]
        wiring.join(
            rng.choice(backbones[which]), rng.choice(other), _BACKBONE_US if thickens else _EDGE_US
        )
    links = wiring.links()
    return Topology(
        "laboratory", LABORATORY_ROUTERS, links, LAN, core=core_of(LABORATORY_ROUTERS, links)
    )
