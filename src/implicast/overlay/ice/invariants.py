"""What must hold of a quiet surface, seen from outside (thesis section 7.2.4).

Covered, disjoint, and every peer's table names exactly the owners of all that is adjacent to its pieces.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from operator import attrgetter, not_
from typing import Protocol

from implicast.overlay.ice.atlas import Atlas
from implicast.overlay.ice.estate import Item
from implicast.overlay.ice.estates import Estate
from implicast.overlay.ice.ice import Ice
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.surface import Surface
from implicast.peer.contract import Address
from implicast.space.morton import CODES, box, code, side
from implicast.space.tract import intervals

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


def kind_objections(surfaces: Sequence[Ice]) -> list[str]:
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


# --- with assurance


_key = attrgetter("key")


def doubles(surfaces: Sequence[Surface]) -> list[str]:
    """At any time: codes that two peers answer for."""
    spans = sorted(
        (low, high, index)
        for index, each in enumerate(surfaces)
        if each.ground and not each.is_doubtful
        for low, high in intervals(each.ground)
    )
    found, reached, last = [], 0, -1
    for low, high, index in spans:
        if low < reached:
            found.append(f"{surfaces[last].address} and {surfaces[index].address} both answer for {low:#x}")
        if high > reached:
            reached, last = high, index
    return found[:OBJECTIONS_MAX]


def surface_objections(surfaces: Sequence[Surface]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = titles_of(surfaces)
    # The usual case has nothing that could be objected to: a third of the cost of finding out what it is.
    plain = [len(each.pieces) == 1 and not (each.plot.status or each.leaving or each.is_doubtful) for each in surfaces]
    found = [each for surface in compress(surfaces, map(not_, plain)) for each in _own_objections(surface)]
    found += tiling_objections(titles)
    if not found and titles:
        found += table_objections([each.plot for each in surfaces], titles)
        found += _heir_objections(surfaces)
    return found[:OBJECTIONS_MAX]


def _own_objections(surface: Surface) -> list[str]:
    found = []
    if surface.plot.status:
        kinds = ", ".join(sorted({status.kind for status in surface.plot.status.values()}))
        found.append(f"{surface.address} has a piece that is not firm: {kinds}")
    if len(surface.pieces) != (0 if surface.leaving else 1):
        found.append(f"{surface.address} has {len(surface.pieces)} pieces")
    if surface.pieces and surface.is_doubtful:
        found.append(f"{surface.address} doubts itself")
    return found


def _heir_objections(surfaces: Sequence[Surface]) -> list[str]:
    estates = {each.address: each.estates.held for each in surfaces}
    found = []
    for each in surfaces:
        heirs, address = each.heirs, each.address
        if len(heirs) < each.terms.timers.heirs and each.pieces:
            wanted = min(each.terms.timers.heirs, len(each.plot.neighbours()))
            if len(heirs) < wanted:
                found.append(f"{address} has {len(heirs)} heirs of {wanted}")
        kept = each.tenant.pack(each.tract) if heirs else ()
        for heir in heirs:
            estate = estates[heir].get(address) if heir in estates else None
            if estate is None or estate.awaited:
                found.append(f"{heir} has no copy of what {address} keeps")
            elif not _has_all(estate, kept):
                found.append(f"{heir} lacks some of what {address} keeps")
    return found


def _has_all(estate: Estate, kept: tuple[Item, ...]) -> bool:
    """Does a copy have all that is kept? Not looked at again while neither changes: a third of the cost."""
    seen, changes = estate.seen
    if seen is not kept or changes != estate.changes:
        if not estate.items.keys() >= set(map(_key, kept)):
            return False
        estate.seen = (kept, estate.changes)
    return True
