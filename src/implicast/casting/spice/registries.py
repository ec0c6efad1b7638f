"""Registries that a SPICE peer stores, by tag, root and notch, and their form as items of the
surface.

`unite` merges received items with stored ones: the newest version of a record, the union of closed
parts. If in uncertainty, a part counts as closed: that costs a traversal step, while an open part could
miss records. A peer that takes over an extent starts all leases anew, because it has not seen the
renewals. Renewals therefore need no backup.
"""

from collections.abc import Callable, Sequence
from typing import Any

from implicast.casting.spice import items
from implicast.casting.spice.items import (
    CLOSED,
    DOUBTFUL,
    RECORD,
    Key,
    Label,
    closed_item,
    is_proved,
)
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.registry import NEVER_US, Record, Registry, VersionCounter
from implicast.casting.spice.settings import SpiceSettings
from implicast.overlay.ice.item_store import Item
from implicast.peer.contract import Host, Name
from implicast.peer.lazy_attributes import unmade
from implicast.peer.lease import OWED_US
from implicast.peer.signing import UNSIGNED, Signing
from implicast.space.tract import EMPTY, Tract, intersect, subtract, unite

FORGOTTEN_MAX = 1_024
"""Maximum number of removals reported to the backups in one batch. Further removals are not
reported, which costs the backups only memory.
"""


class Registries:
    """Registries of one peer, and the parts of them that are about to close."""

    __slots__ = (
        "_fill",
        "_host",
        "_settings",
        "_signing",
        "by_key",
        "closing",
        "counter",
        "doubtful",
        "doubtful_until_us",
        "forgotten",
        "local_roots",
        "unrecovered",
    )

    def __init__(
        self,
        host: Host,
        settings: SpiceSettings,
        counter: VersionCounter,
        signing: Signing = UNSIGNED,
    ) -> None:
        self._host, self._settings, self.counter, self._signing = host, settings, counter, signing
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

    def fill_on_demand(self, fill: Callable[["Registries"], None]) -> None:
        """Call `fill` on first access. Used by simulations to build peers lazily."""
        self._fill, self.__class__ = (
            fill,
            unmade(Registries, ("by_key", "local_roots"), Registries.fill),
        )
        del self.by_key, self.local_roots

    def fill(self) -> None:
        self.by_key, self.local_roots, self.__class__ = {}, {}, Registries
        self._fill(self)

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
        """Store an entry. `safe`: the backups have it. Without receipts there are no backups and no
        leases.
        """
        now_us, settings = self._host.now_us, self._settings
        until_us = now_us + settings.lease_us if settings.assured else NEVER_US
        return self.registry(key).keep(entry, now_us, until_us, safe or not settings.assured)

    def restore(self, key: Key, entries: Sequence[Entry]) -> None:
        """Store entries that the backups have."""
        now_us, settings = self._host.now_us, self._settings
        self.registry(key).restore(
            entries, now_us, now_us + settings.lease_us if settings.assured else NEVER_US
        )

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
        if self._settings.assured and len(self.forgotten) < FORGOTTEN_MAX:
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

    def pack(self, tract: Tract) -> list[Item]:
        """Items that lie in the tract. Closed parts are packed whole, since a later item of a key
        replaces the earlier one; the receiver cuts them to its own tract.
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

    def unite(self, label: Label, item: Item, tract: Tract, safe: bool) -> bool:
        """Merge a record, a closed part or a doubtful tract. Returns False for other kinds of
        items.
        """
        kind, tag, root, notch, _ = label
        if kind == RECORD:
            entry = items.entry_of(item.body)
            if is_proved(self._signing, tag, entry):
                self.keep((tag, root, notch), entry, safe)
        elif kind == CLOSED:
            registry = self.registry((tag, root, notch))
            registry.set_closed(unite(registry.closed, intersect(items.tract_of(item.body), tract)))
        elif kind == DOUBTFUL:
            doubtful, until_us = items.uncertainty_of(item.body)
            if common := intersect(doubtful, tract):
                self.mark_uncertain(common, min(until_us, self._host.now_us + OWED_US))
        return kind in (RECORD, CLOSED, DOUBTFUL)

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

    # --- inspection

    def holdings(self) -> Any:
        return [
            (*key, each.closed, [record.entry for record in each.records.values()])
            for key, each in self.all()
        ]
