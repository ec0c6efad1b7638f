"""Compiled geometry: who is nearest, and how a destination falls into clusters.

These few functions run once per hop, millions of times per run. Plain Python takes 8 to 15 us for
one next hop among ten neighbours; compiled it is 0.5 us (`bench/surface.py`). Where the package was
built with a C compiler their twins in `_kernels.pyx` take their place; elsewhere Numba compiles
them, at the price of 135 MB and two thirds of a second for each process; without both they run as
they stand. The results are the same: distances are whole numbers, and roots and products are plain
IEEE operations in a fixed order. The readable definitions are `surface.Surface.rank` and
`angle.clusters`; tests hold all to the same answers.

Boxes are rows of 2d integers: d lower corners, then d upper ones.
"""

from collections.abc import Callable
from math import sqrt
from os import environ
from typing import Any, TypeVar, cast

import numpy as np

from implicast.space.built import built
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS

Function = TypeVar("Function", bound=Callable[..., Any])
_BUILT = built("space._kernels")


def compiled(function: Function) -> Function:
    """The function's twin where such were built (helpers of others have none); else as Numba
    compiles it.
    """
    return (
        by_numba(function)
        if _BUILT is None
        else cast(Function, getattr(_BUILT, function.__name__, function))
    )


def twin(function: Function) -> Function:
    """The function's twin where such were built; else as it stands, for it makes values that Numba
    cannot.
    """
    return (
        function if _BUILT is None else cast(Function, getattr(_BUILT, function.__name__, function))
    )


def by_numba(function: Function) -> Function:
    if (
        environ.get("IMPLICAST_NUMBA") == "0"
    ):  # a single node routes little, and Numba takes 60 MB and a second
        return function
    try:
        from numba import njit  # type: ignore[import-untyped, unused-ignore]
    except ImportError:  # slower, not different
        return function
    try:
        return cast(Function, njit(cache=True, error_model="numpy")(function))
    # nowhere to write what is compiled, neither here nor in a home: compiled anew in each process
    except RuntimeError:
        return cast(Function, njit(error_model="numpy")(function))


