"""Invariants of a surface with lazy peers, checked by its columns.

The surface is covered and no code has two owners. The faces that a tile shares with the tiles in
its table make up its whole boundary. Every record is stored with the owner of its home, and around
every root there are as many as were registered.
"""

from collections.abc import Iterator

import numpy as np

from implicast.space.morton import BITS, CODES, side
from implicast.world.populations.curve import Codes
from implicast.world.populations.registry_columns import Numbers, RegistryColumns
from implicast.world.populations.surface import Tiling

AT_ONCE = 1 << 22
"""Rows checked at once, to bound memory."""


def cover_objections(tiles: Tiling) -> Iterator[str]:
    """Codes without an owner, or with two."""
    lows = tiles.low[tiles.order]
    ends = lows + (np.int64(1) << (BITS - tiles.bits[tiles.order]))
    wrong = np.flatnonzero(np.append(lows, CODES) != np.insert(ends, 0, 0))
    yield from (
        f"before the tile {each} along the curve codes are missing, or two own them"
        for each in wrong.tolist()
    )


def table_objections(tiles: Tiling, one: Numbers, other: Numbers) -> Iterator[str]:
    """Tables that do not name exactly the adjacent tiles. `one`, `other`: a pair for each table
    entry.
    """
    shared = np.zeros(tiles.peers, np.int64)
    for first in range(0, len(one), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        faces = _faces(tiles, one[some], other[some])
        yield from (
            f"{each} is in the table of a tile that it does not touch"
            for each in other[some][faces == 0].tolist()
        )
        shared += np.bincount(one[some], faces, tiles.peers).astype(np.int64)
    wrong = np.flatnonzero(shared != _skin(tiles))
    yield from (
        f"{each} has a table that is wrong about what is beside it" for each in wrong.tolist()
    )


def _faces(tiles: Tiling, one: Numbers, other: Numbers) -> Codes:
    """By pair, the area of the shared faces. Two tiles may meet on both sides round the torus."""
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
    """By tile, the area of its boundary, without faces where it meets itself round the torus."""
    edges = tiles.boxes[:, tiles.dimensions :] - tiles.boxes[:, : tiles.dimensions]
    found = np.zeros(tiles.peers, np.int64)
    for across in range(tiles.dimensions):
        faces = np.delete(edges, across, axis=1).prod(axis=1)
        found += np.where(edges[:, across] < side(tiles.dimensions), 2 * faces, 0)
    return found


def registry_objections(
    tiles: Tiling, registry_columns: RegistryColumns, wanted: Codes
) -> Iterator[str]:
    """Records that are not stored at home, and tags with a wrong number of records; `wanted`: that
    number by tag.
    """
    open_lots = registry_columns.lots[~registry_columns.lots["closed"]]
    there = np.bincount(open_lots["tag"], open_lots["count"], len(wanted)).astype(np.int64)
    yield from (
        f"of tag number {each} records are missing"
        for each in np.flatnonzero(there != wanted).tolist()
    )
    open_lots = open_lots[np.argsort(open_lots["first"], kind="stable")]
    highs = tiles.low + (np.int64(1) << (BITS - tiles.bits))
    for start in range(0, len(open_lots), AT_ONCE >> 3):
        lots = open_lots[start : start + (AT_ONCE >> 3)]
        owner = np.repeat(lots["peer"], lots["count"])
        first = int(lots["first"][0])
        homes = registry_columns.homes[first : first + len(owner)]
        misplaced = owner[(homes < tiles.low[owner]) | (homes >= highs[owner])]
        yield from (
            f"{each} stores a record that is not at home there" for each in misplaced.tolist()
        )
