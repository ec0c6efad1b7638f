"""Publish/subscribe through one server, the baseline: messages between members and the server of
CENTRALISED.

A subscription has a number, and each change of its target a version. Both belong to an incarnation
of the member, so that the member's last statement counts, also after a restart.
"""

from typing import ClassVar

from implicast.casting.notifier import Notification
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Contact, Incarnation, Message, Name
from implicast.peer.fields import Count, Payload
from implicast.peer.signing import SignedMessage, signed_by


@signed_by("name")
class Subscribe(Message):
    """A member makes or changes a subscription; None removes it."""

    wire = 0x0211
    name: Name
    incarnation: Incarnation
    subscription: Count
    version: Count
    target: Target | None


class SubscribeAck(Message):
    """The server has this version of the subscription, or one of a later incarnation."""

    wire = 0x0212
    incarnation: Incarnation
    subscription: Count
    version: Count


class PublishEvent(Message):
    """A member asks the server to notify the subscribers of events with this description."""

    wire = 0x0213
    dry: ClassVar[bool] = False

    cast: CastId
    description: Description
    payload: Payload


class EventNotify(Notification):
    """The server notifies a subscriber of an event."""

    wire = 0x0214
    description: Description
    payload: Payload


class ServerSubscription(Message):
    """A subscription at the server. None: removed, and kept so that an older version does not
    replace it.
    """

    contact: Contact
    incarnation: Incarnation
    subscription: Count
    version: Count
    target: Target | None
    signed: SignedMessage | None = None
    """The subscription as its owner signed it, where signing is on."""


class OwnSubscription(Message):
    """A subscription at its owner."""

    subscription: Count
    version: Count
    target: Target


SUBSCRIPTION_KINDS: tuple[type[Message], ...] = (Subscribe, SubscribeAck, PublishEvent, EventNotify)
