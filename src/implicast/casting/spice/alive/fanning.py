"""Records for all roots of a tag: the original root sends every registration to each replica before it confirms it.

Thesis section 8.1.2 and Listing 9. Every registration enters at the original root, notch 0. Its owner keeps it or
passes it up, sends it to each other root of the level that answers and of the one that is aimed at, and confirms when
all have it: so a root that is ready has every complete registration. If the aim changes meanwhile, the new roots are
waited for too. Renewals of what all roots have are told to them together, some time later: one by one they were nine
tenths of all upkeep where tags have many copies. A copying walk (`replicating.py`) sends holders' records to the roots
of a new level in the same way.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from implicast.casting.spice.alive.gathering import Gathering
from implicast.casting.spice.alive.items import Header
from implicast.casting.spice.alive.keeper import arrives
from implicast.casting.spice.alive.messages import CopyTo, Entry, StoreAt, StoredAt
from implicast.casting.spice.alive.settings import CAST_US, STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.casting.spice.alive.storing import TOGETHER_MAX, Answer
from implicast.casting.spice.alive.walking import Work
from implicast.casting.spice.homes import address_of, roots_of
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract, intervals, union

REFRESHES = 6
"""Renewals are collected for such a part of a lease: with the time between two of them that is half a lease."""
COPIED_MAX = 8_192
"""Registrations that all roots are known to have; the one noted first is forgotten, and copied again when renewed."""
FANS_MAX = 4_096
"""Registrations and copies on their way to several roots; the oldest is dropped, and asked for again."""


class Fan:
    """Entries on their way to several roots, and who is told at the end."""

    __slots__ = ("answer", "goal", "left", "tag", "until_us", "wait_us", "work")

    def __init__(self, tag: str, entries: Iterable[Entry], roots: Iterable[int], until_us: int) -> None:
        self.tag, self.until_us, self.wait_us = tag, until_us, STORE_US
        each = list(roots)
        self.left = {entry.consumer: (entry, set(each)) for entry in entries}
        """By consumer, the roots that have not confirmed."""
        self.answer: Answer | None = None
        self.work: Work | None = None
        self.goal = 0


class Fanning(Gathering):
    """The original root's part in registrations, and every holder's in copying."""

    __slots__ = ("_copied", "_fans", "_renewed")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._fans: dict[int, Fan] = {}
        self._copied: dict[tuple[str, Address], tuple[int, int]] = {}
        """By tag and consumer: the version that all roots of a level have, and the level."""
        self._renewed: dict[str, dict[Address, Entry]] = {}
        """By tag: what is to be renewed at the other roots."""

    def header(self, tag: str) -> Header:
        return self.headers.get(tag, Header())

    def roots_at(self, tag: str, level: int) -> list[int]:
        return roots_of(address_of(tag), level, self.settings.dimensions)

    # --- registrations

    def take_store(self, store: StoreAt, entries: Sequence[Entry]) -> None:
        if not (store.first and store.notch == 0 and self.settings.deepest and store.root == address_of(store.tag)):
            super().take_store(store, entries)
            return
        header = self.headers.get(store.tag)
        goal = header.goal if header is not None else 0
        if not goal and len(entries) == 1 and self._renew(store, entries[0]):
            return
        if not goal and self._are_renewals(store, entries):
            super().take_store(store, entries)  # heirs have it and there are no replicas: nothing is waited for
            return
        if goal and all(self._copied.get((store.tag, each.consumer)) == (each.version, goal) for each in entries):
            self._refresh_later(store.tag, entries)
            super().take_store(store, entries)
            return
        fan = Fan(store.tag, entries, self.roots_at(store.tag, goal), self.host.now_us + WAIT_LONGEST_US)
        fan.answer, fan.goal = (store.reply, store.token, store.notch), goal
        token = self._begin(fan)
        if goal:
            self._send_copies(token)
        self.take(store.tag, store.root, 0, entries, (self.address, token, 0))
        if not goal and token in self._fans:  # a renewal where nothing is replicated was confirmed by now
            self._send_copies(token)

    def _are_renewals(self, store: StoreAt, entries: Sequence[Entry]) -> bool:
        registry = self.registries.get((store.tag, store.root, 0))
        if registry is None or registry.closed:
            return not entries
        for entry in entries:
            held = registry.records.get(entry.consumer)
            if held is None or not held.safe or held.entry.version < entry.version:
                return False
        return True

    def _refresh_later(self, tag: str, entries: Sequence[Entry]) -> None:
        if tag not in self._renewed:
            self._renewed[tag] = {}
            self.later(self.settings.lease_us // REFRESHES, partial(self._refresh, tag))
        renewed = self._renewed[tag]
        renewed.update({each.consumer: each for each in entries})
        if len(renewed) >= TOGETHER_MAX:
            self._refresh(tag)

    def _refresh(self, tag: str) -> None:
        """Tell the other roots that these registrations go on."""
        renewed, address, goal = self._renewed.pop(tag, {}), address_of(tag), self.header(tag).goal
        if not renewed or not goal or not self.surface.answers(address):
            return
        for consumer in renewed:
            self._copied.pop((tag, consumer), None)  # until all roots have confirmed it
        others = [each for each in self.roots_at(tag, goal) if each != address]
        fan = Fan(tag, renewed.values(), others, self.host.now_us + CAST_US)
        fan.goal = goal
        self._send_copies(self._begin(fan))

    def _note_copied(self, fan: Fan, entry: Entry) -> None:
        if fan.work is None and fan.goal and entry.description is not None:
            self._copied.pop((fan.tag, entry.consumer), None)
            self._copied[fan.tag, entry.consumer] = (entry.version, fan.goal)
            if len(self._copied) > COPIED_MAX:
                del self._copied[next(iter(self._copied))]

    def _begin(self, fan: Fan) -> int:
        token = self.token()
        self._fans[token] = fan
        if len(self._fans) > FANS_MAX:
            del self._fans[next(iter(self._fans))]
        return token

    def _send_copies(self, token: int) -> None:
        fan = self._fans.get(token)
        if fan is None:
            return
        if self.host.now_us > fan.until_us:
            del self._fans[token]
            return
        self.later(fan.wait_us, lambda: self._send_copies(token))
        fan.wait_us = min(2 * fan.wait_us, WAIT_LONGEST_US)
        address = address_of(fan.tag)
        others = union((each, each + 1) for _, roots in fan.left.values() for each in roots if each != address)
        if others:
            entries = tuple(entry for entry, _ in fan.left.values())
            self.surface.send(CopyTo(Way(others), fan.tag, entries, self.address, token))

    @handles(CopyTo)
    def on_copy(self, sender: Address, copy: CopyTo) -> None:
        self.surface.carry(sender, copy)

    @arrives(CopyTo)
    def _copy_arrived(self, part: Tract, copy: CopyTo) -> None:
        for low, high in intervals(part):
            for root in range(low, high):
                self.take(copy.tag, root, 0, copy.entries, (copy.reply, copy.token, 0))

    @handles(StoredAt)
    def on_stored(self, sender: Address, stored: StoredAt) -> None:
        fan = self._fans.get(stored.token)
        if fan is None:
            super().on_stored(sender, stored)
            return
        for kept in stored.kept:
            entry, roots = fan.left.get(kept[0], (None, set()))
            if entry is not None and kept[1] >= entry.version:
                roots.discard(stored.root)
                if not roots:
                    self._fanned(stored.token, fan, entry, kept)
        if not fan.left and self._fans.pop(stored.token, None) is not None and fan.work is not None:
            self.close_one(fan.work)

    def _fanned(self, token: int, fan: Fan, entry: Entry, kept: tuple[Address, int, int]) -> None:
        """All roots have this one; those of a level that was aimed at meanwhile must have it too."""
        address = address_of(fan.tag)
        goal = self.header(fan.tag).goal if fan.answer is not None else fan.goal
        if goal > fan.goal:
            more = set(self.roots_at(fan.tag, goal)) - set(self.roots_at(fan.tag, fan.goal))
            fan.left[entry.consumer] = (entry, more)
            self._send_copies(token)
            return
        del fan.left[entry.consumer]
        self._note_copied(fan, entry)
        if fan.answer is not None and self.surface.answers(address):
            self.confirm(fan.answer, (fan.tag, address, 0), [kept])

    # --- copying

    def copy_out(self, work: Work, tag: str, entries: list[Entry], roots: list[int]) -> None:
        """Entries of ours to the roots of a new level, as a part of a walk."""
        fan = Fan(tag, entries, roots, self.host.now_us + CAST_US)
        fan.work = work
        work.open += 1
        self._send_copies(self._begin(fan))
