"""Replication measured live: a busy root has its tag's level raised while registrations and casts go on.

Thesis section 8.1.2, with the order of steps of a safe raise. The original root leads. It first sends all new records
to the roots of the new level as well, waits until records that passed it before have arrived where they went, and then
lets a walk copy the whole registry. The walk is acknowledged by coverage: who has copied its part, and all above it,
says so to whoever sent the branch. When nothing is left uncovered the new roots are told that they are ready. So a
root that answers casts has every complete registration.

Levels are only raised here; lowering them again, with the veto of the other roots, belongs to life among change.
"""

from collections.abc import Iterable

from implicast.casting.spice.climbing import DUPLICATE, batches
from implicast.casting.spice.homes import address_of, roots_of
from implicast.casting.spice.keeper import Header
from implicast.casting.spice.messages import Busy, Copy, Covered, Duplicate, Overrun, Raised, Ready, Record, Stored
from implicast.casting.spice.registering import Registering
from implicast.casting.spice.settings import Settings
from implicast.peer.contract import Address, Host, Message, handles
from implicast.space.tract import Tract, intersect, scale_within, subtract, union

BLOCK = 16
"""Casts between two looks at the clock."""
BLOCKS = 2
"""So many blocks in a row must come faster than the limit allows before the level is raised."""


class Work:
    """A part of the registry that is being copied: what is still open, and to whom its end is told."""

    __slots__ = ("branch", "open", "parent", "part")

    def __init__(self, parent: Address, branch: int, part: Tract) -> None:
        self.parent, self.branch, self.part = parent, branch, part
        self.open = 1


