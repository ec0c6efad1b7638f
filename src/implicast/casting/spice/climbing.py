"""Records on their way to their homes: kept where the registry is open, passed up where it is closed.

Thesis section 8.1.1 and Listings 10 and 11. A registry with more than the storage limit closes and moves its records
to the next notch; each is kept here until that has confirmed it, so a cast never misses one that is under way.
Confirmations come down the way the records went up: then it is the peers that a cast will pass that confirm.
Records and confirmations that go on from one peer are collected for a moment and travel together (section 8.3.1).
A confirmation tells what is closed where it comes from: later records go past it, to the first notch not known to be
closed. What is closed never opens again, so nothing has to be unlearnt; and a cast passes there all the same.
"""

from collections.abc import Iterable, Sequence

from implicast.casting.spice.homes import home, homes
from implicast.casting.spice.keeper import Keeper
from implicast.casting.spice.messages import Flush, Record, Store, Stored
from implicast.casting.spice.registry import Key, Registry
from implicast.casting.spice.settings import Settings
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract, container, contains, intersect, unite, within

REGISTER, FAN, CLIMB, DUPLICATE = range(4)
"""Errands: a consumer registers; the original root sends a record to the replicas; a peer passes records to the next
notch; a holder copies its share to replicas of a new level."""
TOGETHER_MAX = 512
"""Records in one message; keeps it well below the longest message."""
SHUT_MAX = 256
"""Ends of closed intervals remembered for one notch of a registry; who knows no more asks on the way."""

Answer = tuple[Address, int, int]
"""Whom to confirm to, on which errand, and the notch it was asked for."""
Kept = list[tuple[Address, int]]
"""Consumers and the versions that are stored of them."""
Climb = tuple[int, int, tuple[Answer, ...]]
"""A record's way up from here: the notch it came from, the newest version under way, and who waits for it."""


