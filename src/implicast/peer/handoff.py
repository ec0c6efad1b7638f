"""Handoff of a range: its items go from one peer to another in numbered parts.

A sender splits the items and sends parts; the receiver acknowledges each. When an answer does not
come in time the sender starts again under a new number, so that late acknowledgements of an earlier
attempt do not count. After `tries_max` attempts it gives up. A receiver that asks for a range
repeats its request in the same way.

Both sides are tables of states. They send nothing: the messages, the time of the next attempt and
what a completed handoff means are the design's own. `window` parts are on their way at once; 0: all.

| sender | event | next |
|---|---|---|
| idle, sending | `start` | sending; failed after `tries_max` attempts |
| sending | `acknowledge`, parts are missing | sending |
| sending | `acknowledge`, the last part | complete |
| any | `abort` | idle |

| receiver | event | next |
|---|---|---|
| idle, receiving | `start` | receiving; failed after `tries_max` attempts |
| receiving | `put`, parts are missing | receiving |
| receiving | `put`, the last part | complete |
| any | `abort` | idle |
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Generic, TypeVar

Item = TypeVar("Item")


class RangeState(Enum):
    """State of one side of a handoff."""

    IDLE = 0
    RUNNING = 1
    """Parts are on their way."""
    COMPLETE = 2
    """All parts have arrived."""
    FAILED = 3
    """The other side does not answer."""


TRANSITIONS = {
    (RangeState.IDLE, "start"): RangeState.RUNNING,
    (RangeState.RUNNING, "start"): RangeState.RUNNING,
    (RangeState.RUNNING, "last part"): RangeState.COMPLETE,
    (RangeState.IDLE, "give up"): RangeState.FAILED,
    (RangeState.RUNNING, "give up"): RangeState.FAILED,
}
"""By state and event, the next state. `abort` leads back to `IDLE` from every state; other events
change nothing.
"""


class _Side:
    """One side: the attempt under way, and the parts that are still missing in it."""

    __slots__ = ("_missing", "_tries", "_tries_max", "number", "state")

    def __init__(self, tries_max: int) -> None:
        self._tries_max, self._tries, self.number = tries_max, 0, -1
        self.state = RangeState.IDLE
        self._missing: set[int] | None = None
        """None: the number of parts is not known yet."""

    @property
    def is_complete(self) -> bool:
        return self.state is RangeState.COMPLETE

    def abort(self) -> None:
        """End the handoff, whatever its state; the next attempt is the first of a new one."""
        self.state, self._tries = RangeState.IDLE, 0

    def _go(self, event: str) -> bool:
        """Follow the table; whether the state is the one that the event leads to."""
        wanted = TRANSITIONS.get((self.state, event))
        self.state = wanted or self.state
        return wanted is not None

    def _attempt(self, number: int, missing: set[int] | None) -> bool:
        if self._tries >= self._tries_max:
            self._go("give up")
            return False
        self._tries, self.number, self._missing = self._tries + 1, number, missing
        return self._go("start")

    def _arrived(self, number: int, part: int, parts: int) -> bool:
        """Count a part of this attempt; whether it was the last one missing."""
        if self.state is not RangeState.RUNNING or number != self.number or part >= parts:
            return False
        self._missing = set(range(parts)) if self._missing is None else self._missing
        self._missing.discard(part)
        return not self._missing and self._go("last part")


class OutgoingRange(_Side, Generic[Item]):
    """The side that has the items."""

    __slots__ = ("_next", "_parts", "_window")

    def __init__(self, tries_max: int, window: int = 0) -> None:
        super().__init__(tries_max)
        self._window, self._next = window, 0
        self._parts: list[tuple[int, int, tuple[Item, ...]]] = []

    def start(self, number: int, items: Sequence[Item], most: int) -> bool:
        """Begin an attempt with parts of at most `most` items; false if there have been enough."""
        self._parts, self._next = list(in_parts(items, most)), 0
        return self._attempt(number, set(range(len(self._parts))))

    def due(self) -> list[tuple[int, int, tuple[Item, ...]]]:
        """Parts to send now: number of the part, number of parts, items."""
        count, first = len(self._parts), self._next
        under_way = len(self._missing or ()) - (count - first)
        self._next = min(count, first + max(0, self._window - under_way)) if self._window else count
        return self._parts[first : self._next]

    def acknowledge(self, number: int, part: int) -> bool:
        """The receiver has a part; true once, when it has all of them."""
        return self._arrived(number, part, len(self._parts))


class IncomingRange(_Side):
    """The side that receives the items. What it does with those of a part is the design's own: it
    may store them at once, or collect them until the handoff is complete.
    """

    __slots__ = ()

    def start(self, number: int) -> bool:
        """Ask for a range; false if that was done often enough."""
        return self._attempt(number, None)

    def put(self, number: int, part: int, parts: int) -> bool:
        """A part has arrived; true once, when all of them have."""
        return self._arrived(number, part, parts)


def in_parts(items: Sequence[Item], most: int) -> Iterator[tuple[int, int, tuple[Item, ...]]]:
    """Split items into parts of at most `most`; yield number of the part, number of parts, items.
    No items are one empty part.
    """
    parts = max(1, -(-len(items) // most))
    for part in range(parts):
        yield part, parts, tuple(items[part * most : (part + 1) * most])
