"""How neighbours on a hashed ring hand over what they keep for others (`shelves.py`)."""

from implicast.overlay.links import Ref
from implicast.peer.contract import Message


class Claim(Message):
    """I have become your left neighbour: what is mine now?"""

    by: Ref


class Estate(Message):
    """Items that change hands: one part of several. `floor` is set in a bequest: down to where the giver answered."""

    to: Ref
    by: Ref
    part: int
    parts: int
    floor: Ref | None
    packed: bytes


class Offer(Message):
    """I want to leave: can you take what I keep?"""

    by: Ref


class Welcome(Message):
    """Yes, now."""


class Taken(Message):
    """The estate has arrived whole."""

    by: Ref
    bequest: bool


class CededOver(Message):
    """Rings when the ring should have told of a newcomer that claimed its share."""

    by: Ref


class EstateLate(Message):
    """Rings when a claim or a bequest should have been answered."""

    life: int


SHELF_KINDS: tuple[type, ...] = (Claim, Offer, Welcome, Estate, Taken)
