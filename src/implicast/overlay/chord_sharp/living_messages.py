"""What the nodes of a living Chord# ring say to each other about levels, and their alarms."""

from typing import ClassVar

from implicast.overlay.chord_sharp.messages import Ent
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message


class AskLevel(Message):
    """Tell me your entry at this level, now (if `answer`) and in the rounds to come."""

    to: Ref
    by: Ref
    token: int
    level: int
    round: int
    answer: bool


class LevelIs(Message):
    """The entry at the level that was asked for under this token, `held_us` ago by the answerer's clock.

    `age_us`: the oldest thing that went into it was true so long ago, or later. No `ent`: not yet in this round.
    """

    by: Ref
    token: int
    round: int
    held_us: int
    age_us: int
    ent: Ent | None


class Enough(Message):
    """What I asked for under this token I need no more."""

    token: int


class RoundDue(Message):
    """Rings when the next round is to begin, unless somebody else has begun it."""

    upkeep: ClassVar[bool] = True
    life: int
    round: int


class CatchUp(Message):
    """Rings when all levels should have come in a round."""

    upkeep: ClassVar[bool] = True
    life: int
    round: int


class TellAgain(Message):
    """Rings when what has changed in the middle of a round is to be said once more."""

    upkeep: ClassVar[bool] = True
    life: int
    round: int


LIVING_KINDS = (AskLevel, LevelIs, Enough)
"""The kinds that travel."""
