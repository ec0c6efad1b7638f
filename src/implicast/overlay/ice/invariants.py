"""What must hold of a quiet surface, seen from outside (thesis section 7.2.4).

Covered, disjoint, and every peer's table names exactly the owners of all that is adjacent to its pieces.
"""

from collections.abc import Sequence

from implicast.overlay.ice.atlas import overlap
from implicast.overlay.ice.ice import Ice
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.morton import CODES, Box, box
from implicast.space.surface import Surface

OBJECTIONS_MAX = 20
"""More than enough to see what is wrong."""


def surface_objections(surfaces: Sequence[Ice]) -> list[str]:
    """Sentences about what is wrong with a quiet surface; none when all is well."""
    members = [each for each in surfaces if each.pieces or each.joined]
    titles = sorted((title for each in members for title in each.pieces), key=lambda title: title.low)
    found = [f"{each.address} has a piece in transit" for each in members if each.unsettled]
    found += _tiling_objections(titles)
    found += [] if found else _table_objections(members, titles)
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


def _table_objections(members: Sequence[Ice], titles: list[Title]) -> list[str]:
    found = []
    for each in members:
        expected = _adjacent(each, titles)
        known = {title.low: title for title in each.atlas.titles.values() if title.owner != each.address}
        if known != expected:
            wrong = sorted({*_differences(known, expected), *_differences(expected, known)}, key=str)
            found.append(f"{each.address} has a table that is wrong about {', '.join(map(str, wrong[:4]))}")
    return found


def _differences(one: dict[int, Title], other: dict[int, Title]) -> list[Address]:
    return [title.owner for low, title in one.items() if other.get(low) != title]


def _adjacent(peer: Ice, titles: list[Title]) -> dict[int, Title]:
    """By definition: whose box shares a face with one of ours. Boxes are kept, comparing costs a microsecond."""
    surface = Surface(peer.dimensions)
    own = [_box(each, peer.dimensions) for each in peer.pieces]
    return {
        title.low: title
        for title in titles
        if title.owner != peer.address
        and any(surface.rank(_box(title, peer.dimensions), here) == (0, 1) for here in own)
    }


_BOXES: dict[tuple[int, int, int], Box] = {}


def _box(title: Title, dimensions: int) -> Box:
    key = (title.low, title.bits, dimensions)
    return box(*key)


def disjoint_firm(surfaces: Sequence[Ice]) -> bool:
    """At any time, quiet or not: no code has two peers that answer for it."""
    spans = sorted((low, high) for each in surfaces for low, high in zip(each.firm[::2], each.firm[1::2], strict=True))
    return all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))


def contradicts(one: Title, other: Title) -> bool:
    return overlap(one, other) and one.owner != other.owner
