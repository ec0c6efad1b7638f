"""Registering: the verbs, and the replicas that an original root fills.

Thesis section 8.1.2 and Listing 9. A consumer sends one record per tag to the tag's own address; a registration is
complete when every one of them has been confirmed. The owner of that address is the original root: if the tag is
replicated, it sends the record to every other root too, and confirms when all of them have it. So a replica that
exists has all complete registrations, and a cast may stop at the first one it meets.
"""

from collections.abc import Iterable, Sequence

from implicast.casting.spice.climbing import FAN, REGISTER, Answer, Climbing, batches
from implicast.casting.spice.homes import address_of, roots_of, spot_of
from implicast.casting.spice.messages import Copy, Record, Repeat, Replicate, Store, Stored
from implicast.casting.spice.settings import Settings
from implicast.language.target import Description
from implicast.peer.contract import Address, Host, handles
from implicast.peer.events import Registered, Withdrawn
from implicast.space.tract import Tract, union

REPEAT_US = 30_000_000
"""A consumer asks again for tags that have not been confirmed in this time."""
REPLICATION_COLLECTS = 2
"""Records for replicas are collected so many times longer than others: each batch goes to hundreds of roots."""


class Fan:
    """A record on its way to all roots of its tag."""

    __slots__ = ("answer", "left", "version")

    def __init__(self, version: int, answer: Answer, left: Iterable[int]) -> None:
        self.version, self.answer = version, answer
        self.left = set(left)


class Registering(Climbing):
    """The verbs `register` and `withdraw`, and the original root's part in those of others."""

    __slots__ = ("awaited", "fans", "replicating", "told")

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host, settings)
        self.told: dict[str, int] = {}
        """Tags under which something of ours may be stored, with the version sent there."""
        self.awaited: dict[str, Record] = {}
        self.fans: dict[tuple[str, Address], Fan] = {}
        self.replicating: dict[str, dict[Address, Record]] = {}

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
            fresh = (what is None) == (tag in self.told)
            self.awaited[tag] = Record(self.address, version, spot_of(self.address, tag), what, fresh)
        self.told.update(dict.fromkeys(self.awaited, version))
        self._confirm_if_complete()
        self._ask()

    def _ask(self) -> None:
        waiting = list(self.awaited.items())
        if waiting:
            self.host.after(REPEAT_US, Repeat(self.version))
        for tag, record in waiting:
            self.on_store(self.address, Store(tag, address_of(tag), 0, (record,), self.address, REGISTER))

    @handles(Repeat)
    def on_repeat(self, alarm: Repeat) -> None:
        if alarm.version == self.version:
            self._ask()

    def _confirm_if_complete(self) -> None:
        if not self.awaited:
            done = Registered if self.description is not None else Withdrawn
            self.host.deliver(done(self.version))

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        if stored.errand == REGISTER:
            self._confirmed(stored.tag, max(version for _, version in stored.kept))
        elif stored.errand == FAN:
            self._fanned(stored)
        else:
            super().on_stored(sender, stored)

    def _confirmed(self, tag: str, version: int) -> None:
        record = self.awaited.get(tag)
        if record is None or version < record.version:
            return
        del self.awaited[tag]
        if record.description is None:
            del self.told[tag]
        self._confirm_if_complete()

    # --- replicas

    def level_of(self, tag: str) -> int:
        """To which level records of a tag are copied, as its original root knows."""
        if not self.settings.live:
            return self.settings.levels.get(tag, 0)
        header = self.headers.get(tag)
        return header.goal if header is not None else 0

    def take(self, store: Store, records: Sequence[Record]) -> None:
        level = self.level_of(store.tag)
        if store.errand == REGISTER and level:
            self._fan_out(store, records, level)
        else:
            super().take(store, records)

    def _fan_out(self, store: Store, records: Sequence[Record], level: int) -> None:
        """Keep records here and at every other root, and confirm when all have them."""
        roots = roots_of(store.root, level, self.settings.dimensions)
        for record in records:
            key = (store.tag, record.consumer)
            if key not in self.fans or self.fans[key].version <= record.version:
                self.fans[key] = Fan(record.version, (store.reply, store.errand, store.notch), roots)
                self._replicate(store.tag, record)
        super().take(Store(store.tag, store.root, 0, tuple(records), self.address, FAN), records)

    def _replicate(self, tag: str, record: Record) -> None:
        if not self.replicating:
            self.host.after(self.settings.collect_us * REPLICATION_COLLECTS, Replicate())
        self.replicating.setdefault(tag, {})[record.consumer] = record

    @handles(Replicate)
    def on_replicate(self, alarm: Replicate) -> None:
        replicating, self.replicating = self.replicating, {}
        for tag, records in replicating.items():
            address = address_of(tag)
            roots = {root for record in records.values() for root in self.fans[tag, record.consumer].left}
            others = union((each, each + 1) for each in roots if each != address)
            for batch in batches(list(records.values())):
                self.on_copy(self.address, Copy(tag, others, batch, self.address, FAN))

    @handles(Copy)
    def on_copy(self, sender: Address, copy: Copy) -> None:
        def deliver(part: Tract) -> None:
            for root in part[::2]:
                self.take(Store(copy.tag, root, 0, copy.records, copy.reply, copy.errand), copy.records)

        self.surface.route(
            copy.roots, deliver, lambda part: Copy(copy.tag, part, copy.records, copy.reply, copy.errand)
        )

    def _fanned(self, stored: Stored) -> None:
        for consumer, version in stored.kept:
            fan = self.fans.get((stored.tag, consumer))
            if fan is not None and version >= fan.version:
                fan.left.discard(stored.root)
                if not fan.left:
                    del self.fans[stored.tag, consumer]
                    self.answer(fan.answer, stored.tag, address_of(stored.tag), [(consumer, version)])
