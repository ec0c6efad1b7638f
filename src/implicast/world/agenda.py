"""A priority queue in exact (time, serial) order.

Entries are in slots of about two milliseconds in a dict, with a heap of slot numbers. A slot is
sorted when it is opened and consumed from its end; entries added to the open slot go to a heap
beside it. The order is exactly that of one binary heap (a law in `tests/laws`), at two thirds of
its cost from a thousand entries on and half from a hundred thousand (`bench/agenda.py`).
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

Entry = tuple[int, int, Any]
"""(time_us, serial, content). The serial is unique, so contents are never compared."""

SLOT_BITS = 11
"""A slot is 2**11 us."""
SPARSE_BITS = 14
"""For agendas of alarms seconds ahead, where a slot of 2 ms would hold one entry each: a fifth
cheaper there.
"""
NEVER_US = 1 << 62


class Agenda:
    """Future entries in order of time."""

    __slots__ = ("_bits", "_late", "_later", "_open", "_open_slot", "_order", "_serial")

    def __init__(self, slot_bits: int = SLOT_BITS) -> None:
        self._bits = slot_bits
        self._open: list[Entry] = []  # the open slot, latest first
        self._late: list[Entry] = []  # entries added to it after it was opened, as a heap
        self._open_slot = -1
        self._later: dict[int, list[Entry]] = {}  # unsorted until opened
        self._order: list[int] = []  # heap of the slots not yet opened
        self._serial = 0

    def at(self, time_us: int, what: object) -> int:
        """Add an entry and return its serial. It must not lie before the entry taken last."""
        self._serial = serial = self._serial + 1
        slot = time_us >> self._bits
        waiting = self._later.get(slot)
        if waiting is not None:
            waiting.append((time_us, serial, what))
        elif slot <= self._open_slot:
            heappush(self._late, (time_us, serial, what))
        else:
            self._later[slot] = [(time_us, serial, what)]
            heappush(self._order, slot)
        return serial

    def skip(self) -> int:
        """A serial without an entry, for an input that never comes, such as a lost message."""
        self._serial += 1
        return self._serial

    def __bool__(self) -> bool:
        return bool(self._open or self._late or self._order)

    def due(self, until_us: int = NEVER_US) -> Iterator[Entry]:
        """The entries due up to a time, including those added meanwhile.

        A loop over this costs two thirds of taking entries one by one.
        """
        late = self._late
        while True:
            opened = self._open
            while opened:
                if late and late[0] < opened[-1]:
                    if late[0][0] > until_us:
                        return
                    yield heappop(late)
                elif opened[-1][0] > until_us:
                    return
                else:
                    yield opened.pop()
            while late:
                if late[0][0] > until_us:
                    return
                yield heappop(late)
            if not self._order:
                return
            if not self._open:
                self._turn()

    def _turn(self) -> None:
        self._open_slot = heappop(self._order)
        self._open = self._later.pop(self._open_slot)
        if len(self._open) > 1:
            self._open.sort(reverse=True)
