"""A registry that has shrunk is drawn together again: what is kept above a closed part comes down to it.

While a part is gathering, what comes for it is kept here although casts still go up, and its own moves up have lapsed.
A walk asks every holder above to send its records down; when all of it is covered, and heirs know, the part is open. If
that fails, all is as before: at every moment a record is at its old home, here, or both.

*What comes down is shown to the walks above.* A cast (or the gathering of a lower notch) that has passed here and is
not covered yet could pass the holder after the record left it: so a record that arrives meanwhile is taken into that
walk here, once for each walk.
"""

from functools import partial

from implicast.casting.spice.alive.casting import Casting
from implicast.casting.spice.alive.items import closed_item
from implicast.casting.spice.alive.keeper import arrives
from implicast.casting.spice.alive.messages import CastTo, Entry, GatherTo, StoredAt
from implicast.casting.spice.alive.registry import Held, Key, Registry
from implicast.casting.spice.alive.settings import CAST_US, STORE_US, WAIT_LONGEST_US, LivingSettings
from implicast.casting.spice.alive.walking import Walk, Work
from implicast.casting.spice.homes import home
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import EMPTY, Tract, contains, intersect, scale_within, subtract

MOVES_MAX = 1_024
"""Messages of records on their way down; beyond it a gathering is not taken part in, and lapses."""
REST_US = 60_000_000
"""A part is not gathered again for so long after a try."""


class Move:
    """Records of one holder on their way down to a base, as a part of a work."""

    __slots__ = ("base", "entries", "key", "until_us", "wait_us", "work")

    def __init__(self, key: Key, base: int, entries: list[Entry], work: Work, until_us: int) -> None:
        self.key, self.base, self.work, self.until_us = key, base, work, until_us
        self.entries = {each.consumer: each for each in entries}
        self.wait_us = STORE_US


