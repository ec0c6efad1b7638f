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

from msgspec.structs import replace

from implicast.casting.spice.casts import Casts
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.messages import (
    COUNT_ONLY,
    CastRequest,
    CopyRequest,
    CoverageReport,
    GatherRequest,
    InProgress,
    RepeatCoverageReport,
    ReregisterRequest,
)
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.registry_copies import RegistryCopies
from implicast.casting.spice.settings import CAST_US, SLOW_US, WAIT_LONGEST_US
from implicast.casting.spice.traversal_state import (
    ForgetTraversals,
    Hop,
    HopId,
    HopTimeout,
    ProgressDue,
    TaskTable,
    Traversal,
    TraversalBranch,
    TraversalTask,
)
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, handles
from implicast.peer.lease import OWED_US
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


class Traversals(SpicePart):
    """Forwards and processes traversals, and tracks those that this peer started."""

    __slots__ = ("_parked", "_shares", "branches", "hops", "slow", "tasks")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.tasks = TaskTable()
        self.branches: dict[HopId, TraversalBranch] = {}
        self._shares: Shares[Address] = Shares(BRANCHES_MAX)
        self.hops: dict[int, Hop] = {}
        self.slow: deque[TraversalBranch] | None = None
        """Branches of other peers, oldest first, that may need an `InProgress`."""
        self._parked: list[Traversal] = []
        """Casts without receipts that wait for a tract to get an owner."""

    def handler_of(self, traversal: Traversal) -> Casts | Containers | RegistryCopies:
        """The part that processes the records of this kind of traversal."""
        if isinstance(traversal, CastRequest):
            return self.spice.casts
        return self.spice.containers if isinstance(traversal, GatherRequest) else self.spice.copies

    # --- arrival

    def on_cast(self, sender: Address, cast: CastRequest) -> None:
        """Process a cast that the fast path leaves (`fast_path.py`)."""
        if cast.term >= len(cast.target.terms) or not cast.target.terms[cast.term].has:
            return
        about = (COUNT_ONLY, cast.target) if cast.count_only else cast.target
        now_us = self.host.now_us
        if self.spice.signing.verified_payload(cast.cast, about, cast.payload, now_us) is None:
            return
        if self.settings.assured or cast.count_only:
            self.begin_branch(sender, cast)
        else:
            self._forward(None, cast)

    @handles(GatherRequest, CopyRequest, ReregisterRequest)
    def on_traversal(
        self, sender: Address, traversal: GatherRequest | CopyRequest | ReregisterRequest
    ) -> None:
        if self.settings.live if isinstance(traversal, CopyRequest) else self.settings.assured:
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
            self.spice.timer_wheel.schedule_once(FORGET_US, ForgetTraversals())
            self._forward(branch, traversal)
            self._finish_one_of_branch(branch)
            if branch.done_us is None:
                self.slow = self.slow or deque()
                self.slow.append(branch)
                self.spice.timer_wheel.schedule_once(SLOW_US - SLOT_US, ProgressDue())

    def _answer(self, branch: TraversalBranch) -> None:
        """Send the report of a finished branch, or `InProgress`."""
        assert branch.from_hop is not None
        to, number = branch.from_hop
        self.host.send(
            to,
            InProgress(number) if branch.done_us is None else replace(branch.tally, number=number),
        )

    @handles(ProgressDue)
    def on_progress_due(self, alarm: ProgressDue) -> None:
        slow, due_us = self.slow or deque(), self.host.now_us - SLOW_US + SLOT_US
        while slow and (slow[0].done_us is not None or slow[0].begun_us <= due_us):
            branch = slow.popleft()
            if branch.done_us is None:
                self._answer(branch)
        if slow:
            self.spice.timer_wheel.schedule_once(max(0, slow[0].begun_us - due_us - SLOT_US), alarm)

    # --- forwarding

    def _forward(self, branch: TraversalBranch | None, traversal: Traversal) -> None:
        """Process the local part, and forward the rest to the next hops."""
        if isinstance(traversal, CastRequest) and not traversal.notch:
            traversal, found = self.spice.casts.seek(traversal)
            if found:
                self.process_here(branch, traversal, traversal.way.tract)
                return
        unrecovered = self.spice.registries.unrecovered
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
            number = self.spice.stores.next_token()
            traversal = replace(traversal, way=replace(way, number=number))
            hop = self.hops[number] = branch.hops[number] = Hop(branch, to, traversal)
            if to is None:
                hop.wait_for_owner()
            branch.add_pending()
            self.spice.timer_wheel.schedule(hop.wait_us, HopTimeout(number))
        elif way is not traversal.way:
            traversal = replace(traversal, way=way)
        if to is not None:
            self.host.send(to, traversal)
        elif branch is None and len(self._parked) < PARKED_MAX:
            self._parked.append(traversal)

    @handles(HopTimeout)
    def on_hop_timeout(self, alarm: HopTimeout) -> None:
        if (hop := self.hops.get(alarm.number)) is None:
            return
        if self.host.now_us - hop.branch.begun_us > CAST_US:
            if hop.branch.task is not None:
                self.give_up(hop.branch.task)
            else:
                self._drop_branch(hop.branch)
        elif hop.to is not None and hop.retry(self.surface.is_heard(hop.to, WAIT_LONGEST_US)):
            self.spice.timer_wheel.schedule(hop.wait_us, alarm)
            self.host.send(hop.to, hop.traversal)
        else:
            if hop.to is not None:
                self.surface.suspect(hop.to)
            self._reroute(alarm.number, hop)

    def _reroute(self, number: int, hop: Hop) -> None:
        del self.hops[number], hop.branch.hops[number]
        self._forward(hop.branch, hop.traversal)
        self._finish_one_of_branch(hop.branch)

    def retry_waiting(self) -> None:
        """Forward what waited for an owner."""
        for number, hop in [each for each in self.hops.items() if each[1].to is None]:
            if number in self.hops:
                self._reroute(number, hop)
        parked, self._parked = self._parked, []
        for traversal in parked:
            self._forward(None, traversal)

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
            del self.hops[covered.number], hop.branch.hops[covered.number]
            hop.branch.add_report(covered)
            self._finish_one_of_branch(hop.branch)

    def sent_by(self, sender: Address, number: int) -> tuple[HopId | None, TraversalTask | None]:
        """The origin of a hop sent to this peer: the previous peer's hop, or a local task."""
        hop = self.hops.get(number)
        if hop is None or hop.to != sender:
            return None, None
        return hop.branch.from_hop, hop.branch.task

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
            self.spice.timer_wheel.schedule_once(FORGET_US, ForgetTraversals())
            task.add_branch(branch, part)
            self.visit_all(task, traversal, traversal.notch, part)
            self.finish_one(task)

    def visit_all(
        self, task: TraversalTask | None, traversal: Traversal, notch: int, part: Tract
    ) -> None:
        """Visit the local records at this and all higher notches; send branches up for the rest."""
        if isinstance(traversal, ReregisterRequest):
            self.spice.register_again(traversal.lost, task)
            if task is not None and self.surface.has_silent(OWED_US):
                task.add_report(CoverageReport(0, uncertain=1))
            return
        root, dimensions = traversal.root, self.settings.dimensions
        complaints = self.spice.complaints_seen
        if (
            complaints is not None
            and isinstance(traversal, CastRequest)
            and complaints.refuses(task, traversal)
        ):
            return
        while part:
            registry = self.spice.registries.by_key.get((traversal.tag, root, notch))
            records = self._count_records(task, registry, part) if task is not None else []
            if registry is None:
                return
            if isinstance(traversal, CastRequest):
                self.spice.casts.notify_selected(task, traversal, registry, part)
            elif task is not None:
                self.handler_of(traversal).visit_records(task, registry, records)
            closed = intersect(part, registry.closed) if registry.closed else EMPTY
            above = self.settings.above(notch)
            scaled = (
                scale_within(closed, root, notch, dimensions, above - notch) if closed else EMPTY
            )
            part = intersect(scaled, self.spice.known)
            if rest := subtract(scaled, part) if part else scaled:
                self.send_up(
                    task, replace(traversal, way=RouteHeader(rest), notch=above), notch, closed
                )
            notch = above

    def _count_records(
        self, task: TraversalTask, registry: Registry | None, part: Tract
    ) -> list[Record]:
        """The records in a part; counts them, and the part if it may lack some."""
        records = registry.records_in(part) if registry is not None else []
        size = sum([each.entry.description is not None for each in records])
        uncertain = int(self.spice.registries.is_doubtful(part))
        if size or uncertain:
            task.add_report(CoverageReport(0, size=size, uncertain=uncertain))
        return records

    def send_up(
        self,
        task: TraversalTask | None,
        traversal: Traversal,
        notch: int = 0,
        closed: Tract = EMPTY,
    ) -> None:
        """Start a traversal as part of a task, from the closed part of a notch."""
        if task is None:
            self._forward(None, traversal)
            return
        branch = TraversalBranch(self.host.now_us, None, task, notch, closed)
        task.up[branch] = None
        task.add_pending()
        if closed:
            self.tasks.set_active(task)
        self._forward(branch, traversal)
        self._finish_one_of_branch(branch)

    # --- ending

    def _finish_one_of_branch(self, branch: TraversalBranch) -> None:
        """One part of the branch is finished; after the last, report to the sender."""
        if not branch.count_down(self.host.now_us):
            return
        if branch.task is not None:
            branch.task.up.pop(branch, None)
            branch.task.add_report(branch.tally)
            self.finish_one(branch.task)
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
        """Tell the part that the traversal serves."""
        served = (
            self.spice.calls
            if isinstance(task.traversal, ReregisterRequest)
            else self.handler_of(task.traversal)
        )
        served.on_traversal_end(task, is_covered)

    def give_up(self, task: TraversalTask) -> None:
        """Abandon a task that cannot be finished. Waiting senders reroute."""
        for branch in list(task.up):
            self._drop_branch(branch)
        self.tasks.drop(task)
        self._report_end(task, False)

    def _drop_branch(self, branch: TraversalBranch) -> None:
        for number in branch.hops:
            self.hops.pop(number, None)
        branch.hops.clear()
        if branch.from_hop is not None and self.branches.pop(branch.from_hop, None) is not None:
            self._shares.drop(branch.from_hop[0])
        if branch.task is not None:
            branch.task.up.pop(branch, None)

    # --- removal

    @handles(ForgetTraversals)
    def on_forget_traversals(self, alarm: ForgetTraversals) -> None:
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
            self.spice.timer_wheel.schedule_once(FORGET_US, alarm)
