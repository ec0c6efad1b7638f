"""Live replication: the level of a tag rises when its roots are busy, and falls when they are idle
and none objects.

Thesis section 8.1.2, with an order of steps that is safe during registrations, casts and crashes.
The original root leads. Its header (level, target, ready) is backed up, and a peer that takes over
the root continues from it.

- Raise: set target = level + 1, so that registrations go to the new roots too; copy the registry
  by a covered traversal; set level = target; activate the new roots until all acknowledge.
- Lower: ask all roots; a veto or a missing answer ends the attempt. Deactivate the roots of the
  deeper level until all acknowledge; then stop pushing to them. Their records expire.

A root is activated after pushes to it have begun and deactivated before they stop. A ready root
therefore has every acknowledged registration.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from implicast.casting.spice.calls import OwnerCalls, ReplicaActivation, RootCall, VetoRequest
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import (
    Level,
    ReplicationHeader,
    RootState,
    header_item,
    root_item,
)
from implicast.casting.spice.levels import NO_HEADER
from implicast.casting.spice.loads import LoadReport, RootLoads, RootOverloaded
from implicast.casting.spice.part import SpicePart, Tools
from implicast.casting.spice.pushes import ReplicaPushes, roots_in
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.settings import HOLD_WINDOWS, STORE_US, UNCERTAIN_US, VETO_US
from implicast.casting.spice.traversal_messages import CopyRequest
from implicast.casting.spice.traversal_state import TraversalTask, TraversalUser
from implicast.casting.spice.traversals import Traversals
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.peer.contract import Address, Message, handles
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent, Repeats
from implicast.space.tract import WHOLE, Tract, contains, intersect, scale_within, union

REPORTS = 4
"""A level is raised when 1/4 of its roots are busy within a window. Not all, because some are
nearer to publishers.
"""
TAGS_MAX = 4_096
"""Maximum number of tags whose reports and level changes are remembered."""


class LevelAnnouncement(Message):
    """Tells every peer that some tag has replicas at this level, deeper than any level announced so
    far.
    """

    wire = 0x0A0F

    way: RouteHeader
    level: Level


class Replicas(SpicePart, TraversalUser):
    """Changes the levels of tags whose original root is local, and copies their registries."""

    __slots__ = (
        "_begun_us",
        "_calls",
        "_doubtful",
        "_lowered_us",
        "_pushes",
        "_registries",
        "_reports",
        "_traversals",
        "copies",
        "loads",
    )

    def __init__(
        self,
        tools: Tools,
        registries: Registries,
        traversals: Traversals,
        pushes: ReplicaPushes,
        calls: OwnerCalls,
    ) -> None:
        super().__init__(tools)
        self._registries, self._traversals = registries, traversals
        self._pushes, self._calls = pushes, calls
        self.loads = RootLoads(tools, registries.levels, self._decide_level)
        self._reports: Recent[str, dict[int, int]] = Recent(TAGS_MAX)
        """By tag: busy roots and the times of their reports."""
        self._lowered_us: Repeats[str] = Repeats(TAGS_MAX)
        """Times of the last veto requests, by tag."""
        self.copies: dict[str, TraversalTask] = {}
        """Copies in progress, by tag."""
        self._doubtful: dict[str, None] = {}
        """Tags whose last copy met a tract that may lack registrations."""
        self._begun_us: dict[str, int] = {}
        """By tag: when the last copy to all levels began, unless it failed."""

    # --- load

    @handles(RootOverloaded)
    def on_root_overloaded(self, alarm: RootOverloaded) -> None:
        self.loads.report(alarm.tag, alarm.root, busy=True)

    @handles(LoadReport)
    def on_load_report(self, sender: Address, load: LoadReport) -> None:
        self.loads.on_report(load)

    def _decide_level(self, tag: str, root: int, busy: bool | None, state: RootState) -> None:
        """Decide whether a root's load changes the level of its tag."""
        if state.number > self._registries.levels.header(tag).number:
            # The local header was lost with its backups; the roots still know it.
            level = min(state.level, self.settings.deepest)
            self._registries.levels.set_header(
                tag, ReplicationHeader(state.number, level, level, True)
            )
            self._mark_incomplete(tag)  # registrations since then were pushed to no root
        header = self._registries.levels.header(tag)
        if not header.ready or header.level != header.target:
            self._resume_change(tag)
        elif busy and header.level < self.settings.deepest:
            level, number = header.level, header.number + 1
            if self._are_enough_busy(tag, root, level) and self.fits_population(level):
                self.propose_header(
                    tag, header._replace(number=number, target=level + 1, ready=False)
                )
        elif busy is False and header.level:
            self._ask_veto(tag, header.level)

    def _are_enough_busy(self, tag: str, root: int, level: int) -> bool:
        """Whether enough roots of the level have reported as busy within the window. At level 0 one
        is enough.
        """
        since_us = self.host.now_us - self.settings.rate_us
        reports = {
            each: at_us for each, at_us in self._reports.pop(tag, {}).items() if at_us > since_us
        }
        reports[root] = self.host.now_us
        if len(reports) >= max(1, (1 << level * self.settings.dimensions) // REPORTS):
            return True
        self._reports[tag] = reports
        return False

    def fits_population(self, level: int) -> bool:
        """Whether the next level has at most as many roots as there are peers. With more, some
        peers hold several roots, each with its own copies and renewals. The first level is always
        allowed.
        """
        return not level or self.surface.population >= 1 << (level + 1) * self.settings.dimensions

    def propose_header(self, tag: str, header: ReplicationHeader) -> None:
        """Set a new header once the backups have it."""
        self.surface.replicate(
            (self._registries.levels.propose(tag, header),),
            partial(self._adopt_header, tag, header),
        )

    def _adopt_header(self, tag: str, header: ReplicationHeader) -> None:
        self._registries.levels.clear_proposal(tag)
        is_newest = header.number >= self._registries.levels.header(tag).number
        if is_newest and self.surface.answers(address_of(tag)):
            self._registries.levels.set_header(tag, header)
            self._resume_change(tag)

    def settled(self) -> None:
        """Continue level changes of original roots taken over from other peers."""
        if not self.settings.live:
            return
        levels = self._registries.levels
        for tag, header in list(levels.headers.items()):
            if not header.ready or header.level != header.target:
                self._resume_change(tag)
        for tag, root in levels.roots:
            self.loads.measure_ready(tag, root)
        if levels.roots:
            self.loads.start_window()

    def recopy_after_loss(self, lost: Tract, age_us: int) -> None:
        """Replicas may have been lost with the tract: copy again, unless a copy has begun since.
        Local roots whose header was lost report to the original root, which recovers it from them.
        Until it has copied to them, they may lack registrations.
        """
        if not self.settings.live:
            return
        for tag, header in list(self._registries.levels.headers.items()):
            roots = self._registries.levels.new_roots(tag, header.goal, 0)
            if any(contains(lost, each) for each in roots) and not self._began_within(tag, age_us):
                self._mark_incomplete(tag)
                self._resume_change(tag)
        self.on_foreign_items(self._lost_above(lost))
        orphans = [
            (tag, root)
            for tag, root in self._registries.levels.roots
            if contains(lost, address_of(tag)) and self._registries.levels.is_ready(tag, root)
        ]
        if orphans:
            uncertainty = self._mark_roots_uncertain(
                sorted({root for _, root in orphans}), UNCERTAIN_US
            )
            self.surface.replicate((uncertainty,), lambda: None)
        for tag, root in orphans:
            self.loads.report(tag, root, busy=False)

    def on_foreign_items(self, tags: Iterable[str]) -> None:
        """Items of these tags came from the other side of a partition, which may have replicas
        unknown here. A peer that holds only a part of the registry tells the original root by
        offering an empty header. The copy starts after `STORE_US`, so that items that arrive close
        together are copied together.
        """
        for tag in tags if self.settings.live else ():
            if not self.surface.answers(address := address_of(tag)):
                self._calls.offer((address, address + 1), (header_item(tag, NO_HEADER),))
            self._mark_incomplete(tag)
            self._resume_later(tag)

    def _mark_incomplete(self, tag: str) -> None:
        """Replicas of the tag may lack records. A raise in progress is abandoned if there are roots
        that answer casts, which are copied to first; otherwise it is repeated when it has ended.
        The header stops being ready, so that the next owner of the original root copies too.
        """
        levels, header = self._registries.levels, self._registries.levels.header(tag)
        if header.goal and self.surface.answers(address_of(tag)):
            levels.mark_incomplete(tag)
            if header.level:
                self._stop_raise(tag, header.level)
            header = levels.proposals.get(tag, header)
            if header.level and header.ready:
                levels.clear_proposal(tag)
                levels.set_header(tag, header._replace(number=header.number + 1, ready=False))
                self.surface.replicate((header_item(tag, levels.header(tag)),), lambda: None)

    def _resume_change(self, tag: str) -> None:
        """Start the next step of a level change, unless one is in progress."""
        header, address = self._registries.levels.header(tag), address_of(tag)
        if not self.surface.answers(address) or tag in self.copies or self._calls.is_calling(tag):
            return
        if header.target < header.level:
            self._call_roots(tag, header, False)
        elif tag in self._registries.levels.incomplete and header.level:
            self.start_copy(tag, 1)
        elif header.target > header.level:
            self.start_copy(tag, header.target)
        elif not header.ready:
            self._call_roots(tag, header, True)

    def _on_copy_end(self, tag: str, level: int, is_covered: bool) -> None:
        """The copy to the roots that this level adds has ended."""
        header = self._registries.levels.header(tag)
        if not is_covered:
            if level <= header.level:
                self._mark_incomplete(tag)
            self._resume_later(tag)
            return
        self._pushes.on_level_raised(tag, level)
        if tag in self._registries.levels.incomplete and not header.level:
            self._resume_change(tag)
        elif level < header.level:  # all levels are copied again, one after the other
            self.start_copy(tag, level + 1)
        elif header.target == level:
            self.propose_header(
                tag, ReplicationHeader(header.number + 1, header.target, header.target, False)
            )
        else:
            self._resume_change(tag)

    def _resume_later(self, tag: str) -> None:
        self.timer_wheel.schedule(STORE_US, partial(self.retry_change, tag))

    def retry_change(self, tag: str) -> None:
        self._resume_change(tag)
        if self._calls.is_calling(tag) and tag in self._registries.levels.incomplete:
            self._resume_later(tag)

    # --- copies

    def start_copy(self, tag: str, level: int) -> None:
        """Start a traversal that copies the registry to the roots that this level adds. Each holder
        pushes its records to them; the traversal is covered when all have acknowledged.
        """
        if level == 1:
            self._doubtful.pop(tag, None)
            self._registries.levels.mark_complete(tag)
            self._begun_us[tag] = self.host.now_us
        root = address_of(tag)
        way, token = RouteHeader((root, root + 1)), self.next_token()
        traversal = CopyRequest(way, tag, root, 0, level, self.address, token)
        task = self.copies[tag] = TraversalTask(self.host.now_us, traversal)
        self._traversals.send_up(task, traversal)
        self._traversals.finish_one(task)

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        assert isinstance(task.traversal, CopyRequest)
        self._pushes.push_records(task, task.traversal, [each.entry for each in records])

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        traversal, tag = task.traversal, task.traversal.tag
        if not isinstance(traversal, CopyRequest) or self.copies.get(tag) is not task:
            return
        del self.copies[tag]
        if task.tally.uncertain:
            self._doubtful[tag] = None
        if not is_covered:
            self._begun_us.pop(tag, None)
        self._on_copy_end(tag, traversal.level, is_covered)

    def _stop_raise(self, tag: str, level: int) -> None:
        """Give up a copy to a level above this one."""
        task = self.copies.get(tag)
        traversal = task.traversal if task is not None else None
        if task is not None and isinstance(traversal, CopyRequest) and traversal.level > level:
            self._traversals.give_up(task)

    def _began_within(self, tag: str, age_us: int) -> bool:
        """Whether a copy to all levels began within this time and has not failed."""
        begun_us = self._begun_us.get(tag)
        return begun_us is not None and 0 <= self.host.now_us - begun_us < age_us

    def _lost_above(self, lost: Tract) -> list[str]:
        """Tags of replicas whose records above a closed part here may have been lost with a
        tract.
        """
        found: dict[str, None] = {}
        for (tag, root, notch), registry in self._registries.all():
            if registry.closed and root != address_of(tag) and tag not in found:
                up = self.settings.above(notch) - notch
                above = scale_within(registry.closed, root, notch, self.settings.dimensions, up)
                if intersect(above, lost):
                    found[tag] = None
        return list(found)

    # --- calls to roots

    def _call_roots(self, tag: str, header: ReplicationHeader, ready: bool) -> None:
        level, token = header.level, self.next_token()
        added = self._registries.levels.new_roots(tag, level, level - 1)
        way, doubtful = (
            RouteHeader(union((each, each + 1) for each in added)),
            tag in self._doubtful,
        )
        own = (self.address, token, doubtful)
        activation = ReplicaActivation(way, tag, header.number, level, ready, *own)
        self._calls.call(activation, self.on_all_answered)

    def _ask_veto(self, tag: str, level: int) -> None:
        if self._lowered_us.came_by(tag, self.host.now_us, HOLD_WINDOWS * self.settings.rate_us):
            return
        roots = union((each, each + 1) for each in self._registries.levels.roots_at(tag, level))
        ask = VetoRequest(RouteHeader(roots), tag, self.address, self.next_token())
        self._calls.call(ask, self.on_all_answered, VETO_US)

    def on_activation(self, part: Tract, call: ReplicaActivation) -> None:
        levels, tag = self._registries.levels, call.tag
        roots = roots_in(self.settings, tag, part)
        for root in roots:
            levels.learn_root(tag, root, RootState(call.number, call.level, call.ready))
            self.loads.measure_ready(tag, root)
        self.loads.start_window()
        items = [root_item(tag, root, levels.roots[tag, root]) for root in roots]
        if call.doubtful and call.ready and roots:
            items.append(self._mark_roots_uncertain(roots, OWED_US))
        answer = partial(self._calls.answer, call.reply, call.token, part)
        self.surface.replicate(tuple(items), answer)

    def _mark_roots_uncertain(self, roots: Sequence[int], for_us: int) -> Item:
        """Mark local roots as places that may lack registrations. Returns the item for the
        backups.
        """
        tract = union((each, each + 1) for each in roots)
        return self._registries.mark_uncertain(tract, self.host.now_us + for_us)

    def on_veto_request(self, part: Tract, call: VetoRequest) -> None:
        """Object if this root would exceed half the limit with the load of the 2^d roots that a
        lower level merges into one.
        """
        veto = self.loads.exceeds(
            call.tag, part, self.settings.frequency_limit / 2 / (1 << self.settings.dimensions)
        )
        self._calls.answer(call.reply, call.token, part, veto)

    def on_all_answered(self, message: RootCall) -> None:
        """Every root has answered: complete the step."""
        header = self._registries.levels.header(message.tag)
        if isinstance(message, VetoRequest):
            if header.level and header.level == header.target and header.ready:
                number, target = header.number + 1, header.level - 1
                lowered = header._replace(number=number, target=target, ready=False)
                self.propose_header(message.tag, lowered)
        elif message.number == header.number:
            level, is_incomplete = header.target, message.tag in self._registries.levels.incomplete
            changed = header._replace(number=header.number + 1, level=level, target=level)
            changed = changed._replace(ready=not (level and is_incomplete))
            self.propose_header(message.tag, changed)
            if level > self._registries.levels.depth:
                self.surface.send(LevelAnnouncement(RouteHeader(WHOLE), level))
