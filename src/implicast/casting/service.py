"""What members and whoever serves them, a server or a broker, tell each other."""

from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message


class Register(Message):
    """A member says what it is; `None`: nothing any more."""

    version: int
    description: Description | None


class Stored(Message):
    """This version is kept, and every later cast will find it."""

    version: int


class Publish(Message):
    """A member asks to carry a cast."""

    cast: CastId
    target: Target
    payload: bytes


class Notify(Message):
    """A member is told of a cast that selects it."""

    cast: CastId
    target: Target
    payload: bytes


class Again(Message):
    """Rings when a member's request has not been answered for a while."""
