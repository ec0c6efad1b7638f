"""What a peer keeps of walks: its own part of each, what it has sent on, and what became of it so far (`walks.py`)."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.spice.messages import (
    NAMES_MAX,
    CastTo,
    CopyFrom,
    Covered,
    CoveredAgain,
    GatherTo,
    SayAgain,
)
from implicast.casting.spice.settings import HOP_TRIES, HOP_US, WAIT_LONGEST_US
from implicast.peer.contract import Address, Name
from implicast.space.tract import EMPTY, Tract

Walk = CastTo | GatherTo | CopyFrom | SayAgain
Seen = tuple[Address, int]
"""A hop as its receiver knows it: who sent it, and the sender's number for it."""


@dataclass(slots=True, eq=False)
class Open:
    """Something that is open until several things are done."""

    begun_us: int
    done_us: int | None = field(default=None, init=False)
    open: int = field(default=1, init=False)
    """What is not finished, and the beginning itself."""
    tally: Covered = field(default=Covered(0), init=False)
    """What became of it so far."""

    def count(self, more: Covered) -> None:
        """What became of a part of it."""
        so_far = self.tally
        repeated = sum(each.repeated for each in (so_far, more) if isinstance(each, CoveredAgain))
        counts = (
            so_far.notified + more.notified,
            so_far.declined + more.declined,
            so_far.unreachable + more.unreachable,
            (*so_far.silent, *more.silent)[:NAMES_MAX],
            so_far.size + more.size,
            so_far.hops + more.hops,
        )
        self.tally = CoveredAgain(0, *counts, repeated) if repeated else Covered(0, *counts)

    def hear(self, outcome: Outcome) -> None:
        """A member has answered. One that was told by another peer before is counted there."""
        if outcome == Outcome.TAKEN:
            self.tally = replace(self.tally, notified=self.tally.notified + 1)
        elif outcome == Outcome.REPEAT:
            self.count(CoveredAgain(0, repeated=1))
        else:
            self.tally = replace(self.tally, declined=self.tally.declined + 1)

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


@dataclass(slots=True, eq=False)
class Work(Open):
    """Our own part of a walk at one notch, with what went up from it."""

    walk: Walk
    part: Tract = EMPTY
    trips: list[tuple["Trip", bool]] = field(default_factory=list, init=False)
    """What waits for it, and whether its members count there."""
    up: dict["Trip", None] = field(default_factory=dict, init=False)
    shown: frozenset[Name] = field(default=frozenset(), init=False)
    """Consumers whose records came down while the walk was above (`containers.py`)."""

    def is_shown(self, consumer: Name) -> bool:
        """Was this record shown before? It is now."""
        before, self.shown = self.shown, self.shown | {consumer}
        return consumer in before

    def behind(self) -> Iterator[Seen]:
        """Who sent us the walk that this work is a part of, with their numbers for it."""
        for trip, _ in self.trips:
            if trip.seen is not None:
                yield trip.seen
            elif trip.work is not None:
                yield from trip.work.behind()


@dataclass(slots=True, eq=False)
class Trip(Open):
    """A walk that has come by, or that a work of ours sends up: carried on until all of it is answered."""

    seen: Seen | None = None
    work: Work | None = None
    notch: int = 0
    closed: Tract = EMPTY
    """From which closed part of the work it went up, at which notch."""
    hops: dict[int, "Hop"] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False)
class Hop:
    """What a trip has sent on."""

    trip: Trip
    to: Address | None
    walk: Walk
    tries: int = 1
    wait_us: int = HOP_US
    is_at_work: bool = False
    """Whether the other has said that it works on it."""

    def is_tried_again(self, is_heard: bool) -> bool:
        """A few times; and for as long as one that has taken it on is heard: then questions or answers get lost."""
        if self.tries >= HOP_TRIES and not (self.is_at_work and is_heard):
            return False
        self.tries, self.wait_us = self.tries + 1, min(2 * self.wait_us, WAIT_LONGEST_US)
        return True

    def be_patient(self) -> None:
        self.tries, self.wait_us, self.is_at_work = 0, WAIT_LONGEST_US, True


def name_of(walk: Walk) -> Hashable:
    """Equal for all messages of one walk at one notch of one registry."""
    if isinstance(walk, CastTo):
        return walk.cast, walk.term, walk.root, walk.notch, walk.asks, getattr(walk, "again", None)
    return type(walk).__name__, walk.leader, walk.walk, walk.root, walk.notch
