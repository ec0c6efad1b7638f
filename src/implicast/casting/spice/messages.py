"""Messages of SPICE.

A message with a `way` is routed over the surface to every owner of a part of the way's tract. The
others are sent directly to an address. With receipts, each message that must arrive has an answer
and is repeated until the answer comes.
"""

from typing import Annotated

from msgspec import Meta

from implicast.casting.complaints import Slowing
from implicast.language.target import Description, Target
from implicast.overlay.ice.item_store import Code, Item, RouteHeader
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, Version
from implicast.peer.fields import Count, Micros, Payload, Token
from implicast.space.morton import BITS

TAG_MAX = 256
"""Maximum length of a tag."""
TOGETHER_MAX = 512
"""Maximum number of entries in one message. Keeps it well below the message size limit."""
COUNT_ONLY = "asked"
"""Signature context of a count-only cast. A signed count-only cast cannot be replayed as a real
one.
"""
NAMES_MAX = 64
"""Maximum number of silent members that a report names."""

Tag = Annotated[str, Meta(max_length=TAG_MAX)]
Tract = Annotated[tuple[Code, ...], Meta(max_length=4_096)]
Notch = Annotated[int, Meta(ge=0, le=BITS)]
Level = Annotated[int, Meta(ge=0, le=BITS)]
LevelVersion = Annotated[int, Meta(ge=0, le=1 << 48)]
"""Version of a tag's replication state; the larger is newer. The bound leaves room to count up."""


class Entry(Message):
    """One consumer's registration under one tag.

    No description means that the consumer is not registered under the tag. Such a tombstone is kept
    until its lease expires, so that an older entry cannot replace it.
    """

    member: Contact
    version: Version
    spot: Code
    description: Description | None
    before: Description | None = None
    """The consumer's previous description. Casts match it for `BEFORE_US` too. Otherwise a cast of
    two terms that finds the new version at one holder and the old one at another could be left out
    by both under the least-term rule.
    """


Entries = Annotated[tuple[Entry, ...], Meta(max_length=TOGETHER_MAX)]
StoredEntry = tuple[Name, Version, Notch]
"""Consumer, stored version of its entry, and the notch where the entry is stored."""


class TagMessage(Message):
    """A routed message about a tag."""

    way: RouteHeader
    tag: Tag


class NotchMessage(Message):
    """A routed message about one notch of a registry."""

    way: RouteHeader
    tag: Tag
    root: Code
    notch: Notch


class StoreRequest(NotchMessage):
    """Asks the owners of the entries' homes at one notch to store them."""

    wire = 0x0A01

    entries: Entries
    reply: Address
    token: Token
    """Chosen by the requester and returned in `StoreAck`."""
    first: bool = False
    """Whether the consumer itself sends the request. The original root then pushes the entry to the
    replicas.
    """


class StoreAck(Message):
    """The named entries, and their backup copies, are stored at the requested notch or at one above
    it.
    """

    wire = 0x0A02

    tag: Tag
    root: Code
    notch: Notch
    """The requested notch."""
    token: Token
    entries: Annotated[tuple[StoredEntry, ...], Meta(max_length=TOGETHER_MAX)]
    closed: Tract = ()
    """Without receipts: what the answering peer has closed at that notch. Closed parts never open
    there, so the requester sends later records past it.
    """


class ReplicateRequest(TagMessage):
    """Asks several roots of a tag to store the entries. Each root is a single code of the way's
    tract.
    """

    wire = 0x0A03

    entries: Entries
    reply: Address
    token: Token


class CastRequest(Message):
    """A cast on its way to a registry of its tag, or a traversal of that registry at one notch."""

    wire = 0x0A04

    way: RouteHeader
    cast: CastId
    target: Target
    term: Count
    tag: Tag
    level: Level
    """Level of the replica root that it is routed to. If there is no replica, the cast goes on to
    the next lower level.
    """
    root: Code
    notch: Notch
    payload: Payload
    tried: Annotated[tuple[tuple[Tag, Count], ...], Meta(max_length=64)] = ()
    """Tags whose registries the cast has found closed, with their sizes (`choose=rarest`)."""
    count_only: bool = False
    """Count the members that the cast would reach and notify none of them."""


class RepeatedCastRequest(CastRequest):
    """A cast that its publisher resumes after a restart, or counts again. It is a separate
    traversal, in which every member is counted again.
    """

    wire = 0x0A1A

    again: Incarnation = 0
    """The publisher's incarnation, plus one for each recount."""


class GatherRequest(NotchMessage):
    """Traversal that moves all records above a closed part down to it."""

    wire = 0x0A05

    base: Notch
    """The notch to which the records move."""
    leader: Address
    number: Token


