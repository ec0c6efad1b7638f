"""Events that a peer delivers to its application, the same in every design.

The simulator records them in the journal; a live node passes them to its user.
"""

from implicast.peer.contract import CastId, Incarnation, Message, Name, Version
from implicast.peer.fields import Count, Micros, Text, Token


class Notice(Message):
    """A cast whose target selects this peer has arrived. Delivered at most once per cast."""

    cast: CastId
    payload: bytes
    until_us: Micros = 0
    """Until when the member remembers the cast; 0: for the default time from now
    (`expiry.DEFAULT_MEMORY_US`).
    """


class Registered(Message):
    """This version of the peer's description is complete: every later cast that selects it will
    arrive.
    """

    version: Version


class Withdrawn(Message):
    """The withdrawal with this version is complete: the peer is no longer registered."""

    version: Version


class IncarnationAdvanced(Message):
    """Other peers know a later incarnation of this peer than its disk does. The peer continues in
    `incarnation`, which is above it.

    A request made under version `before` continues under `version`. The node writes the incarnation
    to disk.
    """

    incarnation: Incarnation
    before: Version
    version: Version


class Joined(Message):
    """This peer is a full member of its overlay."""


class Left(Message):
    """This peer has handed over everything it held for others and may stop."""


class Settled(Message):
    """Receipt of a cast: what the publisher knows of it. Repeated until nothing is open; then it is
    final.
    """

    cast: CastId
    notified: Count
    """Members that accepted it."""
    unreachable: Count = 0
    """Members that were selected and never answered."""
    declined: Count = 0
    """Members that declined it: their description has changed, or they block the publisher."""
    open: Count = 0
    """Members, or peers that notify members, that may still answer."""
    silent: tuple[Name, ...] = ()
    """Names of some of the unreachable members."""
    uncertain: Count = 0
    """Regions of the overlay whose members are not known, so that a selected member there may have
    been missed. It stands outside the sum of `expected`.
    """

    @property
    def expected(self) -> int:
        """Members that were selected."""
        return self.notified + self.declined + self.unreachable + self.open

    def at_expiry(self) -> "Settled":
        """The final receipt of a cast that has expired while members were open. Open members count
        as unreachable. Since the publisher does not know all that was selected, the receipt is not
        complete.
        """
        return Settled(
            self.cast,
            self.notified,
            self.unreachable + self.open,
            self.declined,
            0,
            self.silent,
            self.uncertain + 1,
        )

    @property
    def complete(self) -> bool:
        """Whether every member that was owed the cast was notified or is counted. A final receipt
        with `uncertain` regions is never complete.
        """
        return not self.open and not self.uncertain


class Slowed(Message):
    """This publisher is throttled: a peer that notifies its members declines large casts for a
    while, because too large a share of the members reached have complained.
    """

    until_us: Micros
    complaints: Count
    """Members that complained."""
    reached: Count
    """Members that were notified."""


class Estimated(Message):
    """Answer to `estimate`: approximate number of members that a target selects, and of messages
    that a cast to it takes.
    """

    token: Token
    members: Count
    messages: Count


class Refused(Message):
    """The system declined the application's request, with the reason as a sentence."""

    verb: Text
    reason: Text
