"""Prefixes of codes, each a box of the surface: which prefixes share a face, and which neighbouring
space no prefix covers.

A prefix is given by its first code and its number of bits. The same few are used again and again,
so results are cached (a box costs 10 us to compute, 0.1 us to look up).
"""

from collections.abc import Sequence
from functools import lru_cache

from implicast.space.morton import BITS, box, code, side
from implicast.space.surface import Rank, Surface

REMEMBERED = 1 << 16
Span = tuple[int, int]
"""The first code of a prefix and the first one after it; or its first code and its bits."""
FACE: Rank = (0, 1)
"""The rank of two boxes that share a face: at distance 0, touching in one dimension, overlapping in
all others.
"""

box_of = lru_cache(maxsize=REMEMBERED)(box)


def sibling(low: int, bits: int) -> int:
    """The first code of the prefix that differs in the last bit."""
    return low ^ (1 << (BITS - bits))


@lru_cache(maxsize=REMEMBERED)
def touch(low: int, bits: int, other_low: int, other_bits: int, dimensions: int) -> bool:
    """Do two prefixes share a face?"""
    one, other = box_of(low, bits, dimensions), box_of(other_low, other_bits, dimensions)
    return Surface(dimensions).rank(one, other) == FACE


@lru_cache(maxsize=REMEMBERED)
def sides(low: int, bits: int, dimensions: int) -> tuple[int, ...]:
    """The first codes of the prefixes of the same size that share a face with this one."""
    corner, upper = box_of(low, bits, dimensions)
    found: dict[int, None] = {}
    for dimension in range(dimensions):
        edge = upper[dimension] - corner[dimension]
        for step in (edge, -edge):
            place = list(corner)
            place[dimension] = (place[dimension] + step) % side(dimensions)
            found[code(tuple(place))] = None
    found.pop(low, None)
    return tuple(found)


def gap_beside(low: int, bits: int, known: Sequence[Span], dimensions: int) -> Span | None:
    """A prefix (first code, bits) next to this one that none of the known spans covers; None: there
    is no gap.
    """
    for each in sides(low, bits, dimensions):
        found = _uncovered(each, bits, (low, bits), known, dimensions)
        if found is not None:
            return found
    return None


def _uncovered(
    low: int, bits: int, piece: Span, known: Sequence[Span], dimensions: int
) -> Span | None:
    """The first part of a prefix that touches the piece and overlaps nothing known."""
    high = low + (1 << (BITS - bits))
    inside = [each for each in known if each[0] < high and low < each[1]]
    if not inside:
        return low, bits
    if inside[0][0] <= low and high <= inside[0][1]:
        return None
    for half in (low, low + (1 << (BITS - bits - 1))):
        if touch(*piece, half, bits + 1, dimensions):
            found = _uncovered(half, bits + 1, piece, inside, dimensions)
            if found is not None:
                return found
    return None
