"""One peer's part of a registry: the records at home here at one notch, and the closed part.

Codes in `closed` pass new entries up to the next notch. Codes outside it store them. A record in
the closed part is on its way up, and casts still match it until the next notch acknowledges it.
`gathering` is a part of `closed` to which records return from above: entries for it are stored
here, while casts still go up (`containers.py`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from implicast.casting.spice.homes import home, homes
from implicast.casting.spice.items import Entry, Key, record_item
from implicast.casting.spice.settings import NEVER_US
from implicast.language.target import Description, Target
from implicast.overlay.ice.item_store import Item
from implicast.peer.contract import Contact, Name
from implicast.space.built import built
from implicast.space.tract import EMPTY, Tract, contains, subtract

_BUILT = built("casting.spice._records")
BEFORE_US = 60_000_000
"""How long casts match the previous description of a consumer. Longer than a cast is usually on its
way.
"""


class Record:
    """An entry with the holder's bookkeeping: home, lease, and whether the backups have it."""

    __slots__ = ("_item", "before_us", "entry", "home", "safe", "until_us")

    def __init__(self, entry: Entry, home: int, now_us: int, until_us: int, safe: bool) -> None:
        self.entry, self.home, self.until_us, self.safe = entry, home, until_us, safe
        self._item: Item | None = None
        self.before_us = now_us + BEFORE_US if entry.before is not None else 0

    def descriptions(self, now_us: int) -> Iterator[Description]:
        """The descriptions that casts match: the current one and, for a while, the previous one."""
        entry = self.entry
        if entry.description is not None:
            yield entry.description
        if entry.before is not None and now_us < self.before_us:
            yield entry.before

    def as_item(self, key: Key) -> Item:
        """The record as an item of the surface. Cached, because it is packed often."""
        if self._item is None:
            self._item = record_item(key, self.entry, self.home)
        return self._item

    def renew(self, until_us: int) -> None:
        self.until_us = until_us

    def mark_safe(self) -> None:
        """The backups have the record."""
        self.safe = True


class VersionCounter:
    """Counts changes of what one peer stores. Values computed from the whole store are cached until
    `version` changes.
    """

    __slots__ = ("losses", "version")

    def __init__(self) -> None:
        self.version = 0
        self.losses = 0
        """Number of removed records and changed closed parts. After such a change a record that was
        found may not be found.
        """

    def bump(self, lost: bool = False) -> None:
        self.version += 1
        self.losses += lost


