"""Registries that a SPICE peer stores, by tag, root and notch, and their form as items of the
surface.

`unite` merges received items with stored ones: the newest version of a record, the union of closed
parts. If uncertain, a part counts as closed: that costs a traversal step, while an open part could
miss records. A peer that takes over an extent starts all leases anew, because it has not seen the
renewals. Renewals therefore need no backup.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from implicast.casting.spice import items
from implicast.casting.spice.homes import home, spot_of
from implicast.casting.spice.items import (
    CLOSED,
    DOUBTFUL,
    KINDS,
    RECORD,
    UNRECOVERED,
    Entry,
    Key,
    closed_item,
    entry_of,
    is_proved,
    label_of,
)
from implicast.casting.spice.levels import Levels
from implicast.casting.spice.registry import Record, Registry, VersionCounter
from implicast.casting.spice.settings import SpiceSettings
from implicast.overlay.ice.item_store import Item
from implicast.peer.contract import Host, Name
from implicast.peer.lease import OWED_US
from implicast.peer.signing import UNSIGNED, Signing
from implicast.peer.wire import UNREADABLE
from implicast.space.tract import EMPTY, Tract, container, intersect, subtract, unite

FORGOTTEN_MAX = 1_024
"""Maximum number of removals reported to the backups in one batch. Further removals are not
reported, which costs the backups only memory.
"""


class RegistryState(NamedTuple):
    """One peer's part of a registry."""

    key: Key
    is_closed: bool
    """Whether it is closed there, and its records were passed up."""
    size: int
    """Number of records stored here or passed up."""
    records: Any
    """The records stored here: a sequence of entries, or a slice of a shared column."""


