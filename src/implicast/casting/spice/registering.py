"""Registering: records find their homes, registries close and scale, replicas are filled, confirmations come back.

Thesis section 8.1 and Listings 9 to 11. A record enters at notch 0 of its tag's root. Whoever owns its home there keeps
it, or, where the registry is closed, passes it to the next notch, and so on up. A registry with more than the storage
limit closes and moves its records up; each is kept until the next notch has confirmed it, so a cast never misses one
that is under way. Confirmations come down the way the records went up: then it is the peers that a cast will pass that
confirm. Records that go on from one peer are collected for a moment and travel together (section 8.3.1).
"""

from collections.abc import Iterable, Sequence

from implicast.casting.spice.homes import address_of, home, roots_of, spot_of
from implicast.casting.spice.keeper import Keeper
from implicast.casting.spice.messages import Copy, Flush, Record, Repeat, Replicate, Store, Stored
from implicast.casting.spice.registry import Key, Registry
from implicast.casting.spice.settings import Settings
from implicast.language.target import Description
from implicast.peer.contract import Address, Host, Message, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.tract import Tract, container, contains, intersect, union, unite, within

REGISTER, FAN, CLIMB = range(3)
"""Errands: a consumer registers; the original root fills a replica; a peer passes records to the next notch."""
REPEAT_US = 30_000_000
"""A consumer asks again for tags that have not been confirmed in this time."""
TOGETHER_MAX = 512
"""Records in one message; keeps it well below the longest message."""
REPLICATION_COLLECTS = 8
"""Records for replicas are collected so many times longer: each batch goes to hundreds of roots."""
SPOTS_MAX = 48
"""Homes that are routed to one by one; more are covered by larger extents, so that clustering stays cheap."""

Answer = tuple[Address, int, int]
"""Whom to confirm to, on which errand, and the notch it was asked for."""


class Climb:
    """A record's way up from here: the newest version on it, the notch it came from, and who waits for it."""

    __slots__ = ("answers", "came", "version")

    def __init__(self, came: int, version: int) -> None:
        self.came, self.version = came, version
        self.answers: list[Answer] = []


class Fan:
    """A record on its way to all roots of its tag."""

    __slots__ = ("answer", "left", "version")

    def __init__(self, version: int, answer: Answer, left: Iterable[int]) -> None:
        self.version, self.answer = version, answer
        self.left = set(left)


