"""The nearest broker of each client, and the brokers' tree, computed in columns for thousands of
brokers.

The results equal those of `nearest` and `overlay/backbone/tree.py`. The latency between two hosts
is that between their routers plus the access latency of each, so the nearest broker of a client
depends only on its router.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from implicast.overlay.backbone.tree import EASY_DEGREE, SPREAD, Place, by_rank, rank
from implicast.peer.contract import Name
from implicast.peer.name import name_of
from implicast.world.plan import Plan

Numbers = npt.NDArray[np.int64]
LatencyUs = Callable[[int, int], int]
FAR_US = 1 << 62


def nearest_brokers(plan: Plan) -> list[int]:
    """By client, its nearest broker (`nearest`)."""
    network, brokers = plan.network, plan.roles["broker"]
    near: dict[int, tuple[list[int], npt.NDArray[np.uint64]]] = {}
    found = []
    for client, router in enumerate(plan.router[: plan.peers]):
        if router not in near:
            equals = _equals(brokers, _round_trip_us(plan, client))
            near[router] = equals, np.array([rank(network, broker) for broker in equals], np.uint64)
        equals, ranks = near[router]
        own = np.uint64(rank(network, name_of(network, client)))
        found.append(
            equals[int(np.argmin((own ^ ranks) * np.uint64(SPREAD)))]
            if len(equals) > 1
            else equals[0]
        )
    return found


def nearest_broker(plan: Plan, client: int) -> int:
    """The nearest broker of one client."""
    return nearest(
        name_of(plan.network, client),
        plan.roles["broker"],
        _round_trip_us(plan, client),
        plan.network,
    )


def nearest(
    client: Name, brokers: Sequence[Place], round_trip_us: Callable[[Place], int], network: bytes
) -> Place:
    """The broker with the shortest round trip: the one that answers a live client first. Ties are
    broken by rank.
    """
    equals = _equals(brokers, round_trip_us)
    return equals[0] if len(equals) == 1 else by_rank(client, equals, network)[0]


def _round_trip_us(plan: Plan, client: int) -> Callable[[int], int]:
    return lambda broker: plan.latency_us(client, broker) + plan.latency_us(broker, client)


def _equals(brokers: Sequence[Place], round_trip_us: Callable[[Place], int]) -> list[Place]:
    """The brokers with the shortest round trip."""
    trips_us = [round_trip_us(broker) for broker in brokers]
    least_us = min(trips_us)
    return [
        broker for broker, trip_us in zip(brokers, trips_us, strict=True) if trip_us == least_us
    ]


def wide_tree(
    brokers: Sequence[int], router: Sequence[int], latency_us: LatencyUs
) -> dict[int, tuple[int, ...]]:
    """`spanning_tree` for brokers with equal access latency."""
    trips_us, at = _trips(brokers, router, latency_us)
    count, outside = len(brokers), np.ones(len(brokers), bool)
    sums = np.array([trips_us[each][at].sum() - trips_us[each, each] for each in at])
    newest = int(np.argmin(sums))
    least_us, depth_us, degree = (
        np.full(count, FAR_US),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    neighbours: list[list[int]] = [[] for _ in brokers]
    outside[newest] = False
    for _ in range(count - 1):
        least_us = np.minimum(least_us, trips_us[at[newest]][at])
        newest = int(np.argmin(np.where(outside, least_us, FAR_US)))
        inside = np.flatnonzero(~outside & (trips_us[at[newest]][at] == least_us[newest]))
        order = np.lexsort((inside, depth_us[inside], degree[inside] >= EASY_DEGREE))
        parent = int(inside[order[0]])
        depth_us[newest] = depth_us[parent] + least_us[newest]
        for one, other in ((newest, parent), (parent, newest)):
            neighbours[one].append(other)
            degree[one] += 1
        outside[newest] = False
    return {
        broker: tuple(brokers[each] for each in sorted(beside))
        for broker, beside in zip(brokers, neighbours, strict=True)
    }


def _trips(
    brokers: Sequence[int], router: Sequence[int], latency_us: LatencyUs
) -> tuple[Numbers, Numbers]:
    """Round trips between the routers of brokers, and the router index of each broker."""
    first: dict[int, int] = {}
    for broker in brokers:
        first.setdefault(router[broker], broker)
    some = list(first.values())
    number = {each: index for index, each in enumerate(first)}
    trips = [[latency_us(a, b) + latency_us(b, a) for b in some] for a in some]
    return np.array(trips, np.int64), np.array(
        [number[router[broker]] for broker in brokers], np.int64
    )
