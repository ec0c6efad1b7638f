"""What a SPICE peer keeps for others: registries by tag, root and notch, as items that the surface moves about.

`accept` unites what it is handed with what is there: the newest version of a record, the union of closed parts. In
doubt *closed* is the safe side: it costs a walk, open could miss. Whoever takes over a place counts leases anew, since
it has not heard the renewals of its predecessor; so renewals need not be told to heirs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from implicast.casting.spice import items
from implicast.casting.spice.items import CLOSED, RECORD, Key, Label, closed_item, is_proved
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.registry import NEVER_US, Held, Registry, Stock
from implicast.casting.spice.settings import Settings
from implicast.overlay.ice.estate import Item
from implicast.peer.contract import Host, Name
from implicast.peer.late import unmade
from implicast.peer.words import BELIEVED, Words
from implicast.space.tract import EMPTY, Tract, intersect, subtract, unite

FORGOTTEN_MAX = 1_024
"""Records that heirs should be told to forget; beyond it they are not told, which only costs them memory."""


class Shelf:
    """Registries, and the parts of them that are about to close."""

    __slots__ = (
        "_fill",
        "_host",
        "_settings",
        "_words",
        "closing",
        "copies",
        "forgotten",
        "lacking",
        "registries",
        "stock",
    )

    def __init__(
        self, host: Host, settings: Settings, stock: Stock, words: Words = BELIEVED
    ) -> None:
        self._host, self._settings, self.stock, self._words = host, settings, stock, words
        self.registries: dict[Key, Registry] = {}
        self.copies: dict[str, tuple[int, ...]] = {}
        """By tag, the roots of registries that begin here: where a cast may find one."""
        self.closing: dict[Key, tuple[int, Tract]] = {}
        """Parts about to close, and until when that is waited for: heirs know of them already."""
        self.forgotten: dict[tuple[Key, Name], Item] = {}
        """What heirs may forget with the next batch."""
        self.lacking: Tract = EMPTY
        """Ground whose registries are lost. Its records come again, but until all have been asked for them what is not
        there may well be registered: walks wait."""

    def fill_later(self, fill: Callable[["Shelf"], None]) -> None:
        """Let the laboratory put in what is here from the start when it is first looked for."""
        self._fill, self.__class__ = fill, unmade(Shelf, ("registries", "copies"), Shelf.fill)
        del self.registries, self.copies

    def fill(self) -> None:
        self.registries, self.copies, self.__class__ = {}, {}, Shelf
        self._fill(self)

    def registry(self, key: Key) -> Registry:
        """The registry of this name, made when it is first needed."""
        found = self.registries.get(key)
        if found is None:
            found = self.registries[key] = Registry(
                key[1], key[2], self._settings.dimensions, self.stock
            )
            if not key[2]:
                self.copies[key[0]] = (*self.copies.get(key[0], ()), key[1])
        return found

    def keep(self, key: Key, entry: Entry, safe: bool = False) -> Held:
        """Keep an entry. `safe`: heirs have it, if it is new here; without receipts there are no heirs, no leases."""
        now_us, settings = self._host.now_us, self._settings
        until_us = now_us + settings.lease_us if settings.assured else NEVER_US
        return self.registry(key).keep(entry, now_us, until_us, safe or not settings.assured)

    def stand(self, key: Key, entries: Sequence[Entry]) -> None:
        """Have these from the start; the heirs have them too."""
        now_us, settings = self._host.now_us, self._settings
        self.registry(key).stand(
            entries, now_us, now_us + settings.lease_us if settings.assured else NEVER_US
        )

    def all(self) -> list[tuple[Key, Registry]]:
        return list(self.registries.items())

    def held(self, key: Key, consumer: Name) -> Held | None:
        registry = self.registries.get(key)
        return registry.records.get(consumer) if registry is not None else None

    def forget(self, key: Key, held: Held) -> None:
        """A record has moved on or run out."""
        name = held.entry.member.name
        if self.held(key, name) is not held:
            return
        self.registries[key].remove(held)
        self.tidy(key)
        if self._settings.assured and len(self.forgotten) < FORGOTTEN_MAX:
            self.forgotten[key, name] = items.record_item(key, held.entry, held.home, gone=True)

    def take_forgotten(self) -> list[Item]:
        """What heirs are to be told to forget, once; unless it has come again."""
        forgotten, self.forgotten = self.forgotten, {}
        return [
            item for (key, consumer), item in forgotten.items() if self.held(key, consumer) is None
        ]

    def tidy(self, key: Key) -> None:
        """Forget a registry in which there is nothing."""
        if key in self.registries and self.registries[key].idle:
            del self.registries[key]
            if not key[2]:
                rest = tuple(each for each in self.copies[key[0]] if each != key[1])
                self.copies.update({key[0]: rest}) if rest else self.copies.pop(key[0])

    # --- parts about to close

    def is_closing(self, key: Key) -> bool:
        return key in self.closing and self.closing[key][0] > self._host.now_us

    def close_soon(self, tracts: dict[Key, Tract], until_us: int) -> tuple[Item, ...]:
        """These parts are about to close; what heirs are told of it."""
        now_us = self._host.now_us
        self.closing = {each: soon for each, soon in self.closing.items() if soon[0] > now_us}
        self.closing.update({each: (until_us, tract) for each, tract in tracts.items()})
        self.stock.changed()
        return tuple(closed_item(each, self.closed_soon(each)) for each in tracts)

    def closed_soon(self, key: Key) -> Tract:
        """The closed part of a registry, and what is about to be: an heir that is copied to meanwhile must know it."""
        registry, (_, closing) = self.registries.get(key), self.closing.get(key, (0, ()))
        return unite(registry.closed if registry is not None else (), closing)

    def close(self, key: Key, tract: Tract) -> None:
        """Heirs know that this part is closed."""
        if self.closing.pop(key, None) is not None:
            self.stock.changed()
        if tract:
            registry = self.registry(key)
            registry.shut(unite(registry.closed, tract))

    # --- ground without its registries

    def lack(self, ground: Tract, is_lost: bool) -> Item:
        """What was kept on this ground is lost, or who was registered there is again; what heirs are told of it."""
        self.lacking = (unite if is_lost else subtract)(self.lacking, ground)
        self.stock.changed()
        return items.lacking_item(unite(ground, self.lacking), self.lacking)

    # --- as items

    def pack(self, tract: Tract) -> list[Item]:
        """Closed parts always whole, for what is said later of a key replaces what was said before; who accepts them
        cuts them to its ground."""
        closed = [key for key, registry in self.registries.items() if registry.closed]
        soon = ((key, self.closed_soon(key)) for key in dict.fromkeys([*closed, *self.closing]))
        found = [closed_item(key, part) for key, part in soon if intersect(part, tract)]
        for key, registry in self.registries.items():
            found += registry.packed(key, tract)
        if self.lacking and intersect(self.lacking, tract):
            found.append(items.lacking_item(self.lacking, self.lacking))
        return found

    def unite(self, label: Label, item: Item, tract: Tract, safe: bool) -> bool:
        """Take in a record or a closed part; False if it is something else."""
        kind, tag, root, notch, _ = label
        if kind == RECORD:
            entry = items.entry_of(item.body)
            if is_proved(self._words, tag, entry):
                self.keep((tag, root, notch), entry, safe)
        elif kind == CLOSED:
            registry = self.registry((tag, root, notch))
            registry.shut(unite(registry.closed, intersect(items.tract_of(item.body), tract)))
        return kind in (RECORD, CLOSED)

    def drop(self, tract: Tract) -> None:
        for key, registry in self.all():
            for held in registry.within(tract):
                registry.remove(held)
            registry.shut(subtract(registry.closed, tract))
            registry.gather(subtract(registry.gathering, tract))
            self.tidy(key)
        self.closing = {
            key: (until_us, subtract(each, tract)) for key, (until_us, each) in self.closing.items()
        }
        self.lacking = subtract(self.lacking, tract)
        self.stock.changed()

    # --- seen from outside

    def holdings(self) -> Any:
        return [
            (*key, each.closed, [held.entry for held in each.records.values()])
            for key, each in self.all()
        ]