class Climbing(Keeper):
    """A peer's part in storing the records of others."""

    __slots__ = ("armed", "climbs", "confirmed", "outbox", "shut")

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host, settings)
        self.climbs: dict[Key, dict[Address, Climb]] = {}
        self.outbox: dict[Key, dict[Address, Record]] = {}
        self.confirmed: dict[tuple[Answer, str, int], dict[Address, int]] = {}
        self.armed = False
        self.shut: dict[Key, Tract] = {}
        """What others have said to be closed, at notches above ours."""

    # --- arriving

    @handles(Store)
    def on_store(self, sender: Address, store: Store) -> None:
        if len(store.records) > 1:
            self._store_many(store)
            return
        root, notch = store.root, store.notch
        at = home(root, notch, store.records[0].spot, self.settings.dimensions) if notch else root
        if self.surface.carry(at, store):
            self.take(store, store.records)

    def _store_many(self, store: Store) -> None:
        """Listing 11 with homes: each peer gets what is at home there, each branch carries what is at home beyond it.

        Every record goes its own best way, and those with the same next hop travel together: branch factor 0, merged.
        """
        root, notch = store.root, store.notch
        spots = [each.spot for each in store.records]
        ours, others = self.surface.sort_by_hop(homes(root, notch, spots, self.settings.dimensions), store.records)
        if ours:
            self.take(store, ours)
        for hop, records in others.items():
            message = Store(store.tag, root, notch, tuple(records), store.reply, store.errand)
            self.surface.forward(hop, message)

    def take(self, store: Store, records: Sequence[Record]) -> None:
        """Records whose home is ours: keep them, or pass them on."""
        answer = (store.reply, store.errand, store.notch)
        kept = self._settle(store.tag, store.root, store.notch, records, (answer,))
        if kept:
            self.answer(answer, store.tag, store.root, kept)

    def _settle(self, tag: str, root: int, notch: int, records: Sequence[Record], answers: tuple[Answer, ...]) -> Kept:
        """Keep what is open here, pass the rest up: what is kept now by us, at this notch or above."""
        registry = self.registries.get((tag, root, notch))
        if notch > self.sealed.get((tag, root), -1):
            if registry is None or not registry.closed:
                return self._keep(tag, root, notch, records)
            staying = [each for each in records if registry.is_open(each)]
            kept = self._keep(tag, root, notch, staying) if staying else []
            rest = [each for each in records if not registry.is_open(each)] if staying else records
        else:
            kept, rest = [], records
        if registry is not None and notch == 0:
            registry.passed += sum(1 if each.description is not None else -1 for each in rest if each.fresh)
        return kept + self._pass_on(tag, root, notch, rest, answers)

    def _keep(self, tag: str, root: int, notch: int, records: Iterable[Record]) -> Kept:
        registry, now_us = self.registry(tag, root, notch), self.host.now_us
        kept = [(each.consumer, registry.keep(each, now_us)) for each in records]
        if notch < self.settings.last_notch and registry.crowded(self.settings.storage_limit):
            self._close(tag, registry)
        return kept

    # --- going up

    def _pass_on(self, tag: str, root: int, notch: int, records: Sequence[Record], answers: tuple[Answer, ...]) -> Kept:
        """To the next open notch, which for some may be ours as well: what we keep ourselves after all."""
        surface, dimensions = self.surface, self.settings.dimensions
        next_up = max(notch, self.sealed.get((tag, root), -1)) + 1
        ours: dict[int, list[Record]] = {}
        others: dict[int, list[Record]] = {}
        for record in records:
            above, at = next_up, home(root, next_up, record.spot, dimensions)
            while (shut := self.shut.get((tag, root, above))) is not None and contains(shut, at):
                above += 1
                at = home(root, above, record.spot, dimensions)
            here = surface.low <= at < surface.high or contains(surface.firm, at)
            (ours if here else others).setdefault(above, []).append(record)
        for above, rising in others.items():
            self._send_up((tag, root, above), rising, notch, answers)
        return [each for above, rest in ours.items() for each in self._settle(tag, root, above, rest, answers)]

    def _send_up(self, key: Key, records: list[Record], came: int, answers: tuple[Answer, ...]) -> None:
        climbs, outbox = self.climbs.setdefault(key, {}), self.outbox.setdefault(key, {})
        for record in records:
            consumer, version = record.consumer, record.version
            known = climbs.get(consumer)
            if known is None:
                climbs[consumer] = (came, version, answers)
            else:
                more = tuple(each for each in answers if each not in known[2])
                climbs[consumer] = (min(came, known[0]), max(version, known[1]), known[2] + more)
            if consumer not in outbox or outbox[consumer].version < version:
                outbox[consumer] = record
        self._arm()

    def _close(self, tag: str, registry: Registry) -> None:
        """Full: from now on everything goes to the next notch. Containers that lie wholly on our ground close too."""
        dimensions, firm = self.settings.dimensions, self.surface.firm
        root, notch = registry.root, registry.notch
        registry.closed = unite(registry.closed, intersect(container(root, notch, dimensions), firm))
        registry.passed += len(registry.records)
        if notch == 0:
            through = 0
            while through + 1 < self.settings.last_notch and within(container(root, through + 1, dimensions), firm):
                through += 1
            self.sealed[tag, root] = through
        self.raise_records(tag, registry)

    def raise_records(self, tag: str, registry: Registry) -> None:
        """Move what lies in the closed part to the next notch; our own copies stay until that is confirmed."""
        rising = registry.rising()
        for consumer, version in self._pass_on(tag, registry.root, registry.notch, rising, ()) if rising else ():
            registry.risen(consumer, version, self.host.now_us)

    def settled(self) -> None:
        """Our ground has changed: what lies in closed parts goes up from here now."""
        for (tag, _, _), registry in list(self.registries.items()):
            if registry.closed and registry.records:
                self.raise_records(tag, registry)

    # --- collecting

    def _arm(self) -> None:
        if not self.armed:
            self.armed = True
            self.host.after(self.settings.collect_us, Flush())

    @handles(Flush)
    def on_flush(self, alarm: Flush) -> None:
        self.armed = False
        outbox, self.outbox = self.outbox, {}
        confirmed, self.confirmed = self.confirmed, {}
        for (tag, root, notch), records in outbox.items():
            for batch in batches(list(records.values())):
                self.on_store(self.address, Store(tag, root, notch, batch, self.address, CLIMB))
        for ((reply, errand, notch), tag, root), kept in confirmed.items():
            registry = self.registries.get((tag, root, notch))
            shut = registry.closed if registry is not None and errand == CLIMB else ()
            self.host.send(reply, Stored(tag, root, notch, tuple(kept.items()), errand, shut))

    # --- confirming

    def answer(self, answer: Answer, tag: str, root: int, kept: Kept) -> None:
        reply, errand, notch = answer
        if reply == self.address:
            self.on_stored(self.address, Stored(tag, root, notch, tuple(kept), errand))
        elif errand == REGISTER:
            self.host.send(reply, Stored(tag, root, notch, tuple(kept), errand))
        else:
            self.confirmed.setdefault((answer, tag, root), {}).update(kept)
            self._arm()

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        """The next notch has records that went up from here: drop ours, and tell whoever waits."""
        key = (stored.tag, stored.root, stored.notch)
        if stored.shut:
            self._learn_shut(key, stored.shut)
        climbs = self.climbs.get(key, {})
        resting: dict[int, list[Registry]] = {}
        answers: dict[tuple[Answer, ...], Kept] = {}
        for consumer, version in stored.kept:
            came, newest, waiting = climbs.get(consumer, (0, version + 1, ()))
            if version < newest:
                continue
            del climbs[consumer]
            if came not in resting:
                resting[came] = self._resting(key, came)
            for registry in resting[came]:
                registry.risen(consumer, version, self.host.now_us)
            answers.setdefault(waiting, []).append((consumer, version))
        if not climbs:
            self.climbs.pop(key, None)
        for waiting, kept in answers.items():
            for answer in waiting:
                self.answer(answer, stored.tag, stored.root, kept)

    def _learn_shut(self, key: Key, shut: Tract) -> None:
        known = unite(self.shut.get(key, ()), shut)
        if len(known) <= SHUT_MAX:
            self.shut[key] = known

    def _resting(self, key: Key, came: int) -> list[Registry]:
        """Registries below a notch where records that have climbed may still lie."""
        tag, root, above = key
        notches = (came, *range(max(came, self.sealed.get((tag, root), -1)) + 1, above))
        found = (self.registries.get((tag, root, notch)) for notch in notches)
        return [each for each in found if each is not None and each.records]


def batches(records: list[Record]) -> Iterable[tuple[Record, ...]]:
    return (tuple(records[start : start + TOGETHER_MAX]) for start in range(0, len(records), TOGETHER_MAX))
