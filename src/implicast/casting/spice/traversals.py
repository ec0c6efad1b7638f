"""Traversals of registries, acknowledged hop by hop with a coverage report.

A traversal (cast, gathering, copying, recovery) is routed to every owner of a part of a registry at
one notch. Where the part is closed, it goes on to the scaled part at the next notch. Each hop is
answered once, when everything beyond it is finished. A peer that needs longer than `SLOW_US`
answers `InProgress`. A silent peer is tried again and then routed around. Peers remember their
tasks, so that a traversal that arrives again by another route is answered and not repeated. A crash
of any peer but the initiator therefore delays a traversal and does not lose it.

A peer that hands off an extent finishes its tasks there: it had all records acknowledged by then.
Casts without receipts leave no state. Copying and gathering are always acknowledged.
"""

from collections import deque
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.part import SpicePart, Tools
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.settings import CAST_US, SLOW_US, WAIT_LONGEST_US
from implicast.casting.spice.traversal_messages import (
    PLACES,
    CopyRequest,
    CoverageReport,
    GatherRequest,
    InProgress,
    RepeatCoverageReport,
    ReregisterRequest,
    Traversal,
)
from implicast.casting.spice.traversal_state import (
    Hop,
    HopId,
    TaskTable,
    TraversalBranch,
    TraversalTask,
    TraversalUser,
    task_of,
)
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Shares
from implicast.peer.timer_wheel import SLOT_US
from implicast.space.tract import EMPTY, Tract, intersect, scale_within, subtract

BRANCHES_MAX = 32_768
"""Maximum number of open or remembered branches. Near it, branches of the senders with the most are
refused first; they are sent again.
"""
PARKED_MAX = 4_096
"""Maximum number of waiting casts without receipts; further ones are lost."""
FORGET_US = 10_000_000


Users = tuple[TraversalUser, ...]
"""The users of casts, gatherings, copies and recoveries."""


