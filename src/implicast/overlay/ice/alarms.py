"""Alarms of the overlay."""

from implicast.peer.contract import Address, Message, StandingAlarm


class Tick(StandingAlarm):
    """Fires once per tick, or once per `CALM_TICKS` ticks when nothing is pending."""


class TakeoverDue(Message):
    """Fires when voters have had half (even round) or all (odd round) of their time."""

    suspect: Address
    round: int


class CommitDue(Message):
    """Fires when rivals for extents that were taken over have had time to learn of each other."""

    number: int


class JoinRetry(Message):
    """Fires when a join request may have been lost."""

    attempt: int
    early: bool = False
    """True if it fires when the introducer should have answered, rather than the owner."""


class ProbeRoundDue(Message):
    """Fires when the probed owners have had their time to answer."""

    round: int


class DepartureDue(Message):
    """Fires when a leaving peer without extents has stayed reachable for long enough."""