@compiled
def locate(code: int, shift: int, dimensions: int, row: Any) -> None:
    """Write the box of an extent (`shift` bits long, a multiple of the dimensions) into a row."""
    for dimension in range(dimensions):
        row[dimension] = 0
    dimension = 0
    for position in range(BITS - 1, -1, -1):
        row[dimension] = (row[dimension] << 1) | ((code >> position) & 1)
        dimension += 1
        if dimension == dimensions:
            dimension = 0
    length = 1 << (shift // dimensions)
    for dimension in range(dimensions):
        row[dimensions + dimension] = row[dimension] + length


@compiled
def rank(one: Any, other: Any, dimensions: int) -> tuple[int, int]:
    """`Surface.rank` of two rows."""
    mask = (1 << (BITS // dimensions)) - 1
    squared = 0
    touching = 0
    for low in range(dimensions):
        high = low + dimensions
        if one[low] >= other[high] or other[low] >= one[high]:
            gap = min((other[low] - one[high]) & mask, (one[low] - other[high]) & mask)
            squared += gap * gap
            if gap == 0:
                touching += 1
    return squared, touching


@compiled
def nearest(boxes: Any, targets: Any, first: int, chosen: Any, dimensions: int) -> tuple[int, int]:
    """The best rank of any of the boxes towards any target row i with chosen[i] == first."""
    best, best_touching = 1 << 62, 0
    for target in range(targets.shape[0]):
        if chosen[target] != first:
            continue
        for each in range(boxes.shape[0]):
            squared, touching = rank(boxes[each], targets[target], dimensions)
            if squared < best or (squared == best and touching < best_touching):
                best, best_touching = squared, touching
    return best, best_touching


@compiled
def best_hop(
    own: Any, rows: Any, latencies: Any, targets: Any, cluster: int, chosen: Any, dimensions: int
) -> int:
    """The neighbour with the largest progress per latency among those that are nearer than we are,
    or -1.

    Listing 6. Nearer means a smaller (distance, touching dimensions). Ties: fewer touching
    dimensions, then the smaller latency, then the earlier row.
    """
    own_squared, own_touching = nearest(own, targets, cluster, chosen, dimensions)
    here = sqrt(own_squared)
    hop = -1
    best, best_touching = -1.0, 0
    for row in range(rows.shape[0]):
        squared, touching = nearest(rows[row : row + 1], targets, cluster, chosen, dimensions)
        if squared > own_squared or (squared == own_squared and touching >= own_touching):
            continue
        progress = (here - sqrt(squared)) / latencies[row]
        if progress < best:
            continue
        tied = progress == best
        if tied and (
            touching > best_touching
            or (touching == best_touching and latencies[row] >= latencies[hop])
        ):
            continue
        hop, best, best_touching = row, progress, touching
    return hop


@compiled
def hop_to_code(own: Any, rows: Any, latencies: Any, code: int, dimensions: int) -> int:
    """`best_hop` towards a single code."""
    target = np.empty((1, 2 * dimensions), np.int64)
    locate(code, 0, dimensions, target[0])
    return best_hop(own, rows, latencies, target, 0, np.zeros(1, np.int64), dimensions)


def sheet_of(own: Any, rows: Any, latencies: Any, names: Any) -> Any:
    """A whole table on one sheet, for `hop_by_sheet`: per box its corners, its name, a spare, and
    its latency's bits.

    Next hops are found at one peer after the other, and every separate object on the way is a miss
    of the cache. With 65,536 peers a sheet made a next hop 2.3 us instead of 4.
    """
    boxes = np.concatenate([own, rows]).astype(np.int32)
    sheet = np.zeros((len(boxes), boxes.shape[1] + 4), np.int32)
    sheet[:, : boxes.shape[1]] = boxes
    sheet[len(own) :, boxes.shape[1]] = names
    sheet.view(np.float64)[len(own) :, -1] = latencies
    return sheet


@twin
def sheet_of_row(boxes: Any, row: int, around: Any, latencies: list[float]) -> Any:
    """`sheet_of` one box of many and those around it, named by their rows."""
    return sheet_of(boxes[row : row + 1], boxes[around], latencies, around)


@compiled
def hop_by_sheet(sheet: Any, owns: int, code: int) -> int:
    """The neighbour that `hop_to_code` finds, by name, or -1; the first `owns` rows are own."""
    dimensions = (sheet.shape[1] - 4) // 2
    paces = sheet.view(np.float64)
    target = np.empty(2 * dimensions, np.int64)
    locate(code, 0, dimensions, target)
    own_squared, own_touching = rank(sheet[0], target, dimensions) if owns else (1 << 62, 0)
    for row in range(1, owns):
        squared, touching = rank(sheet[row], target, dimensions)
        if squared < own_squared or (squared == own_squared and touching < own_touching):
            own_squared, own_touching = squared, touching
    here = sqrt(own_squared)
    name, best, best_touching, best_latency = -1, -1.0, 0, 0.0
    for row in range(owns, sheet.shape[0]):
        squared, touching = rank(sheet[row], target, dimensions)
        if squared > own_squared or (squared == own_squared and touching >= own_touching):
            continue
        latency = paces[row, dimensions + 1]
        progress = (here - sqrt(squared)) / latency
        if progress < best:
            continue
        if progress == best and (
            touching > best_touching or (touching == best_touching and latency >= best_latency)
        ):
            continue
        name, best, best_touching, best_latency = (
            sheet[row, 2 * dimensions],
            progress,
            touching,
            latency,
        )
    return name


@compiled
def hops_by_sheet(sheet: Any, owns: int, codes: Any) -> Any:
    """`hop_by_sheet` for many codes."""
    found = np.empty(codes.shape[0], np.int64)
    for each in range(codes.shape[0]):
        found[each] = hop_by_sheet(sheet, owns, codes[each])
    return found


@compiled
def cut(tract: Any, dimensions: int) -> Any:
    """The extents of a tract, as `tract.extents`: rows (first code, bits of length)."""
    found = np.empty((16, 2), np.int64)
    count = 0
    for index in range(0, tract.shape[0], 2):
        low, high = tract[index], tract[index + 1]
        while low < high:
            shift = 0
            while shift + dimensions <= BITS:
                length = 1 << (shift + dimensions)
                if low & (length - 1) != 0 or low + length > high:
                    break
                shift += dimensions
            if count == found.shape[0]:
                larger = np.empty((2 * count, 2), np.int64)
                larger[:count] = found
                found = larger
            found[count, 0] = low
            found[count, 1] = shift
            count += 1
            low += 1 << shift
    return found[:count]


@compiled
def directions(centre: Any, boxes: Any, dimensions: int) -> Any:
    """Unit vectors from a centre (in half units) to the centres of boxes, the short way round."""
    turn = 2 << (BITS // dimensions)
    found = np.empty((boxes.shape[0], dimensions))
    for each in range(boxes.shape[0]):
        total = 0.0
        for dimension in range(dimensions):
            away = (
                boxes[each, dimension] + boxes[each, dimension + dimensions] - centre[dimension]
            ) & (turn - 1)
            if away > turn // 2:
                away -= turn
            found[each, dimension] = away
            total += float(away) * float(away)
        if total > 0.0:
            for dimension in range(dimensions):
                found[each, dimension] /= sqrt(total)
    return found


@compiled
def product(vectors: Any, one: int, other: int) -> float:
    """The cosine of the angle between two unit vectors."""
    total = 0.0
    for dimension in range(vectors.shape[1]):
        total += vectors[one, dimension] * vectors[other, dimension]
    return total


@compiled
def widest_pair(vectors: Any, cluster: Any, current: int) -> tuple[float, int, int]:
    """The two members of a cluster with the largest angle between them, and its cosine."""
    widest, one, other = 2.0, -1, -1
    for a in range(vectors.shape[0]):
        if cluster[a] != current:
            continue
        for b in range(a + 1, vectors.shape[0]):
            if cluster[b] == current:
                cosine = product(vectors, a, b)
                if cosine < widest:
                    widest, one, other = cosine, a, b
    return widest, one, other


@compiled
def divide(vectors: Any, cosine: float) -> Any:
    """Which cluster each unit vector falls into: split around the widest pair while it is wider
    than the angle.

    Divisive clustering of thesis section 7.2.2. A cosine above 1 puts every vector alone, one below
    -1 keeps all together. Clusters are numbered in order of creation; ties go to the earlier
    vector.
    """
    count = vectors.shape[0]
    cluster = np.zeros(count, np.int64)
    if cosine > 1.0:
        return np.arange(count)
    clusters, current = 1, 0
    while cosine >= -1.0 and current < clusters:
        widest, one, other = widest_pair(vectors, cluster, current)
        if one < 0 or widest >= cosine:
            current += 1
            continue
        for each in range(count):
            if cluster[each] != current or each == one:
                continue
            if each == other or product(vectors, each, other) > product(vectors, each, one):
                cluster[each] = clusters
        clusters += 1
    return cluster


@compiled
def branch(
    tract: Any, own: Any, centre: Any, rows: Any, latencies: Any, cosine: float, dimensions: int
) -> Any:
    """Cut a destination into extents, cluster them, and find each cluster's next hop (Listing 7,
    lines 14 to 25).

    One row per extent: first code, bits of length, cluster, row of the neighbour to send it to (-1:
    none is nearer).
    """
    pieces = cut(tract, dimensions)
    count = pieces.shape[0]
    boxes = np.empty((count, 2 * dimensions), np.int64)
    for each in range(count):
        locate(pieces[each, 0], pieces[each, 1], dimensions, boxes[each])
    cluster = divide(directions(centre, boxes, dimensions), cosine)
    found = np.empty((count, 4), np.int64)
    hops = np.full(count, -2)
    for each in range(count):
        if hops[cluster[each]] == -2:
            hops[cluster[each]] = best_hop(
                own, rows, latencies, boxes, cluster[each], cluster, dimensions
            )
        found[each, 0] = pieces[each, 0]
        found[each, 1] = pieces[each, 1]
        found[each, 2] = cluster[each]
        found[each, 3] = hops[cluster[each]]
    return found


def parts_of(found: Any, merge: bool) -> list[tuple[int, tuple[int, ...]]]:
    """What `branch` found by next hop, -1 for none: with `merge`, clusters with one next hop share
    a branch.
    """
    parts: dict[int, list[int]] = {}
    hops: dict[int, int] = {}
    for low, shift, cluster, hop in found.tolist():
        key = hop if merge else cluster
        hops[key] = hop
        part = parts.setdefault(key, [])
        if part and part[-1] == low:
            part[-1] = low + (1 << shift)
        else:
            part += (low, low + (1 << shift))
    return [(hops[key], tuple(part)) for key, part in parts.items()]


@twin
def branches(
    sheet: Any, tract: tuple[int, ...], cosine: float, merge: bool
) -> list[tuple[int, tuple[int, ...]]]:
    """A destination divided among neighbours by a sheet whose first row is our only piece: names,
    -1 for none, with their parts.
    """
    dimensions = (sheet.shape[1] - 4) // 2
    boxes, paces = (
        sheet[:, : 2 * dimensions].astype(np.int64),
        sheet.view(np.float64)[1:, -1].copy(),
    )
    centre = boxes[0, :dimensions] + boxes[0, dimensions:]
    found = branch(
        np.array(tract, np.int64), boxes[:1], centre, boxes[1:], paces, cosine, dimensions
    )
    names = sheet[1:, 2 * dimensions].tolist()
    return [(names[hop] if hop >= 0 else -1, part) for hop, part in parts_of(found, merge)]


@twin
def digests(names: Any, chosen: Any, word: bytes) -> Any:
    """`digest_bits(BITS, name, word)` of those of the names, rows of bytes, that are chosen."""
    return np.array(
        [digest_bits(BITS, names[each].tobytes(), word) for each in chosen.tolist()], np.int64
    )
