"""What condcast peers say to each other beyond Chord#, and their alarms."""

from typing import ClassVar

from implicast.language.portrait import Sought
from implicast.language.queries import AnyQuery
from implicast.overlay.chord_sharp import Freight, Rows
from implicast.peer.contract import CastId, Message
from implicast.space.ring import Arc, Key

Query = AnyQuery | Sought
"""Whom a cast is for: any query on values, or a target over descriptions."""


class Condcast(Message):
    """Carry this cast to whoever matches in these arcs."""

    cast: CastId
    arcs: tuple[Arc, ...]
    query: Query
    payload: bytes


class Update(Message):
    """Your turn to refresh: an update flow passes from each node to its predecessor, with answers it collected."""

    rows: Rows


class Risen(Message):
    """While flows rest: the node at this key has a new value; to everybody in these arcs."""

    arcs: tuple[Arc, ...]
    key: Key
    value: Freight


class PassOn(Message):
    """Rings when an update has been held long enough."""

    upkeep: ClassVar[bool] = True
    turn: int


class Overdue(Message):
    """Rings when no update has come for P + G."""

    upkeep: ClassVar[bool] = True
    turn: int


class NewFlow(Message):
    """Rings when a node that has waited long enough is to start a flow of its own."""

    upkeep: ClassVar[bool] = True
    turn: int


class Visible(Message):
    """Rings when a version of the own value has had the time to reach every table."""

    version: int


KINDS = (Condcast, Update, Risen)
"""The kinds that travel."""
