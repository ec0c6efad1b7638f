"""State of traversals at one peer: tasks, branches and hops (`traversals.py`).

- A *branch* is a traversal message that arrived from another peer, or that a local task sent up. It
  is open until the local task and all hops sent onward are finished. Then its sender gets one
  report.
- A *task* is this peer's own part of a traversal at one notch, with the branches that it sent up to
  the next notch. Several branches may wait for one task.
- A *hop* is a message sent onward and not answered yet.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.spice.homes import home
from implicast.casting.spice.messages import (
    NAMES_MAX,
    CastRequest,
    CopyRequest,
    CoverageReport,
    GatherRequest,
    RepeatCoverageReport,
    ReregisterRequest,
)
from implicast.casting.spice.settings import HOP_TRIES, HOP_US, WAIT_LONGEST_US
from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Address, CastId, Message, Name
from implicast.space.tract import EMPTY, Tract, contains

Traversal = CastRequest | GatherRequest | CopyRequest | ReregisterRequest
HOPS_PER_DOUBLING = 8
"""A traversal that waits for an owner waits twice as long for every so many hops. A route has about
this many hops among 500 peers.
"""
HopId = tuple[Address, int]
"""A hop as its receiver identifies it: the sender's address and its number for the hop."""


class HopTimeout(Message):
    """Fires when a hop should have been answered."""

    number: int


class ProgressDue(Message):
    """Fires when the oldest open branch is due for an `InProgress`."""


class ForgetTraversals(Message):
    """Fires when old tasks and branches are to be removed."""


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

    @property
    def last_us(self) -> int:
        return self.begun_us if self.done_us is None else self.done_us


@dataclass(slots=True, eq=False)
class TraversalTask(Pending):
    """This peer's part of a traversal at one notch."""

    traversal: Traversal
    part: Tract = EMPTY
    branches: list[tuple["TraversalBranch", bool]] = field(default_factory=list, init=False)
    """Branches that wait for the task, and whether its report counts in them."""
    up: dict["TraversalBranch", None] = field(default_factory=dict, init=False)
    shown: frozenset[Name] = field(default=frozenset(), init=False)
    """Consumers whose records came down past this peer while the traversal was above
    (`containers.py`).
    """

    def add_branch(self, branch: "TraversalBranch", common: Tract) -> None:
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

    def upstream_hops(self) -> Iterator[HopId]:
        """The hops by which the traversal reached this task."""
        for branch, _ in self.branches:
            if branch.from_hop is not None:
                yield branch.from_hop
            elif branch.task is not None:
                yield from branch.task.upstream_hops()


@dataclass(slots=True, eq=False)
class TraversalBranch(Pending):
    """A traversal message in progress: received from a peer (`from_hop`) or sent up by a local task
    (`task`).
    """

    from_hop: HopId | None = None
    task: TraversalTask | None = None
    notch: int = 0
    closed: Tract = EMPTY
    """The closed part, at `notch`, from which the task sent it up."""
    hops: dict[int, "Hop"] = field(default_factory=dict, init=False)


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


def traversal_key(traversal: Traversal) -> Hashable:
    """The same value for all messages of one traversal at one notch of one registry."""
    if isinstance(traversal, CastRequest):
        return (
            traversal.cast,
            traversal.term,
            traversal.root,
            traversal.notch,
            traversal.count_only,
            getattr(traversal, "again", None),
        )
    return (
        type(traversal).__name__,
        traversal.leader,
        traversal.number,
        traversal.root,
        traversal.notch,
    )


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
