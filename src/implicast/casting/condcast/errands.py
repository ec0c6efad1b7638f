"""What a peer keeps of casts under way: tasks that it was given, and errands on which it sends others (`carrier.py`).

A task that is done is remembered for a while with its answer, as whoever asked may ask again.
"""

from dataclasses import dataclass, field

from implicast.casting.condcast.messages import ArcsCovered, Query, StillCarrying
from implicast.overlay.links import Ref
from implicast.peer.contract import Address, CastId
from implicast.space.ring import Arc

PATIENCE_US = 45_000_000
"""How long a cast is carried: longer than freezes and partitions that are to be outlived."""
KEEP_US = PATIENCE_US + 15_000_000
"""How long what was carried is remembered: whoever asked has given up by then."""
WAIT_MAX_US = 9_000_000
"""A peer that works on it is asked again after 2, 3, 5, then so many seconds."""
TASKS_MAX = 8_192
"""Casts carried, or carried lately, at one peer, for all who asked it."""


@dataclass(slots=True)
class Errand:
    """A piece that another peer is to cover."""

    task: "Task"
    to: Ref
    arcs: tuple[Arc, ...]
    wait_us: int = 1_000_000

    def goes_on(self) -> int:
        """The other says that it works on it: it is left in peace for so long, longer each time."""
        self.wait_us = min(WAIT_MAX_US, 2 * self.wait_us)
        return self.wait_us


@dataclass(slots=True, eq=False)
class Task:
    """A cast over some arcs, for another peer, or for oneself."""

    cast: CastId
    query: Query | None
    """None: done, and nothing but the answer is remembered."""
    payload: bytes
    asker: tuple[Address, int] | None
    since_us: int
    open: dict[int, Errand] = field(default_factory=dict)
    stuck: tuple[Arc, ...] = ()
    told: int = 0
    lost: int = 0

    def count(self, told: int, lost: int) -> None:
        """So many more members were told, and so many more arcs, or members without room, were given up."""
        self.told += told
        self.lost += lost

    def wait(self, arcs: tuple[Arc, ...]) -> None:
        """These arcs cannot be reached yet."""
        self.stuck += arcs

    def take_stuck(self) -> tuple[Arc, ...]:
        arcs, self.stuck = self.stuck, ()
        return arcs

    def answer(self, token: int) -> ArcsCovered | StillCarrying:
        """How it stands, for whoever asked."""
        done = self.query is None
        return ArcsCovered(self.cast, token, self.told, self.lost) if done else StillCarrying(self.cast, token)

    def is_over(self, now_us: int) -> bool:
        """Whether it was carried for so long that what is still open is given up."""
        return now_us - self.since_us > PATIENCE_US

    def end(self) -> None:
        """Nothing but the answer is remembered."""
        self.query, self.payload, self.stuck = None, b"", ()


Given = tuple[Address, CastId, int]
"""By whom a task was given, of which cast, under which token."""


class Tasks(dict[Given, Task]):
    """Tasks by who gave them. Of a peer that has given as many as there is room left for (as in `peer.memory.Shares`)
    the oldest are forgotten: for whoever asks again they are carried anew."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        super().__init__()
        self._by: dict[Address, dict[Given, None]] = {}

    def remember(self, given: Given, task: Task) -> None:
        """Put a task in that begins now; those that nobody asks for any more go."""
        over_us = task.since_us - KEEP_US
        while self and self[oldest := next(iter(self))].since_us < over_us:
            self.forget(oldest)
        giver = given[0]
        if len(self._by.get(giver, ())) >= TASKS_MAX - len(self):
            self.forget(next(iter(self._by.get(giver) or self)))
        self._by.setdefault(giver, {})[given] = None
        self[given] = task

    def forget(self, given: Given) -> None:
        del self[given], self._by[given[0]][given]
        if not self._by[given[0]]:
            del self._by[given[0]]
