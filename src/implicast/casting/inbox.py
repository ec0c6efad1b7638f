"""What every member does with a notification, whatever the design: at most once, and only what fits.

A cast is remembered by publisher, life and serial for `HORIZON_US` at least, longer than anybody repeats it; the memory
is two generations, and the older one is dropped when the younger has lasted for a horizon. Within a generation a bit
stands for a serial, so that thousands of casts of a quick publisher cost a few bytes each, and no serial, however
large, can push others out. A generation that is full refuses (`FULL`): the sender is not told that it was taken, and
says it again later.
"""

from collections.abc import Iterable
from enum import IntEnum

from implicast.language.target import Target
from implicast.peer.contract import CastId, Life, Name, Serial
from implicast.peer.events import Notice
from implicast.peer.member import HEARD_BITS, Heard, Member

HORIZON_US = 900_000_000
"""Longer than a cast is repeated after the longest partition and the longest absence of a server."""
BLOCKS_MAX = 65_536
"""Blocks of one generation."""

Block = tuple[Name, Life, Serial]


class Outcome(IntEnum):
    """What became of a notification at a member."""

    TAKEN = 1
    REPEAT = 2
    """It was taken before."""
    UNFIT = 3
    """The member has described itself anew, and the target does not select it any more."""
    BLOCKED = 4
    """The member does not want to hear from this publisher."""
    FULL = 5
    """The member has no room: say it again later."""
    ELSEWHERE = 6
    """The member took it from another station, and counts there."""
    FORGED = 7
    """The publisher did not cast this, or too long ago."""


class Seen:
    """Which casts have been met."""

    __slots__ = ("_old", "_turned_us", "_young", "bound")

    def __init__(self, heard: Iterable[Heard] = (), bound: int = BLOCKS_MAX) -> None:
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

    def heard(self) -> tuple[Heard, ...]:
        """All that is remembered, as values."""
        both = {block: bits | self._old.get(block, 0) for block, bits in self._young.items()}
        return tuple(Heard(*block, bits) for block, bits in {**self._old, **both}.items())


def _place(cast: CastId) -> tuple[Block, int]:
    serial = cast.serial
    return (cast.publisher, cast.life, serial >> HEARD_BITS), 1 << (serial & (1 << HEARD_BITS) - 1)


class Inbox:
    """Guards a member's notices."""

    __slots__ = ("_member", "seen")

    def __init__(self, member: Member, heard: Iterable[Heard] = ()) -> None:
        self._member = member
        self.seen = Seen(heard)

    def take(self, cast: CastId, target: Target, payload: bytes) -> Outcome:
        """Deliver a notice unless it has been delivered before or the member's newest description does not fit."""
        description = self._member.description
        return self.admit(cast, target, payload, description is not None and target.selects(description))

    def admit(self, cast: CastId, about: object, payload: bytes, fits: bool) -> Outcome:
        """Deliver a notice that fits, once, if its publisher cast it; `about`: the target, or what happened."""
        host = self._member.host
        if not fits:
            return Outcome.REPEAT if self.seen.met(cast) else Outcome.UNFIT
        opened = self._member.words.opened(cast, about, payload)
        if opened is None:
            return Outcome.FORGED
        if not self.seen.first(cast, host.now_us):
            return Outcome.REPEAT if self.seen.met(cast) else Outcome.FULL
        host.deliver(Notice(cast, opened))
        return Outcome.TAKEN
