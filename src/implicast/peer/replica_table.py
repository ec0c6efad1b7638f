"""A table of replicated items: versions, tombstones, leases, and digests by range of keys.

Every replica holds such a table. Items are grouped in lists (`slot`) that lie at one key; `ident`
tells the items of a list apart. It does no I/O; the caller passes the time.

Of two versions of an entry the larger stamp is newer; only the owner issues stamps. Of equal stamps
a removal wins. So copies converge in whatever order and however often they are merged. A removal is
retained as a tombstone for longer than freezes and partitions last, so that an old copy does not
revive the entry.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, Self, TypeVar

from implicast.peer.contract import Address, Contact, Name
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent, Shares
from implicast.peer.replication import RangeDigests
from implicast.space.digest import digest_bits

ENTRIES_MAX = 1_000_000
"""Entries that one node stores. Near the limit the owners with the most entries are refused first;
a refused owner retries.
"""
NO_ROOM = -1
DIGESTS_MAX = 65_536
"""Entry digests that are cached: an entry has the same digest at its owner, its holder and all
copies.
"""
PAST_MAX = 64
"""Slack for addresses that no stored entry has: the set is rebuilt when it exceeds twice the live
addresses plus this.
"""
SILENT_ENTRIES_MAX = 16_384
"""Removed entries of silent owners that are remembered; the oldest is forgotten first."""
TOMBSTONE_US = 25_000_000
"""How long a tombstone is retained after the last message about it: longer than the freezes and
partitions after which an old copy may return. A copy that returns later causes notifications in
vain until its lease expires.
"""

Slot = tuple[str, str, int | str]
"""Names one list."""
Ident = Name | int
"""Names an item within its list."""


class Replica(Protocol):
    """One version of an item. Only its owner makes new versions."""

    @property
    def key(self) -> int: ...
    @property
    def slot(self) -> Slot: ...
    @property
    def ident(self) -> Ident: ...
    @property
    def owner(self) -> Contact: ...
    @property
    def stamp(self) -> int: ...
    @property
    def in_force(self) -> bool:
        """False: a removal."""

    def expired(self) -> Self:
        """Return the removal that takes its place when its lease is over."""


Item = TypeVar("Item", bound=Replica)


@dataclass(slots=True)
class HeldEntry(Generic[Item]):
    """A stored entry, the time of its last renewal, its digest, and whether it is in force
    (computed once).
    """

    entry: Item
    renewed_us: int
    digest: int
    in_force: bool

    def renew(self, now_us: int) -> None:
        """Extend the lease: the owner, or the holder of which this is a copy, has confirmed the
        entry.
        """
        self.renewed_us = now_us


@lru_cache(DIGESTS_MAX)
def digest_of(slot: Slot, ident: Ident, stamp: int, in_force: bool) -> int:
    """Digest of one version of an entry."""
    return digest_bits(63, *slot, ident, stamp, in_force)


class ReplicaTable(Generic[Item]):
    """Lists of items by slot, indexed by key."""

    __slots__ = (
        "_compared",
        "_due_us",
        "_keys",
        "_places",
        "_shares",
        "_slots",
        "_sums",
        "addresses",
        "changes",
        "digests",
        "losses",
        "owned",
        "silent",
    )

    def __init__(self, compared: bool = True) -> None:
        """`compared`: whether copies are compared, which needs digests and sums."""
        self._compared = compared
        self._slots: dict[Slot, dict[Ident, HeldEntry[Item]]] = {}
        self._shares: Shares[Name] = Shares(ENTRIES_MAX)
        # Sorted keys, so that a range query costs only the entries in it; scanning all of them took
        # a fifth of a run with churn.
        self._keys: list[int] = []
        self._places: dict[int, dict[Slot, dict[Ident, HeldEntry[Item]]]] = {}
        self._sums = RangeDigests()
        self.digests: set[int] = set()
        """Digests of all entries in force, for membership tests. Never iterated, so that order
        cannot matter.
        """
        self.owned: dict[Contact, int] = {}
        """Owners that have entries in force here, and how many."""
        self.addresses: set[Address] = set()
        """Addresses of these owners, and some former ones. Never iterated."""
        self.changes = self.losses = self._due_us = 0
        """`_due_us`: no entry and no tombstone expires before this time."""
        self.silent: Recent[tuple[Slot, Ident], tuple[int, Item]] = Recent(SILENT_ENTRIES_MAX)
        """Entries removed because their owner is silent, and until when it is owed casts."""

    def store(self, entry: Item, now_us: int) -> int:
        """Store an entry unless a newer version is known. Return 0 if it is stored (or known
        already), the known stamp if that is newer, `NO_ROOM` if the table is full.
        """
        slot, ident, in_force = entry.slot, entry.ident, entry.in_force
        if self.silent:
            self.silent.pop((slot, ident), None)
        by_ident = self._slots.get(slot)
        known = by_ident.get(ident) if by_ident is not None else None
        if known is not None and known.entry.stamp >= entry.stamp:
            if known.entry.stamp == entry.stamp and known.in_force == in_force:
                known.renew(now_us)
                return 0
            if known.entry.stamp > entry.stamp or in_force:
                return known.entry.stamp
        if known is None and not self._shares.allows(entry.owner.name):
            return NO_ROOM
        if by_ident is None:  # all entries of a slot have the same key
            if entry.key not in self._places:
                insort(self._keys, entry.key)
            by_ident = self._slots[slot] = self._places.setdefault(entry.key, {})[slot] = {}
        if known is not None:
            self._count(known, -1)
        digest = digest_of(slot, ident, entry.stamp, in_force) if self._compared else 0
        by_ident[ident] = held = HeldEntry(entry, now_us, digest, in_force)
        self._count(held, 1)
        if not in_force:
            self._due_us = min(self._due_us, now_us + TOMBSTONE_US)
        return 0

    def _count(self, held: HeldEntry[Item], change: int) -> None:
        """Update counts, digests, owners and sums: entry added (+1) or removed (-1)."""
        owner, is_more = held.entry.owner, change > 0
        self.changes += 1
        (self._shares.add if is_more else self._shares.drop)(owner.name)
        if not self._compared or not held.in_force:
            return
        self.owned[owner] = owned = self.owned.get(owner, 0) + change
        if not owned:
            del self.owned[owner]
            if len(self.addresses) > 2 * len(self.owned) + PAST_MAX:
                self.addresses = {each.address for each in self.owned}
        elif owned == change:
            self.addresses.add(owner.address)
        (self.digests.add if is_more else self.digests.discard)(held.digest)
        self.losses += not is_more
        self._sums.change(held.entry.key, held.digest, change)

    def get(self, slot: Slot, ident: Ident) -> HeldEntry[Item] | None:
        by_ident = self._slots.get(slot)
        return None if by_ident is None else by_ident.get(ident)

    def listed(self, slot: Slot) -> list[Item]:
        """Return the entries of a list that are in force."""
        return [held.entry for held in self._slots.get(slot, {}).values() if held.in_force]

    def owners_at(self, address: Address) -> list[Contact]:
        """Return the owners at an address that have entries in force here; nearly always none."""
        owners = self.owned if address in self.addresses else ()
        return [owner for owner in owners if owner.address == address]

    def of_owner(self, owner: Contact) -> list[Item]:
        """Return all entries of an owner that are in force. Fast path: entries with number 0 are
        found by the owner's name in each list; a full scan follows only if the owner has others.
        """
        named = (by_ident.get(owner.name) for by_ident in self._slots.values())
        theirs = [
            held
            for held in named
            if held is not None and held.in_force and held.entry.owner == owner
        ]
        some = theirs if len(theirs) == self.owned.get(owner) else self.all_held()
        return [held.entry for held in some if held.in_force and held.entry.owner == owner]

    def is_relevant(self, entry: Item) -> bool:
        """Whether an entry from another copy changes anything: the removal of an unknown entry does
        not.
        """
        return entry.in_force or self.get(entry.slot, entry.ident) is not None

    def all_held(self) -> Iterator[HeldEntry[Item]]:
        for by_ident in self._slots.values():
            yield from by_ident.values()

    def within(self, low: int, high: int) -> list[HeldEntry[Item]]:
        """Return the entries of the keys (low, high] in ring order; (a, a] is the whole ring."""
        keys, places = self._keys, self._places
        first, last = bisect_right(keys, low), bisect_right(keys, high)
        chosen = keys[first:last] if low < high else keys[first:] + keys[:last]
        return [
            held
            for key in chosen
            for by_ident in places[key].values()
            for held in by_ident.values()
        ]

    def summary(self, low: int, high: int) -> tuple[int, int]:
        """Return the number of entries in force and the sum of their digests. Tombstones do not
        count: nodes drop them at different times, and would exchange them forever.
        """
        return self._sums.of(low, high, self._digests_within)

    def _digests_within(self, low: int, high: int) -> list[int]:
        return [held.digest for held in self.within(low, high) if held.in_force]

    def drop(self, entries: Iterable[Item]) -> None:
        for entry in entries:
            by_ident = self._slots[entry.slot]
            self._count(by_ident.pop(entry.ident), -1)
            if not by_ident:
                del self._slots[entry.slot], self._places[entry.key][entry.slot]
                if not self._places[entry.key]:
                    del self._places[entry.key], self._keys[bisect_right(self._keys, entry.key) - 1]

    def note_silent(self, entries: Iterable[Item], now_us: int) -> None:
        """Remember removed entries of a silent owner while it is owed casts."""
        for entry in entries:
            self.silent.put((entry.slot, entry.ident), (now_us + OWED_US, entry))

    def silent_in(self, slots: Collection[Slot], now_us: int) -> list[Item]:
        """Return the remembered entries of silent owners in these lists."""
        self.silent.drop_while(lambda known: known[0] <= now_us)
        return [entry for (slot, _), (_, entry) in self.silent.items() if slot in slots]

    def expire(self, now_us: int, lease_us: int) -> None:
        """Turn entries whose lease has expired into removals, and drop old tombstones."""
        if now_us < self._due_us:
            return
        self._due_us = now_us + lease_us  # later entries expire later; `store` lowers it
        for held in list(self.all_held()):
            entry, span_us = held.entry, lease_us if held.in_force else TOMBSTONE_US
            if held.renewed_us + span_us >= now_us:
                self._due_us = min(self._due_us, held.renewed_us + span_us)
            elif held.in_force:
                self.store(entry.expired(), now_us)
                self.note_silent([entry], now_us)
            else:
                self.drop([entry])

    def extend_leases(self, pause_us: int) -> None:
        """Add a pause of this node to the lease of every entry."""
        for held in self.all_held():
            held.renew(held.renewed_us + pause_us)

    def clear(self) -> None:
        self.drop([held.entry for held in self.all_held()])
