"""What clients and the server tell each other."""

from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message


class Register(Message):
    """A member tells the server what it is; `None`: nothing any more."""

    version: int
    description: Description | None


class Stored(Message):
    """The server has this version."""

    version: int


class Publish(Message):
    """A member asks the server to carry a cast."""

    cast: CastId
    target: Target
    payload: bytes


class Notify(Message):
    """The server tells a member of a cast that selects it."""

    cast: CastId
    target: Target
    payload: bytes


class Accepted(Message):
    """The server has carried the cast."""

    cast: CastId


class Again(Message):
    """Rings when the server has not answered for a while."""


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
