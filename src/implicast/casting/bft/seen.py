"""Which multicasts have been met: bounded memory, and no replay after forgetting.

A message carries its time. Older than the window, it is refused; so what the table forgets after the window cannot
come back. When the table is full all the same (a flood by many), the oldest goes and the *horizon* moves up to
its time: whatever is not younger is refused from then on. A single publisher may hold only its share of the table, from
however many places it casts, so one flooding liar moves nobody's horizon.
"""

from collections import deque
from typing import Generic, TypeVar

from implicast.peer.contract import Name

Query = tuple[int, bytes]
"""(q, key of s)."""
Entry = TypeVar("Entry")

WINDOW_US = 60_000_000
"""How long after its time a message may still arrive."""
SKEW_US = 5_000_000
"""How far clocks may differ."""
ENTRIES_MAX = 131_072
"""Of all publishers together; beyond it the oldest is dropped, and whatever is as old as it is refused."""
PER_PUBLISHER_MAX = 8_192
"""Multicasts of one publisher within the window: 136 a second on end, or as many in a burst."""


class SeenTable(Generic[Entry]):
    """What was met, by (q, key of s), with an entry of the owner's."""

    __slots__ = ("_entries", "_order", "_per_publisher", "entries_max", "horizon_us", "per_publisher_max", "window_us")

    def __init__(
        self, window_us: int = WINDOW_US, entries_max: int = ENTRIES_MAX, per_publisher_max: int = PER_PUBLISHER_MAX
    ) -> None:
        self.window_us, self.entries_max, self.per_publisher_max = window_us, entries_max, per_publisher_max
        self.horizon_us = -1
        self._entries: dict[Query, Entry] = {}
        self._order: deque[tuple[int, int, Query, Name]] = deque()  # kept until, its time, query, publisher
        self._per_publisher: dict[Name, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, query: Query) -> Entry | None:
        return self._entries.get(query)

    def flaw(self, publisher: Name, sent_us: int, now_us: int) -> str | None:
        """Why a message that was not met before must be refused, or None."""
        if sent_us > now_us + SKEW_US:
            return "premature"
        if sent_us <= now_us - self.window_us or sent_us <= self.horizon_us:
            return "stale"
        return "flooding" if self.is_full(publisher, now_us) else None

    def is_full(self, publisher: Name, now_us: int) -> bool:
        """Whether a publisher has used up its share."""
        self._forget(now_us)
        return self._per_publisher.get(publisher, 0) >= self.per_publisher_max

    def record(self, query: Query, publisher: Name, sent_us: int, now_us: int, entry: Entry) -> None:
        self._forget(now_us)
        self._entries[query] = entry
        self._per_publisher[publisher] = self._per_publisher.get(publisher, 0) + 1
        # Its time is at most SKEW_US ahead, so once this has passed it would be refused as stale.
        self._order.append((now_us + self.window_us + SKEW_US, sent_us, query, publisher))
        if len(self._entries) > self.entries_max:
            self.horizon_us = max(self.horizon_us, self._drop())

    def _forget(self, now_us: int) -> None:
        while self._order and self._order[0][0] < now_us:
            self._drop()

    def _drop(self) -> int:
        _, sent_us, query, publisher = self._order.popleft()
        del self._entries[query]
        left = self._per_publisher[publisher] - 1
        if left:
            self._per_publisher[publisher] = left
        else:
            del self._per_publisher[publisher]
        return sent_us
