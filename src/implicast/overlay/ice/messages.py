"""What peers of the surface say to each other.

The give takes three messages (`Give`, `Took`, `Done`), so that no place ever has two peers that answer for it.
What the layer above keeps for a place travels with it as `luggage`, opaque here.
"""

from implicast.peer.contract import Address, Message
from implicast.space.morton import BITS


class Title(Message):
    """The prefix of `bits` bits that begins at `low` belongs to `owner`. Larger epochs win, then smaller owners."""

    low: int
    bits: int
    epoch: int
    owner: Address

    @property
    def high(self) -> int:
        return self.low + (1 << (BITS - self.bits))


class Hello(Message):
    """Who I am now: all my pieces, and titles of what I gave away lately."""

    stamp_us: int
    mark: int
    """Rises whenever the sender's pieces change, so that older news is told from newer."""
    pieces: tuple[Title, ...]
    gifts: tuple[Title, ...]
    leaving: bool = False


class Heard(Message):
    """The answer to a `Hello`: its stamp back, and the answerer's own mark."""

    stamp_us: int
    mark: int


class More(Message):
    """I do not know your mark: say hello."""


class Titles(Message):
    """Better titles than the ones you seem to know."""

    titles: tuple[Title, ...]


class Join(Message):
    """A newcomer asks, by way of anybody, the owner of a place for half of its region."""

    code: int
    newcomer: Address


class Give(Message):
    """A piece changes hands: its new title, all titles the giver knows around it, and what is kept there."""

    number: int
    title: Title
    around: tuple[Title, ...]
    luggage: bytes


class Took(Message):
    """The taker has the piece and does not use it before `Done`."""

    number: int


class Done(Message):
    """The giver has let go: the piece is the taker's alone."""

    number: int


class Declined(Message):
    """The taker will not have the piece; the giver keeps it."""

    number: int


class Route(Message):
    """A payload on its way to every owner in a tract: ICE used alone (Listing 7)."""

    origin: Address
    serial: int
    tract: tuple[int, ...]
    payload: bytes


class AskAgain(Message):
    """Rings when a newcomer may have been left without an answer."""

    attempt: int


class GiveAgain(Message):
    """Rings when a leaver that found no taker for a piece should look again."""


class Depart(Message):
    """Rings when a leaver without pieces has forwarded strays for long enough."""


KINDS: tuple[type, ...] = (Hello, Heard, More, Titles, Join, Give, Took, Done, Declined, Route)
"""What travels; the others are alarms."""
