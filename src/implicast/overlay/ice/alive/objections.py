"""What must hold of a living surface, seen from outside: always, and when all is quiet.

Always: no code has two peers that answer for it, firm and without doubt. When quiet: the surface is covered, pieces are
disjoint and firm, every peer has exactly one, tables name exactly the owners of all that is adjacent with their epochs,
and every owner's heirs hold all it keeps.
"""

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter, not_

from implicast.overlay.ice.alive.estate import Item
from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.alive.inheriting import Estate
from implicast.overlay.ice.invariants import OBJECTIONS_MAX, table_objections, tiling_objections, titles_of
from implicast.space.tract import intervals

_key = attrgetter("key")


def doubles(surfaces: Sequence[LivingIce]) -> list[str]:
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


def surface_objections(surfaces: Sequence[LivingIce]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    titles = titles_of(surfaces)
    # The usual case has nothing that could be objected to: a third of the cost of finding out what it is.
    plain = [len(each.pieces) == 1 and not (each.status or each.leaving or each.is_doubtful) for each in surfaces]
    found = [each for surface in compress(surfaces, map(not_, plain)) for each in _own_objections(surface)]
    found += tiling_objections(titles)
    if not found and titles:
        found += table_objections(surfaces, titles)
        found += _heir_objections(surfaces)
    return found[:OBJECTIONS_MAX]


def _own_objections(surface: LivingIce) -> list[str]:
    found = []
    if surface.status:
        kinds = ", ".join(sorted({status.kind for status in surface.status.values()}))
        found.append(f"{surface.address} has a piece that is not firm: {kinds}")
    if len(surface.pieces) != (0 if surface.leaving else 1):
        found.append(f"{surface.address} has {len(surface.pieces)} pieces")
    if surface.pieces and surface.is_doubtful:
        found.append(f"{surface.address} doubts itself")
    return found


def _heir_objections(surfaces: Sequence[LivingIce]) -> list[str]:
    estates = {each.address: each.estates for each in surfaces}
    found = []
    for each in surfaces:
        heirs, address = each.heirs, each.address
        if len(heirs) < each.life.heirs and each.pieces:
            wanted = min(each.life.heirs, len(each.neighbours()))
            if len(heirs) < wanted:
                found.append(f"{address} has {len(heirs)} heirs of {wanted}")
        kept = each.keeper.pack(each.tract) if heirs else ()
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
