"""Invariants of an ICE surface, at any time and at rest (thesis, section 7.2.4).

At any time: no code has two committed owners in contact with their backups. At rest: the surface is
covered, extents are disjoint and committed, every peer has exactly one, tables contain exactly the
claims of all adjacent owners with their epochs and, with assurance, the backups of every owner hold
all its records.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, not_

from implicast.overlay.ice.backup_copy import BackupCopy
from implicast.overlay.ice.fixed_surface import FixedSurface
from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.surface import IceSurface
from implicast.peer.contract import Address
from implicast.space.morton import CODES
from implicast.space.prefix import sides
from implicast.space.tract import intervals

OBJECTIONS_MAX = 20
"""Largest number of violations reported."""
TILINGS_REMEMBERED = 4
"""Tilings whose derived tables are cached: a surface is checked repeatedly while no extent changes.
"""
Tables = Mapping[Address, Mapping[int, OwnershipClaim]]
"""By owner: its own and the adjacent claims, by first code."""
Whole = dict[tuple[Address, Address], tuple[Mapping[bytes, object], int, tuple[Item, ...]]]
"""By backup and owner: a copy found complete, its size then, and the items it was compared with.
Used by repeated checks.
"""
_key, _low = attrgetter("key"), attrgetter("low")


def doubles(surfaces: Sequence[FixedSurface]) -> list[str]:
    """Codes with two owners, at any time."""
    spans = sorted(
        (low, high, index)
        for index, each in enumerate(surfaces)
        if each.committed and not each.is_unconfirmed
        for low, high in intervals(each.committed)
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


def surface_objections(surfaces: Sequence[FixedSurface], whole: Whole | None = None) -> list[str]:
    """Violations of a surface at rest."""
    claims = tuple(sorted((claim for each in surfaces for claim in each.extents), key=_low))
    # Usually a surface has nothing to report; this test costs a third of composing the report.
    found = [
        each
        for surface in compress(surfaces, map(not_, map(_is_plain, surfaces)))
        for each in _own(surface)
    ]
    found += tiling_objections(claims)
    if not found and claims:
        found += _table_objections(surfaces, claims)
        found += _backup_objections([each for each in surfaces if each.settings.assured], whole)
    return found[:OBJECTIONS_MAX]


def _is_plain(surface: FixedSurface) -> bool:
    plain = len(surface.extents) == 1 and not surface.unsettled
    return plain and not (surface.leaving or surface.is_unconfirmed)


def _own(surface: FixedSurface) -> list[str]:
    found = []
    if surface.unsettled:
        kinds = ", ".join(surface.unsettled)
        found.append(f"{surface.address} has an extent that is not committed: {kinds}")
    if len(surface.extents) != (0 if surface.leaving else 1):
        found.append(f"{surface.address} has {len(surface.extents)} extents")
    if surface.extents and surface.is_unconfirmed:
        found.append(f"{surface.address} has no recent acknowledgement from a backup")
    return found


def _backup_objections(surfaces: Sequence[FixedSurface], whole: Whole | None) -> list[str]:
    backup_copies = {
        each.address: each.copies.held for each in surfaces if isinstance(each, IceSurface)
    }
    found = []
    for each in surfaces:
        backups, address, most = each.backups, each.address, each.settings.timers.backups
        if (
            len(backups) < most
            and each.extents
            and len(backups) < (wanted := min(most, len(each.ownership.neighbours())))
        ):
            found.append(f"{address} has {len(backups)} backups of {wanted}")
        items = each.store.pack(each.tract) if backups else ()
        for backup in backups:
            copy = backup_copies[backup].get(address) if backup in backup_copies else None
            if copy is None or copy.awaited:
                found.append(f"{backup} has no backup copy of {address}")
            elif not _has_all((backup, address), copy, items, whole):
                found.append(f"{backup} lacks items of {address}")
    return found


def _has_all(
    who: tuple[Address, Address], copy: BackupCopy, items: tuple[Item, ...], whole: Whole | None
) -> bool:
    """Whether a copy has all items. Skipped while neither has changed: a third of the cost."""
    before = whole.get(who) if whole is not None else None
    if (
        before is not None
        and before[0] is copy.items
        and before[1] == len(copy.items)
        and before[2] is items
    ):
        return True
    if not copy.items.keys() >= set(map(_key, items)):
        return False
    if whole is not None:
        whole[who] = (copy.items, len(copy.items), items)
    return True


@lru_cache(TILINGS_REMEMBERED)
def tiling_objections(claims: tuple[OwnershipClaim, ...]) -> tuple[str, ...]:
    """Codes without an owner, and codes with two, from all claims in order."""
    found = []
    reached, last = 0, None
    for claim in claims:
        high = claim.high
        if claim.low > reached:
            found.append(f"no peer owns the codes from {reached:#x} to {claim.low:#x}")
        if claim.low < reached:
            found.append(f"{last} and {claim.owner} both own codes from {claim.low:#x}")
        if high > reached:
            reached, last = high, claim.owner
    if claims and reached < CODES:
        found.append(f"no peer owns the codes from {reached:#x} on")
    return tuple(found)


def _table_objections(
    surfaces: Sequence[FixedSurface], claims: tuple[OwnershipClaim, ...]
) -> list[str]:
    """Tables that do not contain exactly the adjacent claims."""
    tables = tables_of(claims, surfaces[0].settings.dimensions)
    found = []
    for each in surfaces:
        claims_known = each.claims
        if not each.extents or claims_known == tables[each.address]:
            continue  # comparing dictionaries costs a tenth of building and comparing sets
        known = {claim for claim in claims_known.values() if claim.owner != each.address}
        expected = {claim for claim in tables[each.address].values() if claim.owner != each.address}
        if known != expected:
            wrong = sorted(str(claim.owner) for claim in known ^ expected)
            found.append(f"{each.address} has a table that is wrong about {', '.join(wrong[:4])}")
    return found


@lru_cache(TILINGS_REMEMBERED)
def tables_of(claims: tuple[OwnershipClaim, ...], dimensions: int) -> Tables:
    """The table of each owner on a surface that these claims, in order, cover exactly.

    The neighbour across a face that is at least as large as an extent owns the box beside it, which
    is one search. The smaller neighbours are the same pairs seen from the other side. This costs a
    quarter of computing all boxes (`surface.py`).
    """
    tables: dict[Address, dict[int, OwnershipClaim]] = {each.owner: {} for each in claims}
    lows = [each.low for each in claims]
    for claim in claims:
        table = tables[claim.owner]
        table[claim.low] = claim
        for beside in sides(claim.low, claim.bits, dimensions):
            other = claims[bisect_right(lows, beside) - 1]
            if other.bits <= claim.bits:
                table[other.low] = other
                tables[other.owner][claim.low] = claim
    return tables
