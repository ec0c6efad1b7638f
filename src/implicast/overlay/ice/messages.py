"""What peers of the surface say to each other.

In the words of the thesis and of CAN: Hail is the hello, Echo says that it was heard, Enter asks to join, HandOver is
the give, Accepted the took.
"""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.ice.estate import MARK_MAX, Code, Item, Mark, Number, Way
from implicast.peer.contract import Address, Message, StandingAlarm
from implicast.peer.fields import Micros
from implicast.space.morton import BITS, CODES, DIMENSIONS

TITLES_MAX = 1_024
"""Titles in one field: a peer has a few, and some dozens around it."""
HEIRS_MAX = 16
ITEMS_MAX = 16_384
PARTS_MAX = 4_096
"""Parts of a give or a copy: 256 MB at 64 KB each."""

Bits = Annotated[int, Meta(ge=0, le=BITS)]
Digit = Annotated[int, Meta(ge=0, lt=1 << DIMENSIONS[-1])]
"""One digit of an address on the surface."""
PartNumber = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Heirs = Annotated[tuple[Address, ...], Meta(max_length=HEIRS_MAX)]
Items = Annotated[tuple[Item, ...], Meta(max_length=ITEMS_MAX)]
Known = Annotated[int, Meta(ge=-2, le=MARK_MAX)]
"""A number, or that there is none (below 0)."""


class Title(Message):
    """The prefix of `bits` bits that begins at `low` belongs to `owner`. Larger epochs win, then smaller owners."""

    low: Code
    bits: Bits
    epoch: Mark
    owner: Address

    @property
    def high(self) -> int:
        return self.low + (1 << (BITS - self.bits))

    def __post_init__(self) -> None:
        if self.low & ((1 << (BITS - self.bits)) - 1) or self.low >= CODES:
            raise ValueError(f"no prefix of {self.bits} bits begins at {self.low:#x}")


Several = Annotated[tuple[Title, ...], Meta(max_length=TITLES_MAX)]
Neighbour = tuple[Title, Heirs]
"""A title and the heirs of its owner."""
Around = Annotated[tuple[Neighbour, ...], Meta(max_length=TITLES_MAX)]


class Hail(Message):
    """Who I am now: all my pieces, who my heirs are, what I parted with lately."""

    wire = 0x0901
    stamp_us: Micros
    """By the sender's clock; echoed."""
    born_us: Micros
    """By the sender's clock, when its life began: a later one says that the peer that was at this address is dead."""
    mark: Mark
    """Rises whenever the sender's pieces, their status or its heirs change, from life to life too."""
    pieces: Several
    provisional: Several
    """Received and not yet granted: not to be learnt, except by heirs."""
    heirs: Heirs
    copying: Heirs
    """Whoever is being made an heir."""
    leaving: bool
    gifts: Several
    around: Around = ()
    """To heirs: the neighbours' titles and heirs."""


class Echo(Message):
    """Your greeting has come."""

    wire = 0x0902
    stamp_us: Micros
    mark: Mark
    own_us: Micros
    """The answerer's own stamp, to be echoed at once; 0: no need."""
    has_estate: bool
    """I hold a complete copy of what you keep."""


class More(Message):
    """I do not know your mark: say hello."""

    wire = 0x0903


class Titles(Message):
    """Better titles than the ones you seem to know."""

    wire = 0x0904
    titles: Several


class Passed(Message):
    """A routed message has come one hop further: its number on this hop."""

    wire = 0x0905
    number: Number


class Enter(Message):
    """A newcomer asks the owner of a place for ground."""

    wire = 0x0906
    way: Way
    newcomer: Address
    born_us: Micros


class Who(Message):
    """Whose is this place? Whoever answers for it, or waits for it, sends `Titles` to the asker."""

    wire = 0x0907
    way: Way
    asker: Address


class HandOver(Message):
    """A piece changes hands: its new title, what the giver knows around it, and what is kept there, in parts."""

    wire = 0x0908
    number: Number
    part: PartNumber
    parts: PartNumber
    title: Title
    around: Around
    items: Items


class Taking(Message):
    """This part of a hand-over has come; the taker is busy with it."""

    wire = 0x0909
    number: Number
    part: PartNumber


