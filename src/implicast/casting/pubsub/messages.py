"""What the nodes of the publish/subscribe designs say to each other."""

from implicast.language.target import Description, Scalar, Target
from implicast.peer.contract import Address, CastId, Message


class Spread(Message):
    """Put a subscription's id into the lists of the values low..high, or take it out. Routed to the lowest value;
    from there it goes on to the node of each next value, `walking` by right neighbours or, if not, by fingers."""

    key: int
    attribute: str
    low: Scalar
    high: Scalar
    sub_id: int
    version: int
    remove: bool
    origin: Address
    serial: int
    walks: bool
    walking: bool


class Place(Message):
    """Keep a peer's description in the list of one of its values; None: keep it no more. Routed."""

    key: int
    attribute: str
    value: Scalar
    owner: Address
    version: int
    description: Description | None
    serial: int


class Laid(Message):
    """What was asked for under this serial has been done everywhere."""

    serial: int


class FetchIds(Message):
    """Which subscriptions admit this value? Routed."""

    key: int
    attribute: str
    value: Scalar
    cast: CastId
    origin: Address


class Ids(Message):
    """These do: one part of several."""

    cast: CastId
    attribute: str
    value: Scalar
    part: int
    parts: int
    ids: tuple[int, ...]


class Inform(Message):
    """A publication for subscriptions of one node: routed to the node whose id it is."""

    key: int
    cast: CastId
    numbers: tuple[int, ...]
    description: Description
    payload: bytes


class Profile(Message):
    """A peer as it is listed under each of its values."""

    owner: Address
    version: int
    description: Description


class Collect(Message):
    """Who has a value of low..high? Goes from node to node as `Spread` does; each answers for its own values.
    `piece` numbers the ranges of one cast."""

    key: int
    piece: int
    attribute: str
    low: Scalar
    high: Scalar
    cast: CastId
    origin: Address
    walks: bool
    walking: bool


class Collected(Message):
    """These have, among the values low..high: one part of several."""

    cast: CastId
    piece: int
    low: Scalar
    high: Scalar
    part: int
    parts: int
    profiles: tuple[Profile, ...]


class Tell(Message):
    """The publisher tells a peer that its target selects."""

    cast: CastId
    target: Target
    payload: bytes


class LaidLate(Message):
    """Rings when something should have been laid everywhere."""


class FetchLate(Message):
    """Rings when a list should have come."""


class CollectLate(Message):
    """Rings when the lists of a cast should have been collected."""


PUBSUB_KINDS: tuple[type, ...] = (Spread, Place, Laid, FetchIds, Ids, Inform, Collect, Collected, Tell)
