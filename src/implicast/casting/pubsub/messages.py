"""Messages and durable state of the publish/subscribe designs, beyond those of replicated lists."""

from typing import Annotated

from msgspec import Meta

from implicast.casting.replicated_lists.durable import DurableRing
from implicast.language.target import Description, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.fields import ITEMS_MAX, Payload, Token


class Matched(Message):
    """A publication for a peer whose subscriptions with these numbers match, by the lists."""

    wire = 0x0701
    cast: CastId
    numbers: Annotated[tuple[Token, ...], Meta(max_length=ITEMS_MAX)]
    description: Description
    payload: Payload


class DurableTerm(Message):
    """One term of a subscription: its id, and the serials of its own entries."""

    sub_id: int
    term: Term
    own_entries: tuple[int, ...]


class DurableSubscription(Message):
    """One subscription with its terms."""

    number: int
    version: int
    entries: tuple[DurableTerm, ...]


class DurablePubSub(DurableRing):
    """Durable state of a member with subscriptions."""

    last_number: int = 0
    last_sub: int = 0
    subscriptions: tuple[DurableSubscription, ...] = ()


PUBSUB_KINDS: tuple[type[Message], ...] = (Matched,)
