"""One entry of this peer for a range of values: which values are confirmed by which holder;
decoding of entry content.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import msgspec

from implicast.language.target import Scalar
from implicast.peer.contract import Address
from implicast.peer.wire import UNREADABLE
from implicast.space.ring import hashed

RETRY_CHECK_US = 500_000
"""Period of checking for puts and fetches to retry."""
WAIT_US = 2_000_000
"""Wait before an unconfirmed put is retried. Of the eight messages of a put over five hops, with a
quarter of all messages lost, all arrive one time in ten.
"""
HOP_US = 60_000
"""Extra wait for each further value of a range, or for each node of the ring if there are fewer."""

LINGER_US = 5_000_000
"""How long entries of a former description stay in lists after those of the present one are
confirmed. A cast that needs longer than this to read several lists may miss a member that moved
from one to another.
"""

PRESENT = msgspec.msgpack.encode(None)
"""Content of an entry that states nothing but its presence."""
KEYS_MAX = 16_384
"""Value keys that are cached: all peers share them, and popular values recur."""
key_of_value = lru_cache(KEYS_MAX)(hashed)
DECODED_MAX = 4_096
"""Decoded entries of one type that are cached: those in popular lists recur."""
Read = TypeVar("Read")
Nonsense = TypeVar("Nonsense")

ValueRange = tuple[Scalar, Scalar]
ListRange = tuple[str, str, Scalar, Scalar, bool]
"""Namespace, attribute, low, high, and whether the range is walked along successors."""
DurableEntry = tuple[str, str, Scalar, Scalar, int, bytes, bool, int]
"""An own entry in durable state: namespace, attribute, low, high, number, packed, walks, serial."""
Confirmation = tuple[Address, int]
"""The holder that confirmed a range of values, and the stamp that it stores."""


@dataclass(slots=True)
class OwnEntry:
    """One entry for one range of values."""

    serial: int
    namespace: str
    attribute: str
    low: Scalar
    high: Scalar
    key: int
    """Ring key of the lowest value."""
    number: int
    """A subscription's id; 0 where a peer has at most one entry in a list."""
    packed: bytes
    stamp: int
    walks: bool
    missing: tuple[ValueRange, ...]
    confirmed: dict[ValueRange, Confirmation] = field(default_factory=dict)
    """Holder of each confirmed range; empty without leases, where nothing is renewed."""
    due_us: int = 0
    holder: Address | None = None
    """The node that has stored a put that is repeated."""

    def durable_state(self) -> DurableEntry:
        """Return the form stored in durable state."""
        return (
            self.namespace,
            self.attribute,
            self.low,
            self.high,
            self.number,
            self.packed,
            self.walks,
            self.serial,
        )

    def wait(self, now_us: int, nodes: float) -> None:
        """Set the next retry after a put into a ring of `nodes` nodes: the wait grows with the
        longest missing range.
        """
        longest = max(len(values(each)) for each in self.missing)
        self.due_us = now_us + WAIT_US + int(HOP_US * min(nodes, longest))

    def narrow(self, low: Scalar, high: Scalar, key: int) -> None:
        """Restrict the entry to these values; `key` is that of the lowest."""
        self.low, self.high, self.key = low, high, key
        self.missing = tuple(
            left for each in self.missing if (left := overlap(each, (low, high))) is not None
        )
        self.confirmed = {
            left: who
            for each, who in self.confirmed.items()
            if (left := overlap(each, (low, high))) is not None
        }

    def confirm(self, low: Scalar, high: Scalar, confirmed: Confirmation | None) -> None:
        """Mark these values as stored; `confirmed`: the holder to renew them at, None without
        leases.
        """
        if (wanted := overlap((low, high), (self.low, self.high))) is None:
            return
        self.missing = tuple(left for each in self.missing for left in without(each, *wanted))
        if confirmed is not None:
            self.confirmed = {
                s: who for s, who in self.confirmed.items() if without(s, *wanted)
            } | {wanted: confirmed}

    def lose(self, low: Scalar, high: Scalar, stamp: int, now_us: int) -> None:
        """Mark these values as missing, to be put again with a new stamp."""
        if (wanted := overlap((low, high), (self.low, self.high))) is None:
            return
        self.stamp, self.due_us, self.holder = stamp, now_us, None
        if wanted not in self.missing:
            self.missing += (wanted,)
        self.confirmed.pop(wanted, None)


def reader(kind: type[Read], nonsense: Nonsense) -> Callable[[bytes], Read | Nonsense]:
    """Return a cached decoder of entry content that returns `nonsense` for content that does not
    decode.
    """
    decode = msgspec.msgpack.Decoder(kind).decode

    @lru_cache(DECODED_MAX)
    def read(packed: bytes) -> Read | Nonsense:
        try:
            return decode(packed)
        except UNREADABLE:
            return nonsense

    return read


def values(value_range: ValueRange) -> Sequence[Scalar]:
    low, high = value_range
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)


def in_pieces(value_range: ValueRange, most: int) -> list[ValueRange]:
    """Return a range as at most `most` consecutive ranges of about equal length."""
    low, high = value_range
    if isinstance(low, str) or isinstance(high, str):
        return [value_range]
    length = -(-(high - low + 1) // most)
    return [(start, min(high, start + length - 1)) for start in range(low, high + 1, length)]


def overlap(one: ValueRange, other: ValueRange) -> ValueRange | None:
    """Return the values that both ranges contain."""
    (low, high), (start, end) = one, other
    if (
        isinstance(low, str)
        or isinstance(high, str)
        or isinstance(start, str)
        or isinstance(end, str)
    ):
        return one if one == other else None
    return (max(low, start), min(high, end)) if max(low, start) <= min(high, end) else None


def without(value_range: ValueRange, low: Scalar, high: Scalar) -> list[ValueRange]:
    """Return a range without the values low..high."""
    start, end = value_range
    if (
        isinstance(start, str)
        or isinstance(end, str)
        or isinstance(low, str)
        or isinstance(high, str)
    ):
        return [] if start == low else [value_range]
    parts = [(start, min(end, low - 1)), (max(start, high + 1), end)]
    return [(first, last) for first, last in parts if first <= last]
