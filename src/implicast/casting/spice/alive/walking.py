"""Walks through registries, acknowledged by coverage: whoever has finished a part says so to whoever sent the branch.

A walk (a cast, a gathering, a copying) goes to a part of a registry at one notch; where that is closed it goes on, as a
branch of the work begun there, to the scaled part of the next. A work is finished when everything in it is; only then
is its part covered. What has not been covered after a while is sent again, to whoever owns it by then. Subtracting
tracts is the whole bookkeeping, so a crash of anybody but the one who began delays, and does not lose.

A peer that parts with a piece finishes the work it has begun there: it had all records that were complete by then.
"""

from collections.abc import Hashable, Iterator

import msgspec

from implicast.casting.spice.alive.keeper import SLOT_US
from implicast.casting.spice.alive.messages import CastTo, CopyFrom, CoveredPart, GatherTo, Working
from implicast.casting.spice.alive.offering import Offering
from implicast.casting.spice.alive.registry import Held, Registry
from implicast.casting.spice.alive.settings import BRANCH_US, CAST_US, WAIT_LONGEST_US, LivingSettings
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.space.tract import EMPTY, Tract, intersect, scale_within, subtract

WORKS_MAX = 4_096
"""Walks in work or lately finished at one peer; beyond it walks are not begun, and whoever sent them sends again."""
PARENTS_MAX = 8
"""Branches that one work answers; the newest."""
SWEEP_US = 10_000_000

Walk = CastTo | GatherTo | CopyFrom


class Work:
    """A part of a walk that was begun here."""

    __slots__ = ("begun_us", "branches", "done_us", "name", "open", "parents", "part", "shown", "silent", "size",
                 "told", "walk")  # fmt: skip

    def __init__(self, walk: Walk, part: Tract, now_us: int) -> None:
        self.walk, self.part, self.begun_us, self.name = walk, part, now_us, name_of(walk)
        self.parents: dict[tuple[Address, int], None] = {}
        self.branches: dict[int, Branch] = {}
        self.open = 1
        """What is not finished: notifications, branches, moves, and the beginning itself."""
        self.told = self.silent = self.size = 0
        self.done_us: int | None = None
        self.shown: set[Address] = set()
        """Consumers whose records came down while the walk was above (`gathering.py`)."""


class Branch:
    """What a work has sent on."""

    __slots__ = ("closed", "notch", "outstanding", "wait_us", "walk", "work")

    def __init__(self, work: Work, walk: Walk, notch: int, closed: Tract) -> None:
        self.work, self.walk, self.notch, self.closed = work, walk, notch, closed
        self.outstanding, self.wait_us = walk.way.tract, BRANCH_US


def name_of(walk: Walk) -> Hashable:
    """Equal for all messages of one walk at one notch of one registry."""
    if isinstance(walk, CastTo):
        return walk.cast, walk.term, walk.level, walk.root, walk.notch
    return type(walk).__name__, walk.leader, walk.walk, walk.root, walk.notch


def cast_of(walk: Walk) -> CastId | None:
    return walk.cast if isinstance(walk, CastTo) else None