class Registering(Keeper):
    """The verbs `register` and `withdraw`, and a peer's part in those of others."""

    __slots__ = ("armed", "awaited", "climbs", "confirmed", "fans", "outbox", "replicating", "told")

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host, settings)
        self.told: dict[str, int] = {}
        """Tags under which something of ours may be stored, with the version sent there."""
        self.awaited: dict[str, Record] = {}
        self.climbs: dict[tuple[str, int, int, Address], Climb] = {}
        self.fans: dict[tuple[str, Address], Fan] = {}
        self.outbox: dict[Key, dict[Address, Record]] = {}
        self.replicating: dict[str, dict[Address, Record]] = {}
        self.confirmed: dict[tuple[Answer, str, int], dict[Address, int]] = {}
        self.armed = False

    # --- the verbs

    def register(self, description: Description) -> None:
        self.description = description
        self._tell(self.next_version(), description)

    def withdraw(self) -> None:
        self.description = None
        self._tell(self.next_version(), None)

    def _tell(self, version: int, description: Description | None) -> None:
        """One new version for every tag, old or new; where the tag is no longer ours, that we are gone."""
        tags = description.tags if description is not None else ()
        self.awaited = {}
        for tag in sorted({*tags, *self.told}):
            what = description if tag in tags else None
            self.awaited[tag] = Record(self.address, version, spot_of(self.address, tag), what, tag not in self.told)
        for tag in self.awaited:
            self.told[tag] = version
        self._confirm_if_complete()
        self._ask(list(self.awaited.items()))

    def _ask(self, records: list[tuple[str, Record]]) -> None:
        if records:
            self.host.after(REPEAT_US, Repeat(self.version))
        for tag, record in records:
            self.on_store(self.address, Store(tag, address_of(tag), 0, (record,), self.address, REGISTER))

    @handles(Repeat)
    def on_repeat(self, alarm: Repeat) -> None:
        if alarm.version == self.version:
            self._ask(list(self.awaited.items()))

    def _confirm_if_complete(self) -> None:
        if not self.awaited:
            done = Registered if self.description is not None else Withdrawn
            self.host.deliver(done(self.version))

    def _confirmed(self, tag: str, version: int) -> None:
        record = self.awaited.get(tag)
        if record is None or version < record.version:
            return
        del self.awaited[tag]
        if record.description is None:
            del self.told[tag]
        self._confirm_if_complete()

    # --- records on their way

    @handles(Store)
    def on_store(self, sender: Address, store: Store) -> None:
        if len(store.records) > 1:
            self._store_many(store)
        elif self.surface.carry(self._home(store, store.records[0]), store):
            self.take(store, store.records)

    def _home(self, store: Store, record: Record) -> int:
        return home(store.root, store.notch, record.spot, self.settings.dimensions)

    def _store_many(self, store: Store) -> None:
        """The two callbacks of Listing 11: each peer gets, and each branch carries, what is at home there."""
        placed = [(self._home(store, record), record) for record in store.records]

        def branch(part: Tract) -> Message | None:
            records = tuple(record for at, record in placed if contains(part, at))
            return Store(store.tag, store.root, store.notch, records, store.reply, store.errand) if records else None

        def deliver(part: Tract) -> None:
            self.take(store, tuple(record for at, record in placed if contains(part, at)))

        self.surface.route(cover([at for at, _ in placed], self.settings.dimensions), deliver, branch)

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        def deliver(part: Tract) -> None:
            for root in part[::2]:
                self.take(Store(copy.tag, root, 0, copy.records, copy.reply, FAN), copy.records)

        self.surface.route(copy.roots, deliver, branch=lambda part: Copy(copy.tag, part, copy.records, copy.reply))

    def take(self, store: Store, records: Sequence[Record]) -> None:
        """Records whose home is ours: keep them, or pass them on, or both."""
        level = self.settings.levels.get(store.tag, 0)
        if store.errand == REGISTER and level:
            self._fan_out(store, records, level)
            return
        kept = []
        for record in records:
            version = self._settle(store, record)
            if version:
                kept.append((record.consumer, version))
        if kept:
            self._answer((store.reply, store.errand, store.notch), store.tag, store.root, kept)

    def _fan_out(self, store: Store, records: Sequence[Record], level: int) -> None:
        """The original root has copies: keep the record here and at each of them, and confirm when all have it."""
        roots = roots_of(store.root, level, self.settings.dimensions)
        for record in records:
            key = (store.tag, record.consumer)
            if key in self.fans and self.fans[key].version > record.version:
                continue
            self.fans[key] = Fan(record.version, (store.reply, store.errand, store.notch), roots)
            self._replicate(store.tag, record)
        self.take(Store(store.tag, store.root, 0, tuple(records), self.address, FAN), records)

    def _replicate(self, tag: str, record: Record) -> None:
        if not self.replicating:
            self.host.after(self.settings.collect_us * REPLICATION_COLLECTS, Replicate())
        self.replicating.setdefault(tag, {})[record.consumer] = record

    def _settle(self, store: Store, record: Record) -> int:
        """Keep a record at the first open notch, if that is ours: the version kept. Else send it on: 0."""
        notch, ours = self._open_notch(store.tag, store.root, store.notch, record)
        if ours:
            registry = self.registry(store.tag, store.root, notch)
            version = registry.keep(record, self.host.now_us)
            if notch < self.settings.last_notch and registry.crowded(self.settings.storage_limit):
                self._close(store.tag, registry)
            return version
        if record.fresh or record.description is None:
            self.registry(store.tag, store.root, store.notch).passed += 1 if record.description is not None else -1
        self._send_up(store.tag, store.root, notch, record, came=store.notch).answers.append(
            (store.reply, store.errand, store.notch)
        )
        return 0

    def _open_notch(self, tag: str, root: int, notch: int, record: Record) -> tuple[int, bool]:
        """From a home of ours up through what is closed: the first notch that is open, or not ours."""
        surface, dimensions = self.surface, self.settings.dimensions
        sealed = self.sealed.get((tag, root), -1)
        while True:
            registry = self.registries.get((tag, root, notch))
            if notch > sealed and (registry is None or registry.is_open(record)):
                return notch, True
            notch = max(notch, sealed) + 1
            at = home(root, notch, record.spot, dimensions)
            if not (surface.low <= at < surface.high or contains(surface.firm, at)):
                return notch, False

    def _send_up(self, tag: str, root: int, notch: int, record: Record, came: int) -> Climb:
        key = (tag, root, notch, record.consumer)
        climb = self.climbs.get(key)
        if climb is None:
            climb = self.climbs[key] = Climb(came, record.version)
        climb.version = max(climb.version, record.version)
        climb.came = min(climb.came, came)
        waiting = self.outbox.setdefault((tag, root, notch), {})
        known = waiting.get(record.consumer)
        if known is None or known.version < record.version:
            waiting[record.consumer] = record
        self._arm()
        return climb

    # --- closing

    def _close(self, tag: str, registry: Registry) -> None:
        """Full: from now on everything goes to the next notch. Containers that lie wholly on our ground close too."""
        dimensions, firm = self.settings.dimensions, self.surface.firm
        root, notch = registry.root, registry.notch
        share = intersect(container(root, notch, dimensions), firm)
        registry.closed = unite(registry.closed, share)
        registry.passed += len(registry.records)
        through = notch - 1
        while through + 1 < self.settings.last_notch and within(container(root, through + 1, dimensions), firm):
            through += 1
        if through >= notch == 0:
            self.sealed[tag, root] = through
        self.raise_records(tag, registry)

    def raise_records(self, tag: str, registry: Registry) -> None:
        """Move what lies in the closed part to the next notch; our own copies stay until that is confirmed."""
        for record in registry.rising():
            notch, ours = self._open_notch(tag, registry.root, registry.notch, record)
            if not ours:
                self._send_up(tag, registry.root, notch, record, came=registry.notch)
                continue
            del registry.records[record.consumer]
            above = self.registry(tag, registry.root, notch)
            above.keep(record, self.host.now_us)
            if notch < self.settings.last_notch and above.crowded(self.settings.storage_limit):
                self._close(tag, above)

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
            for batch in _batches(list(records.values())):
                self.on_store(self.address, Store(tag, root, notch, batch, self.address, CLIMB))
        for ((reply, errand, notch), tag, root), kept in confirmed.items():
            self.host.send(reply, Stored(tag, root, notch, tuple(kept.items()), errand))

    @handles(Replicate)
    def on_replicate(self, alarm: Replicate) -> None:
        replicating, self.replicating = self.replicating, {}
        for tag, records in replicating.items():
            address = address_of(tag)
            roots = roots_of(address, self.settings.levels[tag], self.settings.dimensions)
            others = union((each, each + 1) for each in roots if each != address)
            for batch in _batches(list(records.values())):
                self.on_copy(self.address, Copy(tag, others, batch, self.address))

    # --- confirming

    def _answer(self, answer: Answer, tag: str, root: int, kept: Sequence[tuple[Address, int]]) -> None:
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
        if stored.errand == REGISTER:
            for _, version in stored.kept:
                self._confirmed(stored.tag, version)
        elif stored.errand == FAN:
            self._fanned(stored)
        else:
            self._climbed(stored)

    def _fanned(self, stored: Stored) -> None:
        for consumer, version in stored.kept:
            fan = self.fans.get((stored.tag, consumer))
            if fan is not None and version >= fan.version:
                fan.left.discard(stored.root)
                if not fan.left:
                    del self.fans[stored.tag, consumer]
                    self._answer(fan.answer, stored.tag, address_of(stored.tag), [(consumer, version)])

    def _climbed(self, stored: Stored) -> None:
        """The next notch has records that went up from here: drop ours, and tell whoever waits."""
        answers: dict[Answer, list[tuple[Address, int]]] = {}
        for consumer, version in stored.kept:
            key = (stored.tag, stored.root, stored.notch, consumer)
            climb = self.climbs.get(key)
            if climb is None or version < climb.version:
                continue
            del self.climbs[key]
            for notch in (climb.came, *range(self.sealed.get((stored.tag, stored.root), 0) + 1, stored.notch)):
                registry = self.registries.get((stored.tag, stored.root, notch))
                if registry is not None:
                    registry.risen(consumer, version, self.host.now_us)
            for answer in climb.answers:
                answers.setdefault(answer, []).append((consumer, version))
        for answer, kept in answers.items():
            self._answer(answer, stored.tag, stored.root, kept)


def cover(codes: Sequence[int], dimensions: int) -> Tract:
    """A tract with all these codes in at most `SPOTS_MAX` extents: each alone, or larger ones when they are many."""
    shift = 0
    while len(distinct := sorted({each >> shift for each in codes})) > SPOTS_MAX:
        shift += dimensions
    return union((each << shift, each + 1 << shift) for each in distinct)


def _batches(records: list[Record]) -> Iterable[tuple[Record, ...]]:
    return (tuple(records[start : start + TOGETHER_MAX]) for start in range(0, len(records), TOGETHER_MAX))
