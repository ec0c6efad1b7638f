"""Messages between the nodes of a linked ring."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Number, Ref
from implicast.overlay.links.silence import NO_UNCERTAINTY, Uncertainty
from implicast.peer.contract import Message
from implicast.peer.fields import Flag, Token

Lefts = Annotated[tuple[Ref, ...], Meta(max_length=64)]
"""A node and the nodes on its left, nearest first."""
Hops = Annotated[int, Meta(ge=0, le=1 << 16)]

INSERT, DELETE, REPLACE = 0, 1, 2
"""Kinds of SetR. INSERT: place the sender before `cur`; the sender takes over the link to `cur`.
DELETE: take the sender out. REPLACE: make the sender the right neighbour in place of `cur`, without
taking over the link to `cur`.
"""

MOVED, BUSY, GONE = 0, 1, 2
"""Reasons of a refusal: the right pointer differs from what the request expects, the holder's
pointer is frozen by an operation of its own, or the holder has left.
"""


class Between(Message):
    """Names the incarnation it is meant for (`to`) and the incarnation that sends it (`by`)."""

    to: Ref
    by: Ref


class SetR(Between):
    """Compare-and-swap of the receiver's right pointer: if it is `cur` with number `cur_num`, set
    it to `new` with number `new_num`. `op` numbers the sender's requests.
    """

    wire = 0x0401
    op: Token
    kind: Flag
    new: Ref
    cur: Ref
    cur_num: Number
    new_num: Number
    bypassed: Lefts = ()
    """Silent nodes between the receiver and `new`, where the sender repairs the ring: nearest to
    `new` first. If `cur` is last these are all of them; if it is first there may be others.
    """


class SetRAck(Between):
    """The request was carried out. `num`: for an INSERT, the number of the link that the sender
    takes over. `lefts`: the holder and the nodes on its left. `uncertainty`: what a node that joins
    cannot know.
    """

    wire = 0x0402
    op: Token
    num: Number | None
    lefts: Lefts
    uncertainty: Uncertainty = NO_UNCERTAINTY


class SetRNak(Between):
    """Negative answer: this request will never be carried out. Carries the current right pointer
    and its number so that the sender can correct its own view.
    """

    wire = 0x0403
    op: Token
    reason: Flag
    right: Ref
    num: Number | None


class SetL(Message):
    """The receiver's left neighbour is now `left`; `num` is the number of the link. Sent by the
    node that changed the pointer.
    """

    wire = 0x0404
    to: Ref
    left: Ref
    num: Number
    lefts: Lefts


class SetLAck(Between):
    """The sender's current left neighbour and the number of that link."""

    wire = 0x0405
    left: Ref
    num: Number


class LinkStateRequest(Between):
    """Request for the receiver's right pointer. Carries the sender's left pointer and its number,
    which also confirms that link.
    """

    wire = 0x0406
    token: Token
    left: Ref
    num: Number


class LinkState(Between):
    """The sender's right pointer and its number (None while the sender is being inserted), the
    sender with the nodes on its left, and whether the sender itself suspects its right neighbour.
    """

    wire = 0x0407
    token: Token
    right: Ref
    num: Number | None
    lefts: Lefts
    suspects_right: bool = False


class IncarnationGone(Between):
    """The incarnation `by` is no longer on the ring. `op` is set only if this answers a SetR to an
    incarnation whose stored answers have expired; otherwise 0.
    """

    wire = 0x0408
    op: Token


class FindPlace(Message):
    """Lookup of the place of `origin` on the ring, routed towards it."""

    wire = 0x0409
    origin: Ref
    hops_left: Hops


class PlaceFound(Message):
    """The place of `to` lies between these two neighbours. Answers FindPlace, and also hints to a
    member where to look for its left neighbour.
    """

    wire = 0x040A
    to: Ref
    left: Ref
    right: Ref
    num: Number


class StaleRoute(Message):
    """The incarnation `ref`, to which the receiver forwarded a message, has left: it must not be
    used as a shortcut.
    """

    wire = 0x040B
    ref: Ref


class NotOnRing(Message):
    """Answer of a node that is joining itself to a lookup of `to` that it cannot forward. `is_new`:
    it remembers no ring.
    """

    wire = 0x040C
    to: Ref
    by: Ref
    is_new: bool = False


class KnownNodesRequest(Message):
    """A joining node whose lookups stay unanswered asks a member for other members."""

    wire = 0x040D


class KnownNodes(Message):
    """Answer to KnownNodesRequest: nodes that the sender knows."""

    wire = 0x040E
    nodes: Lefts


LINK_KINDS: tuple[type, ...] = (
    SetR,
    SetRAck,
    SetRNak,
    SetL,
    SetLAck,
    LinkStateRequest,
    LinkState,
    IncarnationGone,
    FindPlace,
    PlaceFound,
    StaleRoute,
    NotOnRing,
    KnownNodesRequest,
    KnownNodes,
)
