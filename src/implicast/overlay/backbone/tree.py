"""The shape of the backbone: a minimum spanning tree over round-trip times, and the nearest broker of a client.

Thesis section 6.1. The tree is computed from all round-trip times at once, as the thesis does. Equal times are common
(latencies of 1, 3 and 5 ms) and the thesis does not say how it settles them: here they make the tree shallow, and
spread clients evenly over brokers that are equally near.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from implicast.space.digest import digest_bits

Latency = Callable[[int, int], int]
"""One way between two addresses, in microseconds."""


EASY_DEGREE = 16
"""A broker with this many neighbours gets no more of them by a tie."""


SPREAD = 0x9E37_79B9_7F4A_7C15
"""An odd number without pattern: the low half of its product with a drawn number is as good as drawn again."""


@lru_cache(maxsize=65_536)
def rank(seed: int, address: int) -> int:
    """A number of its own for each address, drawn by hash. Remembered, because every client asks for every broker's."""
    return digest_bits(64, seed, "rank", address)


def spanning_tree(brokers: Sequence[int], latency_us: Latency) -> dict[int, tuple[int, ...]]:
    """The neighbours of each broker: Prim's algorithm, from the broker that is nearest to all.

    Where several links are equally short, the new broker is joined to the one from which the centre is quickest to
    reach, as long as that has few neighbours: among all minimum trees a shallow one without hubs.
    """
    newest = min(brokers, key=lambda broker: (sum(latency_us(broker, other) for other in brokers), broker))
    neighbours: dict[int, list[int]] = {broker: [] for broker in brokers}
    depth_us = {newest: 0}
    # For each broker outside: the shortest round trip into the tree, and the brokers inside that have it.
    outside: dict[int, tuple[int, list[int]]] = {broker: (1 << 62, []) for broker in brokers if broker != newest}
    while outside:
        for broker, (least_us, inside) in outside.items():
            round_trip_us = _round_trip_us(broker, newest, latency_us)
            if round_trip_us < least_us:
                outside[broker] = (round_trip_us, [newest])
            elif round_trip_us == least_us:
                inside.append(newest)
        newest = min(outside, key=lambda broker: outside[broker][0])
        least_us, inside = outside.pop(newest)
        parent = min(inside, key=lambda broker: (len(neighbours[broker]) >= EASY_DEGREE, depth_us[broker], broker))
        depth_us[newest] = depth_us[parent] + least_us
        neighbours[newest].append(parent)
        neighbours[parent].append(newest)
    return {broker: tuple(sorted(beside)) for broker, beside in neighbours.items()}


def _round_trip_us(a: int, b: int, latency_us: Latency) -> int:
    # Except on a measured matrix both ways take equally long, but nothing here relies on it.
    return latency_us(a, b) + latency_us(b, a)


def by_rank(client: int, brokers: Sequence[int], seed: int) -> list[int]:
    """All brokers in the order in which this client prefers those that are equally near."""
    own = rank(seed, client)
    return sorted(brokers, key=lambda broker: (own ^ rank(seed, broker)) * SPREAD & 0xFFFF_FFFF_FFFF_FFFF)


def nearest(client: int, brokers: Sequence[int], latency_us: Latency, seed: int) -> int:
    """The broker with the shortest round trip."""
    round_trips_us = [_round_trip_us(client, broker, latency_us) for broker in brokers]
    least_us = min(round_trips_us)
    equals = [broker for broker, time_us in zip(brokers, round_trips_us, strict=True) if time_us == least_us]
    return equals[0] if len(equals) == 1 else by_rank(client, equals, seed)[0]
