"""What happens next, in exact (time, serial) order.

Slots of about two milliseconds in a dict, a small heap of slot numbers. A slot is sorted when it is opened and worked
off from its end; what is added to it meanwhile waits in a heap beside it. The order is exactly that of one plain heap
(a law in `tests/laws`), at about half its price from a thousand in flight on (`bench/agenda.py`).
"""

from heapq import heappop, heappush
from typing import Any

Entry = tuple[int, int, Any]
"""time_us, serial, what. The serial is unique, so `what` is never compared."""

SLOT_BITS = 11
"""A slot is 2**11 us."""
SPARSE_BITS = 14
"""For agendas of alarms seconds ahead, of which a slot of a millisecond would hold one each: a fifth cheaper there."""
NEVER_US = 1 << 62


class Agenda:
    """A queue of things to come."""

    __slots__ = ("_bits", "_late", "_later", "_open", "_open_slot", "_order", "_serial")

    def __init__(self, slot_bits: int = SLOT_BITS) -> None:
        self._bits = slot_bits
        self._open: list[Entry] = []  # the slot being worked off, latest first
        self._late: list[Entry] = []  # what was added to it since it was opened, as a heap
        self._open_slot = -1
        self._later: dict[int, list[Entry]] = {}  # unsorted until opened
        self._order: list[int] = []  # heap of the slots not yet opened
        self._serial = 0

    def at(self, time_us: int, what: object) -> int:
        """Put something on the agenda; returns its serial. `time_us` must not lie before the entry taken last."""
        self._serial = serial = self._serial + 1
        slot = time_us >> self._bits
        later = self._later.get(slot)
        if later is not None:
            later.append((time_us, serial, what))
        elif slot <= self._open_slot:
            heappush(self._late, (time_us, serial, what))
        else:
            self._later[slot] = [(time_us, serial, what)]
            heappush(self._order, slot)
        return serial

    def skip(self) -> int:
        """A serial for something that will never happen, such as the arrival of a lost message."""
        self._serial += 1
        return self._serial

    def __bool__(self) -> bool:
        return bool(self._open or self._late or self._order)

    def take(self, until_us: int = NEVER_US) -> Entry | None:
        """The next entry, unless it lies beyond a time; None also when there is none."""
        opened = self._open
        if self._late and (not opened or self._late[0] < opened[-1]):
            return heappop(self._late) if self._late[0][0] <= until_us else None
        if not opened:
            if not self._order:
                return None
            opened = self._turn()
        return opened.pop() if opened[-1][0] <= until_us else None

    def _turn(self) -> list[Entry]:
        self._open_slot = heappop(self._order)
        self._open = self._later.pop(self._open_slot)
        if len(self._open) > 1:
            self._open.sort(reverse=True)
        return self._open
