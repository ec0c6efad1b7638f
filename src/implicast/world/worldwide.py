"""The `worldwide` network: six providers in the United States, four small networks overseas.

The thesis (section 9.3.1) used a compilation of measured maps by Liljenstam et al.: 3,279 routers
and 11,952 links with latencies from a few milliseconds to 144. The compilation is not available.
This module draws a network with the same counts, the sizes of six providers that Rocketfuel
measured, cities as points of presence, and latencies by distance.
"""

from dataclasses import dataclass
from itertools import combinations
from random import Random

from implicast.space.digest import stream
from implicast.world.cities import OVERSEAS, UNITED_STATES
from implicast.world.topology import (
    BROADBAND,
    Place,
    Topology,
    Wiring,
    distance_km,
    distance_us,
    spanning_order,
    weighted,
)

WORLDWIDE_ROUTERS, WORLDWIDE_LINKS = 3_279, 11_952
PROVIDERS = ((604, 24), (960, 30), (624, 28), (201, 14), (182, 12), (631, 32))
"""Routers and points of presence. The routers are those of Rocketfuel's six maps (largest
components).
"""
OVERSEAS_ROUTERS = (25, 20, 14, 18)
PEERINGS = 6
"""Largest number of cities in which two providers peer."""
SEA_DETOUR = 1.757
"""Length of a sea cable divided by the great-circle distance. The longest, Jakarta to New York,
takes almost 144 ms.
"""
GATEWAYS = (
    ("New York", "New York"),
    ("Los Angeles", "Seattle"),
    ("Los Angeles", "San Jose"),
    ("New York", "Los Angeles"),
)
"""For each network overseas, the landing cities of its two cables in the United States."""
NEIGHBOURS = ((1, 2), (2, 3))
"""Networks overseas with a direct cable: Taiwan and Singapore, Singapore and Indonesia."""


@dataclass(slots=True)
class Provider:
    """A provider under construction: routers by city, backbone routers of a city first."""

    pops: dict[str, list[int]]
    backbone: dict[str, list[int]]


class Draft:
    """The network under construction: places of routers, and links with latency by distance."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.places: list[Place] = []
        self.wiring = Wiring()

    def put(self, town: Place) -> int:
        self.places.append(town)
        return len(self.places) - 1

    def join(self, a: int, b: int, detour: float = 1.0) -> bool:
        return self.wiring.join(
            a, b, distance_us(detour * distance_km(self.places[a], self.places[b]))
        )


def worldwide(seed: int) -> Topology:
    """Six providers that peer in shared cities, and four networks overseas behind long cables."""
    draft = Draft(stream(seed, "network", "worldwide"))
    providers = [_provider(draft, routers, pops) for routers, pops in PROVIDERS]
    for one, other in combinations(providers, 2):
        _peer(draft, one, other)
    _overseas(draft, providers)
    _thicken(draft, providers)
    core = tuple(
        router for provider in providers for town in provider.backbone.values() for router in town
    )
    return Topology("worldwide", len(draft.places), draft.wiring.links(), BROADBAND, core=core)


def _provider(draft: Draft, routers: int, pops: int) -> Provider:
    """Routers spread over cities by population; backbone routers in a tree of near cities, the
    others behind them.
    """
    rng = draft.rng
    towns = dict(_chosen(rng, pops))
    found = Provider({name: [] for name in towns}, {})
    names, weights = list(towns), [_INHABITANTS[name] for name in towns]
    for number in range(routers):
        name = names[number] if number < pops else names[weighted(rng, weights)]
        found.pops[name].append(draft.put(towns[name]))
    for name, members in found.pops.items():
        backbone = found.backbone[name] = members[: max(1, len(members) // 5)]
        for a, b in spanning_order(rng, backbone):
            draft.join(a, b)
        for router in members[len(backbone) :]:
            draft.join(rng.choice(backbone), router)
    for number, name in enumerate(names[1:], start=1):
        nearest = min(names[:number], key=lambda other: distance_km(towns[name], towns[other]))
        draft.join(rng.choice(found.backbone[name]), rng.choice(found.backbone[nearest]))
    return found


_INHABITANTS = {name: inhabitants for name, _, inhabitants in UNITED_STATES}


def _chosen(rng: Random, pops: int) -> list[tuple[str, Place]]:
    """The five largest cities, common to all providers, and others drawn by population."""
    rest = list(UNITED_STATES[5:])
    chosen = list(UNITED_STATES[:5])
    while len(chosen) < pops:
        chosen.append(rest.pop(weighted(rng, [inhabitants for _, _, inhabitants in rest])))
    return [(name, place) for name, place, _ in chosen]


def _peer(draft: Draft, one: Provider, other: Provider) -> None:
    shared = [name for name in one.pops if name in other.pops][:PEERINGS]
    for name in shared:
        draft.join(draft.rng.choice(one.backbone[name]), draft.rng.choice(other.backbone[name]))


def _overseas(draft: Draft, providers: list[Provider]) -> None:
    """Each network is a tree with further links, two cables to two United States providers, and
    cables to neighbours.
    """
    rng = draft.rng
    networks = []
    for (_, town), routers, gateways in zip(OVERSEAS, OVERSEAS_ROUTERS, GATEWAYS, strict=True):
        members = [draft.put(town) for _ in range(routers)]
        networks.append(members)
        for a, b in spanning_order(rng, members):
            draft.join(a, b)
        for _ in range(routers // 2):
            draft.join(rng.choice(members), rng.choice(members))
        first = rng.randrange(len(providers))
        for landing, gateway in enumerate(gateways):
            home = _at(providers, gateway, first + landing)
            draft.join(members[landing], rng.choice(home.backbone[gateway]), SEA_DETOUR)
    for one, other in NEIGHBOURS:
        draft.join(networks[one][0], networks[other][0], SEA_DETOUR)


def _at(providers: list[Provider], town: str, start: int) -> Provider:
    """The next provider, in turn from `start`, with a point of presence in this city."""
    turn = [providers[(start + i) % len(providers)] for i in range(len(providers))]
    return next(provider for provider in turn if town in provider.pops)


def _thicken(draft: Draft, providers: list[Provider]) -> None:
    """Add links up to the exact count: half within a city, half between backbones, near cities more
    often than far ones.
    """
    rng = draft.rng
    # Weights by provider: Rocketfuel's maps differ in links per router. Level 3 (the third) is the
    # densest.
    shares = (1900, 2100, 4300, 330, 230, 1600)
    while len(draft.wiring) < WORLDWIDE_LINKS:
        provider = providers[weighted(rng, shares)]
        names = list(provider.pops)
        name = names[weighted(rng, [len(provider.pops[each]) for each in names])]
        if rng.random() < 0.5:
            draft.join(rng.choice(provider.backbone[name]), rng.choice(provider.pops[name]))
        else:
            near = sorted(
                (rng.choice(names) for _ in range(2)), key=lambda each: _apart(name, each)
            )[0]
            draft.join(rng.choice(provider.backbone[name]), rng.choice(provider.backbone[near]))


_TOWNS = {name: place for name, place, _ in UNITED_STATES}


def _apart(one: str, other: str) -> float:
    return distance_km(_TOWNS[one], _TOWNS[other])
