"""What SPICE's peers put off: alarms, each a value."""

from typing import ClassVar

from implicast.peer.contract import CastId, Message, Version


class Flush(Message):
    """Rings when what was collected goes on together."""


class Replicate(Message):
    """Rings when entries that were collected go to the replicas together."""


class Again(Message):
    """Rings when a registration should have been confirmed."""

    version: Version


class Renew(Message):
    """Rings when one more tag should be registered anew, before its lease runs out."""

    upkeep: ClassVar[bool] = True
    version: Version


class CastWatch(Message):
    """Rings now and then until a publisher's cast has ended."""

    cast: CastId


class ByToken(Message):
    """An alarm about one errand of ours that should be done by now."""

    token: int


class MoveAgain(ByToken):
    """Rings when records that come down should have been confirmed."""


class CopyAgain(ByToken):
    """Rings when copies should have been confirmed by their roots."""


class RiseAgain(Message):
    """Rings when records that go up should have been confirmed."""

    tag: str
    root: int
    notch: int


class Sweep(Message):
    """Rings ten times in a lease: forget what has run out."""


class HopDue(Message):
    """Rings when a hop of a walk should have been answered."""

    number: int


class Slow(Message):
    """Rings when walks that came some time ago should be finished: those who sent them hear that they are not."""


class Tidy(Message):
    """Rings when walks may be forgotten."""


class Lapse(Message):
    """Rings when a gathering has taken too long."""

    tag: str
    root: int
    base: int
    walk: int


class Refresh(Message):
    """Rings when renewals that were collected go to the replicas."""

    tag: str


class Window(Message):
    """Rings at the end of a window in which casts were counted."""


class Overrun(Message):
    """Rings at once when a root is too busy: raising a level is upkeep, no part of the cast that showed the need."""

    upkeep: ClassVar[bool] = True
    tag: str
    root: int


class GoOn(Message):
    """Rings when a raise that was given up is tried again."""

    tag: str


class SayOnce(Message):
    """Rings when a tag is said again because a partition has ended."""

    tag: str
    version: int


class Unsaid(Message):
    """Rings when a tag that may be lost should have been confirmed."""

    tag: str
    version: int
    tries: int
