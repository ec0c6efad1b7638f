"""A registry that has shrunk is drawn together again: what is kept above a closed part comes down to it.

While a part is gathering, what comes for it is kept here although casts still go up, and its own moves up have lapsed.
A walk asks every holder above to send its records down; when all of it is covered, and heirs know, the part is open. If
that fails, all is as before: at every moment a record is at its old home, here, or both.

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
from implicast.casting.spice.trips import Work
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Message, Name, handles
from implicast.space.tract import EMPTY, Tract, contains, intersect, scale_within, subtract

MOVES_MAX = 1_024
"""Messages of records on their way down; beyond it a gathering is not taken part in, and lapses."""
REST_US = 60_000_000
"""A part is not gathered again for so long after a try."""


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


class Gatherings(SpicePart):
    """A peer's part in drawing registries together."""

    __slots__ = ("_moves", "_tried_us", "gatherings")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._moves: dict[int, Move] = {}
        self.gatherings: dict[Key, Work] = {}
        self._tried_us: dict[Key, int] = {}

    # --- deciding

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
        if registry is None or not isinstance(walk, CastTo) or 2 * work.tally.size > self.settings.storage_limit:
            return
        if registry.closed and not subtract(registry.closed, work.part):
            self.gather(key)

    def gather(self, key: Key) -> None:
        """Draw together what is kept above our closed part of this registry."""
        registry, now_us = self.spice.shelf.registries[key], self.host.now_us
        resting = self._tried_us.get(key, -REST_US) + REST_US > now_us
        closed = intersect(registry.closed, self.surface.ground)
        if resting or key in self.gatherings or closed != registry.closed:
            return
        self._tried_us = {each: at_us for each, at_us in self._tried_us.items() if at_us + REST_US > now_us}
        self._tried_us[key] = now_us
        self.spice.containers.stop_rising(key)
        registry.gather(closed)
        tag, root, base = key
        above = self.settings.above(base)
        scaled = scale_within(closed, root, base, self.settings.dimensions, above - base)
        walk = GatherTo(Way(scaled), tag, root, above, base, self.address, self.spice.stores.token())
        work = self.gatherings[key] = Work(now_us, walk)
        ours = intersect(scaled, self.surface.ground)
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
            self.spice.containers.rise(key)

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
            if registry.idle:
                self.spice.shelf.tidy(key)
            else:
                self.spice.containers.close_if_crowded(key, registry)

    def settled(self) -> None:
        """A gathering on ground that is not ours any more lapses."""
        for key, work in list(self.gatherings.items()):
            registry = self.spice.shelf.registries.get(key)
            if registry is None or not registry.gathering or subtract(registry.gathering, self.surface.ground):
                self.spice.walks.give_up(work)

    # --- taking part

    def show(self, work: Work, registry: Registry, held: Sequence[Held]) -> None:
        """Records that the walk has met, or that came down past it, go to the base."""
        walk = work.walk
        assert isinstance(walk, GatherTo)
        if not held:
            return
        work.wait()  # even if there is no room to move them: the gathering then lapses
        if len(self._moves) < MOVES_MAX:
            token, entries = self.spice.stores.token(), {each.entry.member.name: each.entry for each in held}
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
            tag, root, _ = move.key
            self.spice.stores.send_store((tag, root, move.base), tuple(move.entries.values()), alarm.token)

    def stored(self, stored: StoredAt) -> bool:
        """Is this about a move of ours? Then what has arrived below may go."""
        move = self._moves.get(stored.token)
        if move is None:
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
            if held is not None and held.entry.version <= version and self.surface.answers(held.home):
                self.spice.shelf.forget(move.key, held)
        if not move.entries and self._moves.pop(stored.token, None) is not None:
            self.spice.walks.close_one(move.work)
        return True

    # --- showing

    def kept(self, key: Key, registry: Registry, held: Sequence[Held]) -> None:
        """To every walk that was sent up past this place and is not covered."""
        tag, root, notch = key
        walks = self.spice.walks
        for each in held:
            for work in walks.active(tag, root) if contains(registry.gathering, each.home) else ():
                if self._is_above(work, notch, root, each.entry.spot) and not work.is_shown(each.entry.member.name):
                    walks.purpose(work.walk).show(work, registry, [each])

    def _is_above(self, work: Work, notch: int, root: int, spot: int) -> bool:
        if isinstance(work.walk, GatherTo) and work.walk.base >= notch:
            return False
        for trip in work.up:
            passed = work.walk.notch <= notch <= trip.notch or isinstance(work.walk, GatherTo)
            if passed and contains(trip.closed, home(root, trip.notch, spot, self.settings.dimensions)):
                return True
        return False
