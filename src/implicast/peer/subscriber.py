"""The other direction: a consumer holds the expression, the message carries the description.

In publish/subscribe the words change places: who wants to hear *subscribes* with a target, who has something to tell
*publishes* a description of it with a payload, and whoever's target selects the description is notified. Whatever the
design, a peer is notified of one publication at most once, however many of its subscriptions match.
"""

from abc import abstractmethod

from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message
from implicast.peer.member import Member


class Subscribed(Message):
    """Wording number `version` of this subscription is complete: every later publication that matches it arrives."""

    number: int
    version: int


class Unsubscribed(Message):
    """The system has forgotten the subscription with this number."""

    number: int


class Subscriber(Member):
    """A member that also subscribes and publishes."""

    __slots__ = ()

    @abstractmethod
    def subscribe(self, target: Target) -> int:
        """Ask for whatever the target selects. Returns the subscription's number; `Subscribed` follows."""

    @abstractmethod
    def update(self, number: int, target: Target) -> None:
        """Ask for something else instead. `Subscribed` with the next version follows."""

    @abstractmethod
    def unsubscribe(self, number: int) -> None:
        """Ask no more. `Unsubscribed` follows."""

    @abstractmethod
    def publish(self, description: Description, payload: bytes) -> CastId:
        """Tell whoever subscribed to things of this description."""
