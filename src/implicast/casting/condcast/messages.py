"""Messages of condcast beyond those of Chord#, and its alarms."""

from typing import Annotated

from msgspec import Meta

from implicast.language.aggregate import TargetQuery
from implicast.language.queries import AnyQuery
from implicast.overlay.chord_sharp import FingerEntry, FingerValue
from implicast.overlay.links.refs import RingIncarnation, RingKey
from implicast.peer.contract import CastId, Message, StandingAlarm
from implicast.peer.fields import Count, Payload, Token
from implicast.space.ring import Arc

Query = AnyQuery | TargetQuery
"""The audience of a cast: any query on values, or a target over descriptions."""
Arcs = Annotated[tuple[Arc, ...], Meta(max_length=4_096)]


class ForwardCast(Message):
    """Forward this cast to all matching peers in these arcs. With a token, report under it when all
    arcs are covered. Addressed to one `incarnation`: the peer's next one may have another key, and
    would forward the cast in a circle.
    """

    wire = 0x0801
    cast: CastId
    token: Token
    arcs: Arcs
    query: Query
    payload: Payload
    incarnation: RingIncarnation = 0


class ArcsCovered(Message):
    """Coverage report for a set of arcs: number of members notified, of members without room, and
    of regions whose members are not known: arcs given up after the time limit, and places where
    nodes of the ring are silent.
    """

    wire = 0x0802
    reports_notices = True
    cast: CastId
    token: Token
    notified: Count
    unreachable: Count
    uncertain: Count = 0


class ForwardProgress(Message):
    """Answer to a repeated `ForwardCast`: the task is in progress and waits for other peers."""

    wire = 0x0803
    cast: CastId
    token: Token


class WrongIncarnation(Message):
    """Negative answer to `ForwardCast`: the addressed incarnation is not a member. The sender must
    route around it.
    """

    wire = 0x0804
    cast: CastId
    token: Token


class Update(Message):
    """An update flow, passed from each node to its predecessor: refresh the table now. Carries
    answers of nodes that it has passed.
    """

    wire = 0x0805
    rows: Annotated[
        tuple[Annotated[tuple[FingerEntry, ...], Meta(max_length=64)], ...], Meta(max_length=256)
    ]


class ValueChanged(Message):
    """Without refreshes: the node at this key has a new value. Broadcast to all nodes in these
    arcs; `incarnation` as in `ForwardCast`.
    """

    wire = 0x0806
    arcs: Arcs
    key: RingKey
    value: FingerValue
    incarnation: RingIncarnation = 0


class StuckRetry(Message):
    """Fires when arcs beyond a lost neighbour are to be tried again."""

    token: int


class PassUpdate(StandingAlarm):
    """Fires when an update has been held long enough."""

    turn: int


class FlowOverdue(StandingAlarm):
    """Fires when no update has arrived for P + G; `new`: when a node that has waited long enough is
    to start a flow.
    """

    turn: int
    new: bool


class VisibleDue(Message):
    """Fires when a version of the own value has had time to reach every table."""

    version: int


KINDS: tuple[type, ...] = (
    ForwardCast,
    ArcsCovered,
    ForwardProgress,
    WrongIncarnation,
    Update,
    ValueChanged,
)
"""Messages with a wire number."""
