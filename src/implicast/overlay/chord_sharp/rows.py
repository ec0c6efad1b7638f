"""Answers to getEnt that travel with an update, so that most nodes need not be asked (condcast, "piggy-backing").

Seen by the node that gets the rows, row x holds what the node 1 + x places ahead would have answered when the update
left it. Level y asks the node 2^y ahead, which is row 2^y - 1. So row x is needed for the levels y with 2^y - 1 >= x
only, and 2^(m-1) rows serve m levels (the paper reserves 2^m): 2^m - 1 entries in all.
"""

from implicast.overlay.chord_sharp.messages import Ent
from implicast.overlay.chord_sharp.table import Table

Rows = tuple[tuple[Ent, ...], ...]
"""Row x starts at its first needed level, ceil(log2(x + 1))."""


def first_level(row: int) -> int:
    """The lowest level that may still use this row: the least y with 2^y - 1 >= row."""
    return row.bit_length()


def row_entry(rows: Rows, level: int) -> Ent | None:
    """What the node 2^level ahead would answer, if the rows know."""
    row = (1 << level) - 1
    return rows[row][0] if row < len(rows) and rows[row] else None


def carried_on(rows: Rows, table: Table, levels: int) -> Rows:
    """The rows for the node behind: one's own answers first, all others one place farther, cut to `levels` levels."""
    if levels <= 0:
        return ()
    mine = tuple(table.answer(level)[0] for level in range(min(levels, len(table))))
    kept = [mine]
    for row in range(1, min(1 << (levels - 1), len(rows) + 1)):
        older = rows[row - 1]
        skipped = first_level(row) - first_level(row - 1)
        kept.append(older[skipped : skipped + levels - first_level(row)])
    return tuple(kept)