class Replicating(Registering):
    """A peer's part in raising levels."""

    __slots__ = ("branches", "copying", "numbers", "raising", "rates")

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host, settings)
        self.rates: dict[tuple[str, int], tuple[int, int, int]] = {}
        """Per root: when the block began, casts in it, blocks in a row that were too fast."""
        self.raising: dict[str, set[tuple[int, Address]]] = {}
        """Tags whose level is to be raised, with the records under way that are waited for: (notch, consumer)."""
        self.branches: dict[int, tuple[Work | str, Tract]] = {}
        """Branches of walks that we sent: for which work (or, at the original root, tag), and what is not covered."""
        self.copying: dict[tuple[str, int, Address], Work] = {}
        self.numbers = 0

    # --- measuring

    def count_cast(self, tag: str, root: int) -> None:
        """A cast has come to a root of ours."""
        if not self.settings.live:
            return
        now_us = self.host.now_us
        began_us, count, fast = self.rates.get((tag, root), (now_us, 0, 0))
        count += 1
        if count > BLOCK:
            fast = fast + 1 if (now_us - began_us) * self.settings.frequency_limit < BLOCK * 1e6 else 0
            began_us, count = now_us, 1
        if fast == BLOCKS:
            fast = 0
            self.host.after(0, Overrun(tag))
        self.rates[tag, root] = (began_us, count, fast)

    @handles(Overrun)
    def on_overrun(self, alarm: Overrun) -> None:
        self.on_busy(self.address, Busy(alarm.tag))

    @handles(Busy)
    def on_busy(self, sender: Address, busy: Busy) -> None:
        if not self.surface.carry(address_of(busy.tag), busy):
            return
        header = self.headers.setdefault(busy.tag, Header(busy.tag))
        if header.level == header.goal < self.settings.deepest:
            header.goal += 1
            root = address_of(busy.tag)
            under_way = [key for key in self.climbs if key[:2] == (busy.tag, root)]
            self.raising[busy.tag] = {(key[2], consumer) for key in under_way for consumer in self.climbs[key]}
            self._copy_when_quiet()

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        if stored.errand == DUPLICATE:
            self._copied(stored)
            return
        super().on_stored(sender, stored)
        if self.raising:
            self._copy_when_quiet()

    # --- copying

    def _copy_when_quiet(self) -> None:
        """Begin the walk once every record that passed us before the new goal has been confirmed."""
        for tag, waiting in list(self.raising.items()):
            root = address_of(tag)
            waiting -= {each for each in waiting if each[1] not in self.climbs.get((tag, root, each[0]), {})}
            if not waiting:
                del self.raising[tag]
                self._send_branch(tag, tag, 0, (root, root + 1), self.headers[tag].goal)

    def _send_branch(self, of: "Work | str", tag: str, notch: int, tract: Tract, level: int) -> None:
        self.numbers += 1
        self.branches[self.numbers] = (of, tract)
        if isinstance(of, Work):
            of.open += 1
        self.on_duplicate(self.address, Duplicate(tag, notch, tract, level, self.address, self.numbers))

    @handles(Duplicate)
    def on_duplicate(self, sender: Address, walk: Duplicate) -> None:
        def branch(part: Tract) -> Message:
            return Duplicate(walk.tag, walk.notch, part, walk.level, walk.parent, walk.branch)

        self.surface.route(walk.tract, lambda part: self._duplicate(walk, part), branch)

    def _duplicate(self, walk: Duplicate, part: Tract) -> None:
        """Copy our part to the new roots, and let the walk go on where it is closed."""
        root, tag, notch = address_of(walk.tag), walk.tag, walk.notch
        work = Work(walk.parent, walk.branch, part)
        registry, sealed = self.registries.get((tag, root, notch)), self.sealed.get((tag, root), -1)
        if registry is not None:
            self._copy(work, tag, registry.within(part), self._new_roots(tag, walk.level))
        notches = sealed + 1 - notch if notch <= sealed else 1
        closed = part if notch <= sealed else intersect(part, registry.closed) if registry is not None else ()
        if closed:
            above = scale_within(closed, root, notch, self.settings.dimensions, notches)
            self._send_branch(work, tag, notch + notches, above, walk.level)
        self._done(work)

    def _new_roots(self, tag: str, level: int) -> list[int]:
        roots = (roots_of(address_of(tag), each, self.settings.dimensions) for each in (level, level - 1))
        larger, smaller = roots
        return sorted({*larger} - {*smaller})

    def _copy(self, work: Work, tag: str, records: list[Record], roots: list[int]) -> None:
        for root in roots if records else ():
            for record in records:
                self.copying[tag, root, record.consumer] = work
        work.open += len(roots) * len(records)
        tract = union((each, each + 1) for each in roots)
        for batch in batches(records):
            self.on_copy(self.address, Copy(tag, tract, batch, self.address, DUPLICATE))

    def _copied(self, stored: Stored) -> None:
        for consumer, _ in stored.kept:
            work = self.copying.pop((stored.tag, stored.root, consumer), None)
            if work is not None:
                self._done(work)

    def _done(self, work: Work) -> None:
        work.open -= 1
        if not work.open:
            covered = Covered(work.branch, work.part)
            if work.parent == self.address:
                self.on_covered(self.address, covered)
            else:
                self.host.send(work.parent, covered)

    @handles(Covered)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        of, outstanding = self.branches.get(covered.branch, ("", ()))
        rest = subtract(outstanding, covered.part)
        if rest:
            self.branches[covered.branch] = (of, rest)
        elif self.branches.pop(covered.branch, None) is not None:
            if isinstance(of, Work):
                self._done(of)
            else:
                self._raised(of)

    # --- the end of a raise

    def _raised(self, tag: str) -> None:
        """The whole registry is copied: the new roots may answer."""
        level = self.headers[tag].goal if tag in self.headers else 0
        if level:
            roots = union((each, each + 1) for each in self._new_roots(tag, level))
            self.on_ready(self.address, Ready(tag, roots))
            self.on_raised(self.address, Raised(tag, level))

    @handles(Ready)
    def on_ready(self, sender: Address, ready: Ready) -> None:
        self.surface.route(
            ready.roots, lambda part: self._make_ready(ready.tag, part[::2]), lambda part: Ready(ready.tag, part)
        )

    def _make_ready(self, tag: str, roots: Iterable[int]) -> None:
        for root in roots:
            self.registry(tag, root, 0)
            self.unready.discard((tag, root))

    @handles(Raised)
    def on_raised(self, sender: Address, raised: Raised) -> None:
        if self.surface.carry(address_of(raised.tag), raised):
            header = self.headers.setdefault(raised.tag, Header(raised.tag))
            header.level = max(header.level, raised.level)
            header.goal = max(header.goal, raised.level)
