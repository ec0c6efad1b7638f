"""The casts that one peer forwards for others or for itself, and what is still open of each."""

from dataclasses import dataclass, field

from implicast.casting.condcast.messages import ArcsCovered, ForwardProgress, Query
from implicast.overlay.links import Ref
from implicast.peer.contract import Address, CastId
from implicast.space.ring import Arc

FORWARD_MAX_US = 45_000_000
"""How long a cast is forwarded: longer than the freezes and partitions to be survived."""
KEEP_US = FORWARD_MAX_US + 15_000_000
"""How long a completed task is remembered: its requester has given up by then."""
WAIT_MAX_US = 9_000_000
"""A peer that reports progress is asked again after 2, 4, 8, then 9 s."""
TASKS_MAX = 8_192
"""Tasks under way or remembered at one peer, of all requesters."""


@dataclass(slots=True)
class SubTask:
    """A piece of a task that another peer is to cover."""

    task: "Task"
    to: Ref
    arcs: tuple[Arc, ...]
    wait_us: int = 1_000_000

    def back_off(self) -> int:
        """The other peer reports progress: return the wait before the next request, doubled each
        time.
        """
        self.wait_us = min(WAIT_MAX_US, 2 * self.wait_us)
        return self.wait_us


@dataclass(slots=True, eq=False)
class Task:
    """A cast over some arcs, for another peer or for this one."""

    cast: CastId
    query: Query | None
    """None: completed; only the report is retained."""
    payload: bytes
    requester: tuple[Address, int] | None
    since_us: int
    open: dict[int, SubTask] = field(default_factory=dict)
    stuck: tuple[Arc, ...] = ()
    notified: int = 0
    unreachable: int = 0
    uncertain: int = 0

    def count(self, notified: int, unreachable: int = 0, uncertain: int = 0) -> None:
        """Add to the members notified, the members without room, and the uncertain regions."""
        self.notified += notified
        self.unreachable += unreachable
        self.uncertain += uncertain

    def wait(self, arcs: tuple[Arc, ...]) -> None:
        """These arcs cannot be reached yet."""
        self.stuck += arcs

    def take_stuck(self) -> tuple[Arc, ...]:
        arcs, self.stuck = self.stuck, ()
        return arcs

    def answer(self, token: int) -> ArcsCovered | ForwardProgress:
        """Return the present report for the requester."""
        done = self.query is None
        return (
            ArcsCovered(self.cast, token, self.notified, self.unreachable, self.uncertain)
            if done
            else ForwardProgress(self.cast, token)
        )

    def is_over(self, now_us: int) -> bool:
        """Whether the time limit has passed, so that open arcs are given up."""
        return now_us - self.since_us > FORWARD_MAX_US

    def end(self) -> None:
        """Complete the task: retain only the report."""
        self.query, self.payload, self.stuck = None, b"", ()


TaskKey = tuple[Address, CastId, int]
"""The requester of a task, its cast, and the token."""


class Tasks(dict[TaskKey, Task]):
    """Tasks by requester. When a requester has as many as there is room left in total (as in
    `peer.memory.Shares`), its oldest task is forgotten; if it asks again, the cast is forwarded
    anew.
    """

    __slots__ = ("_by",)

    def __init__(self) -> None:
        super().__init__()
        self._by: dict[Address, dict[TaskKey, None]] = {}

    def remember(self, key: TaskKey, task: Task) -> None:
        """Add a task that starts now; drop tasks whose requesters have given up."""
        over_us = task.since_us - KEEP_US
        while self and self[oldest := next(iter(self))].since_us < over_us:
            self.forget(oldest)
        requester = key[0]
        if len(self._by.get(requester, ())) >= TASKS_MAX - len(self):
            self.forget(next(iter(self._by.get(requester) or self)))
        self._by.setdefault(requester, {})[key] = None
        self[key] = task

    def forget(self, key: TaskKey) -> None:
        del self[key], self._by[key[0]][key]
        if not self._by[key[0]]:
            del self._by[key[0]]