class Accepted(Message):
    """The taker has the piece, and its heirs have it; it does not use it before `Done`."""

    wire = 0x090A
    number: Number
    title: Title
    heirs: Heirs
    stamp_us: Micros
    """By the taker's clock: what it said before of its heirs does not matter any more."""


class Done(Message):
    """The giver has let go: the piece is the taker's alone."""

    wire = 0x090B
    number: Number


class Declined(Message):
    """The taker will not have the piece; the giver keeps it."""

    wire = 0x090C
    number: Number


class CopyEstate(Message):
    """A part of an owner's estate, for a peer that is to be its heir."""

    wire = 0x090D
    number: Number
    part: PartNumber
    parts: PartNumber
    serial: Number
    stamp_us: Micros
    mark: Mark
    titles: Several
    heirs: Heirs
    around: Around
    items: Items


class Copied(Message):
    """This part of a copy has come."""

    wire = 0x090E
    number: Number
    part: PartNumber
    stamp_us: Micros


class Backup(Message):
    """What has changed in an estate."""

    wire = 0x090F
    number: Number
    serial: Number
    stamp_us: Micros
    mark: Mark
    titles: Several
    items: Items


class BackedUp(Message):
    """The heir has what has changed."""

    wire = 0x0910
    number: Number
    stamp_us: Micros


class NoEstate(Message):
    """The heir does not hold the estate that a backup is for."""

    wire = 0x0911
    number: Number


class Inquire(Message):
    """Has anybody heard the suspect? An heir asks before it takes what the suspect had."""

    wire = 0x0912
    suspect: Address
    pieces: Several
    rank: Annotated[int, Meta(ge=0, le=HEIRS_MAX + 1)]
    claims: Several
    """Pieces that the suspect was giving to the asker: its own if the suspect is dead."""
    serial: Known
    """The last word of the suspect in the asker's copy of its estate: who has a later one sends it; -2: no copy."""
    certain: bool = False
    """Another life has begun at the suspect's address: the one before is dead, whoever heard it when."""


class Witness(Message):
    """What a peer knows of a suspect."""

    wire = 0x0913
    suspect: Address
    ago_us: Known
    """Since the suspect was last heard; -1: not known."""
    titles: Several
    items: Items
    whole: bool
    """The items are all that is kept on the pieces that are asked about, by a newer copy than the asker's."""
    held: Several
    """What the witness is giving to the suspect, as it will be if it is taken back, or is given by it, as it will be
    when the suspect is known to be dead; not yet, so nobody learns it."""


class FindMover(Message):
    """Who in the area (a prefix) could take a spare piece, and leave its own to its sibling?"""

    wire = 0x0914
    spare: Title
    low: Code
    bits: Bits
    asker: Address
    depth: Annotated[int, Meta(ge=0, le=BITS)]


class Mover(Message):
    """I could take that spare."""

    wire = 0x0915
    spare: Title


class Sound(Message):
    """A newcomer asks the owner of a place how near it is: by way of others, then directly."""

    wire = 0x0916
    way: Way
    newcomer: Address
    round: Number
    digit: Digit
    direct: bool


class Sounded(Message):
    """The owner's answer: which place, and the bits of the ground that it is in."""

    wire = 0x0917
    round: Number
    digit: Digit
    direct: bool
    low: Code
    bits: Bits


KINDS: tuple[type, ...] = (
    Hail,
    Echo,
    More,
    Titles,
    Passed,
    Enter,
    Who,
    HandOver,
    Taking,
    Accepted,
    Done,
    Declined,
    CopyEstate,
    Copied,
    Backup,
    BackedUp,
    NoEstate,
    Inquire,
    Witness,
    FindMover,
    Mover,
    Sound,
    Sounded,
)
"""What travels; the others are alarms."""


class Tick(StandingAlarm):
    """Rings when it is time to look about."""


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


class SoundedOut(Message):
    """Rings when owners have had their time to say how near they are."""

    round: int


class MayGo(Message):
    """Rings when a leaver without pieces has stayed for long enough."""


class KeptSurface(Message):
    """What a peer writes down of the surface, to be back soon after a crash."""

    born_us: Micros
    contacts: Annotated[tuple[Address, ...], Meta(max_length=TITLES_MAX)]
    """Neighbours, heirs, and those whose heir it was: they learn at once that a life has ended."""
