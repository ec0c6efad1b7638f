"""Publish/subscribe: the consumer holds the expression, the message carries the description.

A consumer *subscribes* with a target. A publisher *publishes* a description with a payload. Every
peer with a subscription whose target selects the description is notified. In every design a peer is
notified of one publication at most once, also when several of its subscriptions match.
"""

from abc import abstractmethod

from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message
from implicast.peer.member import Member


class Subscribed(Message):
    """This version of a subscription is complete: every later publication that matches it will
    arrive.
    """

    number: int
    version: int


class Unsubscribed(Message):
    """The subscription with this number has been removed."""

    number: int


class Subscriber(Member):
    """A member that also subscribes and publishes."""

    __slots__ = ()

    @abstractmethod
    def subscribe(self, target: Target) -> int:
        """Subscribe to publications that the target selects. Returns the subscription's number;
        `Subscribed` follows.
        """

    @abstractmethod
    def update(self, number: int, target: Target) -> None:
        """Replace the target of a subscription. `Subscribed` with the next version follows."""

    @abstractmethod
    def unsubscribe(self, number: int) -> None:
        """Remove a subscription. `Unsubscribed` follows."""

    @abstractmethod
    def publish(self, description: Description, payload: bytes) -> CastId:
        """Send a payload to all peers whose subscriptions select this description."""
