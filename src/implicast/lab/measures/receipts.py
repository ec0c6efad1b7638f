"""Which final receipts are false: what they say against what was seen of their casts by then.

`world/receipts.py` says the same in plain Python, and tests hold the two equal.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

SAID = ("notified", "declined", "unreachable", "uncertain")
"""What a final receipt says."""
SEEN = ("taken", "first", "short", "selected")
"""What was seen of a cast by the time of its final receipt: notices, notified members, owed members
that were not notified, and members ever selected (0 where the receipt counts none but notified
ones).
"""


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
