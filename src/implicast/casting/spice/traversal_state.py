"""State of traversals at one peer: tasks, branches and hops (`traversals.py`).

- A *branch* is a traversal message that arrived from another peer, or that a local task sent up. It
  is open until the local task and all hops sent onward are finished. Then its sender gets one
  report.
- A *task* is this peer's own part of a traversal at one notch, with the branches that it sent up to
  the next notch. Several branches may wait for one task.
- A *hop* is a message sent onward and not answered yet.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.spice.homes import home
from implicast.casting.spice.registry import Record, Registry
from implicast.casting.spice.settings import HOP_TRIES, HOP_US, WAIT_LONGEST_US
from implicast.casting.spice.traversal_messages import (
    NAMES_MAX,
    CastRequest,
    CoverageReport,
    GatherRequest,
    RepeatCoverageReport,
    Traversal,
    traversal_key,
)
from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Address, CastId, Name
from implicast.space.tract import EMPTY, Tract, contains

HOPS_PER_DOUBLING = 8
"""A traversal that waits for an owner waits twice as long for every so many hops. A route has about
this many hops among 500 peers.
"""
HopId = tuple[Address, int]
"""A hop as its receiver identifies it: the sender's address and its number for the hop."""


@dataclass(slots=True, eq=False)
class Pending:
    """Counts down the unfinished parts of something and adds up their reports."""

    begun_us: int
    done_us: int | None = field(default=None, init=False)
    pending: int = field(default=1, init=False)
    """Number of unfinished parts. Starts at 1 for the set-up itself, so that it cannot finish
    early.
    """
    tally: CoverageReport = field(default=CoverageReport(0), init=False)
    """Sum of the reports so far."""

    def add_report(self, more: CoverageReport) -> None:
        """Add the report of a finished part."""
        so_far = self.tally
        repeated = sum(
            each.repeated for each in (so_far, more) if isinstance(each, RepeatCoverageReport)
        )
        counts = (
            so_far.notified + more.notified,
            so_far.declined + more.declined,
            so_far.unreachable + more.unreachable,
            (*so_far.silent, *more.silent)[:NAMES_MAX],
            so_far.size + more.size,
            so_far.hops + more.hops,
            so_far.uncertain + more.uncertain,
        )
        self.tally = (
            RepeatCoverageReport(0, *counts, repeated) if repeated else CoverageReport(0, *counts)
        )

    def count_outcome(self, outcome: Outcome) -> None:
        """Count a member's answer. A member that another peer notified before is counted there."""
        if outcome == Outcome.TAKEN:
            self.tally = replace(self.tally, notified=self.tally.notified + 1)
        elif outcome == Outcome.REPEAT:
            self.add_report(RepeatCoverageReport(0, repeated=1))
        elif outcome == Outcome.EXPIRED:
            self.add_report(CoverageReport(0, unreachable=1))
        elif outcome != Outcome.UNSELECTED:
            self.tally = replace(self.tally, declined=self.tally.declined + 1)

    def add_pending(self) -> None:
        self.pending += 1

    def count_down(self, now_us: int) -> bool:
        """One part is finished. Returns whether it was the last."""
        self.pending -= 1
        if self.pending or self.done_us is not None:
            return False
        self.done_us = now_us
        return True

    def upstream_hops(self) -> Iterator[HopId]:
        """The hops by which the traversal reached this peer."""
        return iter(())

    @property
    def last_us(self) -> int:
        return self.begun_us if self.done_us is None else self.done_us


@dataclass(slots=True, eq=False)
class TraversalBranch(Pending):
    """A traversal message in progress, received from a peer (`from_hop`)."""

    from_hop: HopId | None = None
    notch: int = 0
    closed: Tract = EMPTY
    """Of a branch that a local task sent up: the closed part, at `notch`, from which it went up."""
    parent: Pending | None = None
    """The local task that sent the branch up."""
    hops: dict[int, None] = field(default_factory=dict, init=False)
    """Numbers of the messages sent onward that are not answered."""

    def start_hop(self, number: int) -> None:
        """A message is sent onward."""
        self.hops[number] = None
        self.add_pending()

    def end_hop(self, number: int) -> None:
        del self.hops[number]

    def take_hops(self) -> list[int]:
        """The open hops, which are forgotten."""
        numbers = list(self.hops)
        self.hops.clear()
        return numbers

    def upstream_hops(self) -> Iterator[HopId]:
        """The hops by which the traversal reached this peer."""
        if self.from_hop is not None:
            yield self.from_hop
        elif self.parent is not None:
            yield from self.parent.upstream_hops()


