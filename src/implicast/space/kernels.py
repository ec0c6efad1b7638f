"""Geometry of one hop: which neighbour is nearest, and how a destination falls into clusters.

These functions run once per hop, millions of times per run. Where the package was built with a C
compiler their twins in `_kernels.pyx` take their place: a next hop among ten neighbours takes 0.5
us there and 30 us here (`bench/surface.py`). The results are the same: distances are whole numbers,
and roots and products are plain IEEE operations in a fixed order. The readable definitions are
`surface.Surface.rank` and `angle.clusters`; tests hold all to the same answers.

A *sheet* is a whole routing table in one piece of memory: for each box 2d corners, its name, a
spare (32 bits each), and its latency (64 bits). The first rows are the own boxes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod, sqrt
from struct import Struct
from typing import Any, TypeVar, cast

from implicast.space.built import built
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS, Box, box
from implicast.space.tract import extents

Function = TypeVar("Function", bound=Callable[..., Any])
Row = Sequence[int]
"""Lower corner, then upper corner."""
Found = tuple[int, tuple[int, ...]]
"""Name of a neighbour, -1 for none, and the part of a destination that it gets."""
FAR = 1 << 62
_BUILT = built("space._kernels")


def twin(function: Function) -> Function:
    """The function's twin where it was built; else the function itself."""
    return cast(Function, getattr(_BUILT, function.__name__, function))


@lru_cache(None)
def _row_of(dimensions: int) -> Struct:
    return Struct(f"={2 * dimensions + 2}id")


def sheet_of(
    dimensions: int,
    own: Iterable[Box],
    boxes: Iterable[Box],
    latencies: Iterable[float],
    names: Iterable[int],
) -> memoryview:
    """The sheet of a table. It has at least one row.

    Next hops are found at one peer after the other, and every separate object on the way is a miss
    of the cache. With 65,536 peers a sheet made a next hop 2.3 us instead of 4.
    """
    pack = _row_of(dimensions).pack
    rows = [pack(*low, *high, 0, 0, 0.0) for low, high in own]
    rows += [
        pack(*low, *high, name, 0, latency)
        for (low, high), name, latency in zip(boxes, names, latencies, strict=True)
    ]
    return _two_dimensional(b"".join(rows), len(rows))


