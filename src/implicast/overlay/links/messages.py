"""What the nodes of a linked ring say to each other, and their alarms.

Every message names the life it is meant for (`to`) and, where it matters, the life that speaks (`by`).
"""

from typing import ClassVar

from implicast.overlay.links.refs import Number, Ref
from implicast.peer.contract import Message

INSERT, DELETE, REPLACE = 0, 1, 2
"""Kinds of SetR: put myself before `cur` and take its link over; take myself out; become your right in place of
`cur` without taking its link over."""

MOVED, BUSY, GONE = 0, 1, 2
"""Reasons of a refusal."""


class SetR(Message):
    """If your right is `cur` with number `cur_num`, make it `new` with number `new_num`."""

    to: Ref
    by: Ref
    op: int
    kind: int
    new: Ref
    cur: Ref
    cur_num: Number
    new_num: Number


class SetRAck(Message):
    """It is done. `num`: for an insert, the number of the link that the asker takes over."""

    to: Ref
    by: Ref
    op: int
    num: Number | None
    lefts: tuple[Ref, ...]


class SetRNak(Message):
    """It is refused, for good; with what is so instead."""

    to: Ref
    by: Ref
    op: int
    reason: int
    right: Ref
    num: Number | None


class SetL(Message):
    """Your left is now `left`."""

    to: Ref
    left: Ref
    num: Number
    lefts: tuple[Ref, ...]


class SetLAck(Message):
    """My left and its number, as they now are."""

    to: Ref
    by: Ref
    left: Ref
    num: Number


class Check(Message):
    """Who is on your right? My left is `left` with this number."""

    to: Ref
    by: Ref
    token: int
    left: Ref
    num: Number


class Stat(Message):
    """My right, its number (None while I am being inserted), and myself with those to my left."""

    to: Ref
    by: Ref
    token: int
    right: Ref
    num: Number | None
    lefts: tuple[Ref, ...]


class Gone(Message):
    """The life `by` is over. `op` only if this answers a SetR of a life whose memory is gone, else 0."""

    to: Ref
    by: Ref
    op: int


class Find(Message):
    """Whose place is this? Routed towards it."""

    seeker: Ref
    hops_left: int


class Found(Message):
    """Your place is between these two."""

    to: Ref
    left: Ref
    right: Ref
    num: Number


class Departed(Message):
    """What you sent me as a shortcut: this life is over, do not use it any more."""

    ref: Ref


class RetrySetR(Message):
    """Rings when an own operation should have been answered."""

    life: int
    op: int


class RetryCheck(Message):
    """Rings when the node that is looked at should have answered."""

    token: int


class Confirm(Message):
    """Rings when the right neighbour should have confirmed this very link."""

    right: Ref
    num: Number
    tried: int


class SeekAgain(Message):
    """Rings when a newcomer may have to ask for its place again."""

    life: int
    turn: int


class LeaveAgain(Message):
    """Rings when a wish to leave should be tried again."""

    life: int


class CheckNow(Message):
    """Rings when a pause after a refusal is over."""

    life: int


class CheckRound(Message):
    """Rings once per check period."""

    upkeep: ClassVar[bool] = True
    life: int


class MergeRound(Message):
    """Rings when a node should look at its place from outside."""

    upkeep: ClassVar[bool] = True
    life: int


class GraceOver(Message):
    """Rings when a life that has left need not be remembered any more."""

    ref: Ref


LINK_KINDS: tuple[type, ...] = (SetR, SetRAck, SetRNak, SetL, SetLAck, Check, Stat, Gone, Find, Found, Departed)
