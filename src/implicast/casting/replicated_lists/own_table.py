"""The entries that one peer has in lists or is putting there, as a table. Sends nothing.

Confirmation is tracked by value range, so an interrupted walk resumes where it stopped.

| own entry | event | next |
|---|---|---|
| - | `put` | open |
| open | all values are confirmed | in lists; a removal is forgotten |
| in lists | `lose`: a holder is silent, or does not have it | open, with a new stamp |
| open, in lists | `forget`, `removal` | gone; its removal is open |
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from implicast.casting.replicated_lists.entries import (
    STAMP_BITS,
    DurableEntry,
    KeyOf,
    Listing,
    OwnEntry,
    Scalar,
)
from implicast.language.target import Description
from implicast.peer.contract import Address, Incarnation
from implicast.peer.replication import Commits
from implicast.space.steps import ValueRange, overlap, without

OWN_ENTRIES_MAX = 65_536
"""Own entries of one peer; more are refused."""
Wanted = dict[tuple[str, str, int], list[ValueRange]]
"""By namespace, attribute and number, the ranges of values in which an entry is wanted."""


@dataclass(frozen=True, slots=True)
class OwnEntriesState:
    """What one peer has in lists."""

    listed_as: Description | None = None
    """The description that the lists state of this member, or will once all puts are acknowledged.
    """
    entries: tuple[DurableEntry, ...] = ()
    """Entries in lists and removals that are not complete, under their serials."""
    holders: tuple[Address, ...] = ()
    """By entry of the description, its holder, where that is known without a put."""


class Lister(Protocol):
    """What a design states about the entries of its members."""

    def entries_for(self, description: Description) -> list[Listing]: ...
    def numbered_entries(self) -> list[OwnEntry]: ...
    def on_later_incarnation(self, incarnation: Incarnation) -> None: ...


class OwnTable:
    """Own entries by serial, with the stamps and serials that they take."""

    __slots__ = ("_commits", "_key_of", "_secret", "by_serial", "newest_stamp", "open")

    def __init__(
        self, key_of: KeyOf, secret: Callable[[], int] | None, incarnation: Incarnation
    ) -> None:
        """`secret`: draws serials in a signed network, where only nodes on the path of a request
        may be able to acknowledge it.
        """
        self._key_of, self._secret = key_of, secret
        self.by_serial: dict[int, OwnEntry] = {}
        self.open: dict[int, OwnEntry] = {}
        """Entries that are not confirmed for all their values."""
        self._commits: Commits[int] = Commits()
        self.set_incarnation(incarnation)

    def set_incarnation(self, incarnation: Incarnation) -> None:
        """Issue stamps of this incarnation from now on."""
        self.newest_stamp = incarnation << STAMP_BITS

    def new_entry(self, listing: Listing) -> OwnEntry:
        """Create an entry to be put; empty content: a removal."""
        (namespace, attribute, low, high, walks), number, packed = listing
        self.newest_stamp = stamp = self.newest_stamp + 1
        ends = namespace, attribute, low, high, self._key_of(attribute, low)
        serial = stamp if self._secret is None else self._secret()
        return OwnEntry(serial, *ends, number, packed, stamp, walks, ((low, high),))

    def restore(self, own_entry: OwnEntry) -> None:
        """Hold an entry that is in lists."""
        self.by_serial[own_entry.serial] = own_entry

    def removal(self, own_entry: OwnEntry) -> OwnEntry:
        """Stop renewing an entry and return its removal."""
        self.forget(own_entry)
        return self._out(own_entry, own_entry.low, own_entry.high)

    def _out(self, one: OwnEntry, low: Scalar, high: Scalar) -> OwnEntry:
        """Return the removal of these values of an entry."""
        where = (one.namespace, one.attribute, low, high, one.walks)
        return self.new_entry((where, one.number, b""))

    def narrow(self, own_entry: OwnEntry, low: Scalar, high: Scalar) -> list[OwnEntry]:
        """Restrict an entry to these values and return removals of the others. Adds no values."""
        whole = own_entry.low, own_entry.high
        wanted = overlap(whole, (low, high))
        if wanted == whole:
            return []
        if wanted is None:
            return [self.removal(own_entry)]
        own_entry.narrow(*wanted, self._key_of(own_entry.attribute, wanted[0]))
        if not own_entry.missing:
            self._close(own_entry)
        return [self._out(own_entry, *each) for each in without(whole, *wanted)]

    def forget(self, own_entry: OwnEntry) -> None:
        self.by_serial.pop(own_entry.serial, None)
        self._close(own_entry)

    def put(self, own_entries: list[OwnEntry], then: Callable[[], None]) -> list[OwnEntry]:
        """Hold entries that are to be put, and return them; `then` is called when all are
        confirmed.
        """
        put = self._agreeing(own_entries)
        self._commits.begin([own_entry.serial for own_entry in put], then)
        held = put[: max(0, OWN_ENTRIES_MAX - len(self.by_serial))]
        for own_entry in held:
            self.by_serial[own_entry.serial] = self.open[own_entry.serial] = own_entry
        return held

    def _agreeing(self, own_entries: list[OwnEntry]) -> list[OwnEntry]:
        """Cut removals, new ones and those under way, so that they spare what is wanted now: a
        retried removal has a new stamp and would undo a later put.
        """
        removals = [one for one in (*own_entries, *self.open.values()) if not one.packed]
        if not removals:
            return own_entries
        wanted: Wanted = {}
        for one in (*self.by_serial.values(), *own_entries):
            if one.packed:
                name = one.namespace, one.attribute, one.number
                wanted.setdefault(name, []).append((one.low, one.high))
        under_way = [one for one in self.open.values() if not one.packed]
        agreed: list[OwnEntry] = []
        for one in (*own_entries, *under_way):
            agreed += [one] if one.packed else self._cut(one, wanted)
        return agreed

    def _cut(self, removal: OwnEntry, wanted: Wanted) -> list[OwnEntry]:
        """Return what of a removal is still to be put: the whole of it if it meets nothing wanted,
        nothing if that is under way already.
        """
        left = [(removal.low, removal.high)]
        for low, high in wanted.get((removal.namespace, removal.attribute, removal.number), ()):
            left = [part for each in left for part in without(each, low, high)]
        if left == [(removal.low, removal.high)]:
            return [] if removal.serial in self.open else [removal]
        self.forget(removal)
        return [self._out(removal, *part) for part in left]

    def confirmed_all(self, own_entry: OwnEntry, is_renewed: bool) -> None:
        """All values of an entry are confirmed: it is in lists. `is_renewed`: keep it for that."""
        if own_entry.serial in self.open:
            if not own_entry.packed or not is_renewed:
                del self.by_serial[own_entry.serial]
            self._close(own_entry)

    def _close(self, own_entry: OwnEntry) -> None:
        """The entry needs no further puts."""
        if self.open.pop(own_entry.serial, None) is not None:
            self.open = self.open or {}  # a dict does not shrink by itself
            self._commits.acknowledge(own_entry.serial)

    def lose(self, held: Iterable[tuple[OwnEntry, ValueRange]], now_us: int) -> None:
        """Open ranges again with a new stamp, so that no tombstone of the old version prevails.
        Entries that were replaced meanwhile are skipped: they must not override their successors.
        """
        for own_entry, (low, high) in [each for each in held if each[0].serial in self.by_serial]:
            self.newest_stamp += 1
            own_entry.lose(low, high, self.newest_stamp, now_us)
            self.open[own_entry.serial] = own_entry

    def confirmed(self) -> Iterator[tuple[OwnEntry, ValueRange, Address]]:
        """Iterate over the confirmed value ranges of all own entries, with their holders."""
        for own_entry in self.by_serial.values():
            for value_range, (holder, _) in own_entry.confirmed.items():
                yield own_entry, value_range, holder

    def progress(self) -> tuple[int, int, int]:
        """Return a value that changes whenever the stored entries change: a new put has a new
        stamp, and a confirmation changes a count.
        """
        return self.newest_stamp, len(self.open), len(self.by_serial)
