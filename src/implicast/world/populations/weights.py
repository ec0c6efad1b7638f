"""How many bytes values take when they are encoded (MessagePack), for whole columns at once.

What a million peers store is reckoned from the columns that say what they know, where making each peer to weigh it
would take longer than the run. `tests/world/test_sleepers.py` holds the sums to what peers that are made do store.
"""

import numpy as np

from implicast.peer.contract import NAME_BYTES
from implicast.space.morton import Codes

SHORT_LIST, LONG_LIST = 1 << 4, 1 << 16
"""Below the one a list's head takes one byte, below the other three, beyond it five."""


def of_numbers(values: Codes) -> Codes:
    """Whole numbers from 0 on."""
    bounds = np.array([1 << 7, 1 << 8, 1 << 16, 1 << 32], np.int64)
    return np.array([1, 2, 3, 5, 9], np.int64)[np.searchsorted(bounds, values, side="right")]


def of_heads(counts: Codes) -> Codes:
    """The heads of lists of so many things."""
    return np.array([1, 3, 5], np.int64)[
        np.searchsorted([SHORT_LIST, LONG_LIST], counts, side="right")
    ]


def of_bytes(lengths: Codes) -> Codes:
    """Byte strings of these lengths."""
    bounds = np.array([1 << 8, 1 << 16], np.int64)
    return lengths + np.array([2, 3, 5], np.int64)[np.searchsorted(bounds, lengths, side="right")]


def of_contacts(addresses: Codes) -> Codes:
    """Members' names and addresses."""
    return 1 + 2 + NAME_BYTES + of_numbers(addresses)
