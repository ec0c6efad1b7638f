"""What a peer keeps of walks: its own part of each, what it has sent on, and what became of it so far (`walks.py`)."""

from collections.abc import Hashable, Iterator

from implicast.casting.inbox import Outcome
from implicast.casting.spice.messages import NAMES_MAX, CastAgain, CastTo, CopyFrom, Covered, GatherTo
from implicast.casting.spice.settings import HOP_TRIES, HOP_US, WAIT_LONGEST_US
from implicast.peer.contract import Address, Name
from implicast.space.tract import EMPTY, Tract

Walk = CastTo | GatherTo | CopyFrom
Seen = tuple[Address, int]
"""A hop as its receiver knows it: who sent it, and the sender's number for it."""


class Tally:
    """What became of a part of a walk."""

    __slots__ = ("declined", "hops", "notified", "silent", "size", "unreachable")

    def __init__(self) -> None:
        self.notified = self.declined = self.unreachable = self.size = self.hops = 0
        self.silent: tuple[Name, ...] = ()

    def add(self, other: "Tally | Covered") -> None:
        self.notified += other.notified
        self.declined += other.declined
        self.unreachable += other.unreachable
        self.size += other.size
        self.hops += other.hops
        if other.silent:
            self.silent = (*self.silent, *other.silent)[:NAMES_MAX]

    def select(self) -> None:
        """A member would be told."""
        self.notified += 1

    def hear(self, outcome: Outcome) -> None:
        """A member has answered. One that was told by another peer before is counted there."""
        if outcome == Outcome.TAKEN:
            self.notified += 1
        elif outcome != Outcome.REPEAT:
            self.declined += 1

    def lose(self, name: Name | None = None) -> None:
        """A member, or whoever keeps members, did not answer."""
        self.unreachable += 1
        if name is not None and len(self.silent) < NAMES_MAX:
            self.silent = (*self.silent, name)

    def decline(self, count: int) -> None:
        """So many were not told."""
        self.declined += count

    def meet(self, size: int) -> None:
        self.size += size

    def step(self) -> None:
        self.hops += 1


class Open:
    """Something that is open until several things are done."""

    __slots__ = ("begun_us", "done_us", "open", "tally")

    def __init__(self, now_us: int) -> None:
        self.begun_us, self.tally = now_us, Tally()
        self.done_us: int | None = None
        self.open = 1
        """What is not finished, and the beginning itself."""

    def wait(self) -> None:
        """One thing more to wait for."""
        self.open += 1

    def is_over(self, now_us: int) -> bool:
        """One thing less; was it the last?"""
        self.open -= 1
        if self.open or self.done_us is not None:
            return False
        self.done_us = now_us
        return True

    @property
    def last_us(self) -> int:
        return self.begun_us if self.done_us is None else self.done_us


class Work(Open):
    """Our own part of a walk at one notch, with what went up from it."""

    __slots__ = ("name", "part", "shown", "trips", "up", "walk")

    def __init__(self, walk: Walk, part: Tract, now_us: int) -> None:
        super().__init__(now_us)
        self.walk, self.part, self.name = walk, part, name_of(walk)
        self.trips: list[tuple[Trip, bool]] = []
        """What waits for it, and whether its members count there."""
        self.up: dict[Trip, None] = {}
        self.shown: set[Name] | None = None
        """Consumers whose records came down while the walk was above (`gatherings.py`)."""

    def is_shown(self, consumer: Name) -> bool:
        """Was this record shown before? It is now."""
        if self.shown is None:
            self.shown = set()
        if consumer in self.shown:
            return True
        self.shown.add(consumer)
        return False

    def behind(self) -> Iterator[Seen]:
        """Who sent us the walk that this work is a part of, with their numbers for it."""
        for trip, _ in self.trips:
            if trip.seen is not None:
                yield trip.seen
            elif trip.work is not None:
                yield from trip.work.behind()


class Trip(Open):
    """A walk that has come by, or that a work of ours sends up: carried on until all of it is answered."""

    __slots__ = ("closed", "hops", "notch", "seen", "walk", "work")

    def __init__(self, walk: Walk, now_us: int, seen: Seen | None, work: Work | None) -> None:
        super().__init__(now_us)
        self.walk, self.seen, self.work = walk, seen, work
        self.hops: dict[int, Hop] = {}
        self.notch, self.closed = 0, EMPTY
        """From which closed part of a work it went up."""

    def rise_from(self, notch: int, closed: Tract) -> None:
        self.notch, self.closed = notch, closed


class Hop:
    """What a trip has sent on."""

    __slots__ = ("is_at_work", "to", "tries", "trip", "wait_us", "walk")

    def __init__(self, trip: Trip, to: Address | None, walk: Walk) -> None:
        self.trip, self.to, self.walk = trip, to, walk
        self.tries, self.wait_us = 1, HOP_US
        self.is_at_work = False
        """Whether the other has said that it works on it."""

    def may_try(self, is_heard: bool) -> bool:
        """A few times; and for as long as one that has taken it on is heard: then questions or answers get lost."""
        return self.tries < HOP_TRIES or (self.is_at_work and is_heard)

    def try_again(self) -> None:
        self.tries += 1
        self.wait_us = min(2 * self.wait_us, WAIT_LONGEST_US)

    def be_patient(self) -> None:
        self.tries, self.wait_us, self.is_at_work = 0, WAIT_LONGEST_US, True


def name_of(walk: Walk) -> Hashable:
    """Equal for all messages of one walk at one notch of one registry."""
    if isinstance(walk, CastTo):
        name = walk.cast, walk.term, walk.root, walk.notch, walk.asks
        return (*name, walk.again) if isinstance(walk, CastAgain) else name
    return type(walk).__name__, walk.leader, walk.walk, walk.root, walk.notch
