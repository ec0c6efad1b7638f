"""Clusters of directions: how a destination is divided among branches, as one would write it down.

Thesis section 7.2.2: the largest angle between two extents' centres, seen from the peer's own
centre, must not exceed the branch factor; while it does, the cluster is split around those two.
Branch factor 0 leaves every extent alone, pi keeps all together. The compiled form is
`kernels.divide`; this one is the law it is tested against.
"""

from math import cos, pi, sqrt

from implicast.space.morton import Box, Place, side

ALONE = 2.0
TOGETHER = -2.0


def cosine_of(branch_factor: float) -> float:
    """What products of unit vectors are compared with; the two ends of the scale are exact."""
    if branch_factor <= 0.0:
        return ALONE
    return TOGETHER if branch_factor >= pi else cos(branch_factor)


def centre(box: Box) -> Place:
    """The centre of a box, in half units so that it is whole."""
    low, high = box
    return tuple(a + b for a, b in zip(low, high, strict=True))


def direction(origin: Place, box: Box) -> tuple[float, ...]:
    """The unit vector from a centre to a box's centre, the short way round the torus."""
    turn = 2 * side(len(origin))
    away = [(there - here) % turn for here, there in zip(origin, centre(box), strict=True)]
    away = [each - turn if each > turn // 2 else each for each in away]
    length = sqrt(sum(float(each) * float(each) for each in away))
    return tuple(each / length for each in away) if length else tuple(map(float, away))


def clusters(origin: Place, boxes: list[Box], branch_factor: float) -> list[list[int]]:
    """The boxes' indices, clustered by direction."""
    cosine = cosine_of(branch_factor)
    vectors = [direction(origin, box) for box in boxes]
    if cosine == ALONE:
        return [[index] for index in range(len(boxes))]
    waiting, found = [list(range(len(boxes)))], []
    while waiting:
        cluster = waiting.pop(0)
        pairs = [
            (_product(vectors[a], vectors[b]), a, b) for a in cluster for b in cluster if a < b
        ]
        widest, one, other = min(pairs, default=(2.0, -1, -1))
        if cosine == TOGETHER or widest >= cosine:
            found.append(cluster)
            continue
        beyond = [
            each
            for each in cluster
            if each == other or (each != one and _nearer(vectors, each, other, one))
        ]
        waiting = [[each for each in cluster if each not in beyond], *waiting, beyond]
    return found


def _nearer(vectors: list[tuple[float, ...]], each: int, this: int, that: int) -> bool:
    return _product(vectors[each], vectors[this]) > _product(vectors[each], vectors[that])


def _product(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += a * b
    return total
