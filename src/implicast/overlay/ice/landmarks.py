"""Overlay mapping: physically close peers are given places close to each other (thesis section 7.2.3).

`l = 2^(kd)` landmarks are spread over the network. The order of a depth-first walk of their minimum spanning tree is
laid along the Morton order of l equal extents. A newcomer joins at random inside the extent of its nearest landmark
that has room: fewer than n/l peers.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from scipy.sparse.csgraph import depth_first_order, minimum_spanning_tree

from implicast.overlay.ice.assemble import LatencyUs
from implicast.space.morton import BITS


def landmark_bits(landmarks: int, dimensions: int) -> int:
    """The bits of an extent's address when there are so many equal ones: the largest allowed number not above it."""
    digits = max(0, landmarks.bit_length() - 1) // dimensions
    return digits * dimensions


def landmark_order(landmarks: Sequence[int], latency_us: LatencyUs) -> list[int]:
    """The landmarks in depth-first order of their minimum spanning tree, from the first."""
    if len(landmarks) < 2:
        return list(landmarks)
    trips = np.array([[0 if a == b else latency_us(a, b) + latency_us(b, a) + 1 for b in landmarks] for a in landmarks])
    tree = minimum_spanning_tree(trips)
    order = depth_first_order(tree, 0, directed=False, return_predecessors=False)
    return [landmarks[each] for each in order.tolist()]


def landmark_points(
    peers: int, landmarks: int, dimensions: int, latency_us: LatencyUs, draw: Callable[[int], int]
) -> list[int]:
    """A place for each peer; the landmarks are peers drawn at random. `draw` gives so many random bits."""
    bits = landmark_bits(min(landmarks, peers), dimensions)
    if not bits:
        return [draw(BITS) for _ in range(peers)]
    chosen = landmark_order(_drawn(peers, 1 << bits, draw), latency_us)
    room = [ceil(peers / len(chosen))] * len(chosen)
    points = []
    for peer in range(peers):
        trips = sorted((latency_us(peer, there) if there != peer else 0, place) for place, there in enumerate(chosen))
        extent = next(place for _, place in trips if room[place])
        room[extent] -= 1
        points.append(extent << (BITS - bits) | draw(BITS - bits))
    return points


def _drawn(peers: int, count: int, draw: Callable[[int], int]) -> list[int]:
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen[draw(48) % peers] = None
    return list(chosen)
