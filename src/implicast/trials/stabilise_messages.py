"""Messages of a ring maintained by Chord's own stabilisation (`stabilise.py`)."""

from typing import ClassVar

from implicast.overlay.links.messages import Hops, Lefts
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message


class FindSuccessor(Message):
    """Lookup of the successor of `origin`, routed towards its place."""

    wire = 0x0420

    origin: Ref
    hops_left: Hops


class SuccessorFound(Message):
    """Answer to FindSuccessor: `right` is the successor of `to`."""

    wire = 0x0421

    to: Ref
    right: Ref


class GetPredecessor(Message):
    """Request for the receiver's predecessor. Sent to the successor and to candidates for it."""

    wire = 0x0422

    by: Ref


class PredecessorReply(Message):
    """The sender's predecessor and its list of successors."""

    wire = 0x0423

    by: Ref
    left: Ref | None
    rights: Lefts


class NotifySuccessor(Message):
    """The paper's notify: the sender may be the receiver's predecessor."""

    wire = 0x0424

    by: Ref


class PingLeft(Message):
    """Liveness check of the predecessor."""

    wire = 0x0425

    by: Ref


class PongLeft(Message):
    """Answer to PingLeft."""

    wire = 0x0426

    by: Ref


class LeaveHint(Message):
    """The sender leaves; it names the receiver's new neighbour on that side. A hint, as in the
    paper; the cured variant has none.
    """

    wire = 0x0427

    by: Ref
    left: Ref | None
    right: Ref | None


class ChordStabiliseRound(Message):
    """Fires once per period."""

    upkeep: ClassVar[bool] = True
    incarnation: int


class FindSuccessorRetry(Message):
    """Fires when a joining node should look its successor up again."""

    incarnation: int


STABILISE_KINDS: tuple[type, ...] = (
    FindSuccessor,
    SuccessorFound,
    GetPredecessor,
    PredecessorReply,
    NotifySuccessor,
    PingLeft,
    PongLeft,
    LeaveHint,
)
