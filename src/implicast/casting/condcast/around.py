"""Where a cast goes from a node some of whose fingers are lost: the procedure of `split.py` around them.

A piece goes to the closest finger before it that is not lost. What lies beyond a lost right neighbour, and before the
next finger, nobody else can reach: it is *stuck* until the ring has closed over the gap. What the lost said of an arc
stays as true as it was, so aggregates count whoever gave them.
"""

from collections.abc import Callable, Iterable

from implicast.casting.condcast.split import Match, Onward, joined, proven_empty
from implicast.overlay.chord_sharp import Table
from implicast.overlay.links import Ref
from implicast.space.ring import Arc, minus_all


def split_around(
    table: Table, arcs: Iterable[Arc], match: Match, is_lost: Callable[[Ref], bool]
) -> tuple[bool, Onward, tuple[Arc, ...]]:
    """Whether the node's own key is in the range; where the pieces beyond its own go; what is stuck."""
    empty = [arc for level in range(len(table)) if (arc := proven_empty(table, level, match)) is not None]
    points = [table.me.key, *(node.key for node in table.nodes)]
    usable = [level for level, node in enumerate(table.nodes) if not is_lost(node)]
    here, stuck = False, []
    pieces: dict[int, list[Arc]] = {}
    for arc in arcs:
        here = here or table.me.key in arc
        for piece in (piece for left in minus_all(arc, empty) for piece in left.cut(points)):
            level = _closest(table, piece, usable)
            if level is not None:
                pieces.setdefault(level, []).append(piece)
            elif table.nodes and table.mark(piece.start) >= table.bounds()[1]:
                stuck.append(piece)
    return here, [(table.nodes[level], joined(pieces[level])) for level in sorted(pieces)], joined(stuck)


def _closest(table: Table, piece: Arc, usable: list[int]) -> int | None:
    """The farthest of these levels that does not lie beyond the start of the piece."""
    mark, bounds = table.mark(piece.start), table.bounds()
    return max((level for level in usable if bounds[level + 1] <= mark), key=lambda at: bounds[at + 1], default=None)
