"""What must hold of a quiet surface, seen from outside (thesis section 7.2.4).

Covered, disjoint, and every peer's table names exactly the owners of all that is adjacent to its pieces.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from implicast.overlay.ice.assemble import adjacency, tiles_of
from implicast.overlay.ice.ice import Ice
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.morton import CODES

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


def surface_objections(surfaces: Sequence[Ice]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = sorted((title for each in surfaces for title in each.pieces), key=lambda title: title.low)
    found = [f"{each.address} has a piece in transit" for each in surfaces if each.unsettled]
    found += _tiling_objections(titles)
    if not found and titles:
        found += _table_objections(surfaces, titles)
    return found[:OBJECTIONS_MAX]


def _tiling_objections(titles: list[Title]) -> list[str]:
    found, reached = [], 0
    for title in titles:
        if title.low > reached:
            found.append(f"nobody owns the codes from {reached} to {title.low}")
        if title.low < reached:
            found.append(f"{title.owner} and another peer own codes from {title.low}")
        reached = max(reached, title.high)
    if titles and reached < CODES:
        found.append(f"nobody owns the codes from {reached} on")
    return found


def _table_objections(surfaces: Sequence[Ice], titles: list[Title]) -> list[str]:
    expected: dict[Address, set[Title]] = {each.address: set() for each in surfaces}
    low, bits = (np.array([getattr(each, name) for each in titles], np.int64) for name in ("low", "bits"))
    for one, other in zip(*adjacency(tiles_of(low, bits, surfaces[0].dimensions)), strict=True):
        if titles[one].owner != titles[other].owner:
            expected[titles[one].owner].add(titles[other])
    found = []
    for each in surfaces:
        known = {title for title in each.atlas.titles.values() if title.owner != each.address}
        if each.pieces and known != expected[each.address]:
            wrong = sorted(str(title.owner) for title in known ^ expected[each.address])
            found.append(f"{each.address} has a table that is wrong about {', '.join(wrong[:4])}")
    return found


def disjoint_firm(surfaces: Sequence[Ice]) -> bool:
    """At any time, quiet or not: no code has two peers that answer for it."""
    spans = sorted((low, high) for each in surfaces for low, high in zip(each.firm[::2], each.firm[1::2], strict=True))
    return all(before[1] <= after[0] for before, after in pairwise(spans))
