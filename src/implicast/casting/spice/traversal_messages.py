"""Messages of traversals (`traversals.py`): four kinds, and the answers to a hop."""

from collections.abc import Hashable
from typing import Annotated

from msgspec import Meta

from implicast.casting.spice.items import Level, Notch, NotchMessage, Tag, TractField
from implicast.language.target import Target
from implicast.overlay.ice.item_store import Code, RouteHeader
from implicast.peer.contract import Address, CastId, Incarnation, Message, Name
from implicast.peer.fields import Count, Micros, Payload, Token

NAMES_MAX = 64
"""Maximum number of silent members that a report names."""


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

    lost: TractField
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


Traversal = CastRequest | GatherRequest | CopyRequest | ReregisterRequest
PLACES: dict[type, int] = {
    CastRequest: 0,
    RepeatedCastRequest: 0,
    GatherRequest: 1,
    CopyRequest: 2,
    ReregisterRequest: 3,
}
"""By kind of traversal: the place of its user in `traversals.Users`."""


def traversal_key(traversal: Traversal) -> Hashable:
    """The same value for all messages of one traversal at one notch of one registry."""
    if isinstance(traversal, CastRequest):
        return (
            traversal.cast,
            traversal.term,
            traversal.root,
            traversal.notch,
            traversal.count_only,
            getattr(traversal, "again", None),
        )
    return (
        type(traversal).__name__,
        traversal.leader,
        traversal.number,
        traversal.root,
        traversal.notch,
    )
