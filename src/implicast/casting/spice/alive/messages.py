"""What SPICE's peers say to each other on a living surface.

Kinds with a `way` are routed by the surface to every owner in the way's tract; the others go straight to an address.
Whatever must arrive has an answer, and is said again until that has come.
"""

from typing import ClassVar

from implicast.language.target import Description, Target
from implicast.overlay.ice.estate import Item, Way
from implicast.peer.contract import Address, CastId, Message


class Entry(Message):
    """One consumer's registration under one tag. No description: not under this tag (any more); kept a while against
    older news."""

    consumer: Address
    version: int
    spot: int
    description: Description | None
    before: Description | None = None
    """What the consumer said of itself before. It is answered from for a while too: a cast of two terms that meets the
    new version at one place and the old at another would otherwise leave the consumer to nobody."""


class StoreAt(Message):
    """Entries on their way to their homes at one notch of a registry."""

    way: Way
    tag: str
    root: int
    notch: int
    entries: tuple[Entry, ...]
    reply: Address
    token: int
    """The asker's name for this errand, echoed in `StoredAt`."""
    first: bool = False
    """From the consumer itself: the original root sends it to the replicas too."""


class StoredAt(Message):
    """These consumers' entries are kept, and their copies too: (consumer, version, notch where it is kept)."""

    tag: str
    root: int
    notch: int
    """The notch that was asked for."""
    token: int
    kept: tuple[tuple[Address, int, int], ...]


class CopyTo(Message):
    """Entries on their way to several roots of a tag: every code of the way's tract is one."""

    way: Way
    tag: str
    entries: tuple[Entry, ...]
    reply: Address
    token: int


class CastTo(Message):
    """A cast on its way through one registry, at one notch."""

    way: Way
    cast: CastId
    target: Target
    term: int
    tag: str
    level: int
    """Of the replica root it is meant for; a root that is not ready passes it to the next lower level."""
    root: int
    notch: int
    payload: bytes
    parent: Address
    branch: int
    """The parent's number for this branch: who has finished a part says so to the parent."""


class GatherTo(Message):
    """A walk that draws what is kept above a place down to it again."""

    way: Way
    tag: str
    root: int
    notch: int
    base: int
    """The notch to which all comes down."""
    leader: Address
    walk: int
    parent: Address
    branch: int


class CopyFrom(Message):
    """A walk through an original registry that copies all of it to the roots of a new level."""

    way: Way
    tag: str
    root: int
    notch: int
    level: int
    leader: Address
    walk: int
    parent: Address
    branch: int


class CoveredPart(Message):
    """This part of a branch is finished, with all that lies above it."""

    branch: int
    part: tuple[int, ...]
    told: int
    """How many were notified, ..."""
    silent: int
    """... how many did not answer, ..."""
    size: int
    """... and how many are registered there."""
    cast: CastId | None = None


class Working(Message):
    """This branch was heard of before and takes its time: no need to ask again soon."""

    branch: int
    cast: CastId | None = None


class Notified(Message):
    """The consumer has the cast (or need not have it)."""

    cast: CastId


class Offer(Message):
    """What a peer kept on ground that it lost to a better title, for whoever owns the places now."""

    way: Way
    items: tuple[Item, ...]
    reply: Address
    token: int


class Taken(Message):
    """This part of an offer, or of a call to roots, has been dealt with, and its copies too."""

    token: int
    part: tuple[int, ...]
    veto: bool = False


class SayAgain(Message):
    """To everybody: what was kept on this ground is lost. Whoever was registered there registers again."""

    way: Way
    lost: tuple[int, ...]


class RateAt(Message):
    """A root of a tag tells the original root that it is too busy, or that it is hardly needed."""

    way: Way
    tag: str
    busy: bool
    number: int
    level: int
    """What the root knows of the tag's level and the number of that news: an original root that lost its own learns."""


class ReadyAt(Message):
    """To roots of a tag: answer casts from now on, or do not."""

    way: Way
    tag: str
    number: int
    """Larger numbers are newer news."""
    level: int
    ready: bool
    reply: Address
    token: int


class AskVeto(Message):
    """To all roots of a level: may it be lowered?"""

    way: Way
    tag: str
    reply: Address
    token: int


class Flush(Message):
    """Rings when entries that came in are backed up together."""


class Again(Message):
    """Rings when a registration should have been confirmed."""

    version: int


class Patience(Message):
    """Rings now and then until a publisher's cast has ended, so that nobody takes the world for quiet before."""

    serial: int


class Chime(Message):
    """Rings for all that was put off until about now."""

    upkeep: ClassVar[bool] = True
    slot: int


class Renew(Message):
    """Rings when one more tag should be registered anew, before its lease runs out."""

    upkeep: ClassVar[bool] = True
    version: int


KINDS: tuple[type, ...] = (
    StoreAt, StoredAt, CopyTo, CastTo, GatherTo, CopyFrom, CoveredPart, Working, Notified, Offer, Taken, SayAgain,
    RateAt, ReadyAt, AskVeto,
)  # fmt: skip
"""What travels, beside `Notify`; the others are alarms."""
