"""What must hold of a quiet surface, seen from outside (thesis section 7.2.4).

Covered, disjoint, and every peer's table names exactly the owners of all that is adjacent to its pieces.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Protocol

from implicast.overlay.ice.atlas import Atlas
from implicast.overlay.ice.ice import Ice
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.morton import CODES, box, code, side

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""
TILINGS_REMEMBERED = 4
"""A surface is looked at again and again while nobody's ground changes: what follows from titles alone is kept."""
SIDES_REMEMBERED = 1 << 16
Tables = Mapping[Address, Mapping[int, Title]]
"""By owner: its own titles and those next to them, by their first codes."""


class Owner(Protocol):
    """What is looked at of a peer on a surface, kind or living."""

    address: Address
    dimensions: int
    atlas: Atlas

    @property
    def pieces(self) -> Iterable[Title]: ...


def surface_objections(surfaces: Sequence[Ice]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = titles_of(surfaces)
    found = [f"{each.address} has a piece in transit" for each in surfaces if each.unsettled]
    found += tiling_objections(titles)
    if not found and titles:
        found += table_objections(surfaces, titles)
    return found[:OBJECTIONS_MAX]


def titles_of(surfaces: Sequence[Owner]) -> tuple[Title, ...]:
    """All pieces of all, in the order of their codes."""
    return tuple(sorted((title for each in surfaces for title in each.pieces), key=attrgetter("low")))


@lru_cache(TILINGS_REMEMBERED)
def tiling_objections(titles: tuple[Title, ...]) -> tuple[str, ...]:
    """Of all titles in order: codes that nobody owns, and codes that two own."""
    found = []
    reached, last = 0, None
    for title in titles:
        high = title.high
        if title.low > reached:
            found.append(f"nobody owns the codes from {reached:#x} to {title.low:#x}")
        if title.low < reached:
            found.append(f"{last} and {title.owner} both own codes from {title.low:#x}")
        if high > reached:
            reached, last = high, title.owner
    if titles and reached < CODES:
        found.append(f"nobody owns the codes from {reached:#x} on")
    return tuple(found)


def table_objections(surfaces: Sequence[Owner], titles: tuple[Title, ...]) -> list[str]:
    """Tables that do not name exactly the owners of all that is adjacent."""
    tables = tables_of(titles, surfaces[0].dimensions)
    found = []
    for each in surfaces:
        if not each.pieces or each.atlas.titles == tables[each.address]:
            continue  # one comparison of dictionaries: a tenth of making and comparing sets
        known = {title for title in each.atlas.titles.values() if title.owner != each.address}
        expected = {title for title in tables[each.address].values() if title.owner != each.address}
        if known != expected:
            wrong = sorted(str(title.owner) for title in known ^ expected)
            found.append(f"{each.address} has a table that is wrong about {', '.join(wrong[:4])}")
    return found


@lru_cache(TILINGS_REMEMBERED)
def tables_of(titles: tuple[Title, ...], dimensions: int) -> Tables:
    """What everybody should know on a surface that these titles, in order, cover exactly.

    The neighbour across a face that is at least as large as a piece owns the box beside it: one search. The smaller
    ones are the same pairs seen from the other side. A quarter of the cost of finding all boxes anew (`assemble.py`).
    """
    tables: dict[Address, dict[int, Title]] = {each.owner: {} for each in titles}
    lows = [each.low for each in titles]
    for title in titles:
        table = tables[title.owner]
        table[title.low] = title
        for beside in _beside(title.low, title.bits, dimensions):
            other = titles[bisect_right(lows, beside) - 1]
            if other.bits <= title.bits:
                table[other.low] = other
                tables[other.owner][title.low] = title
    return tables


@lru_cache(SIDES_REMEMBERED)
def _beside(low: int, bits: int, dimensions: int) -> tuple[int, ...]:
    """The first codes of the boxes of a piece's own size that share a face with it."""
    corner, upper = box(low, bits, dimensions)
    found = []
    for dimension in range(dimensions):
        edge = upper[dimension] - corner[dimension]
        for step in (edge, -edge):
            there = list(corner)
            there[dimension] = (there[dimension] + step) % side(dimensions)
            found.append(code(tuple(there)))
    return tuple(found)


def disjoint_firm(surfaces: Sequence[Ice]) -> bool:
    """At any time, quiet or not: no code has two peers that answer for it."""
    spans = sorted((low, high) for each in surfaces for low, high in zip(each.firm[::2], each.firm[1::2], strict=True))
    return all(before[1] <= after[0] for before, after in pairwise(spans))