class CopyRequest(NotchMessage):
    """Traversal of an original registry that copies it to the roots of a new level."""

    wire = 0x0A06

    level: Level
    leader: Address
    number: Token


class ReregisterRequest(NotchMessage):
    """Traversal of the whole surface after registries were lost. It has no tag. A consumer that may
    have been registered in `lost` registers again; its task ends when that is acknowledged.
    """

    wire = 0x0A0B

    lost: Tract
    leader: Address
    number: Token
    age_us: Micros = 0
    """Time since the tract was lost. A registration that was requested and acknowledged within it
    is not repeated.
    """


class CoverageReport(Message):
    """Answer to a hop: it and all hops beyond it are finished. Counts the members found there by
    outcome.
    """

    wire = 0x0A07
    reports_notices = True

    number: Token
    notified: Count = 0
    declined: Count = 0
    unreachable: Count = 0
    silent: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()
    size: Count = 0
    """Number of consumers registered there."""
    hops: Count = 0
    """Number of messages that the traversal sent."""
    uncertain: Count = 0
    """Regions of the surface given up or not yet recovered."""


class RepeatCoverageReport(CoverageReport):
    """Coverage report with members that another peer had notified before. That peer counts them,
    unless its own report is lost.
    """

    wire = 0x0A1B

    repeated: Count = 0


class InProgress(Message):
    """The hop has arrived and is not finished yet. The sender keeps waiting."""

    wire = 0x0A08

    number: Token


class ItemOffer(Message):
    """Items that a peer stored in a tract that it lost to a stronger ownership claim, sent to the
    present owners.
    """

    wire = 0x0A09

    way: RouteHeader
    items: Annotated[tuple[Item, ...], Meta(max_length=TOGETHER_MAX)]
    reply: Address
    token: Token


class CallAck(Message):
    """Answer to an offer or to a call to roots: this part is processed and backed up."""

    wire = 0x0A0A

    token: Token
    part: Tract
    veto: bool = False


class LoadHint(TagMessage):
    """A root tells the original root that it may be busy or idle. The hint is not authenticated, so
    the original root asks the root itself (`LoadQuery`).
    """

    wire = 0x0A0C

    root: Code


class LoadQuery(TagMessage):
    """The original root of a tag asks another root for its load. The message is routed to the
    root's owner, so that only that owner learns the token.
    """

    wire = 0x0A11

    reply: Address
    token: Token


class LoadReport(Message):
    """A root's answer: busy (True), idle (False) or neither (None)."""

    wire = 0x0A12

    token: Token
    busy: bool | None
    number: LevelVersion
    level: Level
    """The tag's level as the root knows it, with its version. An original root that lost its header
    recovers it from this.
    """


class ReplicaActivation(TagMessage):
    """Tells roots of a tag to start (`ready`) or stop answering casts."""

    wire = 0x0A0D

    number: LevelVersion
    level: Level
    ready: bool
    reply: Address
    token: Token
    doubtful: bool = False
    """True if the registry was copied from a tract that may lack registrations."""


class VetoRequest(TagMessage):
    """Asks all roots of a level whether it may be lowered."""

    wire = 0x0A0E

    reply: Address
    token: Token


class LevelAnnouncement(Message):
    """Tells every peer that some tag has replicas at this level, deeper than any level announced so
    far.
    """

    wire = 0x0A0F

    way: RouteHeader
    level: Level


class SlowingRelay(Message):
    """A holder beyond the numbered hop declines the cast because its publisher is slowed. Passed
    back hop by hop.
    """

    wire = 0x0A18

    number: Token
    slowing: Slowing


class ComplaintRelay(Message):
    """Tells the holder from which the traversal came that the member `by`, notified by a holder
    further on, complained about the cast.
    """

    wire = 0x0A19

    cast: CastId
    by: Name


class NewerEntry(Message):
    """Tells a consumer that a holder stores a newer entry of it than the one it sent."""

    wire = 0x0A10

    tag: Tag
    entry: Entry


ROUTED: tuple[type, ...] = (
    ReplicateRequest,
    ItemOffer,
    LoadHint,
    LoadQuery,
    ReplicaActivation,
    VetoRequest,
    LevelAnnouncement,
)
"""Messages that are processed only where their way ends."""
KINDS: tuple[type, ...] = (
    *ROUTED,
    StoreRequest,
    StoreAck,
    CastRequest,
    RepeatedCastRequest,
    GatherRequest,
    CopyRequest,
    ReregisterRequest,
    CoverageReport,
    RepeatCoverageReport,
    InProgress,
    CallAck,
    LoadReport,
    NewerEntry,
    SlowingRelay,
    ComplaintRelay,
)
"""All messages; the other classes are alarms."""