@dataclass(slots=True, eq=False)
class TraversalTask(Pending):
    """This peer's part of a traversal at one notch."""

    traversal: Traversal
    part: Tract = EMPTY
    branches: list[tuple[TraversalBranch, bool]] = field(default_factory=list, init=False)
    """Branches that wait for the task, and whether its report counts in them."""
    up: dict[TraversalBranch, None] = field(default_factory=dict, init=False)
    shown: frozenset[Name] = field(default=frozenset(), init=False)
    """Consumers whose records came down past this peer while the traversal was above
    (`containers.py`).
    """

    def add_branch(self, branch: TraversalBranch, common: Tract) -> None:
        """Make a branch wait for this task. A branch that meets the task in several parts counts it
        once, where the task's first code is.
        """
        counts = contains(common, self.part[0])
        if self.done_us is None:
            self.branches.append((branch, counts))
            branch.add_pending()
        elif counts:
            branch.add_report(self.tally)

    def is_above(self, notch: int, spot: int, dimensions: int) -> bool:
        """Whether the traversal went up past the home of a record at this notch and is not back."""
        traversal = self.traversal
        if isinstance(traversal, GatherRequest):
            passed = list(self.up) if traversal.base < notch else []
        else:
            passed = [branch for branch in self.up if traversal.notch <= notch <= branch.notch]
        return any(
            contains(branch.closed, home(traversal.root, branch.notch, spot, dimensions))
            for branch in passed
        )

    def mark_shown(self, consumer: Name) -> bool:
        """Mark a record as visited. Returns whether it was marked before."""
        before, self.shown = self.shown, self.shown | {consumer}
        return consumer in before

    def start_branch(self, branch: TraversalBranch) -> None:
        """A branch is sent up."""
        self.up[branch] = None
        self.add_pending()

    def end_branch(self, branch: TraversalBranch) -> None:
        self.up.pop(branch, None)

    def upstream_hops(self) -> Iterator[HopId]:
        """The hops by which the traversal reached this task."""
        for branch, _ in self.branches:
            yield from branch.upstream_hops()


def task_of(branch: TraversalBranch) -> TraversalTask | None:
    """The local task that sent the branch up; None if the branch came from another peer."""
    return branch.parent if isinstance(branch.parent, TraversalTask) else None


@dataclass(slots=True, eq=False)
class Hop:
    """A message sent onward. `to` is None while no owner answers for its tract."""

    branch: TraversalBranch
    to: Address | None
    traversal: Traversal
    tries: int = 1
    wait_us: int = HOP_US
    is_working: bool = False
    """Whether the receiver has answered `InProgress`."""

    def retry(self, is_heard: bool) -> bool:
        """Whether to send it again: a few times, and without limit while a receiver that has
        started on it is alive, since then only messages were lost.
        """
        if self.tries >= HOP_TRIES and not (self.is_working and is_heard):
            return False
        self.tries, self.wait_us = self.tries + 1, backed_off_us(self.wait_us, 1, WAIT_LONGEST_US)
        return True

    def wait_for_owner(self) -> None:
        """No peer answers for the tract now. The more hops the traversal has taken, the longer it
        waits: it may be passed to and fro until the surface is repaired.
        """
        doublings = min(3, self.traversal.way.hops // HOPS_PER_DOUBLING)
        self.wait_us = backed_off_us(HOP_US, doublings, WAIT_LONGEST_US)

    def on_progress(self) -> None:
        self.tries, self.wait_us, self.is_working = 0, WAIT_LONGEST_US, True


class TraversalUser:
    """What traversals of one kind are for: called at every peer that one visits. By default it
    visits the records of each registry.
    """

    __slots__ = ()

    def seek(self, traversal: Traversal) -> tuple[Traversal, bool]:
        """At notch 0: the destination, which may change, and whether the registry is here."""
        return traversal, False

    def enters(self, task: TraversalTask | None, traversal: Traversal) -> bool:
        """A traversal has arrived. Whether it visits the registries here."""
        return True

    def visit(
        self, task: TraversalTask | None, traversal: Traversal, registry: Registry, part: Tract
    ) -> None:
        """Visit the records in a part."""
        if task is not None:
            self.visit_records(task, registry, registry.records_in(part))

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        """Visit these records. They may have come down past the traversal."""
        assert not records, "this kind of traversal visits no records"

    @abstractmethod
    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        """This peer's task is covered, or given up."""


class TaskTable:
    """The remembered tasks of one peer, by traversal."""

    __slots__ = ("_by_key", "active")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, list[TraversalTask]] = {}
        self.active: dict[TraversalTask, None] = {}
        """Open tasks with branches sent up from closed parts here."""

    def __len__(self) -> int:
        return len(self._by_key)

    def of_traversal(self, traversal: Traversal) -> Sequence[TraversalTask]:
        return self._by_key.get(traversal_key(traversal), ())

    def of_cast(self, cast: CastId) -> list[TraversalTask]:
        return [
            task
            for tasks in self._by_key.values()
            for task in tasks
            if isinstance(task.traversal, CastRequest) and task.traversal.cast == cast
        ]

    def last_before(self, time_us: int) -> list[TraversalTask]:
        """Tasks that ended, or that began and have not ended, before this time."""
        return [task for tasks in self._by_key.values() for task in tasks if task.last_us < time_us]

    def active_at(self, tag: str, root: int) -> list[TraversalTask]:
        """Active tasks of traversals of this registry."""
        return [
            each
            for each in self.active
            if each.traversal.tag == tag and each.traversal.root == root
        ]

    def add(self, task: TraversalTask) -> None:
        self._by_key.setdefault(traversal_key(task.traversal), []).append(task)

    def drop(self, task: TraversalTask) -> None:
        self.active.pop(task, None)
        key = traversal_key(task.traversal)
        tasks = self._by_key.get(key, [])
        if task in tasks:
            tasks.remove(task)
            if not tasks:
                del self._by_key[key]

    def set_active(self, task: TraversalTask) -> None:
        self.active[task] = None

    def clear_active(self, task: TraversalTask) -> None:
        self.active.pop(task, None)
