"""The condcast procedure over one table: where a cast goes from one node (section 3.7 and figure 5
of the paper).

Parts of the range that an aggregate proves empty are dropped. The rest is cut at the fingers, and
each piece goes to the closest finger before it. Repairs of the printed code (`FIDELITY.md`): a node
delivers to itself only if its key is in the range, and no aggregate decides for it; the range is
also cut at the node's own key; pieces for one finger go in one message.

`split_by_definition` is the procedure as written and works on tables in any state; so does
`split_around`, where some fingers are lost. `split` is faster on a consistent table: it examines
only the levels that the arcs reach and builds no sets of arcs (4,096 nodes, aggregates of 4,096
bits: 7 us instead of 35 us).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from implicast.overlay.chord_sharp import FingerValue
from implicast.overlay.chord_sharp.table import ClockwiseKey, Table
from implicast.overlay.links import Ref
from implicast.space.ring import Arc, minus_all

Match = Callable[[FingerValue], bool]
NextHops = list[tuple[Ref, tuple[Arc, ...]]]
"""The next hops of a cast, each with its arcs."""


def split_around(
    table: Table, arcs: Iterable[Arc], match: Match, is_lost: Callable[[Ref], bool]
) -> tuple[bool, NextHops, tuple[Arc, ...]]:
    """Return whether the node's own key is in the range, the next hops, and the arcs that are
    stuck.

    A piece goes to the closest finger before it that is not lost. The arc between a lost successor
    and the next finger cannot be reached: it is *stuck* until the ring is repaired over the gap. An
    aggregate of a lost finger is still used: what it states about its arc stays as true as it was.
    """
    empty = [
        arc
        for level, value in enumerate(table.values)
        if value is not None and (arc := table.range(level)) is not None and not match(value)
    ]
    points = [table.me.key, *(node.key for node in table.nodes)]
    usable = [level for level, node in enumerate(table.nodes) if not is_lost(node)]
    here, stuck, pieces, bounds = False, [], [], table.bounds()
    for arc in arcs:
        here = here or table.me.key in arc
        for piece in (piece for left in minus_all(arc, empty) for piece in left.cut(points)):
            mark = table.clockwise_key(piece.start)
            before = [level for level in usable if bounds[level + 1] <= mark]
            if before:
                pieces.append((max(before, key=lambda level: bounds[level + 1]), piece))
            elif table.nodes and mark >= bounds[1]:
                stuck.append(piece)
    return here, _by_finger(table, pieces), joined(stuck)


def split_alone(
    table: Table, arcs: Iterable[Arc], right: Ref
) -> tuple[bool, NextHops, tuple[Arc, ...]]:
    """Return the same for a node whose right neighbour is an earlier incarnation of its own peer,
    so that its table is empty: all beyond that neighbour is stuck until the ring is repaired.
    """
    here, stuck = False, []
    for arc in arcs:
        here = here or table.me.key in arc
        for piece in arc.cut([table.me.key, right.key]):
            if table.clockwise_key(piece.start) >= table.clockwise_key(right.key):
                stuck.append(piece)
    return here, [], joined(stuck)


def split_by_definition(table: Table, arcs: Iterable[Arc], match: Match) -> tuple[bool, NextHops]:
    """Return whether the node's own key is in the range, and the next hops, with no finger lost."""
    return split_around(table, arcs, match, lambda ref: False)[:2]


def joined(arcs: list[Arc]) -> tuple[Arc, ...]:
    """Return the same arcs, with adjoining ones joined."""
    merged: list[Arc] = []
    for arc in arcs:
        if merged and merged[-1].end == arc.start:
            merged[-1] = Arc(merged[-1].start, arc.end)
        else:
            merged.append(arc)
    return tuple(merged)


LevelPiece = tuple[int, ClockwiseKey, ClockwiseKey]
"""A level, and the start and end of the arc that its finger forwards the cast in."""


def split(table: Table, arcs: Iterable[Arc], match: Match) -> tuple[bool, NextHops]:
    """Return the same as `split_by_definition`, faster if the table is consistent."""
    if not table.is_consistent():
        return split_by_definition(table, arcs, match)
    bounds = table.bounds()
    unrolled, me = _unrolled(bounds, arcs), bounds[0]
    here = False
    pieces: list[LevelPiece] = []
    for start, end in unrolled:
        here = here or start == me
        _reach(bounds, table.values, start, end, match, pieces)
    if not pieces:
        return here, []
    if pieces[0][0] < len(table) - 1:
        pieces = _beyond_empty_top(table, match, pieces)
    if len(unrolled) > 1:
        return here, _by_finger(
            table, ((level, Arc(low[1], high[1])) for level, low, high in pieces)
        )
    return here, [(table.nodes[level], (Arc(low[1], high[1]),)) for level, low, high in pieces]


def _unrolled(
    bounds: list[ClockwiseKey], arcs: Iterable[Arc]
) -> list[tuple[ClockwiseKey, ClockwiseKey]]:
    """Return the arcs as intervals clockwise from the node; an arc across the node's own key
    becomes two.
    """
    first, last = bounds[0], bounds[-1]
    own: Any = first[1]  # keys of one ring are of one kind
    found: list[tuple[ClockwiseKey, ClockwiseKey]] = []
    for arc in arcs:
        start, end = (arc.start < own, arc.start), (arc.end < own, arc.end)
        if start < end:
            found.append((start, end))
        else:
            found.append((start, last))
            if end > first:
                found.append((first, end))
    return found


def _reach(
    bounds: list[ClockwiseKey],
    values: list[FingerValue | None],
    start: ClockwiseKey,
    end: ClockwiseKey,
    match: Match,
    pieces: list[LevelPiece],
) -> None:
    """Append the pieces of the levels that [start, end) reaches and that may match."""
    for level in range(max(0, bisect_right(bounds, start) - 2), len(values)):
        low = bounds[level + 1]
        if low >= end:
            return
        value = values[level]
        if value is None or match(value):
            high = bounds[level + 2]
            pieces.append((level, low if low > start else start, high if high < end else end))


def _beyond_empty_top(table: Table, match: Match, pieces: list[LevelPiece]) -> list[LevelPiece]:
    """The top level may extend past the node itself: if it is empty, cut off everything from the
    node up to its end.
    """
    top, end, value = len(table) - 1, table.ends[-1], table.values[-1]
    if end is None or value is None or end == table.me.key or match(value):
        return pieces
    floor = table.clockwise_key(end)
    lifted = [
        piece if piece[0] == top else (piece[0], max(piece[1], floor), piece[2]) for piece in pieces
    ]
    return [piece for piece in lifted if piece[1] < piece[2]]


def _by_finger(table: Table, pieces: Iterable[tuple[int, Arc]]) -> NextHops:
    """Group the pieces by finger, one message each."""
    several: dict[int, list[Arc]] = {}
    for level, arc in pieces:
        several.setdefault(level, []).append(arc)
    return [(table.nodes[level], joined(several[level])) for level in sorted(several)]
