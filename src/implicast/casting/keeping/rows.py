"""The entries that one node keeps, its own and copies. Pure: time is told.

Which of two words about an entry is newer is decided by its stamp, given by whoever the entry speaks of; of equal
stamps the removal wins. So copies can meet in any order and any number of times, and old ones never come back: a
removal is remembered for longer than freezes and partitions last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from implicast.casting.keeping.messages import Name, Row, Slot
from implicast.space.digest import digest_bits
from implicast.space.ring import ID_BITS

ROWS_MAX = 1_000_000
"""Entries that one node keeps; further ones are refused, and their owners ask again."""
SUMMARIES_MAX = 16
"""Ranges whose sums are remembered."""
REMEMBERED_US = 25_000_000
"""A removal is remembered for so long after it was last spoken of: longer than the freezes and partitions from which an
old copy may come back. One that comes later is told of casts in vain, and forgotten after a lease."""


@dataclass(slots=True)
class Entry:
    """A row, when it was last vouched for, and a digest of it."""

    row: Row
    heard_us: int
    mark: int


class KeptRows:
    """Lists of rows by slot."""

    __slots__ = ("_slots", "_summaries", "changes", "count")

    def __init__(self) -> None:
        self._slots: dict[Slot, dict[Name, Entry]] = {}
        self._summaries: dict[tuple[int, int], tuple[int, int]] = {}
        # At rest the same few ranges are summed up again and again: remembering took half of a run's time away.
        self.count = self.changes = 0

    def take(self, row: Row, now_us: int) -> bool:
        """Keep a row unless a newer one is known. False: there is no room for it."""
        entries = self._slots.get(row.slot)
        known = entries.get(row.name) if entries is not None else None
        if known is not None and (known.row.stamp, not known.row.packed) >= (row.stamp, not row.packed):
            if known.row.stamp == row.stamp and row.packed:
                known.heard_us = now_us
            return True
        if known is None and self.count >= ROWS_MAX:
            return False
        if entries is None:
            entries = self._slots[row.slot] = {}
        self.count += known is None
        self._changed()
        mark = digest_bits(64, *row.slot, row.name, row.stamp, bool(row.packed))
        entries[row.name] = Entry(row, now_us, mark)
        return True

    def _changed(self) -> None:
        self.changes += 1
        self._summaries.clear()

    def get(self, slot: Slot, name: Name) -> Entry | None:
        return self._slots.get(slot, {}).get(name)

    def listed(self, slot: Slot) -> list[Row]:
        """The entries of a list that are in force."""
        return [entry.row for entry in self._slots.get(slot, {}).values() if entry.row.packed]

    def is_news(self, row: Row) -> bool:
        """Whether a row from a copy says something: a removal of what is not known does not."""
        return bool(row.packed) or self.get(row.slot, row.name) is not None

    def entries(self) -> Iterator[Entry]:
        for entries in self._slots.values():
            yield from entries.values()

    def within(self, low: int, high: int) -> list[Entry]:
        """The entries of the keys (low, high]; (a, a] is the whole circle."""
        # `up_to` written out: a third of the time.
        mask = (1 << ID_BITS) - 1
        span = (high - low - 1) & mask
        return [entry for entry in self.entries() if (high - entry.row.key) & mask <= span]

    def summary(self, low: int, high: int) -> tuple[int, int]:
        """How many are in force, and a sum over their digests: equal sums, equal entries. Removals do not count: they
        are forgotten here and there at different times, and would else be told each other for ever."""
        known = self._summaries.get((low, high))
        if known is None:
            marks = [entry.mark for entry in self.within(low, high) if entry.row.packed]
            known = self._summaries[low, high] = len(marks), sum(marks) & (1 << 64) - 1
            if len(self._summaries) > SUMMARIES_MAX:
                del self._summaries[next(iter(self._summaries))]
        return known

    def drop(self, rows: Iterable[Row]) -> None:
        for row in rows:
            entries = self._slots[row.slot]
            del entries[row.name]
            self.count -= 1
            self._changed()
            if not entries:
                del self._slots[row.slot]

    def expire(self, now_us: int, lease_us: int) -> None:
        """Entries that nobody renewed for a lease become removals; removals are forgotten in the end."""
        over_us, forgotten_us = now_us - lease_us, now_us - REMEMBERED_US
        for entry in list(self.entries()):
            row = entry.row
            if row.packed and entry.heard_us < over_us:
                self.take(Row(row.key, row.slot, row.name, row.stamp, b""), now_us)
            elif not row.packed and entry.heard_us < forgotten_us:
                self.drop([row])

    def clear(self) -> None:
        self._slots, self.count = {}, 0
        self._changed()
