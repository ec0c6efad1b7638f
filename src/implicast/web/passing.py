"""Casts that pass a node: the messages that name one, as they come and go. Nothing is written down."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from implicast.peer.contract import Address, CastId, Message
from implicast.peer.memory import Recent
from implicast.peer.signing import SIGNED_KINDS, SignedMessage
from implicast.peer.wire import UNREADABLE

STEPS_MAX = 256
"""Messages of casts that are remembered, for the picture."""
CASTS_MAX = 64
"""Casts that are remembered, for the list."""


class CastStep(NamedTuple):
    """One message of a cast, to or from a peer."""

    at_s: float
    came: bool
    other: Address
    cast: CastId


@dataclass(slots=True)
class Passage:
    """One cast on its way through this node."""

    cast: CastId
    at_us: int
    """When it was last met."""
    came: int = 0
    went: int = 0

    def meet(self, came: bool, at_us: int) -> None:
        """One more message of it."""
        self.at_us = at_us
        self.came, self.went = self.came + came, self.went + (not came)


def cast_in(message: Message) -> CastId | None:
    """Which cast a message is about, also under a signature; none if it only counts whom one would
    reach.
    """
    if isinstance(message, SignedMessage):
        message = _opened(message)
    if (
        getattr(message, "asks", False)
        or getattr(message, "dry", False)
        or getattr(message, "counts", False)
    ):
        return None
    found = getattr(message, "cast", None) or getattr(
        getattr(message, "source", None), "cast", None
    )
    return found if isinstance(found, CastId) else None


def _opened(said: SignedMessage) -> Message:
    """What was said, unchecked: it is only looked at. As it is, where it cannot be read."""
    try:
        found: Message = SIGNED_KINDS[said.kind][1].decode(said.body)
    except (KeyError, *UNREADABLE):
        return said
    return found


class Passing:
    """What one node saw of casts lately; `see` is shown every message."""

    def __init__(self) -> None:
        self.steps: deque[CastStep] = deque(maxlen=STEPS_MAX)
        self.came = self.went = 0
        """Messages of casts since the beginning; all others are upkeep."""
        self._casts: Recent[CastId, Passage] = Recent(CASTS_MAX)

    def see(self, came: bool, other: Address, message: Message) -> None:
        cast = cast_in(message)
        if cast is None:
            return
        passage = self._casts.get(cast) or Passage(cast, 0)
        passage.meet(came, time.time_ns() // 1000)
        self.came, self.went = self.came + came, self.went + (not came)
        self._casts.put(cast, passage)
        self.steps.append(CastStep(time.monotonic(), came, other, cast))

    def newest(self) -> Iterator[Passage]:
        """Casts, those met last first."""
        return reversed(self._casts.values())

    def since(self, at_s: float) -> list[CastStep]:
        return [each for each in self.steps if each.at_s >= at_s]
