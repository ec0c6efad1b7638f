"""Bounded tables: recent entries, repeats, fair shares, and casts seen."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from implicast.peer.contract import CastId, Incarnation, Message, Name, Serial

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

HORIZON_US = 900_000_000
"""How long a cast is remembered: longer than it is repeated after the longest partition and the
longest absence of a server (15 minutes).
"""
BLOCKS_MAX = 65_536
"""Blocks of one generation."""

Block = tuple[Name, Incarnation, Serial]
BLOCK_SERIAL_BITS = 6
"""Casts are remembered in blocks of 2^6 serials."""
PLACES_MAX = 1_024
"""Casts whose block is cached: the members that receive one cast share one value, which saves 72
bytes each.
"""


class SeenBlock(Message):
    """Casts of one publisher that were seen: bit i stands for serial `block * 64 + i`."""

    publisher: Name
    incarnation: Incarnation
    block: Serial
    bits: int


GONE_MAX = 1_024
"""Deletions after which a `Recent` is rebuilt. A dict finds its first entry by scanning past
deleted ones until it is resized. Rebuilt so often, an insertion into a full table of 8,192 costs
0.9 us instead of 4.2 us.
"""

_set = dict.__setitem__
"""Half the cost of `super().__setitem__`."""


class Recent(dict[Key, Value], Generic[Key, Value]):
    """A dict of at most `bound` entries; the one inserted first is evicted.

    `put` moves an entry to the young end. Plain `table[key] = value` for an existing key leaves its
    position unchanged.
    """

    __slots__ = ("_gone", "bound")

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound, self._gone = bound, 0

    def __setitem__(self, key: Key, value: Value) -> None:
        _set(self, key, value)
        if len(self) > self.bound:
            self._forget()

    def put(self, key: Key, value: Value) -> None:
        """Insert or update an entry as the youngest."""
        self.pop(key, None)
        _set(self, key, value)
        if len(self) > self.bound:
            self._forget()

    def _forget(self) -> None:
        """Evict the oldest entry."""
        del self[next(iter(self))]
        self._gone += 1
        if self._gone == GONE_MAX:
            self._gone, left = 0, self.copy()
            self.clear()
            self.update(left)

    def once(self, key: Key, value: Value) -> bool:
        """Insert an entry unless the key exists; whether it was inserted."""
        if key in self:
            return False
        _set(self, key, value)
        if len(self) > self.bound:
            del self[next(iter(self))]
        return True

    def oldest(self) -> Iterator[Key]:
        return iter(self)

    def drop_while(self, is_over: Callable[[Value], bool]) -> None:
        """Remove entries from the oldest on, up to the first for which `is_over` is false."""
        while self and is_over(self[oldest := next(iter(self))]):
            del self[oldest]


class Repeats(Recent[Key, int]):
    """Messages seen lately, with the time: stops duplicates that would multiply when messages
    travel in a circle.
    """

    __slots__ = ()

    def came_by(self, key: Key, now_us: int, within_us: int) -> bool:
        """Whether this key was seen within `within_us`. If not, it is recorded as seen now."""
        before_us, over_us = self.get(key), now_us - within_us
        if before_us is not None:
            if before_us > over_us:
                return True
            del self[key]
        # Keys are whole messages: one lookup each halves the cost.
        while self:
            oldest, at_us = next(iter(self.items()))
            if at_us > over_us:
                break
            del self[oldest]
        _set(self, key, now_us)
        if len(self) > self.bound:
            del self[next(iter(self))]
        return False


class Shares(Generic[Key]):
    """Shares of a table with room for `bound` entries: an owner that has as many as are free gets
    no more.

    One owner alone can fill half of the table, two a third each, and there is always room for an
    owner that has nothing in it: a full table first limits those that fill it. (Dynamic thresholds,
    as switches share buffers among ports: Choudhury and Hahne, 1998.)
    """

    __slots__ = ("_had", "bound", "total")

    def __init__(self, bound: int) -> None:
        self.bound, self.total = bound, 0
        self._had: dict[Key, int] = {}

    def allows(self, who: Key) -> bool:
        """Whether the owner may have one more entry."""
        return self._had.get(who, 0) < self.bound - self.total

    def add(self, who: Key) -> None:
        self._had[who] = self._had.get(who, 0) + 1
        self.total += 1

    def drop(self, who: Key) -> None:
        left = self._had[who] - 1
        self.total -= 1
        if left:
            self._had[who] = left
        else:
            del self._had[who]


class Seen:
    """Casts that a member has seen.

    A cast is remembered by publisher, incarnation and serial for at least `HORIZON_US`, longer than
    any peer repeats it. The memory has two generations; the older one is dropped when the younger
    has lasted for a horizon. Within a generation each serial is one bit, so that thousands of casts
    of a fast publisher cost a few bytes each, and a large serial cannot evict others. Publishers
    share the room of a generation (`Shares`): one that fills it is refused first.
    """

    __slots__ = ("_bound", "_old", "_shares", "_turned_us", "_young")

    def __init__(self, seen_blocks: Iterable[SeenBlock] = (), bound: int = BLOCKS_MAX) -> None:
        self._bound = bound
        self._young: dict[Block, int] = {
            (each.publisher, each.incarnation, each.block): each.bits for each in seen_blocks
        }
        self._old: dict[Block, int] = {}
        self._turned_us = 0
        self._shares: Shares[Name] | None = None
        """Shares of the younger generation. Made when it is half full, since most members of a
        large population see few casts.
        """

    def met(self, cast: CastId) -> bool:
        """Whether this cast was seen."""
        block, bit = place_of(cast)
        return bool((self._young.get(block, 0) | self._old.get(block, 0)) & bit)

    def first(self, cast: CastId, now_us: int = 0) -> bool:
        """Record a cast. True if it is new and there is room to remember it."""
        young = self._young
        if now_us - self._turned_us >= HORIZON_US:
            self._old, self._young, self._turned_us, self._shares = young, {}, now_us, None
            young = self._young
        block, bit = place_of(cast)
        bits = young.get(block, 0)
        if (bits | self._old.get(block, 0)) & bit or (
            not bits and not self._has_room(cast.publisher)
        ):
            return False
        young[block] = bits | bit
        return True

    def _has_room(self, publisher: Name) -> bool:
        """Whether there is room for one more block of a publisher; counts it if so."""
        if self._shares is None:
            if 2 * len(self._young) < self._bound:
                return True  # less than half full: no publisher can have more than is free
            self._shares = Shares(self._bound)
            for known, _, _ in self._young:
                self._shares.add(known)
        if not self._shares.allows(publisher):
            return False
        self._shares.add(publisher)
        return True

    def blocks(self) -> tuple[SeenBlock, ...]:
        """All that is remembered, as values for durable state."""
        both = {block: bits | self._old.get(block, 0) for block, bits in self._young.items()}
        return tuple(SeenBlock(*block, bits) for block, bits in {**self._old, **both}.items())


@lru_cache(PLACES_MAX)
def place_of(cast: CastId) -> tuple[Block, int]:
    """The block of a cast, and its bit in the block."""
    serial = cast.serial
    return (cast.publisher, cast.incarnation, serial >> BLOCK_SERIAL_BITS), 1 << (
        serial & (1 << BLOCK_SERIAL_BITS) - 1
    )
