"""What the nodes of a Chord# ring say to each other about fingers, and their alarms."""

from typing import ClassVar

from implicast.language.portrait import Portrait
from implicast.language.values import AnyValue
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message
from implicast.space.ring import Key

Freight = AnyValue | Portrait
"""What fingers may carry: any value that can be combined."""


class Ent(Message):
    """An answer to getEnt: the finger at that level, and what the nodes from the answerer up to it add up to.

    `end` is where they end; end and value are None when unknown, all is None when there is no such level.
    """

    node: Ref | None
    end: Key | None
    value: Freight | None


class GetEnt(Message):
    """What is your entry at this level? (remote call of updateFinger)"""

    token: int
    level: int


class EntIs(Message):
    """The answer to the GetEnt with this token."""

    token: int
    ent: Ent


class Farewell(Message):
    """I leave; whoever names me as a finger may name the node on my right instead."""

    gone: Ref
    heir: Ref


class AskAgain(Message):
    """Rings when the node asked for an entry should have answered."""

    token: int
    tried: int


class RefreshDue(Message):
    """Rings when a table with its own timer is to be refreshed."""

    upkeep: ClassVar[bool] = True
    turn: int


KINDS = (GetEnt, EntIs, Farewell)
"""The kinds that travel."""
