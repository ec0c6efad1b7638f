"""What the surface costs: next hops and branches, compiled, beside the readable definitions in
plain Python.

python bench/surface.py
"""

from math import pi, sqrt
from time import process_time

from implicast.space.angle import centre, clusters, cosine_of
from implicast.space.digest import stream
from implicast.space.morton import BITS, box
from implicast.space.surface import Surface
from implicast.space.tract import Tract, subtract
from implicast.trials.ice import StaticSurface, random_tract, uniform_surface

CALLS = 20_000


def plain_next_hop(surface: StaticSurface, peer: int, code: int) -> int:
    """Listing 6 as one would write it."""
    surface, tiles = Surface(surface.tiles.dimensions), surface.tiles
    boxes = [
        box(int(tiles.low[each]), int(tiles.bits[each]), 3)
        for each in (peer, *surface.neighbours[peer])
    ]
    target = box(code, BITS, 3)
    here, *there = (surface.rank(each, target) for each in boxes)
    better = [
        (sqrt(here[0]) - sqrt(rank[0]), -rank[1], index)
        for index, rank in enumerate(there)
        if rank < here
    ]
    return max(better, default=(0.0, 0, -1))[2]


def timed_us(label: str, calls: int, action: object) -> None:
    started = process_time()
    for index in range(calls):
        action(index)  # type: ignore[operator]
    print(f"{label:48} {(process_time() - started) / calls * 1e6:9.2f} us")


def main() -> None:
    surface, rng = uniform_surface(4096, 3, 1), stream(1, "bench")
    codes = [rng.getrandbits(BITS) for _ in range(CALLS)]
    tracts: list[Tract] = [
        subtract(random_tract(surface, 200, rng), surface.tract(0)) for _ in range(20)
    ]
    surface.tables[0].next_hop(codes[0])
    surface.tables[0].branches(tracts[0], cosine_of(pi / 3), True)

    timed_us(
        "next hop, compiled",
        CALLS,
        lambda index: surface.tables[index % 4096].next_hop(codes[index]),
    )
    timed_us("next hop, plain", 500, lambda index: plain_next_hop(surface, index, codes[index]))
    timed_us(
        "branches of 200 owners, compiled",
        400,
        lambda index: surface.tables[0].branches(tracts[index % 20], 0.5, True),
    )
    here, plane = (
        centre(box(*(int(each[0]) for each in (surface.tiles.low, surface.tiles.bits)), 3)),
        Surface(3),
    )
    timed_us(
        "clusters of the same, plain",
        3,
        lambda index: clusters(here, plane.boxes(tracts[index]), pi / 3),
    )


if __name__ == "__main__":
    main()
