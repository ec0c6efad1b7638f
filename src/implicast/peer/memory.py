"""Memory that cannot grow without end."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from implicast.peer.contract import CastId, Life, Message, Name, Serial

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")

HORIZON_US = 900_000_000
"""Longer than a cast is repeated after the longest partition and the longest absence of a server."""
BLOCKS_MAX = 65_536
"""Blocks of one generation."""

Block = tuple[Name, Life, Serial]
HEARD_BITS = 6
"""Casts are remembered in blocks of 2^6 serials."""


class HeardBlock(Message):
    """Which of one publisher's casts were heard: bit i stands for serial `block * 64 + i`."""

    publisher: Name
    life: Life
    block: Serial
    bits: int


class Recent(dict[Key, Kept], Generic[Key, Kept]):
    """A table of at most `bound` entries: the one that was put in first goes when there is one too many.

    `put` moves an entry to the young end; plain `table[key] = value` of a key that is there leaves it where it was.
    """

    __slots__ = ("bound",)

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def __setitem__(self, key: Key, value: Kept) -> None:
        super().__setitem__(key, value)
        if len(self) > self.bound:
            del self[next(iter(self))]

    def put(self, key: Key, value: Kept) -> None:
        """Note this as the youngest."""
        self.pop(key, None)
        self[key] = value

    def once(self, key: Key, value: Kept) -> bool:
        """Note this if it is not there; was it new?"""
        if key in self:
            return False
        self[key] = value
        return True

    def oldest(self) -> Iterator[Key]:
        return iter(self)


class Repeats(Recent[Key, int]):
    """What came by lately, and when: a network that repeats messages would multiply those that go in a circle."""

    __slots__ = ()

    def came_by(self, key: Key, now_us: int, within_us: int) -> bool:
        """Whether this one came by within a time; it is noted as the latest of those remembered, if not."""
        before_us = self.get(key)
        if before_us is not None and before_us + within_us > now_us:
            return True
        self.put(key, now_us)
        return False


class Seen:
    """Which casts have been met.

    A cast is remembered by publisher, life and serial for `HORIZON_US` at least, longer than anybody repeats it; the
    memory is two generations, and the older one is dropped when the younger has lasted for a horizon. Within a
    generation a bit stands for a serial, so that thousands of casts of a quick publisher cost a few bytes each, and no
    serial, however large, can push others out. A generation that is full takes nothing more.
    """

    __slots__ = ("_old", "_turned_us", "_young", "bound")

    def __init__(self, heard: Iterable[HeardBlock] = (), bound: int = BLOCKS_MAX) -> None:
        self._young: dict[Block, int] = {(each.publisher, each.life, each.block): each.bits for each in heard}
        self._old: dict[Block, int] = {}
        self._turned_us = 0
        self.bound = bound

    def met(self, cast: CastId) -> bool:
        """Was this cast met before?"""
        block, bit = _place(cast)
        return bool((self._young.get(block, 0) | self._old.get(block, 0)) & bit)

    def first(self, cast: CastId, now_us: int = 0) -> bool:
        """Meet a cast: True for the first time, and if there is room to remember it."""
        young = self._young
        if now_us - self._turned_us >= HORIZON_US:
            self._old, self._young, self._turned_us = young, {}, now_us
            young = self._young
        block, bit = _place(cast)
        bits = young.get(block, 0)
        if (bits | self._old.get(block, 0)) & bit or (not bits and len(young) >= self.bound):
            return False
        young[block] = bits | bit
        return True

    def heard(self) -> tuple[HeardBlock, ...]:
        """All that is remembered, as values."""
        both = {block: bits | self._old.get(block, 0) for block, bits in self._young.items()}
        return tuple(HeardBlock(*block, bits) for block, bits in {**self._old, **both}.items())


def _place(cast: CastId) -> tuple[Block, int]:
    serial = cast.serial
    return (cast.publisher, cast.life, serial >> HEARD_BITS), 1 << (serial & (1 << HEARD_BITS) - 1)
