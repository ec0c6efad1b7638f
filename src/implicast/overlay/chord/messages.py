"""What the nodes of a Chord say to each other about fingers, and their alarms."""

from typing import ClassVar

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message


class SeekFinger(Message):
    """Who is the successor of `key`? Routed."""

    key: int
    level: int
    origin: Ref


class FingerIs(Message):
    """I am."""

    level: int
    finger: Ref


class TakeFinger(Message):
    """To every node of the arc (low, high]: your finger of this level is now `finger` (instead of `gone`)."""

    key: int
    low: int
    high: int
    level: int
    finger: Ref
    gone: Ref | None


class Heard(Message):
    """Your message has come."""

    by: Ref


class FingerLate(Message):
    """Rings when the look-up of a finger should have been answered."""

    life: int
    level: int


class RefreshRound(Message):
    """Rings when one level is to be looked up afresh."""

    upkeep: ClassVar[bool] = True
    life: int


CHORD_KINDS: tuple[type, ...] = (SeekFinger, FingerIs, TakeFinger, Heard)
