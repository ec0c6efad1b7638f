"""Tracts: regions of the surface as sorted, disjoint intervals of the Morton curve.

A tract is a flat tuple (low, high, low, high, ...) of half-open intervals with gaps between them,
so it travels inside messages, equal tracts are equal values, and a code lies in it exactly when its
insertion point is odd. Subtracting and intersecting are merges of intervals. Extents (aligned boxes
of base 2^d digits) are made only where they are needed: `extents` cuts a tract into the fewest of
them.

Thesis section 7.2.1: intersect, subtract, volume, scale (drop tail digits), translate (replace head
digits). Distance needs coordinates (`surface.py`), clustering angles (`angle.py`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from implicast.space.morton import BITS, CODES

Tract = tuple[int, ...]
EMPTY: Tract = ()
WHOLE: Tract = (0, CODES)


def contains(tract: Tract, code: int) -> bool:
    return bisect_right(tract, code) & 1 == 1


def volume(tract: Tract) -> int:
    """How many codes; `CODES` is the whole surface."""
    return sum(tract[1::2]) - sum(tract[::2])


def intervals(tract: Tract) -> Iterator[tuple[int, int]]:
    return zip(tract[::2], tract[1::2], strict=True)


def union(parts: Iterable[tuple[int, int]]) -> Tract:
    """The tract of any intervals, overlapping or not, in any order."""
    joined: list[int] = []
    for low, high in sorted(parts):
        if joined and low <= joined[-1]:
            joined[-1] = max(joined[-1], high)
        elif low < high:
            joined += (low, high)
    return tuple(joined)


def unite(one: Tract, other: Tract) -> Tract:
    if not one or not other:
        return one or other
    return union([*intervals(one), *intervals(other)])


def intersect(one: Tract, other: Tract) -> Tract:
    if len(other) == 2:
        return _clip(one, other[0], other[1])
    if len(one) == 2:
        return _clip(other, one[0], one[1])
    found: list[int] = []
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i], other[j]), min(one[i + 1], other[j + 1])
        if low < high:
            found += (low, high)
        if one[i + 1] < other[j + 1]:
            i += 2
        else:
            j += 2
    return tuple(found)


def _clip(tract: Tract, low: int, high: int) -> Tract:
    """What lies in one interval, the most frequent case: a third of the cost of merging."""
    first, last = bisect_right(tract, low), bisect_left(tract, high)
    return (low,) * (first & 1) + tract[first:last] + (high,) * (last & 1)


def subtract(one: Tract, other: Tract) -> Tract:
    """What is in the one and not in the other: the one met with the other's complement."""
    if not one or not other:
        return one
    if len(other) == 2:
        return split(one, other[0], other[1])[1]
    ends = (0, *other, CODES)
    gaps = [
        each
        for low, high in zip(ends[::2], ends[1::2], strict=True)
        if low < high
        for each in (low, high)
    ]
    return intersect(one, tuple(gaps))


def split(tract: Tract, low: int, high: int) -> tuple[Tract, Tract]:
    """What lies in [low, high) and what does not: `intersect` and `subtract` of one interval, six
    times as fast.
    """
    first, last = bisect_left(tract, low), bisect_right(tract, high)
    return _clip(tract, low, high), tract[:first] + (low,) * (first & 1) + (high,) * (
        last & 1
    ) + tract[last:]


def container(address: int, notch: int, dimensions: int) -> tuple[int, int]:
    """The extent of an address with `notch` tail digits omitted, as an interval."""
    shift = min(notch * dimensions, BITS)
    low = address >> shift << shift
    return low, low + (1 << shift)


def within(one: Tract, other: Tract) -> bool:
    """Is the one, a single interval, wholly in the other?"""
    index = bisect_right(other, one[0])
    return index & 1 == 1 and one[1] <= other[index]


def scale_within(
    tract: Tract, address: int, notch: int, dimensions: int, notches: int = 1
) -> Tract:
    """The part of the next container that a part of this one becomes when it is made 2^d times
    larger.

    Thesis, Fig. 8.2: {201, 203} in container 2 becomes {01, 03}. Disjoint tracts scale to disjoint
    tracts.
    """
    low, _ = container(address, notch, dimensions)
    base, _ = container(address, notch + notches, dimensions)
    return tuple(base + (each - low << dimensions * notches) for each in tract)


def translate(address: int, head: int, digits: int, dimensions: int) -> int:
    """The address with its first `digits` digits replaced by those of `head`."""
    shift = BITS - digits * dimensions
    return head >> shift << shift | address & (1 << shift) - 1


def extents(tract: Tract, dimensions: int) -> Iterator[tuple[int, int]]:
    """The fewest extents that make up the tract, in order: (first code, digits)."""
    for low, high in intervals(tract):
        while low < high:
            shift = BITS if low == 0 else (low & -low).bit_length() - 1
            shift = min(shift, (high - low).bit_length() - 1)
            shift -= shift % dimensions
            yield low, (BITS - shift) // dimensions
            low += 1 << shift


def prefixes(tract: Tract) -> Iterator[tuple[int, int]]:
    """The fewest aligned intervals of any power of two that make up the tract: (first code, bits of
    the prefix).
    """
    yield from extents(tract, 1)
