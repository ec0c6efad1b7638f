"""The entries that one node keeps, its own and copies. Pure: time is told.

Which of two words about an entry is newer is decided by its stamp, given by whoever the entry speaks of; of equal
stamps the removal wins. So copies can meet in any order and any number of times, and old ones never come back: a
removal is remembered for longer than freezes and partitions last.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from implicast.casting.keeping.messages import Row, Slot
from implicast.peer.contract import Address, Contact, Name
from implicast.peer.memory import Recent, Shares
from implicast.space.digest import digest_bits

ROWS_MAX = 1_000_000
"""Entries that one node keeps, those of an owner that has many refused first; such owners ask again."""
NO_ROOM = -1
SUM_MASK = (1 << 63) - 1
SUMMARIES_MAX = 12
"""Ranges whose sums are remembered."""
MARKS_MAX = 65_536
"""Marks that are remembered: an entry has the same at its owner, its keeper and all who have copies."""
PAST_MAX = 64
"""Addresses that are noted and past, beside as many as are not, before all are worked out anew."""
REMEMBERED_US = 25_000_000
"""A removal is remembered for so long after it was last spoken of: longer than the freezes and partitions from which an
old copy may come back. One that comes later is told of casts in vain, and forgotten after a lease."""


@dataclass(slots=True)
class HeldRow:
    """A row, when it was last vouched for, a digest of it, and whether it is in force: found out once."""

    row: Row
    heard_us: int
    mark: int
    in_force: bool

    def vouch(self, now_us: int) -> None:
        """Its owner, or whoever answers for it, says that it is so."""
        self.heard_us = now_us


Ident = Name | int
"""What an entry is called within its list."""


@lru_cache(MARKS_MAX)
def mark_of(slot: Slot, ident: Ident, stamp: int, in_force: bool) -> int:
    """A digest of one word about an entry."""
    return digest_bits(63, *slot, ident, stamp, in_force)


class KeptRows:
    """Lists of rows by slot, in order of their keys."""

    __slots__ = (
        "_compared",
        "_due_us",
        "_keys",
        "_places",
        "_shares",
        "_slots",
        "_summaries",
        "addresses",
        "changes",
        "losses",
        "marks",
        "owned",
    )

    def __init__(self, compared: bool = True) -> None:
        """Rows that are never compared with copies need no marks and sums."""
        self._compared = compared
        self._slots: dict[Slot, dict[Ident, HeldRow]] = {}
        self._shares: Shares[Name] = Shares(ROWS_MAX)
        # In order of keys, so that a range costs what is in it: a fifth of a run in change was looking through all.
        self._keys: list[int] = []
        self._places: dict[int, dict[Slot, dict[Ident, HeldRow]]] = {}
        self._summaries: Recent[tuple[int, int], list[int]] = Recent(SUMMARIES_MAX)
        # At rest the same few ranges are summed up again and again: remembering them took half of a run's time away.
        self.marks: set[int] = set()
        """Of all entries in force: whether one is kept is seen at a glance. Never gone through."""
        self.owned: dict[Contact, int] = {}
        """Of whom entries are in force here, and how many."""
        self.addresses: set[Address] = set()
        """Where these are, and some were. Never gone through."""
        self.changes = self.losses = 0
        self._due_us = 0
        """Nothing is over before this."""

    def take(self, row: Row, now_us: int) -> int:
        """Keep a row unless a newer one is known: then its stamp is the answer. `NO_ROOM`: it cannot be kept."""
        slot, ident, in_force = row.slot, row.ident, row.in_force
        entries = self._slots.get(slot)
        known = entries.get(ident) if entries is not None else None
        if known is not None and known.row.stamp >= row.stamp:
            if known.row.stamp == row.stamp and known.in_force == in_force:
                known.vouch(now_us)
                return 0
            if known.row.stamp > row.stamp or in_force:
                return known.row.stamp
        if known is None and not self._shares.allows(row.owner.name):
            return NO_ROOM
        if entries is None:
            entries = self._open(row)
        if known is not None:
            self._count(known, -1)
        mark = mark_of(slot, ident, row.stamp, in_force) if self._compared else 0
        entries[ident] = entry = HeldRow(row, now_us, mark, in_force)
        self._count(entry, 1)
        if not in_force:
            self._due_us = min(self._due_us, now_us + REMEMBERED_US)
        return 0

    def _open(self, row: Row) -> dict[Ident, HeldRow]:
        """A list for a slot that has none. All rows of a slot have one key."""
        if row.key not in self._places:
            insort(self._keys, row.key)
        entries = self._slots[row.slot] = self._places.setdefault(row.key, {})[row.slot] = {}
        return entries

    def _close(self, row: Row) -> None:
        del self._slots[row.slot], self._places[row.key][row.slot]
        if not self._places[row.key]:
            del self._places[row.key], self._keys[bisect_right(self._keys, row.key) - 1]

    def _count(self, entry: HeldRow, change: int) -> None:
        """One more or one less: bring shares, and marks, owners and sums of what is in force, up to date."""
        owner, key, is_more = entry.row.owner, entry.row.key, change > 0
        self.changes += 1
        (self._shares.add if is_more else self._shares.drop)(owner.name)
        if not self._compared or not entry.in_force:
            return
        self.owned[owner] = owned = self.owned.get(owner, 0) + change
        if not owned:
            del self.owned[owner]
            if len(self.addresses) > 2 * len(self.owned) + PAST_MAX:
                self.addresses = {each.address for each in self.owned}
        elif owned == change:
            self.addresses.add(owner.address)
        (self.marks.add if is_more else self.marks.discard)(entry.mark)
        self.losses += not is_more
        for (low, high), summed in self._summaries.items():
            if low < key <= high if low < high else low < key or key <= high:
                summed[:] = summed[0] + change, (summed[1] + change * entry.mark) & SUM_MASK

    def get(self, slot: Slot, ident: Ident) -> HeldRow | None:
        return self._slots.get(slot, {}).get(ident)

    def listed(self, slot: Slot) -> list[Row]:
        """The entries of a list that are in force."""
        return [entry.row for entry in self._slots.get(slot, {}).values() if entry.in_force]

    def of(self, owner: Contact) -> list[Row]:
        """All entries of an owner that are in force. Where it has one in a list it is called by its name there."""
        named = (entries.get(owner.name) for entries in self._slots.values())
        theirs = [
            entry
            for entry in named
            if entry is not None and entry.in_force and entry.row.owner == owner
        ]
        some = theirs if len(theirs) == self.owned.get(owner) else self.entries()
        return [entry.row for entry in some if entry.in_force and entry.row.owner == owner]

    def is_news(self, row: Row) -> bool:
        """Whether a row from a copy says something: a removal of what is not known does not."""
        return row.in_force or self.get(row.slot, row.ident) is not None

    def entries(self) -> Iterator[HeldRow]:
        for entries in self._slots.values():
            yield from entries.values()

    def within(self, low: int, high: int) -> list[HeldRow]:
        """The entries of the keys (low, high], in order from low on; (a, a] is the whole circle."""
        keys = self._keys
        first, last = bisect_right(keys, low), bisect_right(keys, high)
        chosen = keys[first:last] if low < high else keys[first:] + keys[:last]
        places = self._places
        return [
            entry
            for key in chosen
            for entries in places[key].values()
            for entry in entries.values()
        ]

    def summary(self, low: int, high: int) -> tuple[int, int]:
        """How many are in force, and a sum over their digests: equal sums, equal entries. Removals do not count: they
        are forgotten here and there at different times, and would else be told each other for ever."""
        known = self._summaries.get((low, high))
        if known is None:
            marks = [entry.mark for entry in self.within(low, high) if entry.in_force]
            known = self._summaries[low, high] = [len(marks), sum(marks) & SUM_MASK]
        return known[0], known[1]

    def drop(self, rows: Iterable[Row]) -> None:
        for row in rows:
            entries = self._slots[row.slot]
            self._count(entries.pop(row.ident), -1)
            if not entries:
                self._close(row)

    def expire(self, now_us: int, lease_us: int) -> None:
        """Entries that nobody renewed for a lease become removals; removals are forgotten in the end."""
        if now_us < self._due_us:
            return
        self._due_us = (
            now_us + lease_us
        )  # what is taken later is over later; but for removals, see `take`
        for entry in [entry for entries in self._slots.values() for entry in entries.values()]:
            row, over_us = (
                entry.row,
                entry.heard_us + (lease_us if entry.in_force else REMEMBERED_US),
            )
            if over_us >= now_us:
                self._due_us = min(self._due_us, over_us)
            elif entry.in_force:
                self.take(Row(row.key, row.slot, row.owner, row.number, row.stamp, b""), now_us)
            else:
                self.drop([row])

    def clear(self) -> None:
        self.drop([entry.row for entry in self.entries()])
