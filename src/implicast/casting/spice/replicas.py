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

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import ReplicationHeader, RootState, header_item, root_item
from implicast.casting.spice.levels import NO_HEADER
from implicast.casting.spice.messages import (
    ItemOffer,
    LevelAnnouncement,
    LoadHint,
    LoadQuery,
    LoadReport,
    ReplicaActivation,
    VetoRequest,
)
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.replica_push import roots_in
from implicast.casting.spice.root_load import RootLoad
from implicast.casting.spice.settings import HOLD_WINDOWS, STORE_US, UNCERTAIN_US, VETO_US
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.peer.contract import Address, Message, StandingAlarm, handles
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent, Repeats
from implicast.space.tract import WHOLE, Tract, contains, union

REPORTS = 4
"""A level is raised when 1/4 of its roots are busy within a window. Not all, because some are
nearer to publishers.
"""
LOADS_MAX = 4_096
"""Maximum number of roots whose casts are counted."""
TOKEN_BITS = 62


class WindowEnd(Message):
    """Fires at the end of a window in which casts were counted."""


class RootOverloaded(StandingAlarm):
    """Fires immediately when a root is busy. An alarm separates the cost of raising a level from
    the cast that triggered it.
    """

    tag: str
    root: int


class ResumeLevelChange(Message):
    """Fires when an abandoned level change is to be tried again."""

    tag: str


