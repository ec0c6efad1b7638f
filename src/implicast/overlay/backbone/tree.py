"""The shape of the backbone: a minimum spanning tree over round-trip times, and the nearest broker of a client.

Thesis section 6.1. The tree is computed from all round-trip times at once, as the thesis does; equal times are settled
by hash, so that on a network where all are equal the tree is a random one and clients spread evenly.
"""

from collections.abc import Callable, Sequence

from implicast.space.digest import digest_bits

Latency = Callable[[int, int], int]
"""One way between two addresses, in microseconds."""


def rank(seed: int, address: int) -> int:
    """A number of its own for each address. The exclusive or of two ranks settles ties, the same from both sides."""
    return digest_bits(62, seed, "rank", address)


def spanning_tree(brokers: Sequence[int], latency_us: Latency, seed: int) -> dict[int, tuple[int, ...]]:
    """The neighbours of each broker (Prim: b^2 round-trip times, no more memory than brokers)."""
    ranks = {broker: rank(seed, broker) for broker in brokers}
    neighbours: dict[int, list[int]] = {broker: [] for broker in brokers}
    newest, *outside = brokers
    # For each broker outside, the shortest way into the tree: round trip, tie, broker inside.
    nearest = dict.fromkeys(outside, (1 << 62, 0, newest))
    while nearest:
        for broker, best in nearest.items():
            round_trip_us = latency_us(broker, newest) + latency_us(newest, broker)
            if round_trip_us <= best[0]:
                nearest[broker] = min(best, (round_trip_us, ranks[broker] ^ ranks[newest], newest))
        newest = min(nearest, key=lambda broker: nearest[broker])
        inside = nearest.pop(newest)[2]
        neighbours[newest].append(inside)
        neighbours[inside].append(newest)
    return {broker: tuple(sorted(beside)) for broker, beside in neighbours.items()}


def by_rank(client: int, brokers: Sequence[int], seed: int) -> list[int]:
    """All brokers in the order in which this client prefers those that are equally near."""
    own = rank(seed, client)
    return sorted(brokers, key=lambda broker: own ^ rank(seed, broker))


def nearest(client: int, brokers: Sequence[int], latency_us: Latency, seed: int) -> int:
    """The broker with the shortest round trip."""
    round_trips_us = [latency_us(client, broker) + latency_us(broker, client) for broker in brokers]
    least_us = min(round_trips_us)
    equals = [broker for broker, time_us in zip(brokers, round_trips_us, strict=True) if time_us == least_us]
    return equals[0] if len(equals) == 1 else by_rank(client, equals, seed)[0]
