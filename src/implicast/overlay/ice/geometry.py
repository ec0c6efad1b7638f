"""Which prefixes touch, and whether a table has gaps: the few questions of geometry that life asks.

Answers are remembered: the same few neighbours are looked at again and again (a box costs 10 us to find, 0.1 us to
remember).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.table import Rows
from implicast.space import kernels
from implicast.space.morton import BITS, Box, box, code, side
from implicast.space.surface import Rank, Surface
from implicast.space.tract import Tract, extents

REMEMBERED = 1 << 16
Span = tuple[int, int]
"""The first code of a title and the first one after it; or the first code of a prefix and its bits."""
FARTHEST: Rank = (1 << 62, 0)
"""Of a peer that has no ground."""
FACE: Rank = (0, 1)
"""The rank of two boxes that share a face: at distance 0, touching in one dimension, overlapping in all others."""


@lru_cache(maxsize=REMEMBERED)
def box_of(low: int, bits: int, dimensions: int) -> Box:
    return box(low, bits, dimensions)


@lru_cache(maxsize=REMEMBERED)
def _touch(low: int, bits: int, other_low: int, other_bits: int, dimensions: int) -> bool:
    one, other = box_of(low, bits, dimensions), box_of(other_low, other_bits, dimensions)
    return Surface(dimensions).rank(one, other) == FACE


def touches(one: Title, other: Title, dimensions: int) -> bool:
    """Do two titles share a face?"""
    return _touch(one.low, one.bits, other.low, other.bits, dimensions)


def gap_beside(pieces: Iterable[Title], known: Sequence[Title], dimensions: int) -> tuple[int, int] | None:
    """A prefix (first code, bits) next to the pieces that no title covers, or None: the table has no hole."""
    spans = [(each.low, each.high) for each in known]
    for piece in pieces:
        for low, bits in _sides(piece.low, piece.bits, dimensions):
            gap = _uncovered(low, bits, piece, spans, dimensions)
            if gap is not None:
                return gap
    return None


@lru_cache(maxsize=REMEMBERED)
def _sides(low: int, bits: int, dimensions: int) -> tuple[tuple[int, int], ...]:
    """The boxes of a prefix's own size that share a face with it."""
    corner, upper = box_of(low, bits, dimensions)
    found: dict[int, None] = {}
    for dimension in range(dimensions):
        edge = upper[dimension] - corner[dimension]
        for step in (edge, -edge):
            place = list(corner)
            place[dimension] = (place[dimension] + step) % side(dimensions)
            found[code(tuple(place))] = None
    return tuple((each, bits) for each in found if each != low)


def _uncovered(low: int, bits: int, piece: Title, known: Sequence[Span], dimensions: int) -> Span | None:
    """The first part of a prefix that touches the piece and overlaps nothing known."""
    high = low + (1 << (BITS - bits))
    inside = [each for each in known if each[0] < high and low < each[1]]
    if not inside:
        return low, bits
    if inside[0][0] <= low and high <= inside[0][1]:
        return None
    half = 1 << (BITS - bits - 1)
    for each in (low, low + half):
        if _touch(piece.low, piece.bits, each, bits + 1, dimensions):
            gap = _uncovered(each, bits + 1, piece, inside, dimensions)
            if gap is not None:
                return gap
    return None


def target_rows(part: Tract, dimensions: int) -> Rows:
    """The boxes of a destination's extents, as rows."""
    cut = list(extents(part, dimensions))
    rows = np.empty((len(cut), 2 * dimensions), np.int64)
    for index, (low, digits) in enumerate(cut):
        kernels.locate(low, BITS - digits * dimensions, dimensions, rows[index])
    return rows


def rank_of(boxes: Rows, targets: Rows, dimensions: int) -> Rank:
    """How near any of the boxes is to any of the targets."""
    squared, touching = kernels.nearest(boxes, targets, 0, np.zeros(len(targets), np.int64), dimensions)
    return int(squared), int(touching)