class Registries:
    """Everything that one peer stores for others: registries, the parts of them that are about to
    close, and the state of replication (`levels.py`).
    """

    __slots__ = (
        "_forgotten_max",
        "_host",
        "_packed",
        "_settings",
        "_signing",
        "by_key",
        "closing",
        "counter",
        "doubtful",
        "doubtful_until_us",
        "forgotten",
        "levels",
        "local_roots",
        "unrecovered",
    )

    def __init__(self, host: Host, settings: SpiceSettings, signing: Signing = UNSIGNED) -> None:
        self._host, self._settings, self._signing = host, settings, signing
        self._forgotten_max = FORGOTTEN_MAX if settings.assured else 0
        """0 without receipts: there are no backups."""
        self.counter = VersionCounter()
        self.levels = Levels(settings, self.counter)
        self._packed: tuple[int, Tract, tuple[Item, ...]] = (-1, EMPTY, ())
        self.by_key: dict[Key, Registry] = {}
        self.local_roots: dict[str, tuple[int, ...]] = {}
        """Roots by tag of the registries at notch 0 stored here. A cast may stop at them."""
        self.closing: dict[Key, tuple[int, Tract]] = {}
        """Parts about to close, each with a deadline. The backups have been told of them."""
        self.forgotten: dict[tuple[Key, Name], Item] = {}
        """Removals to report to the backups with the next batch."""
        self.unrecovered: Tract = EMPTY
        """Tract whose registries are lost. Until every consumer has been asked to register again, a
        missing record proves nothing, so traversals wait.
        """
        self.doubtful: Tract = EMPTY
        """Tract that was recovered while members were silent: registrations of members that could
        not be asked may be missing there until `doubtful_until_us`.
        """
        self.doubtful_until_us = 0

    def registry(self, key: Key) -> Registry:
        """The registry of this key; created if it does not exist."""
        found = self.by_key.get(key)
        if found is None:
            found = self.by_key[key] = Registry(
                key[1], key[2], self._settings.dimensions, self.counter
            )
            if not key[2]:
                self.local_roots[key[0]] = (*self.local_roots.get(key[0], ()), key[1])
        return found

    def keep(self, key: Key, entry: Entry, safe: bool = False) -> Record:
        """Store an entry. `safe`: the backups have it, or there are none."""
        now_us, safe = self._host.now_us, safe or not self._forgotten_max
        return self.registry(key).keep(entry, now_us, now_us + self._settings.lease_us, safe)

    def restore(self, states: Iterable[RegistryState], tract: Tract) -> None:
        """Store registries whose records the backups have. `tract`: the own tract."""
        now_us = self._host.now_us
        for key, is_closed, size, records in states:
            registry, (_, root, notch) = self.registry(key), key
            if is_closed:
                self.close(key, intersect(container(root, notch, self._settings.dimensions), tract))
                if self._settings.rarest and not notch:
                    registry.add_passed_up(size)
            elif isinstance(records, Sequence):
                registry.restore(records, now_us, now_us + self._settings.lease_us)
            else:
                registry.use_slice(records)

    def all(self) -> list[tuple[Key, Registry]]:
        return list(self.by_key.items())

    def record_of(self, key: Key, consumer: Name) -> Record | None:
        registry = self.by_key.get(key)
        return registry.records.get(consumer) if registry is not None else None

    def forget(self, key: Key, record: Record) -> None:
        """Remove a record that has moved or expired."""
        name = record.entry.member.name
        if self.record_of(key, name) is not record:
            return
        self.by_key[key].remove(record)
        self.remove_if_empty(key)
        if len(self.forgotten) < self._forgotten_max:
            self.forgotten[key, name] = items.record_item(key, record.entry, record.home, gone=True)

    def take_forgotten(self) -> list[Item]:
        """Removals to report to the backups, except of records that have come back. Each is
        returned once.
        """
        forgotten, self.forgotten = self.forgotten, {}
        return [
            item
            for (key, consumer), item in forgotten.items()
            if self.record_of(key, consumer) is None
        ]

    def remove_if_empty(self, key: Key) -> None:
        if key in self.by_key and self.by_key[key].idle:
            del self.by_key[key]
            if not key[2]:
                rest = tuple(each for each in self.local_roots[key[0]] if each != key[1])
                self.local_roots.update({key[0]: rest}) if rest else self.local_roots.pop(key[0])

    # --- parts about to close

    def is_closing(self, key: Key) -> bool:
        return key in self.closing and self.closing[key][0] > self._host.now_us

    def close_soon(self, tracts: dict[Key, Tract], until_us: int) -> tuple[Item, ...]:
        """Mark parts as about to close. Returns the items that tell the backups."""
        now_us = self._host.now_us
        self.closing = {each: soon for each, soon in self.closing.items() if soon[0] > now_us}
        self.closing.update({each: (until_us, tract) for each, tract in tracts.items()})
        self.counter.bump()
        return tuple(closed_item(each, self.closed_soon(each)) for each in tracts)

    def closed_soon(self, key: Key) -> Tract:
        """The closed part and the part about to close. A new backup must be told of both."""
        registry, (_, closing) = self.by_key.get(key), self.closing.get(key, (0, ()))
        return unite(registry.closed if registry is not None else (), closing)

    def close(self, key: Key, tract: Tract) -> None:
        """Close a part; the backups know of it."""
        if self.closing.pop(key, None) is not None:
            self.counter.bump()
        if tract:
            registry = self.registry(key)
            registry.set_closed(unite(registry.closed, tract))

    # --- tracts with lost registries

    def set_unrecovered(self, tract: Tract, is_lost: bool) -> Item:
        """Mark a tract as lost or as recovered. Returns the item that tells the backups."""
        self.unrecovered = (unite if is_lost else subtract)(self.unrecovered, tract)
        self.counter.bump()
        return items.unrecovered_item(unite(tract, self.unrecovered), self.unrecovered)

    def mark_uncertain(self, tract: Tract, until_us: int) -> Item:
        """Mark a tract as doubtful. Returns the item that tells the backups."""
        self._expire_uncertainty()
        self.doubtful = unite(self.doubtful, tract)
        self.doubtful_until_us = max(self.doubtful_until_us, until_us)
        self.counter.bump()
        return items.doubtful_item(self.doubtful, self.doubtful_until_us)

    def is_doubtful(self, part: Tract) -> bool:
        """Whether registrations may be missing in a part."""
        self._expire_uncertainty()
        return bool(self.doubtful) and bool(intersect(self.doubtful, part))

    def _expire_uncertainty(self) -> None:
        if self.doubtful and self._host.now_us > self.doubtful_until_us:
            self.doubtful = EMPTY
            self.counter.bump()

    # --- as items

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """Items that lie in the tract. The same tuple object is returned until something changes,
        so that callers can compare by identity.
        """
        version = self.counter.version
        if self._packed[0] != version or self._packed[1] != tract:
            self._packed = version, tract, (*self._pack(tract), *self.levels.pack(tract))
        return self._packed[2]

    def _pack(self, tract: Tract) -> list[Item]:
        """Closed parts are packed whole, since a later item of a key replaces the earlier one; the
        receiver cuts them to its own tract.
        """
        closed = [key for key, registry in self.by_key.items() if registry.closed]
        soon = ((key, self.closed_soon(key)) for key in dict.fromkeys([*closed, *self.closing]))
        found = [closed_item(key, part) for key, part in soon if intersect(part, tract)]
        for key, registry in self.by_key.items():
            found += registry.packed(key, tract)
        if self.unrecovered and intersect(self.unrecovered, tract):
            found.append(items.unrecovered_item(self.unrecovered, self.unrecovered))
        if self.is_doubtful(tract):
            found.append(items.doubtful_item(self.doubtful, self.doubtful_until_us))
        return found

    def can_decode(self, item: Item) -> bool:
        """Whether an item is well formed: a known kind, a registry that can exist, and a record
        under its own consumer's name at that consumer's home.
        """
        try:
            kind, tag, root, notch, consumer = label_of(item.key)
            entry = entry_of(item.body) if kind == RECORD and item.body else None
        except UNREADABLE:
            return False
        if kind in (UNRECOVERED, DOUBTFUL):
            return consumer is None
        if (
            kind not in KINDS
            or (kind == RECORD) == (consumer is None)
            or not self._settings.is_place(tag, root, notch)
        ):
            return False
        if consumer is None:
            return True
        spot = entry.spot if entry is not None else spot_of(consumer, tag)
        whose = entry.member.name if entry is not None else consumer
        return whose == consumer and item.low == home(root, notch, spot, self._settings.dimensions)

    def unite(self, item: Item, tract: Tract, safe: bool) -> Tract:
        """Merge an item. Returns the part of the tract whose registries are lost, as it says.
        Raises one of `UNREADABLE` if it cannot be decoded, or its registry cannot exist.
        """
        label = kind, tag, root, notch, _ = label_of(item.key)
        if kind == UNRECOVERED:
            return intersect(items.tract_of(item.body), tract)
        if kind == DOUBTFUL:
            doubtful, until_us = items.uncertainty_of(item.body)
            if common := intersect(doubtful, tract):
                self.mark_uncertain(common, min(until_us, self._host.now_us + OWED_US))
        elif not self._settings.is_place(tag, root, notch):
            raise ValueError(f"no registry of {tag!r} can exist at notch {notch} of {root}")
        elif kind == RECORD:
            entry = entry_of(item.body)
            if is_proved(self._signing, tag, entry):
                self.keep((tag, root, notch), entry, safe)
        elif kind == CLOSED:
            registry = self.registry((tag, root, notch))
            registry.set_closed(unite(registry.closed, intersect(items.tract_of(item.body), tract)))
        else:
            self.levels.unite(label, item)
        return EMPTY

    def drop(self, tract: Tract) -> None:
        for key, registry in self.all():
            for record in registry.records_in(tract):
                registry.remove(record)
            registry.set_closed(subtract(registry.closed, tract))
            registry.set_gathering(subtract(registry.gathering, tract))
            self.remove_if_empty(key)
        self.closing = {
            key: (until_us, subtract(each, tract)) for key, (until_us, each) in self.closing.items()
        }
        self.unrecovered = subtract(self.unrecovered, tract)
        self.doubtful = subtract(self.doubtful, tract)
        self.counter.bump()
        self.levels.drop(tract)

    # --- inspection

    def holdings(self) -> Any:
        stored = [
            (*key, each.closed, [record.entry for record in each.records.values()])
            for key, each in self.all()
        ]
        return stored, *self.levels.holdings()
