"""What a peer delivers to its application, whatever the design.

The world turns these into rows of the journal; a live node hands them to its user.
"""

from implicast.peer.contract import CastId, Incarnation, Message, Name, Version
from implicast.peer.fields import Count, Micros, Text, Token


class Notice(Message):
    """A cast whose target selects this peer has arrived. At most once per cast."""

    cast: CastId
    payload: bytes


class Registered(Message):
    """Version `version` of this peer's description is complete: every later cast that selects it will arrive."""

    version: Version


class Withdrawn(Message):
    """The withdrawal with this version is complete: the system has forgotten the peer."""

    version: Version


class Outlived(Message):
    """The system knows a later life of this peer than its disk did: it goes on in `incarnation`, above that.

    What was asked for under the version `before` goes on under `version`. The node writes the life down.
    """

    incarnation: Incarnation
    before: Version
    version: Version


class Joined(Message):
    """This peer is a full member of its overlay."""


class Left(Message):
    """This peer has handed over all it kept for others and may stop."""


class Settled(Message):
    """What the publisher knows of its cast: final when none is open, told again until then."""

    cast: CastId
    notified: Count
    """Members that took it."""
    unreachable: Count = 0
    """Members that were selected and never answered."""
    declined: Count = 0
    """Members that answered that it is not for them: they have described themselves anew, or blocked the publisher."""
    open: Count = 0
    """Members, or those who keep members, that may still answer."""
    silent: tuple[Name, ...] = ()
    """Some of the unreachable, by name."""

    @property
    def expected(self) -> int:
        """Members that were selected."""
        return self.notified + self.declined + self.unreachable + self.open


class Slowed(Message):
    """So many of those whom this peer reached have complained that a keeper declines its large casts for a while."""

    until_us: Micros
    complaints: Count
    """Names that complained."""
    reached: Count
    """Names that were told."""


class Estimated(Message):
    """Answers `estimate`: about how many members a target selects, and how many messages a cast to it would take."""

    token: Token
    members: Count
    messages: Count


class Refused(Message):
    """The system declined what the application asked, with a sentence saying why."""

    verb: Text
    reason: Text
