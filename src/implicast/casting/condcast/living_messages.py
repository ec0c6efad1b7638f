"""What living condcast peers say to each other about casts, and their alarms."""

from implicast.casting.condcast.messages import Query
from implicast.peer.contract import CastId, Message
from implicast.space.ring import Arc


class Carry(Message):
    """Carry this cast to whoever matches in these arcs, and say when that is done. Said again until it is."""

    cast: CastId
    token: int
    arcs: tuple[Arc, ...]
    query: Query
    payload: bytes


class Covered(Message):
    """In all these arcs everybody was told who could be: so many; so many arcs were given up."""

    cast: CastId
    token: int
    told: int
    lost: int


class Working(Message):
    """Not yet: others have to say so first."""

    cast: CastId
    token: int


class Astray(Message):
    """I am no member any more: send it another way."""

    cast: CastId
    token: int


class Unanswered(Message):
    """Rings when something that was to be carried should have been covered."""


LIVING_KINDS = (Carry, Covered, Working, Astray)
"""The kinds that travel."""