class Registry:
    """Records by consumer, with the closed and the gathering part."""

    __slots__ = (
        "_due_us",
        "_packed",
        "_records",
        "_rows",
        "closed",
        "counter",
        "dimensions",
        "gathering",
        "notch",
        "passed_up",
        "record_slice",
        "root",
    )

    def __init__(self, root: int, notch: int, dimensions: int, counter: VersionCounter) -> None:
        self.root, self.notch, self.dimensions, self.counter = root, notch, dimensions, counter
        self._records: dict[Name, Record] | None = {}
        self.closed: Tract = EMPTY
        self.gathering: Tract = EMPTY
        self.passed_up = 0
        """Approximate number of registrations above: those that were passed up through here."""
        self._packed: list[Item] | None = None
        """All records as items; None after a change."""
        self._rows: bytes | None = None
        """Rows that the compiled `selected` scans first; None after a change."""
        self._due_us = NEVER_US
        """No record expires before this time."""
        self.record_slice: Any = None
        """The records as a slice of a shared column; None if they exist as objects."""

    def use_slice(self, records: Any) -> None:
        """Take the records from a slice of a shared column (`_records.RecordSlice`)."""
        self.record_slice, self._records = records, None

    @property
    def records(self) -> Mapping[Name, Record]:
        """By consumer. Records of a slice become objects here."""
        return self._records if self._records is not None else self._make_records()

    def _make_records(self) -> dict[Name, Record]:
        records, self.record_slice, self._records = self.record_slice, None, {}
        self.restore(records.entries(), 0, NEVER_US)
        return self._records

    def keep(self, entry: Entry, now_us: int, until_us: int, safe: bool = False) -> Record:
        """Store the entry unless a newer version is there; the same version renews the lease.
        `safe`: the backups have it.
        """
        records = self._records if self._records is not None else self._make_records()
        record = records.get(entry.member.name)
        if record is not None and record.entry.version >= entry.version:
            if record.entry.version == entry.version:
                record.renew(until_us)
            return record
        at = home(self.root, self.notch, entry.spot, self.dimensions)
        record = records[entry.member.name] = Record(entry, at, now_us, until_us, safe)
        self._packed = self._rows = None
        self.counter.bump()
        self._due_us = min(self._due_us, until_us)
        return record

    def is_stored(self, entry: Entry) -> bool:
        """Whether this version of the entry or a newer one is stored and backed up, and no part is
        closed.
        """
        record = self.records.get(entry.member.name)
        return (
            record is not None
            and record.safe
            and record.entry.version >= entry.version
            and not self.closed
        )

    def restore(self, entries: Sequence[Entry], now_us: int, until_us: int) -> None:
        """Fill an empty registry with backed-up entries of distinct consumers."""
        assert not self._records, "what is there might be newer"
        self._records = {}
        spots = [each.spot for each in entries]
        for entry, at in zip(
            entries, homes(self.root, self.notch, spots, self.dimensions), strict=True
        ):
            self._records[entry.member.name] = Record(entry, at, now_us, until_us, True)
        self._packed = self._rows = None
        self._due_us = min(self._due_us, until_us)
        self.counter.bump()

    def remove(self, record: Record) -> None:
        assert self._records is not None, "a record exists as an object"
        del self._records[record.entry.member.name]
        self._packed = self._rows = None
        self.counter.bump(lost=True)

    def set_closed(self, closed: Tract) -> None:
        if closed != self.closed:
            self.closed = closed
            self.counter.bump(lost=True)

    def set_gathering(self, tract: Tract) -> None:
        self.gathering = tract

    def add_passed_up(self, count: int) -> None:
        self.passed_up = max(0, self.passed_up + count)

    def expired(self, now_us: int) -> list[Record]:
        """Records whose lease has expired. Renewals only move the earliest expiry back, so most
        calls return without a scan.
        """
        if now_us < self._due_us:
            return []
        self._due_us = min((each.until_us for each in self.records.values()), default=NEVER_US)
        return [each for each in self.records.values() if each.until_us <= now_us]

    @property
    def passing(self) -> Tract:
        """The part that stores nothing: closed and not gathering."""
        return subtract(self.closed, self.gathering)

    def count_open(self) -> int:
        """Number of consumers registered in the open part."""
        closed, alive = (
            self.closed,
            [each for each in self.records.values() if each.entry.description is not None],
        )
        return (
            sum([not bisect_right(closed, each.home) & 1 for each in alive])
            if closed
            else len(alive)
        )

    def ascending(self) -> list[Record]:
        """Records in the closed part that have to move up."""
        passing = self.passing
        return (
            [each for each in self.records.values() if bisect_right(passing, each.home) & 1]
            if passing
            else []
        )

    def records_in(self, tract: Tract) -> list[Record]:
        if not self.notch:  # all records have their home at the root
            return list(self.records.values()) if contains(tract, self.root) else []
        return [each for each in self.records.values() if bisect_right(tract, each.home) & 1]

    def count_in(self, tract: Tract) -> int:
        """Number of consumers registered in a part."""
        return sum([each.entry.description is not None for each in self.records_in(tract)])

    def packed(self, key: Key, tract: Tract) -> list[Item]:
        """Records with their home in the tract, as items. At notch 0 all homes are the root, so one
        test decides for all.
        """
        if self.notch or not contains(tract, self.root):
            return [record.as_item(key) for record in self.records_in(tract)]
        if self._packed is None:
            self._packed = [record.as_item(key) for record in self.records.values()]
        return self._packed

    def selected(self, target: Target, term: int, part: Tract, now_us: int) -> list[Contact]:
        """Consumers with their home in the part that the target selects and whose least matching
        term is this one.

        By the least-term rule (Listing 8) the peers of different terms decide without messages
        which of them notifies a consumer.
        """
        least = target.terms[term]
        if _BUILT is None or term or least.where:
            return [
                each.entry.member
                for each in self.records_in(part)
                if fits(each, target, term, now_us)
            ]
        everywhere = not self.notch  # all records have their home at the root
        if everywhere and not contains(part, self.root):
            return []
        if self.record_slice is not None:
            looked_through: list[Contact] = self.record_slice.selected(least, part, everywhere)
            return looked_through
        rows = self._rows = self._rows or _BUILT.rows_of(self.records)
        members: list[Contact] = _BUILT.selected(
            self.records, rows, least, part, everywhere, now_us
        )
        return members

    @property
    def idle(self) -> bool:
        return not (self.records or self.closed)


def fits(record: Record, target: Target, term: int, now_us: int) -> bool:
    """Whether the peer that handles this term has to notify the record's consumer."""
    least = target.terms[term]
    for description in record.descriptions(now_us):
        if least.selects(description) and (term == 0 or target.least_term(description) == least):
            return True
    return False
