"""Entries on their way to their homes: kept where a registry is open, passed up where it is closed.

An entry is confirmed when it counts: when every heir has a copy, and the place is still ours. Confirmations come down
the way the entries went up, so that it is the peers that a cast will pass that confirm: straight from the top they
could confirm an entry above a registry that has been opened in the meantime.

Inside one peer an entry climbs at once through all notches whose homes are ours.
"""

from collections.abc import Sequence

from implicast.casting.spice.alive.items import no_record_item, record_item
from implicast.casting.spice.alive.keeper import Keeper, arrives
from implicast.casting.spice.alive.messages import Entry, Flush, StoreAt, StoredAt
from implicast.casting.spice.alive.registry import Held, Key, Registry
from implicast.casting.spice.alive.settings import COLLECT_US, LivingSettings
from implicast.casting.spice.homes import home
from implicast.overlay.ice.estate import Item, Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import EMPTY, Tract, contains, union

PASSING_MAX = 4_096
"""Stores that went up from here and are to be confirmed down; the oldest is dropped, and its consumer asks again."""
TOGETHER_MAX = 64
"""Entries in one message."""
DOORS_MAX = 8_192
"""Holders above that are remembered, to go straight to them when a record is renewed; the oldest is forgotten."""
FRESH_MAX = 8_192
"""Entries that wait for the next batch; further ones are not confirmed, and asked for again."""
FORGOTTEN_MAX = 1_024
"""Records that heirs should be told to forget; beyond it they are not told, which only costs them memory."""

Answer = tuple[Address, int, int]
"""Whom to confirm to, the token of its errand, and the notch it asked for."""


class Passing:
    """Entries that went up from here on behalf of somebody."""

    __slots__ = ("answer", "entries", "notch", "root", "tag")

    def __init__(self, tag: str, root: int, notch: int, answer: Answer, entries: Sequence[Entry]) -> None:
        self.tag, self.root, self.notch, self.answer = tag, root, notch, answer
        self.entries = {each.consumer: each for each in entries}