class Gathering(Casting):
    """A peer's part in drawing registries together."""

    __slots__ = ("_moves", "_tried_us", "gatherings")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._moves: dict[int, Move] = {}
        self.gatherings: dict[Key, Work] = {}
        self._tried_us: dict[Key, int] = {}

    # --- deciding

    def finished(self, work: Work) -> None:
        super().finished(work)
        walk = work.walk
        key = (walk.tag, walk.root, walk.notch)
        if isinstance(walk, GatherTo) and self.gatherings.get((walk.tag, walk.root, walk.base)) is work:
            self._gathered((walk.tag, walk.root, walk.base))
        elif isinstance(walk, CastTo) and 2 * work.size <= self.settings.storage_limit and key in self.registries:
            registry = self.registries[key]
            if registry.closed and not subtract(registry.closed, work.part):
                self.gather(key)

    def gather(self, key: Key) -> None:
        """Draw together what is kept above our closed part of this registry."""
        registry, now_us = self.registries[key], self.host.now_us
        resting = self._tried_us.get(key, -REST_US) + REST_US > now_us
        closed = intersect(registry.closed, self.surface.ground)
        if resting or key in self.gatherings or closed != registry.closed:
            return
        self._tried_us = {each: at_us for each, at_us in self._tried_us.items() if at_us + REST_US > now_us}
        self._tried_us[key] = now_us
        self.stop_rising(key)
        registry.gathering = closed
        tag, root, base = key
        above = self.settings.above(base)
        scaled = scale_within(closed, root, base, self.settings.dimensions, above - base)
        walk = GatherTo(Way(scaled), tag, root, above, base, self.address, self.token(), self.address, 0)
        work = self.gatherings[key] = Work(walk, EMPTY, now_us)
        ours = intersect(scaled, self.surface.ground)
        self.visit_all(work, walk, above, ours)
        if rest := subtract(scaled, ours):
            self.branch(work, GatherTo(Way(rest), *_rest_of(walk)), base, closed)
        self.later(CAST_US, partial(self._lapse_if, key, work))
        self.close_one(work)

    def _lapse_if(self, key: Key, work: Work) -> None:
        if self.gatherings.get(key) is work:
            self.give_up(work)

    def abandoned(self, work: Work) -> None:
        super().abandoned(work)
        walk = work.walk
        if isinstance(walk, GatherTo):
            key = (walk.tag, walk.root, walk.base)
            if self.gatherings.get(key) is work:
                self._lapse(key)

    def _lapse(self, key: Key) -> None:
        """All is as before: what has come down goes up again; heirs may have been told that the part is open."""
        self.gatherings.pop(key, None)
        registry = self.registries.get(key)
        if registry is not None:
            registry.gathering = EMPTY
            if registry.closed:
                self.surface.batch((closed_item(key, registry.closed),), lambda: None)
            self.rise(key)

    def _gathered(self, key: Key) -> None:
        """Nothing is left above: open, once heirs know."""
        registry = self.registries.get(key)
        if registry is None or not registry.gathering:
            self._lapse(key)
            return
        gathered, work = registry.gathering, self.gatherings.get(key)
        item = closed_item(key, subtract(registry.closed, gathered))
        self.surface.batch((item,), lambda: self._open(key, gathered, work))

    def _open(self, key: Key, gathered: Tract, work: Work | None) -> None:
        """Heirs know. Some of the ground may have been given away meanwhile: what is left of it was gathered too."""
        registry = self.registries.get(key)
        if registry is None or work is None or self.gatherings.get(key) is not work:
            return
        if registry.gathering and not subtract(registry.gathering, gathered):
            del self.gatherings[key]
            registry.shut(subtract(registry.closed, registry.gathering))
            registry.gathering = EMPTY
            if registry.idle:
                del self.registries[key]
            else:
                self._close_if_crowded(key, registry)

    def settled(self) -> None:
        """A gathering on ground that is not ours any more lapses."""
        for key, work in list(self.gatherings.items()):
            registry = self.registries.get(key)
            if registry is None or not registry.gathering or subtract(registry.gathering, self.surface.ground):
                self.give_up(work)
        super().settled()

    # --- taking part

    @handles(GatherTo)
    def on_gather(self, sender: Address, gather: GatherTo) -> None:
        self.surface.carry(sender, gather)

    @arrives(GatherTo)
    def _gather_arrived(self, part: Tract, gather: GatherTo) -> None:
        self.walk_arrived(part, gather)

    def visit(self, work: Work, walk: Walk, registry: Registry, part: Tract) -> None:
        super().visit(work, walk, registry, part)
        if isinstance(walk, GatherTo):
            entries = [each.entry for each in registry.within(part)]
            if entries:
                self._move_down(work, walk, registry, entries)

    def _move_down(self, work: Work, walk: GatherTo, registry: Registry, entries: list[Entry]) -> None:
        work.open += 1  # even if there is no room to move them: the gathering then lapses
        if len(self._moves) < MOVES_MAX:
            key = (walk.tag, walk.root, registry.notch)
            token = self.token()
            self._moves[token] = Move(key, walk.base, entries, work, self.host.now_us + CAST_US)
            self._send_down(token)

    def _send_down(self, token: int) -> None:
        move = self._moves.get(token)
        if move is None:
            return
        if self.host.now_us > move.until_us:
            del self._moves[token]
            return
        self.later(move.wait_us, lambda: self._send_down(token))
        move.wait_us = min(2 * move.wait_us, WAIT_LONGEST_US)
        tag, root, _ = move.key
        self.send_store(tag, root, move.base, tuple(move.entries.values()), token)

    @handles(StoredAt)
    def on_stored(self, sender: Address, stored: StoredAt) -> None:
        move = self._moves.get(stored.token)
        if move is None:
            super().on_stored(sender, stored)
            return
        registry = self.registries.get(move.key)
        for consumer, version, at in stored.kept:
            entry = move.entries.get(consumer)
            if entry is None or version < entry.version:
                continue
            held = registry.records.get(consumer) if registry is not None else None
            if at == move.key[2]:  # it came back: the gathering has lapsed, and this move with it
                self._moves.pop(stored.token, None)
                return
            del move.entries[consumer]
            if held is not None and held.entry.version <= version and self.surface.answers(held.home):
                self.forget(move.key, held)
        if not move.entries and self._moves.pop(stored.token, None) is not None:
            self.close_one(move.work)

    # --- showing

    def kept(self, key: Key, registry: Registry, held: Held) -> None:
        super().kept(key, registry, held)
        if registry.gathering and contains(registry.gathering, held.home):
            self.show_walks(key, registry, held)

    def show_walks(self, key: Key, registry: Registry, held: Held) -> None:
        """To every walk that was sent up past this place and is not covered."""
        tag, root, notch = key
        for work in self.active(tag, root):
            if held.entry.consumer not in work.shown and self._is_above(work, notch, root, held.entry.spot):
                work.shown.add(held.entry.consumer)
                self.show(work, registry, held)

    def _is_above(self, work: Work, notch: int, root: int, spot: int) -> bool:
        if isinstance(work.walk, GatherTo) and work.walk.base >= notch:
            return False
        for branch in work.branches.values():
            passed = work.walk.notch <= notch <= branch.notch or isinstance(work.walk, GatherTo)
            if passed and contains(branch.closed, home(root, branch.notch, spot, self.settings.dimensions)):
                return True
        return False

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        super().show(work, registry, held)
        if isinstance(work.walk, GatherTo):
            self._move_down(work, work.walk, registry, [held.entry])


def _rest_of(walk: GatherTo) -> tuple[str, int, int, int, Address, int, Address, int]:
    return walk.tag, walk.root, walk.notch, walk.base, walk.leader, walk.walk, walk.parent, walk.branch
