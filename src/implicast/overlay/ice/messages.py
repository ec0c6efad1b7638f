"""What peers of the surface say to each other.

In the words of the thesis and of CAN: Hail is the hello, Echo says that it was heard, Enter asks to join, HandOver is
the give, Accepted the took.
"""

from collections.abc import Hashable

from implicast.overlay.ice.estate import Item, Way
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


Neighbour = tuple[Title, tuple[Address, ...]]
"""A title and the heirs of its owner."""


class More(Message):
    """I do not know your mark: say hello."""


class Titles(Message):
    """Better titles than the ones you seem to know."""

    titles: tuple[Title, ...]


class Done(Message):
    """The giver has let go: the piece is the taker's alone."""

    number: int


class Declined(Message):
    """The taker will not have the piece; the giver keeps it."""

    number: int


class Hail(Message):
    """Who I am now: all my pieces, who my heirs are, what I parted with lately."""

    stamp_us: int
    """By the sender's clock; echoed."""
    mark: int
    """Rises whenever the sender's pieces, their status or its heirs change."""
    pieces: tuple[Title, ...]
    provisional: tuple[Title, ...]
    """Received and not yet granted: not to be learnt, except by heirs."""
    heirs: tuple[Address, ...]
    copying: tuple[Address, ...]
    """Whoever is being made an heir."""
    leaving: bool
    gifts: tuple[Title, ...]
    around: tuple[Neighbour, ...] = ()
    """To heirs: the neighbours' titles and heirs."""


class Echo(Message):
    """Your greeting has come."""

    stamp_us: int
    mark: int
    own_us: int
    """The answerer's own stamp, to be echoed at once; 0: no need."""
    has_estate: bool
    """I hold a complete copy of what you keep."""


class Passed(Message):
    """A routed message has come one hop further: its number on this hop."""

    number: int


class Enter(Message):
    """A newcomer asks the owner of a place for ground."""

    way: Way
    newcomer: Address


class Who(Message):
    """Whose is this place? Whoever answers for it, or waits for it, sends `Titles` to the asker."""

    way: Way
    asker: Address


class HandOver(Message):
    """A piece changes hands: its new title, what the giver knows around it, and what is kept there, in parts."""

    number: int
    part: int
    parts: int
    title: Title
    around: tuple[Neighbour, ...]
    items: tuple[Item, ...]


class Taking(Message):
    """This part of a hand-over has come; the taker is busy with it."""

    number: int
    part: int


class Accepted(Message):
    """The taker has the piece, and its heirs have it; it does not use it before `Done`."""

    number: int
    title: Title
    heirs: tuple[Address, ...]
    stamp_us: int
    """By the taker's clock: what it said before of its heirs does not matter any more."""


class CopyEstate(Message):
    """A part of an owner's estate, for a peer that is to be its heir."""

    number: int
    part: int
    parts: int
    serial: int
    stamp_us: int
    mark: int
    titles: tuple[Title, ...]
    heirs: tuple[Address, ...]
    around: tuple[Neighbour, ...]
    items: tuple[Item, ...]


class Copied(Message):
    number: int
    part: int
    stamp_us: int


class Backup(Message):
    """What has changed in an estate."""

    number: int
    serial: int
    stamp_us: int
    mark: int
    titles: tuple[Title, ...]
    items: tuple[Item, ...]


class BackedUp(Message):
    number: int
    stamp_us: int


class NoEstate(Message):
    """The heir does not hold the estate that a backup is for."""

    number: int


class Inquire(Message):
    """Has anybody heard the suspect? An heir asks before it takes what the suspect had."""

    suspect: Address
    pieces: tuple[Title, ...]
    rank: int
    claims: tuple[Title, ...]
    """Pieces that the suspect was giving to the asker: its own if the suspect is dead."""
    serial: int
    """The last word of the suspect in the asker's copy of its estate: who has a later one sends it; -2: no copy."""


class Witness(Message):
    """What a peer knows of a suspect."""

    suspect: Address
    ago_us: int
    """Since the suspect was last heard; -1: not known."""
    titles: tuple[Title, ...]
    items: tuple[Item, ...]
    whole: bool
    """The items are all of the estate, by a newer copy than the asker's."""
    held: tuple[Title, ...]
    """What the witness is giving to the suspect, as it will be if it is taken back, or is given by it, as it will be
    when the suspect is known to be dead; not yet, so nobody learns it."""


class FindMover(Message):
    """Who in the area (a prefix) could take a spare piece, and leave its own to its sibling?"""

    spare: Title
    low: int
    bits: int
    asker: Address
    depth: int


class Mover(Message):
    """I could take that spare."""

    spare: Title


class Tick(Message):
    """Rings for standing upkeep."""

    upkeep = True


class Repeat(Message):
    """Rings when questions, by their names, have not been answered for their wait."""

    keys: tuple[tuple[str, Hashable], ...]
    due_us: int


class Verdict(Message):
    """Rings when the witnesses have had their time."""

    suspect: Address
    round: int


class Firm(Message):
    """Rings when rival seizers have had time to meet."""

    number: int


class EnterAgain(Message):
    """Rings when a newcomer may have been left without an answer."""

    attempt: int


class Farewell(Message):
    """Rings when a leaver without pieces has stayed for long enough."""


KINDS: tuple[type, ...] = (
    Hail, Echo, More, Titles, Passed, Enter, Who, HandOver, Taking, Accepted, Done, Declined, CopyEstate, Copied,
    Backup, BackedUp, NoEstate, Inquire, Witness, FindMover, Mover,
)  # fmt: skip
"""What travels; the others are alarms."""
