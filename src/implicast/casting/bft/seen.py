"""Which multicasts have been met: bounded memory, and no replay after forgetting.

A message carries its time. Older than the window, it is refused; so what the table forgets after the window cannot
come back. When the table is full all the same (a flood by many), the oldest goes and the *horizon* moves up to
its time: whatever is not younger is refused from then on. A single source may hold only its share of the table, so
one flooding liar moves nobody's horizon.
"""

from collections import deque
from typing import Generic, TypeVar

Name = tuple[int, bytes]
Entry = TypeVar("Entry")

WINDOW_US = 60_000_000
"""How long after its time a message may still arrive."""
SKEW_US = 5_000_000
"""How far clocks may differ."""
ENTRIES_MAX = 65_536
"""Of all sources together; beyond it the oldest is dropped, and whatever is as old as it is refused."""
PER_SOURCE_MAX = 1_024
"""Multicasts of one source within the window: 17 a second."""


class SeenTable(Generic[Entry]):
    """What was met, by (q, key of s), with an entry of the owner's."""

    __slots__ = ("_entries", "_order", "_per_source", "entries_max", "horizon_us", "per_source_max", "window_us")

    def __init__(
        self, window_us: int = WINDOW_US, entries_max: int = ENTRIES_MAX, per_source_max: int = PER_SOURCE_MAX
    ) -> None:
        self.window_us, self.entries_max, self.per_source_max = window_us, entries_max, per_source_max
        self.horizon_us = -1
        self._entries: dict[Name, Entry] = {}
        self._order: deque[tuple[int, int, Name]] = deque()  # kept until, its time, name
        self._per_source: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: Name) -> Entry | None:
        return self._entries.get(name)

    def flaw(self, name: Name, sent_us: int, now_us: int) -> str | None:
        """Why a message that was not met before must be refused, or None."""
        if sent_us > now_us + SKEW_US:
            return "premature"
        if sent_us <= now_us - self.window_us or sent_us <= self.horizon_us:
            return "stale"
        self._forget(now_us)
        if self._per_source.get(name[1], 0) >= self.per_source_max:
            return "flooding"
        return None

    def record(self, name: Name, sent_us: int, now_us: int, entry: Entry) -> None:
        self._forget(now_us)
        self._entries[name] = entry
        self._per_source[name[1]] = self._per_source.get(name[1], 0) + 1
        # Its time is at most SKEW_US ahead, so once this has passed it would be refused as stale.
        self._order.append((now_us + self.window_us + SKEW_US, sent_us, name))
        if len(self._entries) > self.entries_max:
            self.horizon_us = max(self.horizon_us, self._drop())

    def _forget(self, now_us: int) -> None:
        while self._order and self._order[0][0] < now_us:
            self._drop()

    def _drop(self) -> int:
        _, sent_us, name = self._order.popleft()
        del self._entries[name]
        left = self._per_source[name[1]] - 1
        if left:
            self._per_source[name[1]] = left
        else:
            del self._per_source[name[1]]
        return sent_us
