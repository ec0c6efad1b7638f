"""Registries that become too large for one peer, and those that shrink again (thesis section 8.1.1, Listing 10).

Full registries close: what they keep goes to the next notch. Heirs know first: the closed part is backed up before
anything is passed up by it. Then every record in it is sent to its home above, and kept and answered from until that is
confirmed. A mover deletes its copy only when the confirmation says that the record is kept at *another* notch; if it
came back to ours, the move has lapsed.

A registry that has shrunk is drawn together: what is kept above a closed part comes down to it. While a part is
gathering, what comes for it is kept here although casts still go up, and its own moves up have lapsed. A walk asks
every holder above to send its records down; when all of it is covered, and heirs know, the part is open. If that fails,
all is as before: at every moment a record is at its old home, here, or both.

*What comes down is shown to the walks above.* A cast (or the gathering of a lower notch) that has passed here and is
not covered yet could pass the holder after the record left it: so a record that arrives meanwhile is taken into that
walk here, once for each walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.homes import home
from implicast.casting.spice.items import Key, closed_item
from implicast.casting.spice.messages import CastTo, Entry, GatherTo, StoredAt
from implicast.casting.spice.registry import Held, Registry
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.share import Repeated, Spice, SpicePart
from implicast.casting.spice.stores import RISING
from implicast.casting.spice.trips import Work
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Message, Name, handles
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
"""A closing that heirs have not confirmed in this time may be tried again."""
SWEEPS = 10
"""So many times in a lease one looks for records that have run out."""
MOVES_MAX = 1_024
"""Messages of records on their way down; beyond it a gathering is not taken part in, and lapses."""
REST_US = 60_000_000
"""A part is not gathered again for so long after a try."""
TRIED_MAX = 4_096
"""Tries that are remembered; after more the oldest may be repeated sooner."""


class RiseAgain(Message):
    """Rings when records that go up should have been confirmed."""

    key: Key


class Sweep(Message):
    """Rings ten times in a lease: forget what has run out."""


class MoveAgain(Message):
    """Rings when records that come down should have been confirmed."""

    token: int


class Lapse(Message):
    """Rings when a gathering has taken too long."""

    walk: int


@dataclass(slots=True)
class Move(Repeated):
    """Records of one holder on their way down to a base, as a part of a work."""

    key: Key
    base: int
    entries: dict[Name, Entry]
    work: Work
    until_us: int


class Containers(SpicePart):
    """A peer's part in spreading large registries, in drawing them together, and in forgetting."""

    __slots__ = ("_moves", "_risings", "_sweeping", "_tried_us", "gatherings")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._risings: dict[Key, Repeated] = {}
        """Registries whose records go up."""
        self._sweeping = False
        self._moves: dict[int, Move] = {}
        self.gatherings: dict[Key, Work] = {}
        self._tried_us: Repeats[Key] = Repeats(TRIED_MAX)

    def stand(self, key: Key, records: Sequence[Entry], closed: bool) -> None:
        """What a registry has from the start: records, or a closed part through which these went up."""
        shelf = self.spice.shelf
        if closed:
            shelf.close(
                key,
                intersect(container(key[1], key[2], self.settings.dimensions), self.surface.ground),
            )
            if self.settings.rarest and not key[2]:
                shelf.registry(key).pass_by(len(records))
            return
        shelf.stand(key, records)
        self._sweep_later()

    # --- closing

    def kept(self, key: Key, registry: Registry, held: Sequence[Held]) -> None:
        self._sweep_later()
        self._close_if_crowded(key, registry)
        if registry.gathering:
            self._show(key, registry, held)

    def _close_if_crowded(self, key: Key, registry: Registry) -> None:
        if (
            len(registry.records) <= self.settings.storage_limit
            or key[2] == self.settings.last_notch
        ):
            return
        count = registry.living()
        if count > self.settings.storage_limit and not self.spice.shelf.is_closing(key):
            self._close(key, count)

    def _close(self, key: Key, count: int) -> None:
        """This registry, and those above it that would be too full at once and lie wholly on our ground."""
        tag, root, notch = key
        tracts: dict[Key, Tract] = {}
        while count > self.settings.storage_limit and notch < self.settings.last_notch:
            inside = container(root, notch, self.settings.dimensions)
            if tracts and not within(inside, self.surface.ground):
                break
            tracts[tag, root, notch] = intersect(inside, self.surface.ground)
            notch = self.settings.above(notch)
            above = self.spice.shelf.registries.get((tag, root, notch))
            count += above.living() if above is not None else 0
        items = self.spice.shelf.close_soon(tracts, self.host.now_us + CLOSING_US)
        self.surface.batch(items, partial(self._shut, tracts))

    def _shut(self, tracts: dict[Key, Tract]) -> None:
        """Heirs know: close, and let the records go up."""
        for key, tract in tracts.items():
            self.spice.shelf.close(key, intersect(tract, self.surface.tract))
        for key in tracts:
            self.rise(key)

    # --- rising

    def rise(self, key: Key) -> None:
        """Send up what lies in the closed part, unless that is under way."""
        if key not in self._risings:
            self._risings[key] = Repeated()
            self._rise(key)

    def _rise(self, key: Key) -> None:
        registry = self.spice.shelf.registries.get(key)
        rising = registry.rising() if registry is not None else []
        if not rising:
            del self._risings[key]
            return
        if self.settings.assured:
            self.spice.later.put(self._risings[key].wait_longer(), RiseAgain(key))
        else:
            del self._risings[key]
        ours = [each.entry for each in rising if self.surface.answers(each.home)]
        self.spice.stores.take(*key, ours, (self.address, RISING, key[2]))

    @handles(RiseAgain)
    def on_rise_again(self, alarm: RiseAgain) -> None:
        if alarm.key in self._risings:
            self._rise(alarm.key)

    def stored(self, stored: StoredAt) -> None:
        """What another notch has may go; a late word must not delete what has been drawn down again (`passing`)."""
        key = (stored.tag, stored.root, stored.notch)
        for consumer, version, at in stored.kept:
            held = self.spice.shelf.held(key, consumer)
            if held is None or at == stored.notch or held.entry.version > version:
                continue
            if contains(
                self.spice.shelf.registries[key].passing, held.home
            ) and self.surface.answers(held.home):
                self.spice.shelf.forget(key, held)

    def settled(self) -> None:
        """The ground has changed: gatherings on others' ground lapse; what is in closed parts of new ground goes up."""
        for key, work in list(self.gatherings.items()):
            drawn = self.spice.shelf.registries.get(key)
            if (
                drawn is None
                or not drawn.gathering
                or subtract(drawn.gathering, self.surface.ground)
            ):
                self.spice.walks.give_up(work)
        for key, registry in self.spice.shelf.all():
            if registry.closed:
                self.rise(key)
            self._close_if_crowded(key, registry)
        self._sweep_later()

    # --- gathering

    def ended(self, work: Work, is_covered: bool) -> None:
        walk = work.walk
        assert isinstance(walk, GatherTo)
        key = (walk.tag, walk.root, walk.base)
        if self.gatherings.get(key) is work:
            (self._gathered if is_covered else self._lapse)(key)

    def passed(self, work: Work) -> None:
        """A cast has been through our part of a registry: is little left above?"""
        walk = work.walk
        key = (walk.tag, walk.root, walk.notch)
        registry = self.spice.shelf.registries.get(key)
        if (
            registry is None
            or not isinstance(walk, CastTo)
            or 2 * work.tally.size > self.settings.storage_limit
        ):
            return
        if registry.closed and not subtract(registry.closed, work.part):
            self.gather(key)

    def gather(self, key: Key) -> None:
        """Draw together what is kept above our closed part of this registry."""
        registry, now_us = self.spice.shelf.registries[key], self.host.now_us
        closed = intersect(registry.closed, self.surface.ground)
        if (
            key in self.gatherings
            or closed != registry.closed
            or self._tried_us.came_by(key, now_us, REST_US)
        ):
            return
        self._risings.pop(key, None)  # its moves up lapse
        registry.gather(closed)
        tag, root, base = key
        above = self.settings.above(base)
        scaled = scale_within(closed, root, base, self.settings.dimensions, above - base)
        walk = GatherTo(
            Way(scaled), tag, root, above, base, self.address, self.spice.stores.token()
        )
        work = self.gatherings[key] = Work(now_us, walk)
        ours = intersect(scaled, self.spice.known)
        self.spice.walks.visit_all(work, walk, above, ours)
        if rest := subtract(scaled, ours):
            self.spice.walks.send_up(work, replace(walk, way=Way(rest)), base, closed)
        self.spice.later.put(CAST_US, Lapse(walk.walk))
        self.spice.walks.close_one(work)

    @handles(Lapse)
    def on_lapse(self, alarm: Lapse) -> None:
        for work in list(self.gatherings.values()):
            if isinstance(work.walk, GatherTo) and work.walk.walk == alarm.walk:
                self.spice.walks.give_up(work)

    def _lapse(self, key: Key) -> None:
        """All is as before: what has come down goes up again; heirs may have been told that the part is open."""
        self.gatherings.pop(key, None)
        registry = self.spice.shelf.registries.get(key)
        if registry is not None:
            registry.gather(EMPTY)
            if registry.closed:
                self.surface.batch((closed_item(key, registry.closed),), lambda: None)
            self.rise(key)

    def _gathered(self, key: Key) -> None:
        """Nothing is left above: open, once heirs know."""
        registry = self.spice.shelf.registries.get(key)
        if registry is None or not registry.gathering:
            self._lapse(key)
            return
        gathered, work = registry.gathering, self.gatherings.get(key)
        item = closed_item(key, subtract(registry.closed, gathered))
        self.surface.batch((item,), partial(self._open, key, gathered, work))

    def _open(self, key: Key, gathered: Tract, work: Work | None) -> None:
        """Heirs know. Some of the ground may have been given away meanwhile: what is left of it was gathered too."""
        registry = self.spice.shelf.registries.get(key)
        if registry is None or work is None or self.gatherings.get(key) is not work:
            return
        if registry.gathering and not subtract(registry.gathering, gathered):
            del self.gatherings[key]
            registry.shut(subtract(registry.closed, registry.gathering))
            registry.gather(EMPTY)
            self.spice.shelf.tidy(key)
            self._close_if_crowded(key, registry)

    def show(self, work: Work, registry: Registry, held: Sequence[Held]) -> None:
        """Records that the walk has met, or that came down past it, go to the base."""
        walk = work.walk
        assert isinstance(walk, GatherTo)
        if not held:
            return
        work.wait()  # even if there is no room to move them: the gathering then lapses
        if len(self._moves) < MOVES_MAX:
            token, entries = (
                self.spice.stores.token(),
                {each.entry.member.name: each.entry for each in held},
            )
            key = (walk.tag, walk.root, registry.notch)
            self._moves[token] = Move(key, walk.base, entries, work, self.host.now_us + CAST_US)
            self.on_move_again(MoveAgain(token))

    @handles(MoveAgain)
    def on_move_again(self, alarm: MoveAgain) -> None:
        move = self._moves.get(alarm.token)
        if move is not None and self.host.now_us > move.until_us:
            del self._moves[alarm.token]
        elif move is not None:
            self.spice.later.put(move.wait_longer(), alarm)
            self.spice.stores.send_store(
                (*move.key[:2], move.base), tuple(move.entries.values()), alarm.token
            )

    def moved(self, stored: StoredAt) -> bool:
        """Is this about a move of ours? Then what has arrived below may go."""
        if (move := self._moves.get(stored.token)) is None:
            return False
        for consumer, version, at in stored.kept:
            entry = move.entries.get(consumer)
            if entry is None or version < entry.version:
                continue
            held = self.spice.shelf.held(move.key, consumer)
            if at == move.key[2]:  # it came back: the gathering has lapsed, and this move with it
                self._moves.pop(stored.token, None)
                return True
            del move.entries[consumer]
            if (
                held is not None
                and held.entry.version <= version
                and self.surface.answers(held.home)
            ):
                self.spice.shelf.forget(move.key, held)
        if not move.entries and self._moves.pop(stored.token, None) is not None:
            self.spice.walks.close_one(move.work)
        return True

    def _show(self, key: Key, registry: Registry, held: Sequence[Held]) -> None:
        """To every walk that was sent up past this place and is not covered."""
        tag, root, notch = key
        walks = self.spice.walks
        for each in held:
            for work in walks.active(tag, root) if contains(registry.gathering, each.home) else ():
                if self._is_above(work, notch, root, each.entry.spot) and not work.is_shown(
                    each.entry.member.name
                ):
                    walks.purpose(work.walk).show(work, registry, [each])

    def _is_above(self, work: Work, notch: int, root: int, spot: int) -> bool:
        walk, dimensions = work.walk, self.settings.dimensions
        if isinstance(walk, GatherTo):
            passed = list(work.up) if walk.base < notch else []
        else:
            passed = [trip for trip in work.up if walk.notch <= notch <= trip.notch]
        return any(
            contains(trip.closed, home(root, trip.notch, spot, dimensions)) for trip in passed
        )

    # --- forgetting

    def _sweep_later(self) -> None:
        if not self._sweeping and self.settings.assured:
            self._sweeping = True
            self.spice.later.put(self.settings.lease_us // SWEEPS, Sweep())

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget records whose consumers have not renewed them; tombstones go the same way."""
        self._sweeping = False
        now_us = self.host.now_us
        for key, registry in self.spice.shelf.all():
            for held in registry.run_out(now_us):
                if self.surface.answers(held.home):
                    self.spice.shelf.forget(key, held)
        if self.settings.live:
            self.spice.levels.sweep(SWEEPS)
        if self.spice.shelf.registries:
            self._sweep_later()
