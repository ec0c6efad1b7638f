"""What members of the publish/subscribe designs say to each other beside what all on a ring do, and what they keep."""

from typing import Annotated

from msgspec import Meta

from implicast.casting.keeping.member import KeptRing
from implicast.language.target import Description, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.fields import ITEMS_MAX, Payload, Token


class Matched(Message):
    """The publisher tells a peer whose subscriptions with these numbers seem to match."""

    wire = 0x0701
    cast: CastId
    numbers: Annotated[tuple[Token, ...], Meta(max_length=ITEMS_MAX)]
    description: Description
    payload: Payload


class KeptEntry(Message):
    """One term of a subscription: its id, and the serials of what was laid for it."""

    sub_id: int
    term: Term
    pieces: tuple[int, ...]


class KeptSubscription(Message):
    """One subscription."""

    number: int
    version: int
    entries: tuple[KeptEntry, ...]


class KeptPubSub(KeptRing):
    """What outlives a crash of a member that may have subscribed."""

    last_number: int = 0
    last_sub: int = 0
    subscriptions: tuple[KeptSubscription, ...] = ()


PUBSUB_KINDS: tuple[type[Message], ...] = (Matched,)
