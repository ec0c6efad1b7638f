"""Registries that grow too large for one peer, and those that shrink again (thesis section 8.1.1,
Listing 10).

Closing. A full registry closes, and its records move to the next notch. The closed part is backed
up before anything is passed up. Each record stays here, and casts match it, until the next notch
acknowledges it. It is deleted only if the acknowledgement names *another* notch; if the record came
back to this one, the move is void.

Gathering. When few records are left above a closed part, they move down to it again. A traversal
asks every holder above to send its records down. While a part is gathering, entries for it are
stored here, casts still go up, and moves up are void. When the traversal is covered and the backups
know, the part opens. If it fails, everything stays as it was: at each moment a record is at its old
home, here, or at both.

A cast or a lower gathering that has passed here and is not covered yet could miss a record that
moves down behind it. A record that arrives meanwhile is therefore visited here, once for each such
traversal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.items import Entry, Key, closed_item
from implicast.casting.spice.part import SpiceTable, StoreBackoff, Tools
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.store_requests import ASCENDING, StoreAck
from implicast.casting.spice.stores import Stores
from implicast.casting.spice.traversal_messages import GatherRequest
from implicast.casting.spice.traversal_state import TraversalTask, TraversalUser
from implicast.casting.spice.traversals import Traversals
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Name
from implicast.peer.memory import Repeats
from implicast.space.tract import (
    EMPTY,
    Tract,
    container,
    contains,
    intersect,
    scale_within,
    subtract,
    within,
)

CLOSING_US = 10_000_000
"""A closing that the backups have not acknowledged within this time may be tried again."""
SWEEPS = 10
"""Number of sweeps for expired records in one lease."""
MOVES_MAX = 1_024
"""Maximum number of open moves down. Beyond it a peer moves nothing, and the gathering times out.
"""
GATHER_PAUSE_US = 60_000_000
"""Minimum time between two attempts to gather the same part."""
GATHERS_TRIED_MAX = 4_096
"""Maximum number of remembered attempts. Beyond it the oldest may be repeated sooner."""


@dataclass(slots=True)
class RecordMove(StoreBackoff):
    """Records of one holder on their way down to the notch `base`, as part of a gathering."""

    key: Key
    base: int
    entries: dict[Name, Entry]
    task: TraversalTask
    until_us: int

    def confirm(self, consumer: Name) -> None:
        del self.entries[consumer]


class Containers(SpiceTable, TraversalUser):
    """Closes large registries, gathers small ones and removes expired records."""

    __slots__ = (
        "_ascents",
        "_registries",
        "_retries",
        "_stores",
        "_sweeping",
        "_traversals",
        "gather_tried_us",
        "gatherings",
        "moves",
    )

    def __init__(
        self, tools: Tools, registries: Registries, stores: Stores, traversals: Traversals
    ) -> None:
        super().__init__(tools)
        self._registries, self._stores, self._traversals = registries, stores, traversals
        self._retries = tools.settings.assured
        """Whether records are passed up until they are acknowledged, and gathered again. Without
        receipts a closed part never opens.
        """
        self._ascents: dict[Key, StoreBackoff] = {}
        """Registries with records on their way up."""
        self._sweeping = False
        self.moves: dict[int, RecordMove] = {}
        self.gatherings: dict[Key, TraversalTask] = {}
        self.gather_tried_us: Repeats[Key] = Repeats(GATHERS_TRIED_MAX)

    # --- closing

    def on_records_stored(self, key: Key, records: Sequence[Record]) -> None:
        registry = self._registries.registry(key)
        self.schedule_sweep()
        self._close_if_crowded(key, registry)
        if registry.gathering:
            self._show_to_traversals(key, registry, records)

    def _close_if_crowded(self, key: Key, registry: Registry) -> None:
        if (
            len(registry.records) <= self.settings.storage_limit
            or key[2] == self.settings.last_notch
        ):
            return
        count = registry.count_open()
        if count > self.settings.storage_limit and not self._registries.is_closing(key):
            self._close(key, count)

    def _close(self, key: Key, count: int) -> None:
        """Close this registry, and those above it that would overflow at once and whose containers
        lie within the own tract.
        """
        tag, root, notch = key
        tracts: dict[Key, Tract] = {}
        while count > self.settings.storage_limit and notch < self.settings.last_notch:
            inside = container(root, notch, self.settings.dimensions)
            if tracts and not within(inside, self.surface.committed):
                break
            tracts[tag, root, notch] = intersect(inside, self.surface.committed)
            notch = self.settings.above(notch)
            above = self._registries.by_key.get((tag, root, notch))
            count += above.count_open() if above is not None else 0
        items = self._registries.close_soon(tracts, self.host.now_us + CLOSING_US)
        self.surface.replicate(items, partial(self.on_closing_backed_up, tracts))

    def on_closing_backed_up(self, tracts: dict[Key, Tract]) -> None:
        """The backups know of the closing: close, and pass the records up."""
        for key, tract in tracts.items():
            self._registries.close(key, intersect(tract, self.surface.tract))
        for key in tracts:
            self.start_ascent(key)

    # --- ascending

    def start_ascent(self, key: Key) -> None:
        """Pass up the records in the closed part, unless that is already in progress."""
        if key not in self._ascents:
            self._ascents[key] = StoreBackoff()
            self.send_ascending(key)

    def send_ascending(self, key: Key) -> None:
        registry = self._registries.by_key.get(key)
        ascending = registry.ascending() if registry is not None else []
        if not ascending:
            del self._ascents[key]
            return
        if self._retries:
            wait_us = self._ascents[key].next_wait_us()
            self.timer_wheel.schedule(wait_us, partial(self.retry_ascent, key))
        else:
            del self._ascents[key]
        ours = [each.entry for each in ascending if self.surface.answers(each.home)]
        self._stores.store_entries(*key, ours, (self.address, ASCENDING, key[2]))

    def retry_ascent(self, key: Key) -> None:
        if key in self._ascents:
            self.send_ascending(key)

    def on_stored_above(self, stored: StoreAck) -> None:
        """Delete records that another notch has stored. A record in a gathering part stays: a late
        acknowledgement must not delete what has come down again.
        """
        key = (stored.tag, stored.root, stored.notch)
        for consumer, version, at in stored.entries:
            record = self._registries.record_of(key, consumer)
            if record is None or at == stored.notch or record.entry.version > version:
                continue
            passing = self._registries.by_key[key].passing
            if contains(passing, record.home) and self.surface.answers(record.home):
                self._registries.forget(key, record)

    def settled(self) -> None:
        """The own tract has changed: abort gatherings outside it, and pass up records in closed
        parts.
        """
        for key, task in list(self.gatherings.items()):
            found = self._registries.by_key.get(key)
            gathering = found.gathering if found is not None else EMPTY
            if not gathering or subtract(gathering, self.surface.committed):
                self._traversals.give_up(task)
        for key, registry in self._registries.all():
            if registry.closed:
                self.start_ascent(key)
            self._close_if_crowded(key, registry)
        self.schedule_sweep()

    # --- gathering

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        traversal = task.traversal
        assert isinstance(traversal, GatherRequest)
        key = (traversal.tag, traversal.root, traversal.base)
        if self.gatherings.get(key) is task:
            (self.on_gathered if is_covered else self._abort_gathering)(key)

    def gather_if_shrunken(self, task: TraversalTask) -> None:
        """After a cast has covered the closed part, gather it if the records above are at most half
        the limit.
        """
        traversal = task.traversal
        key = (traversal.tag, traversal.root, traversal.notch)
        registry = self._registries.by_key.get(key)
        if (
            registry is None
            or not self._retries
            or 2 * task.tally.size > self.settings.storage_limit
        ):
            return
        if registry.closed and not subtract(registry.closed, task.part):
            self.gather(key)

    def gather(self, key: Key) -> None:
        """Move the records above the closed part of this registry down to it."""
        registry, now_us = self._registries.by_key[key], self.host.now_us
        closed = intersect(registry.closed, self.surface.committed)
        if (
            key in self.gatherings
            or closed != registry.closed
            or self.gather_tried_us.came_by(key, now_us, GATHER_PAUSE_US)
        ):
            return
        self._ascents.pop(key, None)  # moves up are void
        registry.set_gathering(closed)
        tag, root, base = key
        above = self.settings.above(base)
        scaled = scale_within(closed, root, base, self.settings.dimensions, above - base)
        way, token = RouteHeader(scaled), self.next_token()
        traversal = GatherRequest(way, tag, root, above, base, self.address, token)
        task = self.gatherings[key] = TraversalTask(now_us, traversal)
        ours = intersect(scaled, self._traversals.known)
        self._traversals.visit_all(task, traversal, above, ours)
        if rest := subtract(scaled, ours):
            onward = replace(traversal, way=RouteHeader(rest))
            self._traversals.send_up(task, onward, base, closed)
        self.timer_wheel.schedule(CAST_US, partial(self.on_gather_timeout, key, task))
        self._traversals.finish_one(task)

    def on_gather_timeout(self, key: Key, task: TraversalTask) -> None:
        if self.gatherings.get(key) is task:
            self._traversals.give_up(task)

    def _abort_gathering(self, key: Key) -> None:
        """Keep the part closed: records that came down go up again. The backups may have been told
        that it is open, so they are told again.
        """
        self.gatherings.pop(key, None)
        registry = self._registries.by_key.get(key)
        if registry is not None:
            registry.set_gathering(EMPTY)
            if registry.closed:
                self.surface.replicate((closed_item(key, registry.closed),), lambda: None)
            self.start_ascent(key)

    def on_gathered(self, key: Key) -> None:
        """No record is left above: open the part once the backups know."""
        registry = self._registries.by_key.get(key)
        if registry is None or not registry.gathering:
            self._abort_gathering(key)
            return
        gathered, task = registry.gathering, self.gatherings.get(key)
        item = closed_item(key, subtract(registry.closed, gathered))
        self.surface.replicate((item,), partial(self.open_gathered, key, gathered, task))

    def open_gathered(self, key: Key, gathered: Tract, task: TraversalTask | None) -> None:
        """The backups know: open the part. Extents handed off meanwhile are not in it."""
        registry = self._registries.by_key.get(key)
        if registry is None or task is None or self.gatherings.get(key) is not task:
            return
        if registry.gathering and not subtract(registry.gathering, gathered):
            del self.gatherings[key]
            registry.set_closed(subtract(registry.closed, registry.gathering))
            registry.set_gathering(EMPTY)
            self._registries.remove_if_empty(key)
            self._close_if_crowded(key, registry)

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        """Move records that the traversal has met, or that came down past it, to the base."""
        traversal = task.traversal
        assert isinstance(traversal, GatherRequest)
        if not records:
            return
        task.add_pending()  # even without room for the move: the gathering then times out
        if len(self.moves) < MOVES_MAX:
            token, until_us = self.next_token(), self.host.now_us + CAST_US
            entries = {each.entry.member.name: each.entry for each in records}
            key = (traversal.tag, traversal.root, registry.notch)
            self.moves[token] = RecordMove(key, traversal.base, entries, task, until_us)
            self.retry_move(token)

    def retry_move(self, token: int) -> None:
        move = self.moves.get(token)
        if move is not None and self.host.now_us > move.until_us:
            del self.moves[token]
        elif move is not None:
            self.timer_wheel.schedule(move.next_wait_us(), partial(self.retry_move, token))
            self._stores.send_store((*move.key[:2], move.base), tuple(move.entries.values()), token)

    def on_moved(self, stored: StoreAck) -> bool:
        """Process the acknowledgement of a move and delete the moved records. Returns False if the
        token is not of a move.
        """
        if (move := self.moves.get(stored.token)) is None:
            return False
        for consumer, version, at in stored.entries:
            entry = move.entries.get(consumer)
            if entry is None or version < entry.version:
                continue
            record = self._registries.record_of(move.key, consumer)
            if at == move.key[2]:  # it came back: the gathering was aborted, and the move with it
                self.moves.pop(stored.token, None)
                return True
            move.confirm(consumer)
            if (
                record is not None
                and record.entry.version <= version
                and self.surface.answers(record.home)
            ):
                self._registries.forget(move.key, record)
        if not move.entries and self.moves.pop(stored.token, None) is not None:
            self._traversals.finish_one(move.task)
        return True

    def _show_to_traversals(self, key: Key, registry: Registry, records: Sequence[Record]) -> None:
        """Visit the records for each open traversal that went up past this part."""
        tag, root, notch = key
        for each in records:
            if not contains(registry.gathering, each.home):
                continue
            for task in self._traversals.tasks.active_at(tag, root):
                if task.is_above(notch, each.entry.spot, self.settings.dimensions):
                    self._traversals.show(task, registry, each)

    # --- expiry

    def schedule_sweep(self) -> None:
        if not self._sweeping and self.settings.leases_end:
            self._sweeping = True
            self.timer_wheel.schedule(self.settings.lease_us // SWEEPS, self.sweep_expired)

    def sweep_expired(self) -> None:
        """Remove records and tombstones whose lease has expired."""
        self._sweeping = False
        now_us = self.host.now_us
        for key, registry in self._registries.all():
            for record in registry.expired(now_us):
                if self.surface.answers(record.home):
                    self._registries.forget(key, record)
        if self.settings.live:
            self._registries.levels.sweep(SWEEPS)
        if self._registries.by_key:
            self.schedule_sweep()
