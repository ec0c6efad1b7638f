"""Memory that cannot grow without end."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from implicast.peer.contract import CastId, Incarnation, Message, Name, Serial

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")

HORIZON_US = 900_000_000
"""Longer than a cast is repeated after the longest partition and the longest absence of a server."""
BLOCKS_MAX = 65_536
"""Blocks of one generation."""

Block = tuple[Name, Incarnation, Serial]
HEARD_BITS = 6
"""Casts are remembered in blocks of 2^6 serials."""
PLACES_MAX = 1_024
"""Casts whose blocks are remembered: one cast is told to many, who share one value (72 bytes less for each)."""


class HeardBlock(Message):
    """Which of one publisher's casts were heard: bit i stands for serial `block * 64 + i`."""

    publisher: Name
    incarnation: Incarnation
    block: Serial
    bits: int


GONE_MAX = 1_024
"""A dictionary looks for its first entry past all that were deleted there, until it is made anew. By itself it is when
it has no room left; after so many deletions it costs 0.9 us to put one more into a table of 8,192, and not 4.2."""

_set = dict.__setitem__
"""Half the price of asking `super()` for it."""


class Recent(dict[Key, Kept], Generic[Key, Kept]):
    """A table of at most `bound` entries: the one that was put in first goes when there is one too many.

    `put` moves an entry to the young end; plain `table[key] = value` of a key that is there leaves it where it was.
    """

    __slots__ = ("_gone", "bound")

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound, self._gone = bound, 0

    def __setitem__(self, key: Key, value: Kept) -> None:
        _set(self, key, value)
        if len(self) > self.bound:
            self._forget()

    def put(self, key: Key, value: Kept) -> None:
        """Note this as the youngest."""
        self.pop(key, None)
        _set(self, key, value)
        if len(self) > self.bound:
            self._forget()

    def _forget(self) -> None:
        """The one that was put in first goes."""
        del self[next(iter(self))]
        self._gone += 1
        if self._gone == GONE_MAX:
            self._gone, left = 0, self.copy()
            self.clear()
            self.update(left)

    def once(self, key: Key, value: Kept) -> bool:
        """Note this if it is not there; was it new?"""
        if key in self:
            return False
        _set(self, key, value)
        if len(self) > self.bound:
            del self[next(iter(self))]
        return True

    def oldest(self) -> Iterator[Key]:
        return iter(self)

    def drop_while(self, is_over: Callable[[Kept], bool]) -> None:
        """Forget the oldest entries, up to the first that still means something."""
        while self and is_over(self[oldest := next(iter(self))]):
            del self[oldest]


class Repeats(Recent[Key, int]):
    """What came by lately, and when: a network that repeats messages would multiply those that go in a circle."""

    __slots__ = ()

    def came_by(self, key: Key, now_us: int, within_us: int) -> bool:
        """Whether this one came by within a time; it is noted as the latest of those remembered, if not."""
        before_us, over_us = self.get(key), now_us - within_us
        if before_us is not None:
            if before_us > over_us:
                return True
            del self[key]
        while (
            self
        ):  # keys are whole messages: none is looked up more often than it must be (half the price)
            oldest, at_us = next(iter(self.items()))
            if at_us > over_us:
                break
            del self[oldest]
        _set(self, key, now_us)
        if len(self) > self.bound:
            del self[next(iter(self))]
        return False


class Shares(Generic[Key]):
    """Who has how much of a table with room for `bound`: whoever has as much as is left free gets no more.

    So one who fills a table alone has half of it, two who do have a third each, and there is always room for one who
    has nothing in it: a full table hurts those first who fill it. (Dynamic thresholds, as switches share their buffers
    among ports: Choudhury and Hahne, 1998.)
    """

    __slots__ = ("_had", "bound", "total")

    def __init__(self, bound: int) -> None:
        self.bound, self.total = bound, 0
        self._had: dict[Key, int] = {}

    def allows(self, who: Key) -> bool:
        """Whether one more is let in."""
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
    """Which casts have been met.

    A cast is remembered by publisher, life and serial for `HORIZON_US` at least, longer than anybody repeats it; the
    memory is two generations, and the older one is dropped when the younger has lasted for a horizon. Within a
    generation a bit stands for a serial, so that thousands of casts of a quick publisher cost a few bytes each, and no
    serial, however large, can push others out. A generation has room for all publishers (`Shares`): one that fills it
    is refused first.
    """

    __slots__ = ("_bound", "_old", "_shares", "_turned_us", "_young")

    def __init__(self, heard: Iterable[HeardBlock] = (), bound: int = BLOCKS_MAX) -> None:
        self._bound = bound
        self._young: dict[Block, int] = {
            (each.publisher, each.incarnation, each.block): each.bits for each in heard
        }
        self._old: dict[Block, int] = {}
        self._turned_us = 0
        self._shares: Shares[Name] | None = None
        """Of the younger generation; made when it is half full: most members of a large population hear little."""

    def met(self, cast: CastId) -> bool:
        """Was this cast met before?"""
        block, bit = place_of(cast)
        return bool((self._young.get(block, 0) | self._old.get(block, 0)) & bit)

    def first(self, cast: CastId, now_us: int = 0) -> bool:
        """Meet a cast: True for the first time, and if there is room to remember it."""
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
        """Whether one more block of a publisher is let in; then it is counted."""
        if self._shares is None:
            if 2 * len(self._young) < self._bound:
                return True  # nobody can have as much as is free
            self._shares = Shares(self._bound)
            for known, _, _ in self._young:
                self._shares.add(known)
        if not self._shares.allows(publisher):
            return False
        self._shares.add(publisher)
        return True

    def heard(self) -> tuple[HeardBlock, ...]:
        """All that is remembered, as values."""
        both = {block: bits | self._old.get(block, 0) for block, bits in self._young.items()}
        return tuple(HeardBlock(*block, bits) for block, bits in {**self._old, **both}.items())


@lru_cache(PLACES_MAX)
def place_of(cast: CastId) -> tuple[Block, int]:
    """The block of a cast, and its bit there."""
    serial = cast.serial
    return (cast.publisher, cast.incarnation, serial >> HEARD_BITS), 1 << (
        serial & (1 << HEARD_BITS) - 1
    )
