"""What SPICE's peers say to each other.

Kinds with a `way` travel over the surface to every owner in the way's tract; the others go straight to an address. With
receipts, whatever must arrive has an answer and is said again until that has come.
"""

from typing import Annotated

from msgspec import Meta

from implicast.casting.complaints import Slowing
from implicast.language.target import Description, Target
from implicast.overlay.ice.estate import Code, Item, Way
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, Version
from implicast.peer.fields import Count, Payload, Token
from implicast.space.morton import BITS

TAG_MAX = 256
"""The longest tag that can be registered or cast to."""
TOGETHER_MAX = 512
"""Entries in one message; keeps it well below the longest message."""
ASKED = "asked"
"""What a cast that only counts is signed as: it cannot be taken for the cast itself."""
NAMES_MAX = 64
"""Members that stayed silent, by name."""

Tag = Annotated[str, Meta(max_length=TAG_MAX)]
Tract = Annotated[tuple[Code, ...], Meta(max_length=4_096)]
Notch = Annotated[int, Meta(ge=0, le=BITS)]
Level = Annotated[int, Meta(ge=0, le=BITS)]
NewsNumber = Annotated[int, Meta(ge=0, le=1 << 48)]
"""Of news about a level: larger ones are newer, and there is always room for more."""


class Entry(Message):
    """One consumer's registration under one tag. No description: not under this tag (any more); kept a while against
    older news."""

    member: Contact
    version: Version
    spot: Code
    description: Description | None
    before: Description | None = None
    """What the consumer said of itself before. It is answered from for a while too: a cast of two terms that meets the
    new version at one place and the old at another would otherwise leave the consumer to none of them."""


Entries = Annotated[tuple[Entry, ...], Meta(max_length=TOGETHER_MAX)]
Kept = tuple[Name, Version, Notch]
"""A consumer, the version of its record that is kept, and the notch where it is."""


class OfTag(Message):
    """Something on its way to places of a tag."""

    way: Way
    tag: Tag


class Through(Message):
    """Something on its way to, or through, one notch of a registry."""

    way: Way
    tag: Tag
    root: Code
    notch: Notch


class StoreAt(Through):
    """Entries on their way to their homes at one notch of a registry."""

    wire = 0x0A01

    entries: Entries
    reply: Address
    token: Token
    """The asker's name for this errand, echoed in `StoredAt`."""
    first: bool = False
    """From the consumer itself: the original root sends it to the replicas too."""


class StoredAt(Message):
    """These consumers' entries are kept, and their copies too, at the asked notch or above it."""

    wire = 0x0A02

    tag: Tag
    root: Code
    notch: Notch
    """The notch that was asked for."""
    token: Token
    kept: Annotated[tuple[Kept, ...], Meta(max_length=TOGETHER_MAX)]
    shut: Tract = ()
    """What the answerer has closed at that notch for good: records at home there need not come this way again."""


class CopyTo(OfTag):
    """Entries on their way to several roots of a tag: every code of the way's tract is one."""

    wire = 0x0A03

    entries: Entries
    reply: Address
    token: Token


class CastTo(Message):
    """A cast on its way to a registry of its tag, or through one at one notch."""

    wire = 0x0A04

    way: Way
    cast: CastId
    target: Target
    term: Count
    tag: Tag
    level: Level
    """Of the replica root it is meant for; where there is no copy it goes to the next lower level."""
    root: Code
    notch: Notch
    payload: Payload
    tried: Annotated[tuple[tuple[Tag, Count], ...], Meta(max_length=64)] = ()
    """Tags whose registries were met and found large, with their sizes (`choose = rarest`)."""
    asks: bool = False
    """Only count whom it would reach."""


class CastAgain(CastTo):
    """A cast that its publisher carries on, or counts anew: its walk is another one, and everybody counts for it."""

    wire = 0x0A1A

    again: Incarnation = 0
    """The publisher's life; more by one for each time that it has counted anew."""