class Traversals(SpicePart):
    """Forwards and processes traversals, and tracks those that this peer started."""

    __slots__ = (
        "_parked",
        "_registries",
        "_remote",
        "_shares",
        "_users",
        "branches",
        "hops",
        "slow",
        "tasks",
    )

    def __init__(self, tools: Tools, registries: Registries) -> None:
        super().__init__(tools)
        self._registries = registries
        self._users: Users = ()
        self._remote: tuple[type, ...] = ()
        self.tasks = TaskTable()
        self.branches: dict[HopId, TraversalBranch] = {}
        self._shares: Shares[Address] = Shares(BRANCHES_MAX)
        self.hops: dict[int, Hop] = {}
        self.slow: deque[TraversalBranch] | None = None
        """Branches of other peers, oldest first, that may need an `InProgress`."""
        self._parked: list[Traversal] = []
        """Casts without receipts that wait for a tract to get an owner."""

    def serve(self, users: Users, remote: tuple[type, ...]) -> None:
        """Name the users of traversals. `remote`: kinds besides casts that are processed if they
        come from other peers.
        """
        self._users, self._remote = users, remote

    def _user_of(self, traversal: Traversal) -> TraversalUser:
        return self._users[PLACES[type(traversal)]]

    @property
    def known(self) -> Tract:
        """The part of the own tract with complete registries. Traversals visit only this part."""
        own, unrecovered = self.surface.committed, self._registries.unrecovered
        return subtract(own, unrecovered) if unrecovered else own

    # --- arrival

    @handles(GatherRequest, CopyRequest, ReregisterRequest)
    def on_traversal(
        self, sender: Address, traversal: GatherRequest | CopyRequest | ReregisterRequest
    ) -> None:
        if type(traversal) in self._remote:
            self.begin_branch(sender, traversal)

    def begin_branch(self, sender: Address, traversal: Traversal) -> None:
        self.surface.heard_from(sender)
        from_hop = (sender, traversal.way.number)
        branch = self.branches.get(from_hop)
        if branch is not None:
            self._answer(branch)
        elif self._shares.allows(sender):
            branch = self.branches[from_hop] = TraversalBranch(self.host.now_us, from_hop)
            self._shares.add(sender)
            branch.add_report(CoverageReport(0, hops=1))
            self.timer_wheel.schedule_once(FORGET_US, self.forget_old)
            self.forward(branch, traversal)
            self._finish_one_of_branch(branch)
            if branch.done_us is None:
                self.slow = self.slow or deque()
                self.slow.append(branch)
                self.timer_wheel.schedule_once(SLOW_US - SLOT_US, self.report_progress)

    def _answer(self, branch: TraversalBranch) -> None:
        """Send the report of a finished branch, or `InProgress`."""
        assert branch.from_hop is not None
        to, number = branch.from_hop
        self.host.send(
            to,
            InProgress(number) if branch.done_us is None else replace(branch.tally, number=number),
        )

    def report_progress(self) -> None:
        """Send an `InProgress` for each branch that has been open for long."""
        slow, due_us = self.slow or deque(), self.host.now_us - SLOW_US + SLOT_US
        while slow and (slow[0].done_us is not None or slow[0].begun_us <= due_us):
            branch = slow.popleft()
            if branch.done_us is None:
                self._answer(branch)
        if slow:
            wait_us = max(0, slow[0].begun_us - due_us - SLOT_US)
            self.timer_wheel.schedule_once(wait_us, self.report_progress)

    # --- forwarding

    def forward(self, branch: TraversalBranch | None, traversal: Traversal) -> None:
        """Process the local part, and forward the rest to the next hops."""
        if not traversal.notch:
            traversal, found = self._user_of(traversal).seek(traversal)
            if found:
                self.process_here(branch, traversal, traversal.way.tract)
                return
        unrecovered = self._registries.unrecovered
        # Where no neighbour is nearer it waits: traversals that wander would meet each other's ends.
        onward = self.surface.routing.decide(traversal.way, wander=False)
        if isinstance(traversal, ReregisterRequest):
            # It has to visit every owner: it waits for those that are missing, without detours.
            onward = onward._replace(hops=[each for each in onward.hops if not each[1].stuck])
        elif unrecovered:
            onward = onward._replace(own=subtract(onward.own, unrecovered))
        for to, way in onward.hops:
            self._send(branch, to, traversal, way)
        waiting = onward.waiting if branch is None else onward.rest_of(traversal.way.tract)
        if waiting:
            # Peers that took each other for the owner may have used up the hop limit.
            hops = min(traversal.way.hops, self.surface.settings.timers.hops_max // 2)
            self._send(branch, None, traversal, RouteHeader(waiting, hops=hops))
        if onward.own:
            self.process_here(branch, traversal, onward.own)

    def _send(
        self,
        branch: TraversalBranch | None,
        to: Address | None,
        traversal: Traversal,
        way: RouteHeader,
    ) -> None:
        """Send to the next peer. None: no owner answers for the tract now; try again later."""
        if branch is not None:
            number = self.next_token()
            traversal = replace(traversal, way=replace(way, number=number))
            hop = self.hops[number] = Hop(branch, to, traversal)
            if to is None:
                hop.wait_for_owner()
            branch.start_hop(number)
            self.timer_wheel.schedule(hop.wait_us, partial(self.on_hop_timeout, number))
        elif way is not traversal.way:
            traversal = replace(traversal, way=way)
        if to is not None:
            self.host.send(to, traversal)
        elif branch is None and len(self._parked) < PARKED_MAX:
            self._parked.append(traversal)

    def on_hop_timeout(self, number: int) -> None:
        if (hop := self.hops.get(number)) is None:
            return
        if self.host.now_us - hop.branch.begun_us > CAST_US:
            task = task_of(hop.branch)
            if task is not None:
                self.give_up(task)
            else:
                self._drop_branch(hop.branch)
        elif hop.to is not None and hop.retry(self.surface.is_heard(hop.to, WAIT_LONGEST_US)):
            self.timer_wheel.schedule(hop.wait_us, partial(self.on_hop_timeout, number))
            self.host.send(hop.to, hop.traversal)
        else:
            if hop.to is not None:
                self.surface.suspect(hop.to)
            self._reroute(number, hop)

    def _reroute(self, number: int, hop: Hop) -> None:
        del self.hops[number]
        hop.branch.end_hop(number)
        self.forward(hop.branch, hop.traversal)
        self._finish_one_of_branch(hop.branch)

    def retry_waiting(self) -> None:
        """Forward what waited for an owner."""
        for number, hop in [each for each in self.hops.items() if each[1].to is None]:
            if number in self.hops:
                self._reroute(number, hop)
        parked, self._parked = self._parked, []
        for traversal in parked:
            self.forward(None, traversal)

    @handles(InProgress)
    def on_in_progress(self, sender: Address, working: InProgress) -> None:
        hop = self.hops.get(working.number)
        if hop is not None and hop.to == sender:
            self.surface.heard_from(sender)
            hop.on_progress()

    @handles(CoverageReport, RepeatCoverageReport)
    def on_coverage_report(self, sender: Address, covered: CoverageReport) -> None:
        hop = self.hops.get(covered.number)
        if hop is not None and hop.to == sender:
            self.surface.heard_from(sender)
            del self.hops[covered.number]
            hop.branch.end_hop(covered.number)
            hop.branch.add_report(covered)
            self._finish_one_of_branch(hop.branch)

    def sent_by(self, sender: Address, number: int) -> tuple[HopId | None, TraversalTask | None]:
        """The origin of a hop sent to this peer: the previous peer's hop, or a local task."""
        hop = self.hops.get(number)
        if hop is None or hop.to != sender:
            return None, None
        return hop.branch.from_hop, task_of(hop.branch)

    # --- the local part

    def process_here(
        self, branch: TraversalBranch | None, traversal: Traversal, part: Tract
    ) -> None:
        """Start a task for the new part; join the tasks that already cover the rest."""
        if not self.settings.is_place(traversal.tag, traversal.root, traversal.notch):
            return
        if branch is None:
            self.visit_all(None, traversal, traversal.notch, part)
            return
        for known in self.tasks.of_traversal(traversal):
            if common := intersect(part, known.part):
                part = subtract(part, common)
                known.add_branch(branch, common)
        if part:
            task = TraversalTask(self.host.now_us, traversal, part)
            self.tasks.add(task)
            # Scheduled here too: a peer that starts traversals may receive none.
            self.timer_wheel.schedule_once(FORGET_US, self.forget_old)
            task.add_branch(branch, part)
            self.visit_all(task, traversal, traversal.notch, part)
            self.finish_one(task)

    def visit_all(
        self, task: TraversalTask | None, traversal: Traversal, notch: int, part: Tract
    ) -> None:
        """Visit the local records at this and all higher notches; send branches up for the rest."""
        user = self._user_of(traversal)
        if not user.enters(task, traversal):
            return
        root, dimensions = traversal.root, self.settings.dimensions
        while part:
            registry = self._registries.by_key.get((traversal.tag, root, notch))
            if task is not None:
                self._count_records(task, registry, part)
            if registry is None:
                return
            user.visit(task, traversal, registry, part)
            closed = intersect(part, registry.closed) if registry.closed else EMPTY
            above = self.settings.above(notch)
            scaled = (
                scale_within(closed, root, notch, dimensions, above - notch) if closed else EMPTY
            )
            part = intersect(scaled, self.known)
            if rest := subtract(scaled, part) if part else scaled:
                self.send_up(
                    task, replace(traversal, way=RouteHeader(rest), notch=above), notch, closed
                )
            notch = above

    def _count_records(self, task: TraversalTask, registry: Registry | None, part: Tract) -> None:
        """Count the records in a part, and the part if it may lack some."""
        size = registry.count_in(part) if registry is not None else 0
        uncertain = int(self._registries.is_doubtful(part))
        if size or uncertain:
            task.add_report(CoverageReport(0, size=size, uncertain=uncertain))

    def send_up(
        self,
        task: TraversalTask | None,
        traversal: Traversal,
        notch: int = 0,
        closed: Tract = EMPTY,
    ) -> None:
        """Start a traversal as part of a task, from the closed part of a notch."""
        if task is None:
            self.forward(None, traversal)
            return
        branch = TraversalBranch(self.host.now_us, None, notch, closed, task)
        task.start_branch(branch)
        if closed:
            self.tasks.set_active(task)
        self.forward(branch, traversal)
        self._finish_one_of_branch(branch)

    # --- ending

    def _finish_one_of_branch(self, branch: TraversalBranch) -> None:
        """One part of the branch is finished; after the last, report to the sender."""
        if not branch.count_down(self.host.now_us):
            return
        if (task := task_of(branch)) is not None:
            task.end_branch(branch)
            task.add_report(branch.tally)
            self.finish_one(task)
        else:
            self._answer(branch)

    def finish_one(self, task: TraversalTask) -> None:
        """One part of the task is finished; after the last, report to the branches."""
        if task.count_down(self.host.now_us):
            self.tasks.clear_active(task)
            for branch, counts in task.branches:
                if counts:
                    branch.add_report(task.tally)
                self._finish_one_of_branch(branch)
            self._report_end(task, True)

    def _report_end(self, task: TraversalTask, is_covered: bool) -> None:
        self._user_of(task.traversal).on_traversal_end(task, is_covered)

    def show(self, task: TraversalTask, registry: Registry, record: Record) -> None:
        """Visit a record that came down past an open task, once."""
        if not task.mark_shown(record.entry.member.name):
            self._user_of(task.traversal).visit_records(task, registry, [record])

    def give_up(self, task: TraversalTask) -> None:
        """Abandon a task that cannot be finished. Waiting senders reroute."""
        for branch in list(task.up):
            self._drop_branch(branch)
        self.tasks.drop(task)
        self._report_end(task, False)

    def _drop_branch(self, branch: TraversalBranch) -> None:
        for number in branch.take_hops():
            self.hops.pop(number, None)
        if branch.from_hop is not None and self.branches.pop(branch.from_hop, None) is not None:
            self._shares.drop(branch.from_hop[0])
        if (task := task_of(branch)) is not None:
            task.end_branch(branch)

    # --- removal

    def forget_old(self) -> None:
        """Remove tasks and branches a cast lifetime after their end. Give up those without end."""
        since_us = self.host.now_us - CAST_US
        for task in self.tasks.last_before(since_us):
            (self.give_up if task.done_us is None else self.tasks.drop)(task)
        old = [
            each for each in self.branches.values() if max(each.begun_us, each.last_us) < since_us
        ]
        for branch in old:
            self._drop_branch(branch)
        if self.tasks or self.branches:
            self.timer_wheel.schedule_once(FORGET_US, self.forget_old)
