"""What members and the station that serves them, a server or a broker, tell each other."""

from typing import Annotated

from msgspec import Meta

from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message, Name, StandingAlarm, Version
from implicast.peer.fields import Count, Payload, Token
from implicast.peer.words import personal

DRY = "dry"
"""What a request that only counts is signed as: it cannot be taken for the cast itself."""
SILENT_MAX = 64
"""Unreachable members that an answer names."""


@personal("name")
class Register(Message):
    """A member says what it is; `None`: nothing any more."""

    wire = 0x0201
    name: Name
    version: Version
    description: Description | None


class Stored(Message):
    """This version is kept, and every later cast will find it."""

    wire = 0x0202
    version: Version


class Outdated(Message):
    """The station knows this later version of the member: what the member said was not kept."""

    wire = 0x0203
    version: Version


class Check(Message):
    """A member reminds its station of itself."""

    wire = 0x0204
    name: Name
    version: Version


class Known(Message):
    """The station knows this version of the member (0: none), and so many of its subscriptions."""

    wire = 0x0205
    version: Version
    subscriptions: Count = 0


class Publish(Message):
    """A member asks to carry a cast. `dry`: only to count whom it would reach."""

    wire = 0x0206
    cast: CastId
    target: Target
    payload: Payload
    dry: bool = False


class Carried(Message):
    """How far a cast has come: final when none is open.

    To a member: every broker has it. To a broker: every broker on my side of our link has it, in this view.
    """

    wire = 0x0207
    cast: CastId
    epoch: Token
    notified: Count
    unreachable: Count
    declined: Count
    open: Count
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()


class Probe(Message):
    """A client that looks for the nearest broker asks all of them; the first to answer is it."""

    wire = 0x0312


class Serving(Message):
    """A broker that follows a view answers a probe."""

    wire = 0x0313


class CheckRound(StandingAlarm):
    """Rings when a member should remind its station of itself, or should have been answered."""


class LeaseSweep(StandingAlarm):
    """Rings when a station should forget members that have been silent for a lease."""


KINDS: tuple[type[Message], ...] = (Register, Stored, Outdated, Check, Known, Publish, Carried)
