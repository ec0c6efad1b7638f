"""What clients and the server tell each other."""

from implicast.casting.service import Again, Notify, Publish, Register, Stored
from implicast.peer.contract import CastId, Message

__all__ = ["Accepted", "Again", "Finished", "Notify", "Publish", "Register", "Renew", "Stored", "Sweep"]


class Accepted(Message):
    """The server has carried the cast."""

    cast: CastId


class Finished(Message):
    """Every member that the cast was for has confirmed it, or stayed silent for too long."""

    cast: CastId
    notified: int
    unreachable: int


class Renew(Message):
    """Rings when a client should remind the server of itself."""

    upkeep = True


class Sweep(Message):
    """Rings when the server should forget whoever has not been heard of for a lease."""

    upkeep = True
