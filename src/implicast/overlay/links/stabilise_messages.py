"""What peers say to each other whose ring is kept by Chord's own stabilising (`stabilise.py`)."""

from typing import ClassVar

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Message


class FindSuccessor(Message):
    """Whose successor am I to have? Routed towards the seeker's place."""

    seeker: Ref
    hops_left: int


class SuccessorIs(Message):
    """This one."""

    to: Ref
    right: Ref


class GetPredecessor(Message):
    """Who is before you? Sent to the successor, and to one who might become it."""

    by: Ref


class Predecessor(Message):
    """Who is before me, and who comes after me."""

    by: Ref
    left: Ref | None
    rights: tuple[Ref, ...]


class TakePredecessor(Message):
    """I might be your predecessor."""

    by: Ref


class PingLeft(Message):
    """Are you there?"""

    by: Ref


class PongLeft(Message):
    """Yes."""

    by: Ref


class Farewell(Message):
    """I go; your neighbour on that side is now another. A hint, as in the original; the cured upkeep has none."""

    by: Ref
    left: Ref | None
    right: Ref | None


class StabiliseRound(Message):
    """Rings once per period."""

    upkeep: ClassVar[bool] = True
    life: int


class SeekSuccessor(Message):
    """Rings when a newcomer may have to ask for its place again."""

    life: int


STABILISE_KINDS: tuple[type, ...] = (
    FindSuccessor,
    SuccessorIs,
    GetPredecessor,
    Predecessor,
    TakePredecessor,
    PingLeft,
    PongLeft,
    Farewell,
)
