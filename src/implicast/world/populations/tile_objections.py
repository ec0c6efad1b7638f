"""What must hold of a surface whose peers are asleep, judged by its columns: the same promises as of one that is awake.

The surface is covered and nobody owns what another owns; around every tile the faces that it shares with those in its
table make up its whole skin; every record is with the owner of its home, around every root as many as were registered.
"""

from collections.abc import Iterator

import numpy as np

from implicast.space.morton import BITS, CODES, Codes, side
from implicast.world.populations.shelves import Numbers, Shelves
from implicast.world.populations.surface import Tiling

AT_ONCE = 1 << 22
"""Rows that are looked at together: it bounds memory."""


def cover_objections(tiles: Tiling) -> Iterator[str]:
    """Codes that nobody owns, or two."""
    lows = tiles.low[tiles.order]
    ends = lows + (np.int64(1) << (BITS - tiles.bits[tiles.order]))
    wrong = np.flatnonzero(np.append(lows, CODES) != np.insert(ends, 0, 0))
    yield from (
        f"before the tile {each} along the curve codes are missing, or two own them"
        for each in wrong.tolist()
    )


def table_objections(tiles: Tiling, one: Numbers, other: Numbers) -> Iterator[str]:
    """Tables that do not name exactly those beside their owners; a pair for each neighbour in a table."""
    shared = np.zeros(tiles.peers, np.int64)
    for first in range(0, len(one), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        faces = _faces(tiles, one[some], other[some])
        yield from (
            f"{each} is in a table and beside nobody there"
            for each in other[some][faces == 0].tolist()
        )
        shared += np.bincount(one[some], faces, tiles.peers).astype(np.int64)
    wrong = np.flatnonzero(shared != _skin(tiles))
    yield from (
        f"{each} has a table that is wrong about what is beside it" for each in wrong.tolist()
    )


def _faces(tiles: Tiling, one: Numbers, other: Numbers) -> Codes:
    """By pair, how much of their faces two tiles share; a tile may meet another on both sides, round the torus."""
    dimensions, mask = tiles.dimensions, side(tiles.dimensions) - 1
    ours, theirs = tiles.boxes[one], tiles.boxes[other]
    common = np.minimum(ours[:, dimensions:], theirs[:, dimensions:]) - np.maximum(
        ours[:, :dimensions], theirs[:, :dimensions]
    )
    found = np.zeros(len(one), np.int64)
    for across in range(dimensions):
        above = ((ours[:, dimensions + across] - theirs[:, across]) & mask) == 0
        below = ((theirs[:, dimensions + across] - ours[:, across]) & mask) == 0
        rest = np.delete(common, across, axis=1)
        found += np.where(
            (rest > 0).all(axis=1), rest.prod(axis=1) * (above.astype(np.int64) + below), 0
        )
    return found


def _skin(tiles: Tiling) -> Codes:
    """By tile, all its faces but those with which it meets itself round the torus."""
    edges = tiles.boxes[:, tiles.dimensions :] - tiles.boxes[:, : tiles.dimensions]
    found = np.zeros(tiles.peers, np.int64)
    for across in range(tiles.dimensions):
        faces = np.delete(edges, across, axis=1).prod(axis=1)
        found += np.where(edges[:, across] < side(tiles.dimensions), 2 * faces, 0)
    return found


def shelf_objections(tiles: Tiling, shelves: Shelves, wanted: Codes) -> Iterator[str]:
    """Records that are not at home, and tags with too few of them; `wanted`: by tag, how many there are to be."""
    kept = shelves.lots[~shelves.lots["closed"]]
    there = np.bincount(kept["tag"], kept["count"], len(wanted)).astype(np.int64)
    yield from (
        f"of tag number {each} records are missing"
        for each in np.flatnonzero(there != wanted).tolist()
    )
    kept = kept[np.argsort(kept["first"], kind="stable")]
    highs = tiles.low + (np.int64(1) << (BITS - tiles.bits))
    for start in range(0, len(kept), AT_ONCE >> 3):
        lots = kept[start : start + (AT_ONCE >> 3)]
        owner = np.repeat(lots["peer"], lots["count"])
        first = int(lots["first"][0])
        homes = shelves.homes[first : first + len(owner)]
        astray = owner[(homes < tiles.low[owner]) | (homes >= highs[owner])]
        yield from (f"{each} keeps a record that is not at home there" for each in astray.tolist())
