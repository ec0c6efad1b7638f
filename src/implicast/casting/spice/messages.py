"""What SPICE's peers say to each other."""

from typing import ClassVar

from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Message


class Record(Message):
    """One consumer's registration under one tag. No description: withdrawn, kept a while against older news."""

    consumer: Address
    version: int
    spot: int
    description: Description | None
    fresh: bool
    """The consumer had not registered this tag before; for counting."""


class Store(Message):
    """Records on their way to their homes at one notch of a registry."""

    tag: str
    root: int
    notch: int
    records: tuple[Record, ...]
    reply: Address
    errand: int
    """What the asker has in mind (`registering.py`), echoed in `Stored`."""


class Copy(Message):
    """Records on their way to several replica roots of a tag, given as a tract of single codes."""

    tag: str
    roots: tuple[int, ...]
    records: tuple[Record, ...]
    reply: Address
    errand: int


class Stored(Message):
    """These consumers' records are kept, in these versions or newer ones, at the asked notch or above it."""

    tag: str
    root: int
    notch: int
    kept: tuple[tuple[Address, int], ...]
    errand: int
    shut: tuple[int, ...] = ()
    """What the answerer has closed at that notch: records with their homes there need not come this way again."""


class Seek(Message):
    """A cast that looks for a registry of its tag: at replica roots, from the deepest level down to the original."""

    cast: CastId
    target: Target
    term: int
    tag: str
    level: int
    root: int
    payload: bytes
    tried: tuple[tuple[str, int], ...] = ()
    """Tags whose registries were met and found large, with their sizes (`choose = rarest`)."""


class Cast(Message):
    """A cast that walks through a registry: to all peers with a part of `tract`, at one notch."""

    cast: CastId
    target: Target
    term: int
    tag: str
    root: int
    notch: int
    tract: tuple[int, ...]
    payload: bytes


class Notify(Message):
    """To a selected consumer."""

    cast: CastId
    target: Target
    payload: bytes


class Busy(Message):
    """To the original root: casts of this tag arrive here more often than the limit allows."""

    tag: str


class Duplicate(Message):
    """A walk through an original registry that copies all of it to the roots of a new level."""

    tag: str
    notch: int
    tract: tuple[int, ...]
    level: int
    parent: Address
    branch: int
    """The parent's number for this branch of the walk."""


class Covered(Message):
    """This part of a branch has been copied, with all that lies above it."""

    branch: int
    part: tuple[int, ...]


class Ready(Message):
    """To the roots of a new level: you have everything, answer casts from now on."""

    tag: str
    roots: tuple[int, ...]


class Raised(Message):
    """To the original root: its new level is ready."""

    tag: str
    level: int


class Overrun(Message):
    """Rings at once when a root is too busy: raising a level is upkeep, no part of the cast that showed the need."""

    upkeep: ClassVar[bool] = True
    tag: str


class Flush(Message):
    """Rings when records that were collected go on together."""


class Replicate(Message):
    """Rings when records that were collected go to the replicas."""


class Repeat(Message):
    """Rings when a registration should have been confirmed."""

    version: int


KINDS: tuple[type, ...] = (Store, Copy, Stored, Seek, Cast, Notify, Busy, Duplicate, Covered, Ready, Raised)
