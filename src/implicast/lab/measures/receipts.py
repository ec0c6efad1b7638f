"""Which final receipts are false: what they say against what was seen of their casts by then.

`world/receipts.py` says the same in plain Python, and tests hold the two equal.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from implicast.lab import tables

Ints = npt.NDArray[np.int64]

SAID = ("notified", "declined", "unreachable", "uncertain")
"""What a final receipt says."""
SEEN = ("taken", "first", "short", "selected")
"""What was seen of a cast by the time of its final receipt: notices, notified members, owed members
that were not notified, and members ever selected (0 where the receipt counts none but notified
ones).
"""
BLOCK_COUNTS = pa.schema(
    [
        *tables.RUN_CONTRACT,
        ("receipts", pa.list_(pa.struct([(name, pa.int64()) for name in ("cast", *SEEN)]))),
    ]
)
"""The counts of one block of peers, and what was seen there of each cast with a final receipt."""


def false_receipts(said: dict[str, Ints], seen: dict[str, Ints], exact: bool) -> int:
    """Number of false receipts. One is false

    - if it says that more were notified than were by then;
    - if it counts more members than were ever selected;
    - if it is complete and lacks an owed member that it does not count;
    - if it says that fewer were notified, where no peer came or went and none was out of reach.
    """
    notified, certain = said["notified"], said["uncertain"] == 0
    others = said["declined"] + said["unreachable"]
    again = seen["taken"] - seen["first"]
    return int(
        np.count_nonzero(
            (notified > seen["taken"])
            | ((others > 0) & (notified + others > seen["selected"] + again))
            | (certain & (seen["short"] > others))
            | (certain & exact & (said["unreachable"] == 0) & (notified < seen["taken"]))
        )
    )


def said_by(casts: pa.Table) -> tuple[Ints, dict[str, Ints]]:
    """Numbers of the casts with a final receipt, and what these say."""
    ended = casts.filter(casts["notified"].is_valid())
    return _ints(ended, "cast"), {name: _ints(ended, name) for name in SAID}


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].fill_null(0).to_numpy(), np.int64)


def sum_up(blocks: pa.Table, casts: pa.Table, changed: Collection[str]) -> pa.Table:
    """The contract of one run: the sums over its blocks of peers, and the false receipts. No row if
    the run has no casts.
    """
    if not len(casts):
        return tables.RUN_CONTRACT.empty_table()
    run = casts["run"][0].as_py()
    count: dict[str, Any] = {name: sum(blocks[name].to_pylist()) for name in tables.CONTRACT}
    rows = pa.concat_arrays([each.flatten() for each in blocks["receipts"].chunks] or [_NONE])
    numbers, said = said_by(casts)
    order = np.argsort(numbers)
    place = order[np.searchsorted(numbers, np.asarray(rows.field("cast")), sorter=order)]
    seen = {name: np.zeros(len(numbers), np.int64) for name in SEEN}
    for name, column in seen.items():
        np.add.at(column, place, np.asarray(rows.field(name)))
    count["misreported"] = false_receipts(said, seen, run not in changed)
    return pa.Table.from_pylist([{"run": run, **count}], schema=tables.RUN_CONTRACT)


_NONE = pa.array([], BLOCK_COUNTS.field("receipts").type.value_type)
