"""One entry for a range of values (or one): which of them are confirmed by whom; how what is packed in it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import msgspec

from implicast.language.target import Scalar
from implicast.peer.contract import Address
from implicast.peer.wire import UNREADABLE
from implicast.space.ring import hashed

LOOK_US = 500_000
"""How often one looks whether something is to be sent out again."""
WAIT_US = 2_000_000
"""Before a piece that is not confirmed is laid again; doubled each time."""
WAIT_MAX_US = 3_000_000
"""Waits double up to this."""
HOP_US = 60_000
"""Patience with each further value of a range, or node of the ring if there are fewer."""

HERE = msgspec.msgpack.encode(None)
"""What is packed in an entry that says nothing but that it is there."""
KEYS_MAX = 16_384
"""Values whose places are remembered: they are the same for all, and popular ones come again and again."""
key_of_value = lru_cache(KEYS_MAX)(hashed)
DECODED_MAX = 4_096
"""Entries of one kind that are remembered as decoded: those in busy lists come again and again."""
Read = TypeVar("Read")
Nonsense = TypeVar("Nonsense")

Stretch = tuple[Scalar, Scalar]
Range = tuple[str, str, Scalar, Scalar, bool]
"""Shelf, attribute, low, high, and whether it is walked."""
KeptPiece = tuple[str, str, Scalar, Scalar, int, bytes, bool, int]
"""A piece on a disk: shelf, attribute, low, high, number, packed, walks, serial."""
Held = tuple[Address, int]
"""Who confirmed a stretch, and the stamp it has there."""


@dataclass(slots=True)
class Piece:
    """One entry for one range of values."""

    serial: int
    shelf: str
    attribute: str
    low: Scalar
    high: Scalar
    key: int
    """Of the lowest value."""
    number: int
    """A subscription's id; 0 where a peer has only one entry in a list."""
    packed: bytes
    stamp: int
    walks: bool
    missing: tuple[Stretch, ...]
    held: dict[Stretch, Held] = field(default_factory=dict)
    """Which stretches are confirmed by whom; empty where nobody is asked again."""
    due_us: int = 0
    _wait_us: int = WAIT_US

    def kept(self) -> KeptPiece:
        """As it is written down."""
        return (
            self.shelf,
            self.attribute,
            self.low,
            self.high,
            self.number,
            self.packed,
            self.walks,
            self.serial,
        )

    def wait(self, now_us: int, nodes: float) -> None:
        """It is sent out on a ring of so many nodes: there is patience with its longest stretch."""
        self.due_us = (
            now_us
            + self._wait_us
            + int(HOP_US * min(nodes, max(len(values(each)) for each in self.missing)))
        )
        self._wait_us = min(WAIT_MAX_US, 2 * self._wait_us)

    def narrow(self, low: Scalar, high: Scalar, key: int) -> None:
        """Only these values are wanted any more; `key` is that of the lowest."""
        self.low, self.high, self.key = low, high, key
        self.missing = tuple(
            left for each in self.missing if (left := overlap(each, (low, high))) is not None
        )
        self.held = {
            left: who
            for each, who in self.held.items()
            if (left := overlap(each, (low, high))) is not None
        }

    def confirm(self, low: Scalar, high: Scalar, held: Held | None) -> None:
        """These values are laid; `held`: who is to be asked for them later."""
        if (wanted := overlap((low, high), (self.low, self.high))) is None:
            return
        self.missing = tuple(left for each in self.missing for left in without(each, *wanted))
        if held is not None:
            self.held = {s: who for s, who in self.held.items() if without(s, *wanted)} | {
                wanted: held
            }
        if not self.missing:
            self._wait_us = WAIT_US

    def lose(self, low: Scalar, high: Scalar, stamp: int, now_us: int) -> None:
        """To be laid again, with a new stamp."""
        if (wanted := overlap((low, high), (self.low, self.high))) is None:
            return
        self.stamp, self.due_us, self._wait_us = stamp, now_us, WAIT_MAX_US
        if wanted not in self.missing:
            self.missing += (wanted,)
        self.held.pop(wanted, None)


def reader(kind: type[Read], nonsense: Nonsense) -> Callable[[bytes], Read | Nonsense]:
    """Reads what is packed in entries; where a stranger wrote nonsense, this."""
    decode = msgspec.msgpack.Decoder(kind).decode

    @lru_cache(DECODED_MAX)
    def read(packed: bytes) -> Read | Nonsense:
        try:
            return decode(packed)
        except UNREADABLE:
            return nonsense

    return read


def values(stretch: Stretch) -> Sequence[Scalar]:
    low, high = stretch
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)


def overlap(one: Stretch, other: Stretch) -> Stretch | None:
    """The values that both have."""
    (low, high), (start, end) = one, other
    if (
        isinstance(low, str)
        or isinstance(high, str)
        or isinstance(start, str)
        or isinstance(end, str)
    ):
        return one if one == other else None
    return (max(low, start), min(high, end)) if max(low, start) <= min(high, end) else None


def without(stretch: Stretch, low: Scalar, high: Scalar) -> list[Stretch]:
    """What is left of a stretch."""
    start, end = stretch
    if (
        isinstance(start, str)
        or isinstance(end, str)
        or isinstance(low, str)
        or isinstance(high, str)
    ):
        return [] if start == low else [stretch]
    parts = [(start, min(end, low - 1)), (max(start, high + 1), end)]
    return [(first, last) for first, last in parts if first <= last]
