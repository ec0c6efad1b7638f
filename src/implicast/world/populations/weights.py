"""Encoded sizes (MessagePack) of whole columns of values.

The storage of a million peers is computed from columns, because making each peer would take longer
than the run. `tests/world/test_lazy_peers.py` compares the sums with those of materialised peers.
"""

import numpy as np

from implicast.peer.contract import NAME_BYTES
from implicast.world.populations.curve import Codes

SHORT_LIST, LONG_LIST = 1 << 4, 1 << 16
"""The head of a list takes one byte below the first length, three below the second, and five
beyond.
"""


def of_numbers(values: Codes) -> Codes:
    """Non-negative integers."""
    bounds = np.array([1 << 7, 1 << 8, 1 << 16, 1 << 32], np.int64)
    return np.array([1, 2, 3, 5, 9], np.int64)[np.searchsorted(bounds, values, side="right")]


def of_heads(counts: Codes) -> Codes:
    """Heads of lists of these lengths."""
    return np.array([1, 3, 5], np.int64)[
        np.searchsorted([SHORT_LIST, LONG_LIST], counts, side="right")
    ]


def of_bytes(lengths: Codes) -> Codes:
    """Byte strings of these lengths."""
    bounds = np.array([1 << 8, 1 << 16], np.int64)
    return lengths + np.array([2, 3, 5], np.int64)[np.searchsorted(bounds, lengths, side="right")]


def of_contacts(addresses: Codes) -> Codes:
    """Contacts: names and addresses."""
    return 1 + 2 + NAME_BYTES + of_numbers(addresses)
