"""Chord's messages about fingers, and its alarms."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message, StandingAlarm
from implicast.space.ring import ID_BITS

RingKey = Annotated[int, Meta(ge=0, le=(1 << ID_BITS) - 1)]
Level = Annotated[int, Meta(ge=0, lt=ID_BITS)]


class FindFinger(Message):
    """Lookup of the successor of `key`, for the finger of a level. Routed."""

    wire = 0x0551
    key: RingKey
    level: Level
    origin: Ref


class FingerFound(Message):
    """Answer to FindFinger: the sender is the finger of this level."""

    wire = 0x0552
    level: Level
    finger: Ref


class UpdateFinger(Message):
    """For every node of the arc (low, high]: the finger of this level is now `finger`. With `gone`,
    only where it was `gone`.
    """

    wire = 0x0553
    key: RingKey
    low: RingKey
    high: RingKey
    level: Level
    finger: Ref
    gone: Ref | None


class ForwardAck(Message):
    """A routed message has arrived. At most one a second to each sender."""

    wire = 0x0554
    by: Ref


class FindFingerTimeout(Message):
    """Fires when the lookup of a finger should have been answered."""

    incarnation: int
    level: int


class FixFingers(StandingAlarm):
    """Fires when one random level is to be looked up again."""

    incarnation: int


CHORD_KINDS: tuple[type[Message], ...] = (FindFinger, FingerFound, UpdateFinger, ForwardAck)