def _two_dimensional(rows: bytes, count: int) -> memoryview:
    return memoryview(rows).cast("i", (count, len(rows) // (4 * count)))


def unpack(sheet: memoryview) -> tuple[list[Row], list[float]]:
    """Rows of a sheet, and their latencies."""
    width = sheet.shape[1] if sheet.shape is not None else 0
    rows: list[Row] = cast(Any, sheet.tolist())
    numbers: list[float] = cast(Any, sheet.cast("B").cast("d").tolist())
    return rows, numbers[width // 2 - 1 :: width // 2]


@twin
def sheet_around(boxes: Any, row: int, around: Any, latencies: list[float]) -> memoryview:
    """`sheet_of` one row of many, and of those around it, which are named by their rows."""
    dimensions, pack = len(boxes[row]) // 2, _row_of(len(boxes[row]) // 2).pack
    rows = [pack(*boxes[row], 0, 0, 0.0)]
    rows += [
        pack(*boxes[each], each, 0, latency)
        for each, latency in zip(around, latencies, strict=True)
    ]
    assert len(rows[0]) == 8 * dimensions + 16, "a row has 2d + 2 short numbers and a long one"
    return _two_dimensional(b"".join(rows), len(rows))


def _row(one: Box) -> Row:
    return (*one[0], *one[1])


def rank(one: Row, other: Row, dimensions: int) -> tuple[int, int]:
    """`Surface.rank` of two rows."""
    mask = (1 << (BITS // dimensions)) - 1
    squared = touching = 0
    for low in range(dimensions):
        high = low + dimensions
        if one[low] >= other[high] or other[low] >= one[high]:
            gap = min((other[low] - one[high]) & mask, (one[low] - other[high]) & mask)
            squared += gap * gap
            touching += gap == 0
    return squared, touching


def nearest(boxes: Iterable[Row], targets: Sequence[Row], dimensions: int) -> tuple[int, int]:
    """The best rank of any of the boxes towards any target."""
    return min(
        (rank(each, target, dimensions) for each in boxes for target in targets), default=(FAR, 0)
    )


def best_hop(
    own: Sequence[Row],
    rows: Sequence[Row],
    latencies: Sequence[float],
    targets: Sequence[Row],
    dimensions: int,
) -> int:
    """The neighbour with the largest progress per latency among those that are nearer than the own
    boxes, or -1.

    Listing 6. Nearer means a smaller (distance, touching dimensions). Ties: fewer touching
    dimensions, then the smaller latency, then the earlier row.
    """
    here = nearest(own, targets, dimensions)
    hop, best, best_touching = -1, -1.0, 0
    for row, each in enumerate(rows):
        there = nearest((each,), targets, dimensions)
        if there >= here:
            continue
        progress, touching = (sqrt(here[0]) - sqrt(there[0])) / latencies[row], there[1]
        if progress < best:
            continue
        if progress == best and (
            touching > best_touching
            or (touching == best_touching and latencies[row] >= latencies[hop])
        ):
            continue
        hop, best, best_touching = row, progress, touching
    return hop


@twin
def hop_by_sheet(sheet: memoryview, owns: int, code: int) -> int:
    """Name of the best hop to a code, or -1; the first `owns` rows are own."""
    rows, latencies = unpack(sheet)
    dimensions = (len(rows[0]) - 4) // 2
    target = _row(box(code, BITS, dimensions))
    hop = best_hop(rows[:owns], rows[owns:], latencies[owns:], [target], dimensions)
    return rows[owns + hop][2 * dimensions] if hop >= 0 else -1


@twin
def hops_of_codes(sheet: memoryview, owns: int, codes: list[int]) -> list[int]:
    """`hop_by_sheet` for many codes."""
    return [hop_by_sheet(sheet, owns, code) for code in codes]


def centre_of(own: Sequence[Row], dimensions: int) -> tuple[int, ...]:
    """Centre of the largest own box, in half units; a leaving peer may have none."""
    if not own:
        return (0,) * dimensions

    def volume(row: Row) -> int:
        return prod(row[dimensions + each] - row[each] for each in range(dimensions))

    largest = max(own, key=volume)
    return tuple(largest[each] + largest[dimensions + each] for each in range(dimensions))


def directions(centre: Row, boxes: Iterable[Row], dimensions: int) -> list[list[float]]:
    """Unit vectors from a centre (in half units) to the centres of boxes, the short way round."""
    turn, found = 2 << (BITS // dimensions), []
    for each in boxes:
        vector, total = list[float](), 0.0
        for dimension in range(dimensions):
            away = (each[dimension] + each[dimension + dimensions] - centre[dimension]) % turn
            away -= turn if away > turn // 2 else 0
            vector.append(float(away))
            total += float(away) * float(away)
        found.append([one / sqrt(total) for one in vector] if total > 0.0 else vector)
    return found


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two unit vectors."""
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += a * b
    return total


def _widest_pair(
    vectors: Sequence[Sequence[float]], members: Sequence[int]
) -> tuple[float, int, int]:
    """The two members with the largest angle between them, and its cosine."""
    widest, one, other = 2.0, -1, -1
    for index, a in enumerate(members):
        for b in members[index + 1 :]:
            cosine = _product(vectors[a], vectors[b])
            if cosine < widest:
                widest, one, other = cosine, a, b
    return widest, one, other


def divide(vectors: Sequence[Sequence[float]], cosine: float) -> list[int]:
    """Which cluster each unit vector falls into: split around the widest pair while it is wider
    than the angle.

    Divisive clustering of thesis section 7.2.2. A cosine above 1 puts every vector alone, one below
    -1 keeps all together. Clusters are numbered in order of creation; ties go to the earlier
    vector.
    """
    if cosine > 1.0:
        return list(range(len(vectors)))
    cluster, clusters, current = [0] * len(vectors), 1, 0
    while cosine >= -1.0 and current < clusters:
        members = [each for each, number in enumerate(cluster) if number == current]
        widest, one, other = _widest_pair(vectors, members)
        if one < 0 or widest >= cosine:
            current += 1
            continue
        for each in members:
            nearer_other = each != one and _product(vectors[each], vectors[other]) > _product(
                vectors[each], vectors[one]
            )
            if each == other or nearer_other:
                cluster[each] = clusters
        clusters += 1
    return cluster


def branches_of(
    sheet: memoryview, owns: int, tract: tuple[int, ...], cosine: float, merge: bool
) -> list[Found]:
    """A destination divided among neighbours (Listing 7, lines 14 to 25): it is cut into extents,
    these are clustered by direction, and each cluster goes to its next hop. With `merge` clusters
    with one next hop share a branch.
    """
    rows, latencies = unpack(sheet)
    dimensions = (len(rows[0]) - 4) // 2
    own, others = rows[:owns], rows[owns:]
    pieces = [(low, digits * dimensions) for low, digits in extents(tract, dimensions)]
    boxes = [_row(box(low, bits, dimensions)) for low, bits in pieces]
    cluster = divide(directions(centre_of(own, dimensions), boxes, dimensions), cosine)
    hops: dict[int, int] = {}
    parts: dict[int, list[int]] = {}
    for (low, bits), number in zip(pieces, cluster, strict=True):
        if number not in hops:
            targets = [each for each, one in zip(boxes, cluster, strict=True) if one == number]
            hops[number] = best_hop(own, others, latencies[owns:], targets, dimensions)
        part = parts.setdefault(hops[number] if merge else number, [])
        high = low + (1 << (BITS - bits))
        if part and part[-1] == low:
            part[-1] = high
        else:
            part += (low, high)
    named = {hop: others[hop][2 * dimensions] if hop >= 0 else -1 for hop in hops.values()}
    return [(named[key if merge else hops[key]], tuple(part)) for key, part in parts.items()]


@twin
def branches(sheet: memoryview, tract: tuple[int, ...], cosine: float, merge: bool) -> list[Found]:
    """`branches_of` a sheet with one own row."""
    return branches_of(sheet, 1, tract, cosine, merge)


@twin
def digests_into(names: Any, chosen: Any, word: bytes, found: Any) -> None:
    """Write `digest_bits(BITS, name, word)` of the chosen names, rows of bytes, into `found`."""
    for index, each in enumerate(chosen):
        found[index] = digest_bits(BITS, bytes(names[each]), word)