class Storing(Keeper):
    """A peer's part in storing the records of others."""

    __slots__ = ("_above", "_fresh", "forgotten", "passing")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self.passing: dict[int, Passing] = {}
        self._above: dict[tuple[Key, Address], Address] = {}
        """Who confirmed a record that we passed up, by where it went and whose it is."""
        self._fresh: list[tuple[Key, Address, int, Answer]] = []
        """Kept and not yet backed up: registry, consumer, version, and who waits for it."""
        self.forgotten: dict[tuple[Key, Address], Item] = {}

    # --- arriving

    @handles(StoreAt)
    def on_store(self, sender: Address, store: StoreAt) -> None:
        if store.way.number:
            self.surface.carry(sender, store)
        elif not store.notch and self.surface.answers(store.root):
            self.take_store(store, store.entries)  # straight from a consumer that knows us as the owner of the place
        else:
            self.surface.send(store)

    @arrives(StoreAt)
    def _store_arrived(self, part: Tract, store: StoreAt) -> None:
        root, notch, dimensions = store.root, store.notch, self.settings.dimensions
        here = [each for each in store.entries if contains(part, home(root, notch, each.spot, dimensions))]
        self.take_store(store, here)

    def take_store(self, store: StoreAt, entries: Sequence[Entry]) -> None:
        """Entries whose homes at the asked notch are ours."""
        if not store.notch and len(entries) == 1 and self._renew(store, entries[0]):
            return
        self.take(store.tag, store.root, store.notch, entries, (store.reply, store.token, store.notch))

    def _renew(self, store: StoreAt, entry: Entry) -> bool:
        """What is kept at an open root, and by heirs, is confirmed at once: two stores of three, at half the cost."""
        key = (store.tag, store.root, 0)
        registry = self.registries.get(key)
        held = registry.records.get(entry.consumer) if registry is not None else None
        if registry is None or held is None or registry.closed or not held.safe or held.entry.version < entry.version:
            return False
        if not self.surface.answers(store.root):
            return False
        registry.keep(entry, self.host.now_us, self.settings.lease_us)
        self.kept(key, registry, held)
        self.confirm((store.reply, store.token, 0), key, ((entry.consumer, held.entry.version, 0),))
        return True

    def take(self, tag: str, root: int, notch: int, entries: Sequence[Entry], answer: Answer) -> None:
        """Keep entries here, or pass them up, from this notch on."""
        if len(entries) == 1:
            self._take_one(tag, root, notch, entries[0], answer)
            return
        rising: dict[int, list[Entry]] = {}
        safe: dict[int, list[tuple[Address, int, int]]] = {}
        for entry in entries:
            top, here = self.climb(tag, root, notch, entry.spot)
            if not here:
                rising.setdefault(top, []).append(entry)
            elif (held := self._keep((tag, root, top), entry, answer)).safe:
                safe.setdefault(top, []).append((entry.consumer, held.entry.version, top))
        for top, kept in safe.items():
            self.confirm(answer, (tag, root, top), kept)
        for top, going in rising.items():
            for start in range(0, len(going), TOGETHER_MAX):
                self._pass_up(Passing(tag, root, top, answer, going[start : start + TOGETHER_MAX]))

    def _take_one(self, tag: str, root: int, notch: int, entry: Entry, answer: Answer) -> None:
        """`take` of a single entry, as most are: two thirds of the cost."""
        top, here = self.climb(tag, root, notch, entry.spot)
        if not here:
            self._pass_up(Passing(tag, root, top, answer, (entry,)))
            return
        held = self._keep((tag, root, top), entry, answer)
        if held.safe:
            self.confirm(answer, (tag, root, top), ((entry.consumer, held.entry.version, top),))

    def climb(self, tag: str, root: int, notch: int, spot: int) -> tuple[int, bool]:
        """Where an entry belongs, from a notch on: kept here at that notch, or passed to it because it is not ours."""
        dimensions, registries = self.settings.dimensions, self.registries
        ground = self.surface.ground if not self.surface.is_doubtful else EMPTY
        while True:
            at = home(root, notch, spot, dimensions)
            if not contains(ground, at):
                return notch, False
            registry = registries.get((tag, root, notch))
            if registry is None or not registry.closed:
                return notch, True
            if not contains(registry.closed, at) or (registry.gathering and contains(registry.gathering, at)):
                return notch, True
            notch = self.settings.above(notch)

    def _pass_up(self, passing: Passing) -> None:
        token = self.token()
        self.passing[token] = passing
        if len(self.passing) > PASSING_MAX:
            del self.passing[next(iter(self.passing))]
        key, entries = (passing.tag, passing.root, passing.notch), tuple(passing.entries.values())
        door = self._above.pop((key, entries[0].consumer), None) if len(entries) == 1 else None
        # Taken out until it confirms again: if it is silent, the next one goes by way of the surface.
        self.send_store(*key, entries, token, door)

    def send_store(
        self, tag: str, root: int, notch: int, entries: tuple[Entry, ...], token: int, door: Address | None = None
    ) -> None:
        """On our own behalf, to the entries' homes at a notch; straight to a door that we know, if any."""
        homes = (home(root, notch, each.spot, self.settings.dimensions) for each in entries)
        way = Way(union((each, each + 1) for each in homes))
        store = StoreAt(way, tag, root, notch, entries, self.address, token)
        if door is None:
            self.surface.send(store)
        else:
            self.host.send(door, store)

    # --- keeping

    def _keep(self, key: Key, entry: Entry, answer: Answer) -> Held:
        """Keep an entry; if heirs do not have it yet, it is confirmed when they have."""
        registry = self.registry(key)
        held = registry.keep(entry, self.host.now_us, self.settings.lease_us)
        self.kept(key, registry, held)
        if not held.safe:
            if not self._fresh:
                self.host.after(COLLECT_US, Flush())
            if len(self._fresh) < FRESH_MAX:
                self._fresh.append((key, entry.consumer, held.entry.version, answer))
        return held

    def kept(self, key: Key, registry: Registry, held: Held) -> None:
        """A record has come: is the registry too full, is a walk above to be shown it? (further down the line)"""

    @handles(Flush)
    def on_flush(self, alarm: Flush) -> None:
        fresh, self._fresh = self._fresh, []
        items: dict[tuple[Key, Address], Item] = {}
        for key, consumer, _, _ in fresh:
            held = self._held(key, consumer)
            if held is not None:
                items[key, consumer] = record_item(key, held)
        gone = [item for (key, consumer), item in self.forgotten.items() if self._held(key, consumer) is None]
        self.forgotten = {}
        self.surface.batch((*gone, *items.values()), lambda: self._counts(fresh))

    def _held(self, key: Key, consumer: Address) -> Held | None:
        registry = self.registries.get(key)
        return registry.records.get(consumer) if registry is not None else None

    def _counts(self, fresh: list[tuple[Key, Address, int, Answer]]) -> None:
        """All heirs have these: confirm what is still here and ours."""
        confirmed: dict[tuple[Answer, Key], list[tuple[Address, int, int]]] = {}
        for key, consumer, version, answer in fresh:
            held = self._held(key, consumer)
            if held is None or held.entry.version < version or not self.surface.answers(held.home):
                continue
            held.safe = held.safe or held.entry.version == version
            confirmed.setdefault((answer, key), []).append((consumer, version, key[2]))
        for (answer, key), kept in confirmed.items():
            self.confirm(answer, key, kept)

    def forget(self, key: Key, held: Held) -> None:
        """A record of ours has moved on or run out."""
        registry = self.registries.get(key)
        if registry is None or registry.records.get(held.entry.consumer) is not held:
            return
        registry.remove(held)
        if registry.idle:
            del self.registries[key]
        if len(self.forgotten) < FORGOTTEN_MAX:
            self.forgotten[key, held.entry.consumer] = no_record_item(key, held)

    # --- confirming

    def confirm(self, answer: Answer, key: Key, kept: Sequence[tuple[Address, int, int]]) -> None:
        reply, token, asked = answer
        stored = StoredAt(key[0], key[1], asked, token, tuple(kept))
        if reply == self.address:
            self.on_stored(self.address, stored)
        else:
            self.host.send(reply, stored)

    @handles(StoredAt)
    def on_stored(self, sender: Address, stored: StoredAt) -> None:
        passing = self.passing.get(stored.token)
        if passing is None:
            return
        for kept in stored.kept:
            entry = passing.entries.pop(kept[0], None)
            if entry is not None and kept[1] >= entry.version:
                self._note_door((passing.tag, passing.root, passing.notch), kept[0], sender)
                self._passed(passing, entry, kept)
        if not passing.entries:
            self.passing.pop(stored.token, None)

    def _note_door(self, key: Key, consumer: Address, sender: Address) -> None:
        if sender != self.address:
            self._above[key, consumer] = sender
            if len(self._above) > DOORS_MAX:
                del self._above[next(iter(self._above))]

    def _passed(self, passing: Passing, entry: Entry, kept: tuple[Address, int, int]) -> None:
        """What we passed up is kept above: confirm it down, if a cast that passes us would still go there."""
        tag, root, asked = passing.tag, passing.root, passing.answer[2]
        if not self.surface.answers(home(root, asked, entry.spot, self.settings.dimensions)):
            return
        if self.climb(tag, root, asked, entry.spot) == (passing.notch, False):
            self.confirm(passing.answer, (tag, root, asked), [kept])
        else:  # opened meanwhile
            self.take(tag, root, asked, [entry], passing.answer)
