"""The slotted agenda against one plain heap: one schedule and one take, by how many are in flight."""

import time
from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from implicast.world.agenda import Agenda


class Heap:
    """The same two methods over a single heap."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, object]] = []
        self._serial = 0

    def at(self, time_us: int, what: object) -> int:
        self._serial += 1
        heappush(self._entries, (time_us, self._serial, what))
        return self._serial

    def due(self) -> Iterator[tuple[int, int, object]]:
        while self._entries:
            yield heappop(self._entries)


def drive(agenda, in_flight: int, turns: int) -> float:
    """CPU seconds for taking one and scheduling one, over and over."""
    rng = Random(3)
    delays = [rng.randrange(5_000, 80_000) for _ in range(4096)]
    for index in range(in_flight):
        agenda.at(delays[index % 4096], None)
    begun = time.process_time()
    for index, (now_us, _, _) in zip(range(turns), agenda.due(), strict=False):
        agenda.at(now_us + delays[index % 4096], None)
    return time.process_time() - begun


def main(turns: int = 200_000) -> None:
    print("one schedule and one take, delays of 5 to 80 ms, best of three")
    for in_flight in (100, 1_000, 10_000, 100_000):
        best = {
            kind: min(drive(kind(), in_flight, turns) for _ in range(3)) for kind in (Heap, Agenda)
        }
        heap, slots = best[Heap] / turns * 1e9, best[Agenda] / turns * 1e9
        print(
            f"  {in_flight:7} in flight   heap {heap:6.0f} ns   slots {slots:6.0f} ns   {slots / heap:4.2f}"
        )


if __name__ == "__main__":
    main()
