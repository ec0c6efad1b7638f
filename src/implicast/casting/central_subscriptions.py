"""Publish/subscribe through one server, as the yardstick: what members and the server of CENTRALISED say about it.

A subscription has a number, and each wording of it a version; both belong to a life of the member, so that what it
said last counts, also after it began again.
"""

from typing import ClassVar

from implicast.casting.telling import Word
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Contact, Incarnation, Message, Name
from implicast.peer.fields import Count, Payload
from implicast.peer.words import Said, personal


@personal("name")
class Subscribe(Message):
    """A member words a subscription, anew or for the first time; `None`: it wants it no more."""

    wire = 0x0211
    name: Name
    incarnation: Incarnation
    subscription: Count
    version: Count
    target: Target | None


class SubscriptionKept(Message):
    """The server has this wording, or one of a later life."""

    wire = 0x0212
    incarnation: Incarnation
    subscription: Count
    version: Count


class Announce(Message):
    """A member asks the server to tell whoever subscribed to things of this description."""

    wire = 0x0213
    dry: ClassVar[bool] = False

    cast: CastId
    description: Description
    payload: Payload


class Happened(Word):
    """The server tells a subscriber."""

    wire = 0x0214
    description: Description
    payload: Payload


class Worded(Message):
    """A subscription that the server keeps; `None`: taken back, and kept lest an older wording counts."""

    contact: Contact
    incarnation: Incarnation
    subscription: Count
    version: Count
    target: Target | None
    said: Said | None = None
    """As its owner signed it, where words are signed."""


class Wording(Message):
    """A subscription that a member keeps."""

    subscription: Count
    version: Count
    target: Target


SUBSCRIPTION_KINDS: tuple[type[Message], ...] = (Subscribe, SubscriptionKept, Announce, Happened)
