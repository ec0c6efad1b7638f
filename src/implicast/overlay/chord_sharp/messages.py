"""What the nodes of a Chord# ring say to each other about fingers."""

from typing import Annotated

from msgspec import Meta

from implicast.language.portrait import Portrait
from implicast.language.values import AnyValue
from implicast.overlay.links.refs import Ref, RingKey
from implicast.peer.contract import Message
from implicast.peer.fields import Micros, Token

Freight = AnyValue | Portrait
"""What fingers may carry: any value that can be combined."""

LEVELS_MAX = 64
"""More levels than any ring can fill; a guard against answers that never circulate."""
Level = Annotated[int, Meta(ge=0, lt=LEVELS_MAX)]
Round = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]


class Ent(Message):
    """An answer to getEnt: the finger at that level, and what the nodes from the answerer up to it add up to.

    `end` is where they end; end and value are None when unknown, all is None when there is no such level.
    """

    node: Ref | None
    end: RingKey | None
    value: Freight | None


class GetEnt(Message):
    """What is your entry at this level? (remote call of updateFinger)"""

    wire = 0x0540
    token: Token
    level: Level


class EntIs(Message):
    """The answer to the GetEnt with this token."""

    wire = 0x0541
    token: Token
    ent: Ent


class FingerGone(Message):
    """The node that you name as a finger is gone; its heir, if it has one, is the node on its right."""

    wire = 0x0542
    gone: Ref
    heir: Ref | None


class AskLevel(Message):
    """Tell me your entry at this level, now (if `answer`) and in the rounds to come."""

    wire = 0x0543
    to: Ref
    by: Ref
    token: Token
    level: Level
    round: Round
    answer: bool


class LevelIs(Message):
    """The entry at the level that was asked for under this token, `held_us` ago by the answerer's clock.

    `age_us`: the oldest thing that went into it was true so long ago, or later. No `ent`: not yet in this round.
    """

    wire = 0x0544
    by: Ref
    token: Token
    round: Round
    held_us: Micros
    age_us: Micros
    ent: Ent | None


class Enough(Message):
    """What I asked for under this token I need no more."""

    wire = 0x0545
    token: Token


KINDS: tuple[type, ...] = (GetEnt, EntIs, FingerGone, AskLevel, LevelIs, Enough)
"""The kinds that travel."""