class Replicas(SpicePart):
    """Measures the load of local roots, and changes the levels of tags whose original root is
    local.
    """

    __slots__ = ("_asked", "_lowered_us", "_reports", "loads")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.loads: dict[tuple[str, int], RootLoad] = {}
        self._reports: Recent[str, dict[int, int]] = Recent(LOADS_MAX)
        """By tag: busy roots and the times of their reports."""
        self._asked: Recent[int, tuple[str, int]] = Recent(LOADS_MAX)
        """By token: tag and root of an open load query."""
        self._lowered_us: Repeats[str] = Repeats(LOADS_MAX)
        """Times of the last veto requests, by tag."""

    # --- measuring

    def count_cast(self, tag: str, root: int) -> None:
        load = self._load_of(tag, root)
        if load is not None and load.is_busy(
            self.host.now_us, self.settings.rate_us, self.settings.casts_most
        ):
            self.host.after(0, RootOverloaded(tag, root))
        self._schedule_window_end()

    def _load_of(self, tag: str, root: int) -> RootLoad | None:
        load = self.loads.get((tag, root))
        if load is None and len(self.loads) < LOADS_MAX:
            load = self.loads[tag, root] = RootLoad()
        return load

    @handles(RootOverloaded)
    def on_root_overloaded(self, alarm: RootOverloaded) -> None:
        self._report(alarm.tag, alarm.root, busy=True)

    def _schedule_window_end(self) -> None:
        if self.settings.live:
            self.spice.timer_wheel.schedule_once(self.settings.rate_us, WindowEnd())

    @handles(WindowEnd)
    def on_window_end(self, alarm: WindowEnd) -> None:
        """Report idle roots to their original roots."""
        limit = self.settings.frequency_limit / 2 ** (self.settings.dimensions + 1)
        for (tag, root), load in list(self.loads.items()):
            if not self.surface.answers(root) or not self.spice.levels.is_ready(tag, root):
                del self.loads[tag, root]
                continue
            idle = load.is_idle(self.settings.rate_us, limit)
            level = self.spice.levels.header(tag).goal
            if idle and (level or self.spice.levels.state(tag, root).level):
                self._report(tag, root, busy=False)
            if load.per_s < 1e-9 and root == address_of(tag) and not level:
                del self.loads[tag, root]
        if self.loads:
            self._schedule_window_end()

    def _report(self, tag: str, root: int, busy: bool) -> None:
        """Report to the original root, which may be local."""
        address = address_of(tag)
        if self.surface.answers(address):
            self._decide_level(tag, root, busy, self.spice.levels.state(tag, root))
        else:
            self.surface.send(LoadHint(RouteHeader((address, address + 1)), tag, root))

    def on_load_hint(self, load: LoadHint) -> None:
        """A root may be busy or idle: ask the root itself."""
        if load.root != address_of(load.tag) and self.settings.is_root(load.tag, load.root):
            token = self.host.rng.getrandbits(TOKEN_BITS)
            self._asked.put(token, (load.tag, load.root))
            self.surface.send(
                LoadQuery(RouteHeader((load.root, load.root + 1)), load.tag, self.address, token)
            )

    def on_load_query(self, part: Tract, ask: LoadQuery) -> None:
        """Answer with the load of a local root."""
        for root in roots_in(self.settings, ask.tag, part) if ask.reply != self.address else ():
            load, state = self.loads.get((ask.tag, root)), self.spice.levels.state(ask.tag, root)
            busy = load.take_finding() if load is not None else None
            self.host.send(ask.reply, LoadReport(ask.token, busy, state.number, state.level))

    @handles(LoadReport)
    def on_load_report(self, sender: Address, load: LoadReport) -> None:
        tag, root = self._asked.pop(load.token, (None, 0))
        if tag is not None and self.surface.answers(address_of(tag)):
            self._decide_level(tag, root, load.busy, RootState(load.number, load.level, True))

    def _decide_level(self, tag: str, root: int, busy: bool | None, state: RootState) -> None:
        """Decide whether a root's load changes the level of its tag."""
        if state.number > self.spice.levels.header(tag).number:
            # The local header was lost with its backups; the roots still know it.
            level = min(state.level, self.settings.deepest)
            self.spice.levels.set_header(tag, ReplicationHeader(state.number, level, level, True))
            self._mark_incomplete(tag)  # registrations since then were pushed to no root
        header = self.spice.levels.header(tag)
        if not header.ready or header.level != header.target:
            self._resume_change(tag)
        elif busy and header.level < self.settings.deepest:
            level, number = header.level, header.number + 1
            if self._are_enough_busy(tag, root, level) and self.fits_population(level):
                raised = header._replace(number=number, target=level + 1, ready=False)
                self.propose_header(tag, raised)
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
            (self.spice.levels.propose(tag, header),), partial(self._adopt_header, tag, header)
        )

    def _adopt_header(self, tag: str, header: ReplicationHeader) -> None:
        self.spice.levels.clear_proposal(tag)
        is_newest = header.number >= self.spice.levels.header(tag).number
        if is_newest and self.surface.answers(address_of(tag)):
            self.spice.levels.set_header(tag, header)
            self._resume_change(tag)

    def settled(self) -> None:
        """Continue level changes of original roots taken over from other peers."""
        levels = self.spice.levels
        for tag, header in list(levels.headers.items()):
            if not header.ready or header.level != header.target:
                self._resume_change(tag)
        for tag, root in levels.roots:
            if levels.is_ready(tag, root):
                self._load_of(tag, root)
        if levels.roots:
            self._schedule_window_end()

    def recopy_after_loss(self, lost: Tract, age_us: int) -> None:
        """Replicas may have been lost with the tract: copy again, unless a copy has begun since.
        Local roots whose header was lost report to the original root, which recovers it from them.
        Until it has copied to them, they may lack registrations.
        """
        for tag, header in list(self.spice.levels.headers.items()):
            roots = self.spice.levels.new_roots(tag, header.goal, 0)
            if any(contains(lost, each) for each in roots) and not self.spice.copies.began_within(
                tag, age_us
            ):
                self._mark_incomplete(tag)
                self._resume_change(tag)
        self.on_foreign_items(self.spice.copies.lost_above(lost))
        orphans = [
            (tag, root)
            for tag, root in self.spice.levels.roots
            if contains(lost, address_of(tag)) and self.spice.levels.is_ready(tag, root)
        ]
        if orphans:
            uncertainty = self._mark_roots_uncertain(
                sorted({root for _, root in orphans}), UNCERTAIN_US
            )
            self.surface.replicate((uncertainty,), lambda: None)
        for tag, root in orphans:
            self._report(tag, root, busy=False)

    def on_foreign_items(self, tags: Iterable[str]) -> None:
        """Items of these tags came from the other side of a partition, which may have replicas
        unknown here. A peer that holds only a part of the registry tells the original root by
        offering an empty header. The copy starts after `STORE_US`, so that items that arrive close
        together are copied together.
        """
        for tag in tags:
            if not self.surface.answers(address := address_of(tag)):
                way, nothing = RouteHeader((address, address + 1)), header_item(tag, NO_HEADER)
                self.spice.calls.call(
                    ItemOffer(way, (nothing,), self.address, self.spice.stores.next_token())
                )
            self._mark_incomplete(tag)
            self.spice.timer_wheel.schedule(STORE_US, ResumeLevelChange(tag))

    def _mark_incomplete(self, tag: str) -> None:
        """Replicas of the tag may lack records. A raise in progress is abandoned if there are roots
        that answer casts, which are copied to first; otherwise it is repeated when it has ended.
        The header stops being ready, so that the next owner of the original root copies too.
        """
        levels, header = self.spice.levels, self.spice.levels.header(tag)
        if header.goal and self.surface.answers(address_of(tag)):
            levels.incomplete[tag] = None
            if header.level:
                self.spice.copies.stop_raise(tag, header.level)
            header = levels.proposals.get(tag, header)
            if header.level and header.ready:
                levels.clear_proposal(tag)
                levels.set_header(tag, header._replace(number=header.number + 1, ready=False))
                self.surface.replicate((header_item(tag, levels.header(tag)),), lambda: None)

    def _resume_change(self, tag: str) -> None:
        """Start the next step of a level change, unless one is in progress."""
        header, address = self.spice.levels.header(tag), address_of(tag)
        if (
            not self.surface.answers(address)
            or tag in self.spice.copies.active
            or self.spice.calls.is_calling(tag)
        ):
            return
        if header.target < header.level:
            self._call_roots(tag, header, False)
        elif tag in self.spice.levels.incomplete and header.level:
            self.spice.copies.start_copy(tag, 1)
        elif header.target > header.level:
            self.spice.copies.start_copy(tag, header.target)
        elif not header.ready:
            self._call_roots(tag, header, True)

    def on_copy_end(self, tag: str, level: int, is_covered: bool) -> None:
        """The copy to the roots that this level adds has ended."""
        header = self.spice.levels.header(tag)
        if not is_covered:
            if level <= header.level:
                self._mark_incomplete(tag)
            self.spice.timer_wheel.schedule(STORE_US, ResumeLevelChange(tag))
            return
        self.spice.pushes.on_level_raised(tag, level)
        if tag in self.spice.levels.incomplete and not header.level:
            self._resume_change(tag)
        elif level < header.level:  # all levels are copied again, one after the other
            self.spice.copies.start_copy(tag, level + 1)
        elif header.target == level:
            self.propose_header(
                tag, ReplicationHeader(header.number + 1, header.target, header.target, False)
            )
        else:
            self._resume_change(tag)

    @handles(ResumeLevelChange)
    def on_resume_level_change(self, alarm: ResumeLevelChange) -> None:
        self._resume_change(alarm.tag)
        if self.spice.calls.is_calling(alarm.tag) and alarm.tag in self.spice.levels.incomplete:
            self.spice.timer_wheel.schedule(STORE_US, alarm)

    # --- calls to roots

    def _call_roots(self, tag: str, header: ReplicationHeader, ready: bool) -> None:
        level, token = header.level, self.spice.stores.next_token()
        roots = union(
            (each, each + 1) for each in self.spice.levels.new_roots(tag, level, level - 1)
        )
        way, number = RouteHeader(roots), header.number
        doubtful = tag in self.spice.copies.doubtful
        self.spice.calls.call(
            ReplicaActivation(way, tag, number, level, ready, self.address, token, doubtful)
        )

    def _ask_veto(self, tag: str, level: int) -> None:
        if self._lowered_us.came_by(tag, self.host.now_us, HOLD_WINDOWS * self.settings.rate_us):
            return
        roots = union((each, each + 1) for each in self.spice.levels.roots_at(tag, level))
        way, token = RouteHeader(roots), self.spice.stores.next_token()
        self.spice.calls.call(VetoRequest(way, tag, self.address, token), VETO_US)

    def on_activation(self, part: Tract, call: ReplicaActivation) -> None:
        levels, tag = self.spice.levels, call.tag
        roots = roots_in(self.settings, tag, part)
        for root in roots:
            levels.learn_root(tag, root, RootState(call.number, call.level, call.ready))
            if levels.is_ready(tag, root):
                self._load_of(tag, root)
        self._schedule_window_end()
        items = [root_item(tag, root, levels.roots[tag, root]) for root in roots]
        if call.doubtful and call.ready and roots:
            items.append(self._mark_roots_uncertain(roots, OWED_US))
        answer = partial(self.spice.calls.answer_call, call.reply, call.token, part)
        self.surface.replicate(tuple(items), answer)

    def _mark_roots_uncertain(self, roots: Sequence[int], for_us: int) -> Item:
        """Mark local roots as places that may lack registrations. Returns the item for the
        backups.
        """
        tract = union((each, each + 1) for each in roots)
        return self.spice.registries.mark_uncertain(tract, self.host.now_us + for_us)

    def on_veto_request(self, part: Tract, call: VetoRequest) -> None:
        """Object if this root would exceed half the limit with the load of the 2^d roots that a
        lower level merges into one.
        """
        limit, share = self.settings.frequency_limit, 1 << self.settings.dimensions
        rates = [
            self.loads.get((call.tag, root)) for root in roots_in(self.settings, call.tag, part)
        ]
        veto = any(load is not None and load.per_s * share > limit / 2 for load in rates)
        self.spice.calls.answer_call(call.reply, call.token, part, veto)

    def on_all_answered(self, message: ReplicaActivation | VetoRequest) -> None:
        """Every root has answered: complete the step."""
        header = self.spice.levels.header(message.tag)
        if isinstance(message, VetoRequest):
            if header.level and header.level == header.target and header.ready:
                self.propose_header(
                    message.tag,
                    header._replace(number=header.number + 1, target=header.level - 1, ready=False),
                )
        elif message.number == header.number:
            level, is_incomplete = header.target, message.tag in self.spice.levels.incomplete
            self.propose_header(
                message.tag,
                ReplicationHeader(header.number + 1, level, level, not (level and is_incomplete)),
            )
            if level > self.spice.levels.depth:
                self.surface.send(LevelAnnouncement(RouteHeader(WHOLE), level))
