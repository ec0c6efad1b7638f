"""Bounded tables: recent entries, repeats, fair shares, and casts seen."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import ClassVar, Generic, TypeVar

from implicast.peer.contract import CastId, Incarnation, Message, Name, Serial
from implicast.peer.expiry import remembered_until_us
from implicast.peer.fields import Micros

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

PERIOD_US = 21_600_000_000
"""Casts are forgotten in groups: those whose memory ends in the same period of 6 hours."""
HORIZON_US = 900_000_000
"""How long a front end remembers the casts that it has forwarded: longer than one is repeated after
the longest partition and the longest absence of a server (15 minutes). It only saves work, since
members remember each cast until after its expiry.
"""
BLOCKS_MAX = 65_536
"""Blocks that one member remembers."""

Block = tuple[Name, Incarnation, Serial]
BLOCK_SERIAL_BITS = 10
"""Casts are remembered in blocks of 2^10 serials."""
WORD_SERIAL_BITS = 6
"""Casts are written to disk in words of 2^6 serials."""
PLACES_MAX = 1_024
"""Casts whose block is cached: the members that receive one cast share one value, which saves 72
bytes each.
"""


class SeenBlock(Message):
    """Casts of one publisher that were seen, on disk: bit i stands for serial `block * 64 + i`."""

    publisher: Name
    incarnation: Incarnation
    block: Serial
    bits: int
    until_us: Micros = 0
    """Until when they are remembered. 0: not known, as in state of earlier versions; they are then
    remembered as if they arrived now with the default lifetime.
    """


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

    A cast is remembered by publisher, incarnation and serial until a given time, and for less than
    `period_us` longer: casts whose time ends in the same period are forgotten together. Within a
    period each serial is one bit, so that thousands of casts of a fast publisher cost a few bytes
    each, and a large serial cannot evict others. Publishers share the room (`Shares`): one that
    fills it is refused first. Nothing is forgotten before its time to make room.
    """

    __slots__ = ("_bound", "_others", "_period", "_shares", "_young")
    period_us: ClassVar[int] = PERIOD_US

    def __init__(
        self, seen_blocks: Iterable[SeenBlock] = (), bound: int = BLOCKS_MAX, now_us: int = 0
    ) -> None:
        self._bound, self._period = bound, 0
        self._young: dict[Block, int] = {}
        """Blocks of the period `_period`, the one used last."""
        self._others: dict[int, dict[Block, int]] | None = None
        """Blocks of other periods. Most members of a large population have none."""
        self._shares: Shares[Name] | None = None
        """Made when the memory is half full, since most members see few casts."""
        for each in seen_blocks:
            self._restore(each, now_us)
        self._forget_ended(now_us)

    def _restore(self, each: SeenBlock, now_us: int) -> None:
        until_us = each.until_us or remembered_until_us(0, now_us, is_proven=False)
        self._use_period(until_us // self.period_us, 0)
        shift = BLOCK_SERIAL_BITS - WORD_SERIAL_BITS
        block = (each.publisher, each.incarnation, each.block >> shift)
        at = (each.block & (1 << shift) - 1) << WORD_SERIAL_BITS
        self._young[block] = self._young.get(block, 0) | each.bits << at

    def met(self, cast: CastId) -> bool:
        """Whether this cast was seen."""
        block, bit = place_of(cast)
        return bool(self._young.get(block, 0) & bit) or (
            self._others is not None and self._met_in_others(block, bit)
        )

    def _met_in_others(self, block: Block, bit: int) -> bool:
        assert self._others is not None
        return any(each.get(block, 0) & bit for each in self._others.values())

    def first(self, cast: CastId, until_us: int, now_us: int) -> bool:
        """Remember a cast until a time. True if it is new and there is room to remember it."""
        period = until_us // self.period_us
        if period != self._period:
            self._use_period(period, now_us)
        block, bit = place_of(cast)
        bits = self._young.get(block, 0)
        if bits & bit or (self._others is not None and self._met_in_others(block, bit)):
            return False
        if not bits and not self._has_room(cast.publisher, now_us):
            return False
        self._young[block] = bits | bit
        return True

    def _use_period(self, period: int, now_us: int) -> None:
        """Make the blocks of a period the young ones."""
        if period == self._period:
            return
        others = {} if self._others is None else self._others
        if self._young:
            others[self._period] = self._young
        self._young, self._period = others.pop(period, {}), period
        self._others = others or None
        self._forget_ended(now_us)

    def _forget_ended(self, now_us: int) -> bool:
        """Forget the periods that have ended; whether there were any."""
        this = now_us // self.period_us
        ended = [period for period in self._others or () if period < this]
        if self._young and self._period < this:
            self._young = {}
            ended.append(self._period)
        if self._others is not None:
            self._others = {
                period: blocks for period, blocks in self._others.items() if period >= this
            } or None
        if ended:
            self._shares = None
        return bool(ended)

    def _has_room(self, publisher: Name, now_us: int) -> bool:
        """Whether there is room for one more block of a publisher; counts it if so."""
        if self._shares is None and 2 * len(self) < self._bound:
            return True  # less than half full: no publisher can have more than is free
        if self._may_share(publisher):
            return True
        return self._forget_ended(now_us) and self._has_room(publisher, now_us)

    def _may_share(self, publisher: Name) -> bool:
        if self._shares is None:
            self._shares = Shares(self._bound)
            for blocks in (self._young, *(self._others or {}).values()):
                for known, _, _ in blocks:
                    self._shares.add(known)
        if not self._shares.allows(publisher):
            return False
        self._shares.add(publisher)
        return True

    def __len__(self) -> int:
        """Blocks remembered."""
        others = sum(map(len, self._others.values())) if self._others is not None else 0
        return len(self._young) + others

    def __bool__(self) -> bool:
        return True

    def blocks(self) -> tuple[SeenBlock, ...]:
        """All that is remembered, as values for durable state."""
        found: list[SeenBlock] = []
        for period, blocks in {**(self._others or {}), self._period: self._young}.items():
            until_us = (period + 1) * self.period_us - 1
            for (publisher, incarnation, block), bits in blocks.items():
                for number, word in _words(bits):
                    number += block << BLOCK_SERIAL_BITS - WORD_SERIAL_BITS
                    found.append(SeenBlock(publisher, incarnation, number, word, until_us))
        return tuple(found)


class SeenLately(Seen):
    """Casts that a front end has forwarded within the last `HORIZON_US`."""

    __slots__ = ()
    period_us: ClassVar[int] = HORIZON_US


def _words(bits: int) -> Iterator[tuple[int, int]]:
    """The words of a block that are not 0, each with its number."""
    number = 0
    while bits:
        if word := bits & (1 << (1 << WORD_SERIAL_BITS)) - 1:
            yield number, word
        bits >>= 1 << WORD_SERIAL_BITS
        number += 1


@lru_cache(PLACES_MAX)
def place_of(cast: CastId) -> tuple[Block, int]:
    """The block of a cast, and its bit in the block."""
    serial = cast.serial
    return (cast.publisher, cast.incarnation, serial >> BLOCK_SERIAL_BITS), 1 << (
        serial & (1 << BLOCK_SERIAL_BITS) - 1
    )
