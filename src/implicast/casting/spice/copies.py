"""Records for all roots of a tag: the original root sends every registration to each replica before it confirms it.

Thesis section 8.1.2 and Listing 9. Every registration enters at the original root, notch 0. Its owner keeps it or
passes it up, sends it to each other root of the level that answers and of the one that is aimed at, and confirms when
all have it: so a root that is ready has every complete registration. Registrations that come within a moment travel
together. If the aim changes meanwhile, the new roots are waited for too. Renewals of what all roots have are told to
them together, some time later: one by one they were nine tenths of all upkeep where tags have many copies. A copying
walk (`replicas.py`) sends holders' records to the roots of a new level in the same way.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import all_proved
from implicast.casting.spice.messages import (
    TOGETHER_MAX,
    CopyFrom,
    CopyTo,
    Entry,
    Kept,
    StoreAt,
    StoredAt,
)
from implicast.casting.spice.settings import CAST_US, Settings
from implicast.casting.spice.share import Repeated, Spice, SpicePart
from implicast.casting.spice.stores import DOORS_MAX, OWN, Answer
from implicast.casting.spice.trips import Work
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Message, Name, handles
from implicast.peer.memory import Recent
from implicast.space.tract import Tract, intervals, union

REFRESHES = 6
"""Renewals are collected for such a part of a lease: with the time between two of them that is half a lease."""
COLLECTS = 2
"""Registrations for replicas are collected so many times longer than others: each batch goes to many roots."""
COPIED_MAX = 8_192
"""Registrations that all roots are known to have; the one noted first is forgotten, and copied again when renewed."""
FANS_MAX = 4_096
"""Batches on their way to several roots; the oldest is dropped, and asked for again."""


class Replicate(Message):
    """Rings when entries that were collected go to the replicas together."""


class CopyAgain(Message):
    """Rings when copies should have been confirmed by their roots."""

    token: int


class Refresh(Message):
    """Rings when renewals that were collected go to the replicas."""

    tag: str


class Fan(Repeated):
    """Entries on their way to several roots, and who is told at the end."""

    __slots__ = ("answers", "bits", "entries", "goal", "left", "tag", "until_us", "work")

    def __init__(
        self,
        tag: str,
        goal: int,
        roots: Iterable[int],
        until_us: int,
        entries: Iterable[Entry] = (),
        work: Work | None = None,
    ) -> None:
        super().__init__()
        self.tag, self.goal, self.until_us, self.work = tag, goal, until_us, work
        self.bits = {root: 1 << bit for bit, root in enumerate(roots)}
        self.entries: dict[Name, Entry] = {}
        self.left: dict[Name, int] = {}
        """By consumer, a bit for each root that has not confirmed."""
        self.answers: dict[Name, tuple[Answer, ...]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry, answer: Answer | None = None) -> None:
        name = entry.member.name
        if name not in self.entries or self.entries[name].version <= entry.version:
            self.entries[name] = entry
            self.left[name] = (1 << len(self.bits)) - 1
        if answer is not None and answer not in self.answers.get(name, ()):
            self.answers[name] = (*self.answers.get(name, ()), answer)

    def has(self, root: int, kept: Kept) -> bool:
        """A root has this one; do all have it now?"""
        name, version, _ = kept
        if name not in self.entries or version < self.entries[name].version:
            return False
        self.left[name] &= ~self.bits.get(root, 0)
        return not self.left[name]

    def take(self, name: Name) -> tuple[Entry, tuple[Answer, ...]]:
        """This one is done."""
        del self.left[name]
        return self.entries.pop(name), self.answers.pop(name, ())

    def missing(self) -> list[int]:
        """Roots that some entry has not been confirmed by."""
        bits = reduce(or_, self.left.values(), 0)
        return [root for root, bit in self.bits.items() if bits & bit]


class Copies(SpicePart):
    """The original root's part in registrations, and every holder's in copying."""

    __slots__ = ("_collecting", "_copied", "_doors", "_fans", "_renewed")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._fans: Recent[int, Fan] = Recent(FANS_MAX)
        self._collecting: dict[str, int] = {}
        """By tag, the batch that still takes registrations in."""
        self._copied: Recent[tuple[str, Name], tuple[int, int]] = Recent(COPIED_MAX)
        """By tag and consumer: the version that all roots of a level have, and the level."""
        self._renewed: dict[str, dict[Name, Entry]] = {}
        """By tag: what is to be renewed at the other roots."""
        self._doors: Recent[int, Address] = Recent(DOORS_MAX)
        """By root: the owner that confirmed copies there last."""

    # --- registrations

    def fans_out(self, store: StoreAt, entries: Sequence[Entry]) -> bool:
        """Do these go to other roots too? Then they are taken here, and confirmed when all have them."""
        tag = store.tag
        if not (
            store.first
            and store.notch == 0
            and self.settings.deepest
            and store.root == address_of(tag)
        ):
            return False
        goal, registry = (
            self.spice.levels.goal(tag),
            self.spice.shelf.registries.get((tag, store.root, 0)),
        )
        are_kept = all(registry is not None and registry.has(each) for each in entries)
        if not goal and (are_kept or not self.settings.live):
            return False
        if goal and all(
            self._copied.get((tag, each.member.name)) == (each.version, goal) for each in entries
        ):
            self._refresh_later(tag, entries)
            return False
        self._fan_out(store, entries, goal)
        return True

    def _fan_out(self, store: StoreAt, entries: Sequence[Entry], goal: int) -> None:
        """Keep registrations here and at every other root, and confirm when all have them."""
        token = self._collecting.get(store.tag, OWN)
        fan = self._fans.get(token)
        if fan is None or fan.goal != goal or len(fan.entries) + len(entries) > TOGETHER_MAX:
            fan = Fan(
                store.tag,
                goal,
                self.spice.levels.roots_at(store.tag, goal),
                self.host.now_us + CAST_US,
            )
            if not self._collecting:
                self.host.after(self.settings.collect_us * COLLECTS, Replicate())
            elif store.tag in self._collecting:
                self.on_copy_again(CopyAgain(self._collecting[store.tag]))
            token = self._collecting[store.tag] = self._begin(fan)
        for entry in entries:
            fan.add(entry, (store.reply, store.token, store.notch))
        self.spice.stores.take(store.tag, store.root, 0, entries, (self.address, token, 0))

    @handles(Replicate)
    def on_replicate(self, alarm: Replicate) -> None:
        collecting, self._collecting = self._collecting, {}
        for token in collecting.values():
            self.on_copy_again(CopyAgain(token))

    def _refresh_later(self, tag: str, entries: Sequence[Entry]) -> None:
        if tag not in self._renewed:
            self._renewed[tag] = {}
            self.spice.later.put(self.settings.lease_us // REFRESHES, Refresh(tag))
        renewed = self._renewed[tag]
        renewed.update({each.member.name: each for each in entries})
        if len(renewed) >= TOGETHER_MAX:
            self.on_refresh(Refresh(tag))

    @handles(Refresh)
    def on_refresh(self, alarm: Refresh) -> None:
        """Tell the other roots that these registrations go on."""
        tag = alarm.tag
        renewed, address, goal = (
            self._renewed.pop(tag, {}),
            address_of(tag),
            self.spice.levels.goal(tag),
        )
        if not renewed or not goal or not self.surface.answers(address):
            return
        for consumer in renewed:
            self._copied.pop((tag, consumer), None)  # until all roots have confirmed it
        others = [each for each in self.spice.levels.roots_at(tag, goal) if each != address]
        self._send_out(Fan(tag, goal, others, self.host.now_us + CAST_US, renewed.values()))

    # --- fans

    def _begin(self, fan: Fan) -> int:
        token = self.spice.stores.token()
        self._fans[token] = fan
        return token

    def _send_out(self, fan: Fan) -> None:
        self.on_copy_again(CopyAgain(self._begin(fan)))

    @handles(CopyAgain)
    def on_copy_again(self, alarm: CopyAgain) -> None:
        fan, token = self._fans.get(alarm.token), alarm.token
        if fan is None or self.host.now_us > fan.until_us:
            self._fans.pop(token, None)
            return
        if self.settings.assured or self.settings.live:
            self.spice.later.put(fan.wait_longer(), alarm)
        what, missing = (
            (fan.tag, tuple(fan.entries.values()), self.address, token),
            set(fan.missing()),
        )
        for root in sorted(
            missing & self._doors.keys()
        ):  # left out until it confirms again, as in `Stores`
            self.host.send(self._doors.pop(root), CopyTo(Way((root, root + 1)), *what))
            missing.discard(root)
        if others := union((each, each + 1) for each in missing if each != address_of(fan.tag)):
            self.surface.send(CopyTo(Way(others), *what))

    def arrived(self, part: Tract, copy: CopyTo) -> None:
        entries = all_proved(self.spice.words, copy.tag, copy.entries)
        for root in roots_in(self.settings, copy.tag, part):
            self.spice.stores.take(copy.tag, root, 0, entries, (copy.reply, copy.token, 0))

    def stored(self, sender: Address, stored: StoredAt) -> bool:
        """Is this about copies of ours? Then that root has them."""
        if (fan := self._fans.get(stored.token)) is None:
            return False
        if sender != self.address and self.settings.assured and stored.root in fan.bits:
            self._doors.put(stored.root, sender)
        for kept in stored.kept:
            if fan.has(stored.root, kept):
                self._fanned(fan, kept)
        if (
            not fan.left
            and stored.token not in self._collecting.values()
            and stored.token in self._fans
        ):
            del self._fans[stored.token]
            if fan.work is not None:
                self.spice.walks.close_one(fan.work)
        return True

    def _fanned(self, fan: Fan, kept: Kept) -> None:
        """All roots have this one; those of a level that was aimed at meanwhile must have it too."""
        tag, address = fan.tag, address_of(fan.tag)
        entry, answers = fan.take(kept[0])
        goal = self.spice.levels.goal(tag) if answers else fan.goal
        if goal > fan.goal:
            more = Fan(tag, goal, self.spice.levels.new_roots(tag, goal, fan.goal), fan.until_us)
            for answer in answers:
                more.add(entry, answer)
            self._send_out(more)
            return
        if not self.surface.answers(address):
            return
        if entry.description is None:
            self._copied.pop((tag, kept[0]), None)
        elif self.settings.assured and (
            fan.work is None or fan.goal == 1
        ):  # at level 1 ours is the only other
            self._copied.put((tag, kept[0]), (entry.version, fan.goal))
        for answer in answers:
            self.spice.stores.confirm(answer, (tag, address, 0), [kept])

    def stand(self, tag: str, entries: Iterable[Entry], goal: int) -> None:
        """All roots of a level have these from the start; also of level 0, if it may rise."""
        for entry in entries if self.settings.assured and (goal or self.settings.live) else ():
            self._copied.put((tag, entry.member.name), (entry.version, goal))

    def raised(self, tag: str, level: int) -> None:
        """A copying walk is covered: what all roots of the level below have, those of this one have too."""
        for key, (version, known) in list(self._copied.items()):
            if key[0] == tag and known == level - 1:
                self._copied[key] = (version, level)

    # --- copying

    def copy_out(self, work: Work, walk: CopyFrom, entries: Sequence[Entry]) -> None:
        """Entries of ours to the roots of a new level, as a part of a walk."""
        roots, until_us = (
            self.spice.levels.new_roots(walk.tag, walk.level, walk.level - 1),
            self.host.now_us + CAST_US,
        )
        for start in range(0, len(entries), TOGETHER_MAX):
            work.wait()
            self._send_out(
                Fan(
                    walk.tag,
                    walk.level,
                    roots,
                    until_us,
                    entries[start : start + TOGETHER_MAX],
                    work,
                )
            )


def roots_in(settings: Settings, tag: str, part: Tract) -> list[int]:
    """The roots of a tag that a part names: each is a single code. Wider ones are not meant, and not gone through."""
    return [low for low, high in intervals(part) if high == low + 1 and settings.is_root(tag, low)]