class GatherTo(Through):
    """A walk that draws what is kept above a place down to it again."""

    wire = 0x0A05

    base: Notch
    """The notch to which all comes down."""
    leader: Address
    walk: Token


class CopyFrom(Through):
    """A walk through an original registry that copies all of it to the roots of a new level."""

    wire = 0x0A06

    level: Level
    leader: Address
    walk: Token


class SayAgain(Through):
    """A walk to everybody, in the name of no tag: what was kept on some ground is lost. Whoever was registered there
    registers again, and has done its part of the walk when that is confirmed."""

    wire = 0x0A0B

    lost: Tract
    leader: Address
    walk: Token


class Covered(Message):
    """The hop of this number is finished, with all that lies beyond it: what became of the members met there."""

    wire = 0x0A07

    number: Token
    notified: Count = 0
    declined: Count = 0
    unreachable: Count = 0
    silent: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()
    size: Count = 0
    """How many are registered there."""
    hops: Count = 0
    """Messages that it took."""


class CoveredAgain(Covered):
    """The same where members say that another peer told them before: it has counted them, if its answer was heard."""

    wire = 0x0A1B

    repeated: Count = 0


class Working(Message):
    """The hop of this number has come and takes its time."""

    wire = 0x0A08

    number: Token


class Offer(Message):
    """What a peer kept on ground that it lost to a better title, for whoever owns the places now."""

    wire = 0x0A09

    way: Way
    items: Annotated[tuple[Item, ...], Meta(max_length=TOGETHER_MAX)]
    reply: Address
    token: Token


class Taken(Message):
    """This part of an offer, or of a call to roots, has been dealt with, and its copies too."""

    wire = 0x0A0A

    token: Token
    part: Tract
    veto: bool = False


class RateAt(OfTag):
    """A root hints to the original one that it is busy, or hardly needed; that asks it, for anybody could say so."""

    wire = 0x0A0C

    root: Code


class AskRate(OfTag):
    """The original root of a tag asks another root how it is; only the root's owner gets to know the token."""

    wire = 0x0A11

    reply: Address
    token: Token


class RateIs(Message):
    """A root's answer: is it too busy (True), hardly needed (False), or neither?"""

    wire = 0x0A12

    token: Token
    busy: bool | None
    number: NewsNumber
    level: Level
    """What the root knows of the tag's level and the number of that news: an original root that lost its own learns."""


class ReadyAt(OfTag):
    """To roots of a tag: answer casts from now on, or do not."""

    wire = 0x0A0D

    number: NewsNumber
    level: Level
    ready: bool
    reply: Address
    token: Token


class AskVeto(OfTag):
    """To all roots of a level: may it be lowered?"""

    wire = 0x0A0E

    reply: Address
    token: Token


class DepthIs(Message):
    """To everybody: some tag has copies of this level, deeper than any before it."""

    wire = 0x0A0F

    way: Way
    level: Level


class SlowingAt(Message):
    """A keeper beyond the hop of this number declines the cast: its publisher is slowed."""

    wire = 0x0A18

    number: Token
    slowing: Slowing


class ComplainedOf(Message):
    """To the keeper from which a walk came: the member `by`, told by a keeper beyond, did not want this cast."""

    wire = 0x0A19

    cast: CastId
    by: Name


class StoredLater(Message):
    """A holder has this entry of yours under a tag: a later word than the one that it was to store."""

    wire = 0x0A10

    tag: Tag
    entry: Entry


ROUTED: tuple[type, ...] = (CopyTo, Offer, RateAt, AskRate, ReadyAt, AskVeto, DepthIs)
"""What is decided where its way ends, and nowhere before."""
KINDS: tuple[type, ...] = (
    *ROUTED,
    StoreAt,
    StoredAt,
    CastTo,
    CastAgain,
    GatherTo,
    CopyFrom,
    SayAgain,
    Covered,
    CoveredAgain,
    Working,
    Taken,
    RateIs,
    StoredLater,
    SlowingAt,
    ComplainedOf,
)
"""What travels; the others are alarms."""
