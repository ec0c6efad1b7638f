"""What the nodes of a Chord say to each other about fingers, and their alarms."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message, StandingAlarm
from implicast.space.ring import ID_BITS

RingKey = Annotated[int, Meta(ge=0, le=(1 << ID_BITS) - 1)]
Level = Annotated[int, Meta(ge=0, lt=ID_BITS)]


class SeekFinger(Message):
    """Who is the successor of `key`? Routed."""

    wire = 0x0551
    key: RingKey
    level: Level
    origin: Ref


class FingerIs(Message):
    """I am."""

    wire = 0x0552
    level: Level
    finger: Ref


class TakeFinger(Message):
    """To every node of the arc (low, high]: your finger of this level is now `finger` (instead of `gone`)."""

    wire = 0x0553
    key: RingKey
    low: RingKey
    high: RingKey
    level: Level
    finger: Ref
    gone: Ref | None


class Heard(Message):
    """Your message has come."""

    wire = 0x0554
    by: Ref


class FingerLate(Message):
    """Rings when the look-up of a finger should have been answered."""

    incarnation: int
    level: int


class RefreshRound(StandingAlarm):
    """Rings when one level is to be looked up afresh."""

    incarnation: int


CHORD_KINDS: tuple[type[Message], ...] = (SeekFinger, FingerIs, TakeFinger, Heard)
