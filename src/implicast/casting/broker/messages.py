"""What clients and brokers tell each other."""

from implicast.casting.reliable import Got, Repeat
from implicast.casting.service import Again, Notify, Publish, Register, Stored
from implicast.language.target import Target
from implicast.peer.contract import CastId, Message

__all__ = [
    "Again", "Carried", "Check", "CheckRound", "Forward", "Got", "Here", "Known", "Notify", "Onward", "Pass", "Probe",
    "Publish", "Register", "Repeat", "Stored", "Sweep",
]  # fmt: skip


class Probe(Message):
    """A client that looks for the nearest broker asks all of them; the first to answer is it."""


class Here(Message):
    """A broker answers a probe."""


class Forward(Message):
    """A broker passes a cast to a neighbour."""

    cast: CastId
    target: Target
    payload: bytes


# --- where brokers and clients may die


class Pass(Message):
    """A broker passes a cast to a neighbour of this view."""

    cast: CastId
    epoch: int
    target: Target
    payload: bytes


class Carried(Message):
    """Every broker on my side of our link, in the view you named or a newer one, has the cast."""

    cast: CastId
    epoch: int


class Check(Message):
    """A client reminds its broker of itself."""

    version: int


class Known(Message):
    """The broker knows this version of the client; 0: none."""

    version: int


class CheckRound(Message):
    """Rings when a client should remind its broker of itself."""

    upkeep = True


class Sweep(Message):
    """Rings when a broker should forget clients that have been silent for a lease."""

    upkeep = True


class Onward(Message):
    """Rings when a neighbour has not said for a while that a cast was carried."""
