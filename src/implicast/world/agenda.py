"""What happens next, in exact (time, serial) order.

Slots of about a millisecond in a dict, a small heap of slot numbers, a slot sorted when it is opened. The order is
exactly that of one plain heap (a law in `tests/laws`), for about 0.85 of its price from a thousand in flight on
(`bench/agenda.py`).
"""

from heapq import heappop, heappush
from typing import Any

Entry = tuple[int, int, Any]
"""time_us, serial, what. The serial is unique, so `what` is never compared."""

SLOT_BITS = 10
"""A slot is 2**10 us."""


class Agenda:
    """A queue of things to come."""

    __slots__ = ("_later", "_open", "_open_slot", "_order", "_serial")

    def __init__(self) -> None:
        self._open: list[Entry] = []  # the slot being worked off, as a heap
        self._open_slot = -1
        self._later: dict[int, list[Entry]] = {}  # unsorted until opened
        self._order: list[int] = []  # heap of the slots not yet opened
        self._serial = 0

    def at(self, time_us: int, what: object) -> int:
        """Put something on the agenda; returns its serial. `time_us` must not lie before the entry taken last."""
        self._serial = serial = self._serial + 1
        slot = time_us >> SLOT_BITS
        later = self._later.get(slot)
        if later is not None:
            later.append((time_us, serial, what))
        elif slot <= self._open_slot:
            heappush(self._open, (time_us, serial, what))
        else:
            self._later[slot] = [(time_us, serial, what)]
            heappush(self._order, slot)
        return serial

    def skip(self) -> int:
        """A serial for something that will never happen, such as the arrival of a lost message."""
        self._serial += 1
        return self._serial

    def __bool__(self) -> bool:
        return bool(self._open or self._order)

    def next_us(self) -> int:
        """The time of the next entry. IndexError when there is none."""
        if not self._open:
            self._turn()
        return self._open[0][0]

    def next(self) -> Entry:
        """Take the next entry. IndexError when there is none: the world is at rest."""
        if not self._open:
            self._turn()
        return heappop(self._open)

    def _turn(self) -> None:
        self._open_slot = heappop(self._order)
        self._open = self._later.pop(self._open_slot)
        self._open.sort()  # a sorted list is a heap
