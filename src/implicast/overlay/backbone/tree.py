"""Shape of the backbone: a minimum spanning tree over round-trip times, and each client's order of
brokers.

Thesis section 6.1. The tree is computed from all round-trip times at once, as in the thesis. Equal
times are common (latencies of 1, 3 and 5 ms), and the thesis does not say how to break such ties.
Here ties make the tree shallow, and spread clients evenly over brokers that are equally near.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from implicast.peer.contract import Address, Name
from implicast.space.digest import digest_bits

Place = TypeVar("Place", int, Address)

EASY_DEGREE = 16
"""A broker with this many neighbours gets no more by a tie."""

SPREAD = 0x9E37_79B9_7F4A_7C15
"""Odd constant of multiplicative hashing: the low half of a product with it is evenly distributed.
"""


@lru_cache(maxsize=65_536)
def rank(network: bytes, who: Address | Name) -> int:
    """Hash of a client or broker. Cached, because every client needs every broker's."""
    return digest_bits(64, network, "rank", who)


def spanning_tree(
    brokers: Sequence[Place], round_trip_us: Callable[[Place, Place], int]
) -> dict[Place, tuple[Place, ...]]:
    """The neighbours of each broker: Prim's algorithm, from the broker that is nearest to all.

    Among several shortest links the new broker takes the one to the parent with the shortest path
    to the centre, as long as that parent has few neighbours: of all minimum trees a shallow one
    without hubs.
    """
    order = {broker: number for number, broker in enumerate(brokers)}
    newest = min(
        brokers,
        key=lambda broker: sum(round_trip_us(broker, each) for each in brokers if each != broker),
    )
    neighbours: dict[Place, list[Place]] = {broker: [] for broker in brokers}
    depth_us = {newest: 0}
    # For each broker outside: its shortest round trip to the tree, and the brokers inside at that
    # distance.
    outside: dict[Place, tuple[int, list[Place]]] = {
        broker: (1 << 62, []) for broker in brokers if broker != newest
    }
    while outside:
        for broker, (least_us, inside) in outside.items():
            time_us = round_trip_us(broker, newest)
            if time_us < least_us:
                outside[broker] = (time_us, [newest])
            elif time_us == least_us:
                inside.append(newest)
        newest = min(outside, key=lambda broker: outside[broker][0])
        least_us, inside = outside.pop(newest)
        parent = min(
            inside,
            key=lambda each: (len(neighbours[each]) >= EASY_DEGREE, depth_us[each], order[each]),
        )
        depth_us[newest] = depth_us[parent] + least_us
        neighbours[newest].append(parent)
        neighbours[parent].append(newest)
    return {
        broker: tuple(sorted(beside, key=order.__getitem__))
        for broker, beside in neighbours.items()
    }


def by_rank(client: Name, brokers: Sequence[Place], network: bytes) -> list[Place]:
    """All brokers in the order in which this client prefers those that are equally near."""
    own = rank(network, client)
    return sorted(
        brokers, key=lambda broker: (own ^ rank(network, broker)) * SPREAD & 0xFFFF_FFFF_FFFF_FFFF
    )
