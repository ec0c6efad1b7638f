"""What the nodes of a linked ring say to each other, and the alarm that two of their parts set."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Number, Ref
from implicast.peer.contract import Message
from implicast.peer.fields import Flag, Token

Lefts = Annotated[tuple[Ref, ...], Meta(max_length=64)]
"""A node and those on its left, nearest first."""
Hops = Annotated[int, Meta(ge=0, le=1 << 16)]

INSERT, DELETE, REPLACE = 0, 1, 2
"""Kinds of SetR: put myself before `cur` and take its link over; take myself out; become your right in place of
`cur` without taking its link over."""

MOVED, BUSY, GONE = 0, 1, 2
"""Reasons of a refusal."""


class Between(Message):
    """Names the life it is meant for, and the life that speaks."""

    to: Ref
    by: Ref


class SetR(Between):
    """If your right is `cur` with number `cur_num`, make it `new` with number `new_num`."""

    wire = 0x0401
    op: Token
    kind: Flag
    new: Ref
    cur: Ref
    cur_num: Number
    new_num: Number


class SetRAck(Between):
    """It is done. `num`: for an insert, the number of the link that the asker takes over."""

    wire = 0x0402
    op: Token
    num: Number | None
    lefts: Lefts


class SetRNak(Between):
    """It is refused, for good; with what is so instead."""

    wire = 0x0403
    op: Token
    reason: Flag
    right: Ref
    num: Number | None


class SetL(Message):
    """Your left is now `left`."""

    wire = 0x0404
    to: Ref
    left: Ref
    num: Number
    lefts: Lefts


class SetLAck(Between):
    """My left and its number, as they now are."""

    wire = 0x0405
    left: Ref
    num: Number


class CheckLink(Between):
    """Who is on your right? My left is `left` with this number."""

    wire = 0x0406
    token: Token
    left: Ref
    num: Number


class Stat(Between):
    """My right, its number (None while I am being inserted), me with those to my left; whether I miss my right too."""

    wire = 0x0407
    token: Token
    right: Ref
    num: Number | None
    lefts: Lefts
    misses: bool = False


class Gone(Between):
    """The life `by` is over. `op` only if this answers a SetR of a life whose memory is gone, else 0."""

    wire = 0x0408
    op: Token


class Find(Message):
    """Whose place is this? Routed towards it."""

    wire = 0x0409
    seeker: Ref
    hops_left: Hops


class Found(Message):
    """Your place is between these two."""

    wire = 0x040A
    to: Ref
    left: Ref
    right: Ref
    num: Number


class Departed(Message):
    """What you sent me as a shortcut: this life is over, do not use it any more."""

    wire = 0x040B
    ref: Ref


class Confirm(Message):
    """Rings when the right neighbour should have confirmed this very link."""

    right: Ref
    num: Number
    tried: int


LINK_KINDS: tuple[type, ...] = (
    SetR,
    SetRAck,
    SetRNak,
    SetL,
    SetLAck,
    CheckLink,
    Stat,
    Gone,
    Find,
    Found,
    Departed,
)
