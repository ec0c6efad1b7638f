"""What must hold of a surface, whole from outside: always, and when all is quiet (thesis section 7.2.4).

Always: no code has two peers that answer for it, firm and without doubt. When quiet: the surface is covered, pieces are
disjoint and firm, every peer has exactly one, tables name exactly the owners of all that is adjacent with their epochs,
and every owner's heirs hold all it keeps (if anything is assured).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, not_

from implicast.overlay.ice.estate import Item
from implicast.overlay.ice.estates import Legacy
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.surface import Surface
from implicast.peer.contract import Address
from implicast.space.morton import CODES
from implicast.space.prefix import sides
from implicast.space.tract import intervals

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""
TILINGS_REMEMBERED = 4
"""A surface is looked at again and again while nobody's ground changes: what follows from titles alone is kept."""
Tables = Mapping[Address, Mapping[int, Title]]
"""By owner: its own titles and those next to them, by their first codes."""
Whole = dict[tuple[Address, Address], tuple[Mapping[bytes, object], int, tuple[Item, ...]]]
"""By heir and owner: a copy that was found to be whole, its size then, and of what. For those who look often."""
_key, _low = attrgetter("key"), attrgetter("low")


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
            found.append(
                f"{surfaces[last].address} and {surfaces[index].address} both answer for {low:#x}"
            )
        if high > reached:
            reached, last = high, index
    return found[:OBJECTIONS_MAX]


def surface_objections(surfaces: Sequence[Surface], whole: Whole | None = None) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = tuple(sorted((title for each in surfaces for title in each.pieces), key=_low))
    # The usual case has nothing that could be objected to: a third of the cost of finding out what it is.
    found = [
        each
        for surface in compress(surfaces, map(not_, map(_is_plain, surfaces)))
        for each in _own(surface)
    ]
    found += tiling_objections(titles)
    if not found and titles:
        found += _table_objections(surfaces, titles)
        found += _heir_objections([each for each in surfaces if each.terms.assured], whole)
    return found[:OBJECTIONS_MAX]


def _is_plain(surface: Surface) -> bool:
    plot = surface.plot
    plain = len(plot.pieces) == 1 and not plot.status
    return plain and not (
        surface.terms.assured and (surface.parting.leaving or surface.succession.is_doubtful)
    )


def _own(surface: Surface) -> list[str]:
    found = []
    if surface.plot.status:
        kinds = ", ".join(sorted({status.kind for status in surface.plot.status.values()}))
        found.append(f"{surface.address} has a piece that is not firm: {kinds}")
    if len(surface.pieces) != (0 if surface.leaving else 1):
        found.append(f"{surface.address} has {len(surface.pieces)} pieces")
    if surface.pieces and surface.is_doubtful:
        found.append(f"{surface.address} doubts itself")
    return found


def _heir_objections(surfaces: Sequence[Surface], whole: Whole | None) -> list[str]:
    estates = {each.address: each.estates.held for each in surfaces}
    found = []
    for each in surfaces:
        heirs, address, most = each.heirs, each.address, each.terms.timers.heirs
        if (
            len(heirs) < most
            and each.pieces
            and len(heirs) < (wanted := min(most, len(each.plot.neighbours())))
        ):
            found.append(f"{address} has {len(heirs)} heirs of {wanted}")
        kept = each.tenant.pack(each.tract) if heirs else ()
        for heir in heirs:
            estate = estates[heir].get(address) if heir in estates else None
            if estate is None or estate.awaited:
                found.append(f"{heir} has no copy of what {address} keeps")
            elif not _has_all((heir, address), estate, kept, whole):
                found.append(f"{heir} lacks some of what {address} keeps")
    return found


def _has_all(
    who: tuple[Address, Address], estate: Legacy, kept: tuple[Item, ...], whole: Whole | None
) -> bool:
    """Does a copy have all that is kept? Not looked at again while neither changes: a third of the cost."""
    before = whole.get(who) if whole is not None else None
    if (
        before is not None
        and before[0] is estate.items
        and before[1] == len(estate.items)
        and before[2] is kept
    ):
        return True
    if not estate.items.keys() >= set(map(_key, kept)):
        return False
    if whole is not None:
        whole[who] = (estate.items, len(estate.items), kept)
    return True


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


def _table_objections(surfaces: Sequence[Surface], titles: tuple[Title, ...]) -> list[str]:
    """Tables that do not name exactly the owners of all that is adjacent."""
    tables = tables_of(titles, surfaces[0].terms.dimensions)
    found = []
    for each in surfaces:
        if not each.pieces or each.plot.atlas.titles == tables[each.address]:
            continue  # one comparison of dictionaries: a tenth of making and comparing sets
        known = {title for title in each.plot.atlas.titles.values() if title.owner != each.address}
        expected = {title for title in tables[each.address].values() if title.owner != each.address}
        if known != expected:
            wrong = sorted(str(title.owner) for title in known ^ expected)
            found.append(f"{each.address} has a table that is wrong about {', '.join(wrong[:4])}")
    return found


@lru_cache(TILINGS_REMEMBERED)
def tables_of(titles: tuple[Title, ...], dimensions: int) -> Tables:
    """What everybody should know on a surface that these titles, in order, cover exactly.

    The neighbour across a face that is at least as large as a piece owns the box beside it: one search. The smaller
    ones are the same pairs whole from the other side. A quarter of the cost of finding all boxes anew (`assemble.py`).
    """
    tables: dict[Address, dict[int, Title]] = {each.owner: {} for each in titles}
    lows = [each.low for each in titles]
    for title in titles:
        table = tables[title.owner]
        table[title.low] = title
        for beside in sides(title.low, title.bits, dimensions):
            other = titles[bisect_right(lows, beside) - 1]
            if other.bits <= title.bits:
                table[other.low] = other
                tables[other.owner][title.low] = title
    return tables
