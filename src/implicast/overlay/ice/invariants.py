"""What must hold of a quiet surface, seen from outside (thesis section 7.2.4).

Covered, disjoint, and every peer's table names exactly the owners of all that is adjacent to its pieces.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from implicast.overlay.ice.assemble import adjacency, tiles_of
from implicast.overlay.ice.atlas import Atlas
from implicast.overlay.ice.ice import Ice
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.morton import CODES

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


class Owner(Protocol):
    """What is looked at of a peer on a surface, kind or living."""

    address: Address
    dimensions: int
    atlas: Atlas

    @property
    def pieces(self) -> Iterable[Title]: ...


def surface_objections(surfaces: Sequence[Ice]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = sorted((title for each in surfaces for title in each.pieces), key=lambda title: title.low)
    found = [f"{each.address} has a piece in transit" for each in surfaces if each.unsettled]
    found += tiling_objections(titles)
    if not found and titles:
        found += table_objections(surfaces, titles)
    return found[:OBJECTIONS_MAX]


def tiling_objections(titles: list[Title]) -> list[str]:
    """Of all titles in order: codes that nobody owns, and codes that two own."""
    found = []
    reached, last = 0, None
    for title in titles:
        if title.low > reached:
            found.append(f"nobody owns the codes from {reached:#x} to {title.low:#x}")
        if title.low < reached:
            found.append(f"{last} and {title.owner} both own codes from {title.low:#x}")
        if title.high > reached:
            reached, last = title.high, title.owner
    if titles and reached < CODES:
        found.append(f"nobody owns the codes from {reached:#x} on")
    return found


def table_objections(surfaces: Sequence[Owner], titles: list[Title]) -> list[str]:
    """Tables that do not name exactly the owners of all that is adjacent."""
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
