"""Pushing records to the replica roots of a tag.

Thesis section 8.1.2 and Listing 9. Every registration enters at the original root, notch 0. Its
owner stores it or passes it up, pushes it to the other roots of the current and of the target
level, and acknowledges it when all roots have it. A ready root therefore has every acknowledged
registration. If the target level rises meanwhile, the new roots are waited for too.

Registrations that arrive close together share a push. Renewals of records that all roots have are
collected for a sixth of a lease, since single renewals would dominate the upkeep of tags with many
copies. A copy traversal (`replicas.py`) pushes the records of each holder to the roots of a new
level in the same way.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import or_

from msgspec.structs import replace

from implicast.casting.spice.homes import address_of, homes
from implicast.casting.spice.items import (
    TOGETHER_MAX,
    Answer,
    Entries,
    Entry,
    StoredEntry,
    TagMessage,
    all_proved,
)
from implicast.casting.spice.part import SpiceTable, StoreBackoff, Tools
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.settings import CAST_US, SpiceSettings
from implicast.casting.spice.store_requests import OWN, Grouping, StoreAck, StoreRequest
from implicast.casting.spice.stores import LAST_HOLDERS_MAX, Stores
from implicast.casting.spice.traversal_messages import CopyRequest
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.casting.spice.traversals import Traversals
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, Message, Name
from implicast.peer.fields import Token
from implicast.peer.memory import Recent
from implicast.space.tract import Tract, intervals, union

REFRESHES = 6
"""Renewals for replicas are collected for 1/6 of a lease. With the renewal interval of 1/3 that is
half a lease.
"""
COLLECTS = 2
"""Registrations for replicas are collected this many times longer than others, because each batch
goes to many roots.
"""
COPIED_MAX = 8_192
"""Maximum number of registrations known to be at all roots. The oldest is forgotten, and pushed
again when renewed.
"""
PUSHES_MAX = 4_096
"""Maximum number of open pushes. The oldest is dropped; the requesters repeat."""


class ReplicateRequest(TagMessage):
    """Asks several roots of a tag to store the entries. Each root is a single code of the way's
    tract.
    """

    wire = 0x0A03

    entries: Entries
    reply: Address
    token: Token


class PushCollected(Message):
    """Fires when the collected registrations are to be pushed."""


class ReplicaPush(StoreBackoff):
    """A batch of entries on its way to several roots, with the requesters to acknowledge to."""

    __slots__ = ("answers", "bits", "entries", "goal", "left", "tag", "task", "until_us")

    def __init__(
        self,
        tag: str,
        goal: int,
        roots: Iterable[int],
        until_us: int,
        entries: Iterable[Entry] = (),
        task: TraversalTask | None = None,
    ) -> None:
        super().__init__()
        self.tag, self.goal, self.until_us, self.task = tag, goal, until_us, task
        self.bits = {root: 1 << bit for bit, root in enumerate(roots)}
        self.entries: dict[Name, Entry] = {}
        self.left: dict[Name, int] = {}
        """By consumer: a bit for each root that has not acknowledged."""
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

    def confirm(self, root: int, stored_entry: StoredEntry) -> bool:
        """A root has stored the entry. Returns whether all roots have it now."""
        name, version, _ = stored_entry
        if name not in self.entries or version < self.entries[name].version:
            return False
        self.left[name] &= ~self.bits.get(root, 0)
        return not self.left[name]

    def remove(self, name: Name) -> tuple[Entry, tuple[Answer, ...]]:
        """Remove a finished entry. Returns it with its requesters."""
        del self.left[name]
        return self.entries.pop(name), self.answers.pop(name, ())

    def missing(self) -> list[int]:
        """Roots that have not acknowledged some entry."""
        bits = reduce(or_, self.left.values(), 0)
        return [root for root, bit in self.bits.items() if bits & bit]


class ReplicaPushes(SpiceTable):
    """Pushes registrations (at the original root) and copies of records (at every holder) to
    replica roots.
    """

    __slots__ = (
        "_collecting",
        "_grouping",
        "_last_holders",
        "_registries",
        "_renewed",
        "_stores",
        "_traversals",
        "active",
        "copied",
    )

    def __init__(
        self,
        tools: Tools,
        registries: Registries,
        stores: Stores,
        traversals: Traversals,
        grouping: Grouping | None,
    ) -> None:
        """`grouping`: as in `Stores`. With it, nothing that all roots have is remembered."""
        super().__init__(tools)
        self._registries, self._stores, self._traversals = registries, stores, traversals
        self._grouping, is_assured = grouping, grouping is None
        self.active: Recent[int, ReplicaPush] = Recent(PUSHES_MAX)
        self._collecting: dict[str, int] = {}
        """By tag: token of the push that still collects registrations."""
        copied_max = COPIED_MAX if is_assured else 0
        self.copied: Recent[tuple[str, Name], tuple[int, int]] = Recent(copied_max)
        """By tag and consumer: the version that all roots of a level have, and that level."""
        self._renewed: dict[str, dict[Name, Entry]] = {}
        """By tag: entries to renew at the other roots."""
        self._last_holders: Recent[int, Address] = Recent(LAST_HOLDERS_MAX if is_assured else 0)
        """By root: the owner that acknowledged a push last."""

    # --- registrations

    def on_direct(self, store: StoreRequest) -> bool:
        """Process a request that need not be routed: a consumer that knows this peer as the owner
        of the root sends its entry directly. Without receipts a request of several entries is
        divided at every hop.
        """
        if self._grouping is not None:
            is_divided = len(store.entries) > 1
            if is_divided and self.settings.is_place(store.tag, store.root, store.notch):
                entries = tuple(all_proved(self.signing, store.tag, store.entries))
                self._grouping.divide(replace(store, entries=entries))
            return is_divided
        if store.way.number or store.notch or not self.surface.answers(store.root):
            return False
        self._accept(store, store.entries)
        return True

    def on_store(self, part: Tract, store: StoreRequest) -> None:
        """A request has reached a part of the own tract."""
        root, notch, entries = store.root, store.notch, store.entries
        if notch or len(entries) > 1:
            places = homes(root, notch, [each.spot for each in entries], self.settings.dimensions)
            pairs = zip(entries, places, strict=True)
            entries = tuple([each for each, at in pairs if bisect_right(part, at) & 1])
        self._accept(store, entries)

    def _accept(self, store: StoreRequest, entries: Sequence[Entry]) -> None:
        if self.settings.is_place(store.tag, store.root, store.notch):
            entries = all_proved(self.signing, store.tag, entries)
            if not self._push_if_replicated(store, entries):
                answer = (store.reply, store.token, store.notch)
                self._stores.store_entries(store.tag, store.root, store.notch, entries, answer)

    def _push_if_replicated(self, store: StoreRequest, entries: Sequence[Entry]) -> bool:
        """Push registrations that arrive at the original root of a replicated tag. Returns False if
        they only have to be stored here.
        """
        tag = store.tag
        if not (
            store.first
            and store.notch == 0
            and self.settings.deepest
            and store.root == address_of(tag)
        ):
            return False
        goal = self._registries.levels.goal(tag)
        registry = self._registries.by_key.get((tag, store.root, 0))
        are_stored = all(registry is not None and registry.is_stored(each) for each in entries)
        if not goal and (are_stored or not self.settings.live):
            return False
        if goal and all(
            self.copied.get((tag, each.member.name)) == (each.version, goal) for each in entries
        ):
            self._schedule_refresh(tag, entries)
            return False
        self._push(store, entries, goal)
        return True

    def _push(self, store: StoreRequest, entries: Sequence[Entry], goal: int) -> None:
        """Store registrations here and at every other root, and acknowledge when all have them."""
        token = self._collecting.get(store.tag, OWN)
        push = self.active.get(token)
        if push is None or push.goal != goal or len(push.entries) + len(entries) > TOGETHER_MAX:
            roots = self._registries.levels.roots_at(store.tag, goal)
            push = ReplicaPush(store.tag, goal, roots, self.host.now_us + CAST_US)
            if not self._collecting:
                self.host.after(self.settings.collect_us * COLLECTS, PushCollected())
            elif store.tag in self._collecting:
                self.send_push(self._collecting[store.tag])
            token = self._collecting[store.tag] = self.begin_push(push)
        for entry in entries:
            push.add(entry, (store.reply, store.token, store.notch))
        self._stores.store_entries(store.tag, store.root, 0, entries, (self.address, token, 0))

    def send_collected(self) -> None:
        """Send the collected registrations."""
        collecting, self._collecting = self._collecting, {}
        for token in collecting.values():
            self.send_push(token)

    def _schedule_refresh(self, tag: str, entries: Sequence[Entry]) -> None:
        if tag not in self._renewed:
            self._renewed[tag] = {}
            wait_us = self.settings.lease_us // REFRESHES
            self.timer_wheel.schedule(wait_us, partial(self.refresh_replicas, tag))
        renewed = self._renewed[tag]
        renewed.update({each.member.name: each for each in entries})
        if len(renewed) >= TOGETHER_MAX:
            self.refresh_replicas(tag)

    def refresh_replicas(self, tag: str) -> None:
        """Renew the collected registrations at the other roots."""
        renewed, address = self._renewed.pop(tag, {}), address_of(tag)
        goal = self._registries.levels.goal(tag)
        if not renewed or not goal or not self.surface.answers(address):
            return
        for consumer in renewed:
            self.copied.pop((tag, consumer), None)  # until all roots have acknowledged
        others = [each for each in self._registries.levels.roots_at(tag, goal) if each != address]
        self._send_push(
            ReplicaPush(tag, goal, others, self.host.now_us + CAST_US, renewed.values())
        )

    # --- pushes

    def begin_push(self, push: ReplicaPush) -> int:
        token = self.next_token()
        self.active[token] = push
        return token

    def _send_push(self, push: ReplicaPush) -> None:
        self.send_push(self.begin_push(push))

    def send_push(self, token: int) -> None:
        """Send a push to the roots that have not acknowledged, until all have."""
        push = self.active.get(token)
        if push is None or self.host.now_us > push.until_us:
            self.active.pop(token, None)
            return
        if self._grouping is None or self.settings.live:
            self.timer_wheel.schedule(push.next_wait_us(), partial(self.send_push, token))
        what = (push.tag, tuple(push.entries.values()), self.address, token)
        missing = set(push.missing())
        for root in sorted(
            missing & self._last_holders.keys()
        ):  # removed until it acknowledges again, as in `Stores`
            self.host.send(
                self._last_holders.pop(root), ReplicateRequest(RouteHeader((root, root + 1)), *what)
            )
            missing.discard(root)
        if others := union((each, each + 1) for each in missing if each != address_of(push.tag)):
            self.surface.send(ReplicateRequest(RouteHeader(others), *what))

    def on_arrival(self, part: Tract, copy: ReplicateRequest) -> None:
        entries = all_proved(self.signing, copy.tag, copy.entries)
        for root in roots_in(self.settings, copy.tag, part):
            self._stores.store_entries(copy.tag, root, 0, entries, (copy.reply, copy.token, 0))

    def on_stored(self, sender: Address, stored: StoreAck) -> bool:
        """Process the acknowledgement of a push. Returns False if the token is not of a push."""
        if (push := self.active.get(stored.token)) is None:
            return False
        if sender != self.address and stored.root in push.bits:
            self._last_holders.put(stored.root, sender)
        for stored_entry in stored.entries:
            if push.confirm(stored.root, stored_entry):
                self._on_all_stored(push, stored_entry)
        if (
            not push.left
            and stored.token not in self._collecting.values()
            and stored.token in self.active
        ):
            del self.active[stored.token]
            if push.task is not None:
                self._traversals.finish_one(push.task)
        return True

    def _on_all_stored(self, push: ReplicaPush, stored_entry: StoredEntry) -> None:
        """All roots of the push have the entry. If the target level has risen meanwhile, push it to
        the new roots before acknowledging.
        """
        tag, address = push.tag, address_of(push.tag)
        entry, answers = push.remove(stored_entry[0])
        goal = self._registries.levels.goal(tag) if answers else push.goal
        if goal > push.goal:
            roots = self._registries.levels.new_roots(tag, goal, push.goal)
            more = ReplicaPush(tag, goal, roots, push.until_us)
            for answer in answers:
                more.add(entry, answer)
            self._send_push(more)
            return
        if not self.surface.answers(address) or self._is_superseded(tag, entry):
            return
        if entry.description is None:
            self.copied.pop((tag, stored_entry[0]), None)
        elif push.task is None or push.goal == 1:  # then the original root is the only other root
            self._note_copied(tag, entry, push.goal)
        for answer in answers:
            self._stores.confirm(answer, (tag, address, 0), [stored_entry])

    def _is_superseded(self, tag: str, entry: Entry) -> bool:
        """Whether a push of a newer version of the entry is open. A root that has the newer version
        answers both pushes with it; only the push of the newer version knows when all roots have
        it.
        """
        name = entry.member.name
        return any(
            name in each.entries and each.entries[name].version > entry.version
            for each in self.active.values()
            if each.tag == tag
        )

    def _note_copied(self, tag: str, entry: Entry, level: int) -> None:
        """All roots of a level have the entry."""
        self.copied.put((tag, entry.member.name), (entry.version, level))

    def restore(self, copied: Mapping[str, Iterable[Entry]]) -> None:
        """By tag, entries that all roots of the tag's level have. Level 0 is recorded only if
        levels can rise.
        """
        for tag, entries in copied.items():
            goal = self._registries.levels.goal(tag)
            for entry in entries if goal or self.settings.live else ():
                self._note_copied(tag, entry, goal)

    def on_level_raised(self, tag: str, level: int) -> None:
        """A copy traversal is complete: entries at all roots of the level below are also at all
        roots of this level.
        """
        for key, (version, known) in list(self.copied.items()):
            if key[0] == tag and known == level - 1:
                self.copied[key] = (version, level)

    # --- copying

    def push_records(
        self, task: TraversalTask, traversal: CopyRequest, entries: Sequence[Entry]
    ) -> None:
        """Push entries stored here to the roots that a level adds, as part of a copy traversal."""
        level, until_us = traversal.level, self.host.now_us + CAST_US
        roots = self._registries.levels.new_roots(traversal.tag, level, level - 1)
        for start in range(0, len(entries), TOGETHER_MAX):
            task.add_pending()
            some = entries[start : start + TOGETHER_MAX]
            self._send_push(ReplicaPush(traversal.tag, level, roots, until_us, some, task))


def roots_in(settings: SpiceSettings, tag: str, part: Tract) -> list[int]:
    """The roots of a tag in a tract. Only intervals of a single code count: wider ones would take
    long to search.
    """
    return [low for low, high in intervals(part) if high == low + 1 and settings.is_root(tag, low)]