class Walking(Offering):
    """A peer's part in the walks of others, and the bookkeeping of its own."""

    __slots__ = ("_active", "_branches", "_tidying", "_works")

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self._works: dict[Hashable, list[Work]] = {}
        self._branches: dict[int, Branch] = {}
        self._active: dict[tuple[str, int], dict[Work, None]] = {}
        """Unfinished works that went up from closed parts here, by registry."""
        self._tidying = False

    # --- beginning

    def walk_arrived(self, part: Tract, walk: Walk) -> None:
        """Begin what is new of it; answer for what is not."""
        works = self._works.setdefault(name_of(walk), [])
        for work in works:
            if common := intersect(part, work.part):
                self._known(work, walk, common)
                part = subtract(part, common)
        if part and len(self._works) <= WORKS_MAX:
            work = Work(walk, part, self.host.now_us)
            work.parents[walk.parent, walk.branch] = None
            works.append(work)
            self._tidy_later()
            self.begin(work, walk, part)
            self.close_one(work)
        elif not works:
            del self._works[name_of(walk)]

    def _known(self, work: Work, walk: Walk, common: Tract) -> None:
        if work.done_us is not None:
            self._cover(work, walk.parent, walk.branch, common)
            return
        work.parents.pop((walk.parent, walk.branch), None)
        work.parents[walk.parent, walk.branch] = None
        if len(work.parents) > PARENTS_MAX:
            del work.parents[next(iter(work.parents))]
        if walk.parent != self.address:
            self.host.send(walk.parent, Working(walk.branch, cast_of(walk)))

    def begin(self, work: Work, walk: Walk, part: Tract) -> None:
        """First act of a walk at this peer (`casting.py` may send it to another root instead)."""
        self.visit_all(work, walk, walk.notch, part)

    def visit_all(self, work: Work, walk: Walk, notch: int, part: Tract) -> None:
        """Our records in the part and in all above it that is ours; branches for the rest."""
        root, dimensions = walk.root, self.settings.dimensions
        while part:
            registry = self.registries.get((walk.tag, root, notch))
            if registry is None:
                return
            self.visit(work, walk, registry, part)
            closed = intersect(part, registry.closed)
            above = self.settings.above(notch)
            scaled = scale_within(closed, root, notch, dimensions, above - notch) if closed else EMPTY
            part = intersect(scaled, self.surface.ground)
            if rest := subtract(scaled, part):
                self.branch(work, msgspec.structs.replace(walk, way=Way(rest), notch=above), notch, closed)
            notch = above

    def visit(self, work: Work, walk: Walk, registry: Registry, part: Tract) -> None:
        """What the walk is for: every kind adds its own."""
        work.size += sum([each.entry.description is not None for each in registry.within(part)])

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        """A record has come down past a walk: every kind of walk takes it in by itself (`gathering.py`)."""

    # --- branches

    def branch(self, work: Work, walk: Walk, notch: int, closed: Tract) -> None:
        """Send a walk on, from this notch's closed part."""
        number = self.token()
        branch = Branch(work, msgspec.structs.replace(walk, parent=self.address, branch=number), notch, closed)
        self._branches[number] = work.branches[number] = branch
        work.open += 1
        if closed:
            self._active.setdefault((walk.tag, walk.root), {})[work] = None
        self._send_branch(number)

    def _send_branch(self, number: int) -> None:
        branch = self._branches.get(number)
        if branch is None:
            return
        if self.host.now_us - branch.work.begun_us > CAST_US:
            self.give_up(branch.work)
            return
        self.later(branch.wait_us, lambda: self._send_branch(number))
        branch.wait_us = min(2 * branch.wait_us, WAIT_LONGEST_US)
        self.surface.send(msgspec.structs.replace(branch.walk, way=Way(branch.outstanding)))

    def give_up(self, work: Work) -> None:
        """A walk that cannot be finished is dropped without a word to its parents: they will ask others."""
        for number in work.branches:
            self._branches.pop(number, None)
        work.branches.clear()
        self._drop(work)
        self.abandoned(work)

    def abandoned(self, work: Work) -> None:
        """A walk of ours was given up."""

    @handles(Working)
    def on_working(self, sender: Address, working: Working) -> None:
        branch = self._branches.get(working.branch)
        if branch is not None:
            branch.wait_us = WAIT_LONGEST_US

    @handles(CoveredPart)
    def on_covered(self, sender: Address, covered: CoveredPart) -> None:
        branch = self._branches.get(covered.branch)
        if branch is None or not intersect(branch.outstanding, covered.part):
            return
        work = branch.work
        work.told += covered.told
        work.silent += covered.silent
        work.size += covered.size
        branch.outstanding = subtract(branch.outstanding, covered.part)
        if not branch.outstanding:
            del self._branches[covered.branch], work.branches[covered.branch]
            self.close_one(work)

    # --- ending

    def close_one(self, work: Work) -> None:
        """One thing less to wait for."""
        work.open -= 1
        if work.open or work.done_us is not None:
            return
        work.done_us = self.host.now_us
        self._deactivate(work)
        for parent, branch in work.parents:
            self._cover(work, parent, branch, work.part)
        self.finished(work)

    def finished(self, work: Work) -> None:
        """All of a walk that was begun here is covered."""

    def _cover(self, work: Work, parent: Address, branch: int, part: Tract) -> None:
        covered = CoveredPart(branch, part, work.told, work.silent, work.size, cast_of(work.walk))
        if parent == self.address:
            self.on_covered(self.address, covered)
        else:
            self.host.send(parent, covered)

    def active(self, tag: str, root: int) -> Iterator[Work]:
        return iter(list(self._active.get((tag, root), ())))

    def _deactivate(self, work: Work) -> None:
        works = self._active.get((work.walk.tag, work.walk.root))
        if works is not None:
            works.pop(work, None)
            if not works:
                del self._active[work.walk.tag, work.walk.root]

    # --- forgetting

    def _tidy_later(self, sweeps: int = 1) -> None:
        if not self._tidying:
            self._tidying = True
            self.later(sweeps * (SWEEP_US + SLOT_US) - SLOT_US, self._tidy)

    def _tidy(self) -> None:
        """Works are remembered for a cast's life after they are finished, and given up when they never are."""
        self._tidying = False
        now_us = oldest_us = self.host.now_us
        for work in [work for works in self._works.values() for work in works]:
            last_us = work.begun_us if work.done_us is None else work.done_us
            if last_us + CAST_US >= now_us:
                oldest_us = min(oldest_us, last_us)
            elif work.done_us is not None:
                self._drop(work)
            else:
                self.give_up(work)
        if self._works:  # before the oldest is due there is nothing to do: a third of all alarms of a quiet network
            self._tidy_later(max(1, -((now_us - oldest_us - CAST_US) // (SWEEP_US + SLOT_US))))

    def _drop(self, work: Work) -> None:
        self._deactivate(work)
        works = self._works.get(work.name, [])
        if work in works:
            works.remove(work)
            if not works:
                del self._works[work.name]
