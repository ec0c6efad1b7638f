"""What peers say to each other whose ring is kept by Chord's own stabilising (`stabilise.py`)."""

from typing import ClassVar

from implicast.overlay.links.messages import Hops, Lefts
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message


class FindSuccessor(Message):
    """Whose successor am I to have? Routed towards the seeker's place."""

    wire = 0x0420

    seeker: Ref
    hops_left: Hops


class SuccessorIs(Message):
    """This one."""

    wire = 0x0421

    to: Ref
    right: Ref


class GetPredecessor(Message):
    """Who is before you? Sent to the successor, and to one who might become it."""

    wire = 0x0422

    by: Ref


class Predecessor(Message):
    """Who is before me, and who comes after me."""

    wire = 0x0423

    by: Ref
    left: Ref | None
    rights: Lefts


class TakePredecessor(Message):
    """I might be your predecessor."""

    wire = 0x0424

    by: Ref


class PingLeft(Message):
    """Are you there?"""

    wire = 0x0425

    by: Ref


class PongLeft(Message):
    """Yes."""

    wire = 0x0426

    by: Ref


class StepAside(Message):
    """I go; your neighbour on that side is now another. A hint, as in the original; the cured upkeep has none."""

    wire = 0x0427

    by: Ref
    left: Ref | None
    right: Ref | None


class StabiliseRound(Message):
    """Rings once per period."""

    upkeep: ClassVar[bool] = True
    incarnation: int


class SeekSuccessor(Message):
    """Rings when a newcomer may have to ask for its place again."""

    incarnation: int


STABILISE_KINDS: tuple[type, ...] = (
    FindSuccessor,
    SuccessorIs,
    GetPredecessor,
    Predecessor,
    TakePredecessor,
    PingLeft,
    PongLeft,
    StepAside,
)
