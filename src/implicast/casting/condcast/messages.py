"""What condcast peers say to each other beyond Chord#, and their alarms."""

from typing import Annotated

from msgspec import Meta

from implicast.language.portrait import Sought
from implicast.language.queries import AnyQuery
from implicast.overlay.chord_sharp import Ent, Freight
from implicast.overlay.links.refs import RingKey, RingLife
from implicast.peer.contract import CastId, Message, StandingAlarm
from implicast.peer.fields import Count, Payload, Token
from implicast.space.ring import Arc

Query = AnyQuery | Sought
"""Whom a cast is for: any query on values, or a target over descriptions."""
Arcs = Annotated[tuple[Arc, ...], Meta(max_length=4_096)]


class Carry(Message):
    """Carry this cast to whoever matches in these arcs; if it bears a token, say under it when that is done. It is
    meant for one `incarnation`: the peer's next one may stand elsewhere, and would pass it round in a circle."""

    wire = 0x0801
    cast: CastId
    token: Token
    arcs: Arcs
    query: Query
    payload: Payload
    incarnation: RingLife = 0


class ArcsCovered(Message):
    """In all these arcs everybody was told who could be: so many; so many arcs were given up."""

    wire = 0x0802
    cast: CastId
    token: Token
    told: Count
    lost: Count


class StillCarrying(Message):
    """Not yet: others have to say so first."""

    wire = 0x0803
    cast: CastId
    token: Token


class Astray(Message):
    """The life you mean is no member any more: send it another way."""

    wire = 0x0804
    cast: CastId
    token: Token


class Update(Message):
    """Your turn to refresh: an update flow passes from each node to its predecessor, with answers it collected."""

    wire = 0x0805
    rows: Annotated[
        tuple[Annotated[tuple[Ent, ...], Meta(max_length=64)], ...], Meta(max_length=256)
    ]


class Risen(Message):
    """Where tables rest: the node at this key has a new value; to everybody in these arcs. `incarnation` as in `Carry`."""

    wire = 0x0806
    arcs: Arcs
    key: RingKey
    value: Freight
    incarnation: RingLife = 0


class StuckAgain(Message):
    """Rings when arcs beyond a lost neighbour may be tried again."""

    token: int


class PassOn(StandingAlarm):
    """Rings when an update has been held long enough."""

    turn: int


class FlowOverdue(StandingAlarm):
    """Rings when no update has come for P + G; `new`: when a node that has waited long enough is to start a flow."""

    turn: int
    new: bool


class Visible(Message):
    """Rings when a version of the own value has had the time to reach every table."""

    version: int


KINDS: tuple[type, ...] = (Carry, ArcsCovered, StillCarrying, Astray, Update, Risen)
"""The kinds that travel."""
