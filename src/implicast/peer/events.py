"""What a peer delivers to its application, whatever the design.

The world turns these into rows of the journal; a live node hands them to its user.
"""

from implicast.peer.contract import CastId, Message


class Notice(Message):
    """A cast whose target selects this peer has arrived. At most once per cast."""

    cast: CastId
    payload: bytes


class Registered(Message):
    """Version `version` of this peer's description is complete: every later cast that selects it will arrive."""

    version: int


class Withdrawn(Message):
    """The withdrawal with this version is complete: the system has forgotten the peer."""

    version: int


class Joined(Message):
    """This peer is a full member of its overlay."""


class Left(Message):
    """This peer has handed over all it kept for others and may stop."""


class Settled(Message):
    """The publisher knows how its cast ended (in designs that can tell): how many were told, how many silent."""

    cast: CastId
    notified: int
    unreachable: int = 0


class Refused(Message):
    """The system declined what the application asked, with a sentence saying why."""

    verb: str
    reason: str
