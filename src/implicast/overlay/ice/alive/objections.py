"""What must hold of a living surface, seen from outside: always, and when all is quiet.

Always: no code has two peers that answer for it, firm and without doubt. When quiet: the surface is covered, pieces are
disjoint and firm, every peer has exactly one, tables name exactly the owners of all that is adjacent with their epochs,
and every owner's heirs hold all it keeps.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.assemble import adjacency, tiles_of
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.morton import CODES
from implicast.space.tract import intervals

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


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
    titles = sorted((title for each in surfaces for title in each.pieces), key=lambda title: title.low)
    found = [objection for each in surfaces for objection in _own_objections(each)]
    found += _tiling_objections(titles)
    if not found and titles:
        found += _table_objections(surfaces, titles)
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


def _tiling_objections(titles: list[Title]) -> list[str]:
    found = []
    if titles and titles[0].low > 0:
        found.append(f"nobody owns the codes up to {titles[0].low:#x}")
    for one, other in pairwise(titles):
        if other.low > one.high:
            found.append(f"nobody owns the codes from {one.high:#x} to {other.low:#x}")
        if other.low < one.high:
            found.append(f"{one.owner} and {other.owner} both own codes from {other.low:#x}")
    if titles and titles[-1].high < CODES:
        found.append(f"nobody owns the codes from {titles[-1].high:#x} on")
    return found


def _table_objections(surfaces: Sequence[LivingIce], titles: list[Title]) -> list[str]:
    expected: dict[Address, set[Title]] = {each.address: set() for each in surfaces}
    low, bits = (np.array([getattr(each, name) for each in titles], np.int64) for name in ("low", "bits"))
    for one, other in zip(*adjacency(tiles_of(low, bits, surfaces[0].dimensions)), strict=True):
        if titles[one].owner != titles[other].owner:
            expected[titles[one].owner].add(titles[other])
    found = []
    for each in surfaces:
        known = {title for title in each.atlas.titles.values() if title.owner != each.address}
        if each.pieces and known != expected[each.address]:
            wrong = sorted(repr(title.owner) for title in known ^ expected[each.address])
            found.append(f"{each.address} has a table that is wrong about {', '.join(wrong[:4])}")
    return found


def _heir_objections(surfaces: Sequence[LivingIce]) -> list[str]:
    by_address = {each.address: each for each in surfaces}
    found = []
    for each in surfaces:
        wanted = min(each.life.heirs, len(each.neighbours()))
        if each.pieces and len(each.heirs) < wanted:
            found.append(f"{each.address} has {len(each.heirs)} heirs of {wanted}")
        kept = {item.key for item in each.keeper.pack(each.tract)} if each.heirs else set()
        for heir in each.heirs:
            holder = by_address.get(heir)
            estate = holder.estates.get(each.address) if holder is not None else None
            if estate is None or estate.awaited:
                found.append(f"{heir} has no copy of what {each.address} keeps")
            elif not kept <= estate.items.keys():
                found.append(f"{heir} lacks some of what {each.address} keeps")
    return found
