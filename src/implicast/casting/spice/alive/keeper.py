"""What a SPICE peer keeps for others on a living surface, as items that the surface moves about.

Four kinds of items: a record at its home, the closed part of a registry, the header of a tag at its original root, and
the state of a replica root. `accept` unites what it is handed with what is there: the newest version of a record, the
union of closed parts, the newest header. In doubt *closed* is the safe side: it costs a walk, open could miss.

Whoever takes over a place counts leases anew, since it has not heard the renewals of its predecessor; so renewals need
not be told to heirs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from implicast.casting.inbox import Inbox
from implicast.casting.spice.alive.items import (
    CLOSED,
    HEADER,
    RECORD,
    Header,
    RootState,
    closed_item,
    entry_of,
    header_item,
    header_of,
    name_of,
    record_item,
    root_item,
    state_of,
    tract_of,
)
from implicast.casting.spice.alive.messages import Chime
from implicast.casting.spice.alive.registry import Held, Key, Registry, Stock
from implicast.casting.spice.alive.settings import LivingSettings
from implicast.casting.spice.homes import address_of
from implicast.overlay.ice.alive.estate import Item
from implicast.overlay.ice.alive.ice import LivingIce
from implicast.peer.contract import Address, Host, Message, handles
from implicast.peer.member import Member
from implicast.space.tract import Tract, contains, intersect, subtract, unite

SLOT_US = 100_000
"""What is put off rings in steps of this: one alarm for all of a step."""


class Packed(NamedTuple):
    """What `pack` found in the registries, and when."""

    version: int
    """Of the stock."""
    tract: Tract
    closed: list[Key]
    """Registries with a closed part, wherever that is."""
    records: tuple[Item, ...]


class Keeper(Member, parts={"surface": LivingIce}):
    """Registries by tag, root and notch; headers and states of roots; and what is put off."""

    __slots__ = ("_originals", "_packed", "_wheel", "_whole", "aims", "closing", "headers", "inbox",
                 "registries", "roots", "settings", "stock", "surface", "tokens")  # fmt: skip

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host)
        self.settings = settings
        self.surface = LivingIce(
            address, host, keeper=self, life=settings.life, dimensions=settings.dimensions, cosine=settings.cosine,
            merge=settings.merge,
        )  # fmt: skip
        self.inbox = Inbox(self)
        self.registries: dict[Key, Registry] = {}
        self.stock = Stock()
        self._packed = Packed(-1, (), [], ())
        self._whole: tuple[Packed, tuple[dict[Any, Any], ...], tuple[Item, ...]] = (self._packed, (), ())
        """What was packed last beside records: made from what, and what came of it."""
        self._originals: tuple[int, Tract, dict[str, dict[Address, Held]]] = (-1, (), {})
        self.closing: dict[Key, tuple[int, Tract]] = {}
        """Parts about to close, and until when that is waited for: heirs know of them already."""
        self.headers: dict[str, Header] = {}
        self.aims: dict[str, Header] = {}
        """Headers about to hold: heirs know of them already."""
        self.roots: dict[tuple[str, int], RootState] = {}
        self.tokens = 0
        self._wheel: dict[int, list[Callable[[], None]]] = {}

    def registry(self, key: Key) -> Registry:
        """The registry of this name, made when it is first needed."""
        found = self.registries.get(key)
        if found is None:
            found = self.registries[key] = Registry(key[1], key[2], self.settings.dimensions, self.stock)
        return found

    def token(self) -> int:
        """A name for one errand of ours; 0 is the consumer's own registration."""
        self.tokens += 1
        return self.tokens

    def holdings(self) -> Any:
        kept = [(*key, each.closed, [held.entry for held in each.records.values()]) for key, each in self._registries()]
        return self.surface.holdings(), kept, list(self.headers.items()), list(self.roots.items())

    def originals(self) -> dict[str, dict[Address, Held]]:
        """By tag, what is kept at the tag's own address, where that is ours and firm."""
        version, ground = self.stock.version, self.surface.ground
        if self._originals[:2] != (version, ground):
            found = {
                tag: registry.records
                for (tag, root, notch), registry in self.registries.items()
                if not notch and contains(ground, root) and root == address_of(tag)
            }
            self._originals = (version, ground, found)
        return self._originals[2]

    # --- what is put off

    def later(self, delay_us: int, what: Callable[[], None]) -> None:
        """Do this after a while, a little late rather than early."""
        now_us = self.host.now_us
        slot = (now_us + delay_us) // SLOT_US + 1
        put_off = self._wheel.get(slot)
        if put_off is None:
            self._wheel[slot] = [what]
            self.host.after(slot * SLOT_US - now_us, Chime(slot))
        else:
            put_off.append(what)

    @handles(Chime)
    def on_chime(self, alarm: Chime) -> None:
        for what in self._wheel.pop(alarm.slot, ()):
            what()

    # --- as keeper of a surface

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """Closed parts always whole, for what is said later of a key replaces what was said before; who accepts them
        cuts them to its ground."""
        packed = self._packed
        if packed.version != self.stock.version or packed.tract != tract:
            packed = self._packed = self._pack_registries(tract)
        if not (packed.closed or self.closing or self.headers or self.aims or self.roots):
            return packed.records
        rest = (self.closing, self.headers, self.aims, self.roots)
        if self._whole[0] is not packed or self._whole[1] != rest:
            # The very same tuple while nothing changes: whoever looks from outside knows it by that.
            copies = (dict(self.closing), dict(self.headers), dict(self.aims), dict(self.roots))
            self._whole = (packed, copies, self._pack_all(packed, tract))
        return self._whole[2]

    def _pack_all(self, packed: "Packed", tract: Tract) -> tuple[Item, ...]:
        items: list[Item] = []
        if packed.closed or self.closing:
            soon = ((key, self.closed_soon(key)) for key in dict.fromkeys([*packed.closed, *self.closing]))
            items += [closed_item(key, part) for key, part in soon if intersect(part, tract)]
        items += packed.records
        if self.headers or self.aims:
            headers = {**self.headers, **self.aims}.items()
            items += [header_item(tag, header) for tag, header in headers if contains(tract, address_of(tag))]
        if self.roots:
            held = self.roots.items()
            items += [root_item(tag, root, state) for (tag, root), state in held if contains(tract, root)]
        return tuple(items)

    def _pack_registries(self, tract: Tract) -> "Packed":
        records: list[Item] = []
        for key, registry in self.registries.items():
            records += _records_within(key, registry, tract)
        closed = [key for key, registry in self.registries.items() if registry.closed]
        return Packed(self.stock.version, tract, closed, tuple(records))

    def closed_soon(self, key: Key) -> Tract:
        """The closed part of a registry, and what is about to be: an heir that is copied to meanwhile must know it."""
        registry, (_, closing) = self.registries.get(key), self.closing.get(key, (0, ()))
        return unite(registry.closed if registry is not None else (), closing)

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None:
        for item in items:
            if item.body and intersect(tract, (item.low, item.high)):
                self._unite(item, tract, True)

    def _unite(self, item: Item, tract: Tract, safe: bool) -> None:
        kind, tag, root, notch, _ = name_of(item.key)
        if kind == RECORD:
            entry = entry_of(item.body)
            self.registry((tag, root, notch)).keep(entry, self.host.now_us, self.settings.lease_us, safe)
        elif kind == CLOSED:
            registry = self.registry((tag, root, notch))
            registry.shut(unite(registry.closed, intersect(tract_of(item.body), tract)))
        elif kind == HEADER:
            self.headers[tag] = max(self.headers.get(tag, Header()), header_of(item.body))
        else:
            self.learn_root(tag, root, state_of(item.body))

    def learn_root(self, tag: str, root: int, state: RootState) -> None:
        self.roots[tag, root] = max(self.roots.get((tag, root), state), state)

    def drop(self, tract: Tract) -> None:
        for key, registry in self._registries():
            for held in registry.within(tract):
                registry.remove(held)
            registry.shut(subtract(registry.closed, tract))
            registry.gathering = subtract(registry.gathering, tract)
            if registry.idle:
                del self.registries[key]
        for headers in (self.headers, self.aims):
            for tag in [each for each in headers if contains(tract, address_of(each))]:
                del headers[tag]
        self.closing = {key: (until_us, subtract(each, tract)) for key, (until_us, each) in self.closing.items()}
        self.roots = {key: each for key, each in self.roots.items() if not contains(tract, key[1])}

    def _registries(self) -> list[tuple[Key, Registry]]:
        return list(self.registries.items())

    def yielded(self, tract: Tract) -> None:
        """What lay there is offered to the winner (`offering.py`)."""

    def lost(self, tract: Tract) -> None:
        """Ground whose registries nobody has (`offering.py`)."""

    def settled(self) -> None:
        """What lies in closed parts of new ground goes up, and so on (further down the line of classes)."""

    def arrived(self, sender: Address, part: Tract, message: Message) -> None:
        """A routed message has come to ground that answers."""
        arrival = _arrivals(type(self))[type(message)]
        arrival(self, part, message)


def _records_within(key: Key, registry: Registry, tract: Tract) -> list[Item]:
    """At notch 0 all records are at home at the root itself: one look for all, a third of the cost of packing."""
    records = registry.records.values()
    if key[2]:
        return [held.item or record_item(key, held) for held in records if contains(tract, held.home)]
    if not contains(tract, key[1]):
        return []
    if registry.packed is None:
        registry.packed = [held.item or record_item(key, held) for held in records]
    return registry.packed


def arrives(kind: type) -> Callable[[Any], Any]:
    """Mark a method as the one place where this routed kind is dealt with on ground that answers."""

    def mark(method: Any) -> Any:
        method.arrives = kind
        return method

    return mark


_ARRIVALS: dict[type, dict[type, Callable[..., None]]] = {}


def _arrivals(owner: type) -> dict[type, Callable[..., None]]:
    found = _ARRIVALS.get(owner)
    if found is None:
        methods = [(name, method) for base in reversed(owner.__mro__) for name, method in vars(base).items()]
        found = _ARRIVALS[owner] = {
            method.arrives: getattr(owner, name) for name, method in methods if hasattr(method, "arrives")
        }
    return found
