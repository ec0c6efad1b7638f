"""The casts that one peer forwards for others or for itself, and what is still open of each."""

from dataclasses import dataclass

from implicast.casting.condcast.messages import ArcsCovered, ForwardProgress, Query
from implicast.casting.coverage import CastTally, Coverage
from implicast.peer.contract import Address, CastId
from implicast.peer.events import Settled
from implicast.space.ring import Arc

FORWARD_MAX_US = 45_000_000
"""How long a cast is forwarded: longer than the freezes and partitions to be survived."""
KEEP_US = FORWARD_MAX_US + 15_000_000
"""How long a completed task is remembered: its requester has given up by then."""
TASKS_MAX = 8_192
"""Tasks under way or remembered at one peer, of all requesters."""


@dataclass(slots=True, eq=False, kw_only=True)
class Task(Coverage[Arc]):
    """A cast over some arcs, for another peer or for this one."""

    cast: CastId
    query: Query | None
    """None: completed; only the report is retained."""
    payload: bytes
    requester: tuple[Address, int] | None = None
    """Who asked, with its token; None: the application."""
    report: CastTally | None = None
    """What was reported at the end."""

    @property
    def is_ended(self) -> bool:
        return self.query is None

    def answer(self, token: int) -> ArcsCovered | ForwardProgress:
        """Return the present report for the requester."""
        told = self.report
        if told is None:
            return ForwardProgress(self.cast, token)
        return ArcsCovered(self.cast, token, told.notified, told.unreachable, told.uncertain)

    def settled(self, report: CastTally) -> Settled:
        """Return the report for the application."""
        notified, unreachable = report.notified, report.unreachable
        return Settled(self.cast, notified, unreachable, uncertain=report.uncertain)

    def end(self) -> None:
        """Complete the task: retain only the report."""
        for child in self.children.values():
            if child.report is not None:
                self.here.add(child.report)
        self.report = self.here
        self.query, self.payload = None, b""
        self.children.clear()


TaskKey = tuple[Address, CastId, int]
"""The requester of a task, its cast, and the token."""


class Tasks(dict[TaskKey, Task]):
    """Tasks by requester. When a requester has as many as there is room left in total (as in
    `peer.memory.Shares`), its oldest task is forgotten; if it asks again, the cast is forwarded
    anew.
    """

    __slots__ = ("_by", "_oldest_us")

    def __init__(self) -> None:
        super().__init__()
        self._by: dict[Address, dict[TaskKey, None]] = {}
        self._oldest_us = 0
        """No task ends before this time."""

    def remember(self, key: TaskKey, task: Task) -> None:
        """Add a task that starts now; drop tasks whose requesters have given up."""
        over_us = task.until_us - KEEP_US
        if over_us > self._oldest_us:  # rarely: to find the first entry of a dict takes time
            while self and self[oldest := next(iter(self))].until_us < over_us:
                self.forget(oldest)
            self._oldest_us = next(iter(self.values())).until_us if self else task.until_us
        requester = key[0]
        if len(self._by.get(requester, ())) >= TASKS_MAX - len(self):
            self.forget(next(iter(self._by.get(requester) or self)))
        self._by.setdefault(requester, {})[key] = None
        self[key] = task

    def forget(self, key: TaskKey) -> None:
        del self[key], self._by[key[0]][key]
        if not self._by[key[0]]:
            del self._by[key[0]]
