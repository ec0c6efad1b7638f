"""What the two designs on hashed tags say to each other in a kind world, and their alarms."""

from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, Message


class Registration(Message):
    """What a consumer is, as kept at each of its tags."""

    owner: Address
    version: int
    tags: tuple[str, ...]


class Store(Message):
    """Keep this owner under this tag. Routed. In the naive design `tags` stays empty."""

    key: int
    tag: str
    registration: Registration


class Drop(Message):
    """Forget this owner under this tag. Routed."""

    key: int
    tag: str
    owner: Address
    version: int


class Kept(Message):
    """Stored, or dropped."""

    tag: str
    version: int


class Fetch(Message):
    """Who has this tag? Routed."""

    key: int
    tag: str
    cast: CastId
    origin: Address


class Listed(Message):
    """These have: one part of several."""

    cast: CastId
    tag: str
    part: int
    parts: int
    found: tuple[Registration, ...]


class Referred(Message):
    """These have, by reference only."""

    cast: CastId
    tag: str
    part: int
    parts: int
    found: tuple[Address, ...]


class Notify(Message):
    """The publisher tells a consumer."""

    cast: CastId
    target: Target
    payload: bytes


class KeptLate(Message):
    """Rings when a registration is not yet acknowledged everywhere."""


class FetchLate(Message):
    """Rings when a list should have come."""
