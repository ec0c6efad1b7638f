"""Carries casts to every arc of their range.

Without receipts a cast is passed on once, to where aggregates say that somebody may match, and that is all. With them a
peer that is asked to carry a cast over some arcs owes an answer: *covered*, when it has told itself, if it is meant,
and all to whom it passed pieces have said the same. So responsibility never ends at a peer that may die with it.

- Not answered: said again every second. A peer that works on it says so, and is asked less and less often.
- Silent for long: suspected (the ring's own detector), and its arcs are split anew, around it.
- Beyond a dead right neighbour nobody can be reached: such arcs wait until the ring has closed over it.
- Given up after `PATIENCE_US`: longer than freezes and partitions that are to be outlived.

An arc is answered for by exactly one branch in the end, however often it was sent, so the publisher learns how many
were told (`Settled`).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from implicast.casting.condcast.messages import (
    ArcsCovered,
    Astray,
    Carry,
    Query,
    StillCarrying,
    StuckAgain,
)
from implicast.casting.condcast.split import Match, Onward, split, split_around
from implicast.casting.inbox import Outcome
from implicast.language.portrait import Sought
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.asking import Asker, Patience, Question
from implicast.peer.contract import Address, CastId, Part, handles
from implicast.peer.events import Settled
from implicast.space.ring import Arc

if TYPE_CHECKING:
    from implicast.casting.condcast.condcast import Condcast

CARRY = "carry"
PATIENCE = Patience(1_000_000, times=5)
"""Five questions in vain, a second apart, before the silent one is suspected."""
STUCK_US = 1_000_000
LIFE_MASK, LIFE_SHIFT = 0xFFFF, 16
"""The part of a life that is drawn, and how many errands there are between two lives that follow each other."""
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
        return (
            ArcsCovered(self.cast, token, self.told, self.lost)
            if done
            else StillCarrying(self.cast, token)
        )

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


_NO_TASKS = Tasks()
_NONE: dict[int, Any] = {}
"""Shared by peers without receipts; replaced, never changed."""


class Carrier(Part, parts={"asker": Asker}):
    """One peer's share in the casts under way."""

    __slots__ = ("_asker", "_member", "_settings", "_stuck", "_token", "errands", "ring", "tasks")

    def __init__(self, member: "Condcast") -> None:
        super().__init__(member.address, member.host)
        self._member, self.ring, self._settings = member, member.ring, member.settings
        self.tasks = _NO_TASKS
        self.errands: dict[int, Errand] = _NONE
        self._stuck: dict[int, Task] = _NONE
        self._token = (member.incarnation & LIFE_MASK) << LIFE_SHIFT
        """Names errands; each life begins elsewhere, so that none is answered with what an earlier one asked."""
        self._asker: Asker | None = None
        if self._settings.assured:
            self._assure()

    def _assure(self) -> None:
        """Keep what receipts need; where nobody wants any it is never made."""
        self.tasks, self.errands, self._stuck = Tasks(), {}, {}
        self._asker = Asker(self.address, self.host)
        self._asker.topic(CARRY, PATIENCE, self._unanswered)

    @property
    def asker(self) -> Asker:
        assert self._asker is not None, "errands are kept only where there are receipts"
        return self._asker

    # --- beginning

    def cast(self, cast: CastId, arc: Arc, query: Query, payload: bytes) -> None:
        """A cast of one's own."""
        if not self._settings.assured:
            self._pass_on(Carry(cast, 0, (arc,), query, payload))
        else:
            self._spread((arc,), Task(cast, query, payload, None, self.host.now_us))

    @handles(Carry)
    def on_carry(self, sender: Address, carry: Carry) -> None:
        if not self._is_sound(carry):
            return
        state, is_meant = self.ring.links.state, carry.incarnation == self.ring.links.me.incarnation
        if not carry.token:
            if is_meant:
                self._pass_on(carry)
            return
        if self._asker is None:
            self._assure()  # a peer that is asked for receipts gives them, though it wants none for its own casts
        if state == INS and is_meant:
            return  # a member in a moment, perhaps: it will be said again
        given = sender, carry.cast, carry.token
        task = self.tasks.get(given)
        if task is not None:
            self._answer(task)
        elif state == OUT or not is_meant:
            self.host.send(sender, Astray(carry.cast, carry.token))
        else:
            task = Task(
                carry.cast, carry.query, carry.payload, (sender, carry.token), self.host.now_us
            )
            self.tasks.remember(given, task)
            self._spread(carry.arcs, task)

    def _is_sound(self, carry: Carry) -> bool:
        """Whether its publisher has cast it, its arcs lie on this ring, and its query can be asked here."""
        query, settings = carry.query, self._settings
        if isinstance(query, Sought) and (
            query.bits != settings.bits or query.hashes != settings.hashes
        ):
            return False
        for arc in carry.arcs:  # every hop of every cast asks: a generator would take twice as long
            if type(arc.start) is not int or type(arc.end) is not int:
                return False
        return self._member.words.opened(carry.cast, query, carry.payload) is not None

    def _pass_on(self, carry: Carry) -> None:
        """Once, and nobody answers."""
        cast, query, payload = carry.cast, carry.query, carry.payload
        here, onward, _ = self._split(carry.arcs, query)
        if here:
            self._member.tell(cast, query, payload)
        for node, pieces in onward:
            self.host.send(node.address, Carry(cast, 0, pieces, query, payload, node.incarnation))

    def _spread(self, arcs: tuple[Arc, ...], task: Task) -> None:
        """Split and send; pieces of which this peer is no part, when they were in vain, again, until it is over."""
        if task.query is None:
            return
        if task.is_over(self.host.now_us):
            task.count(0, len(arcs))
            self._give_up(task)
            return
        here, onward, stuck = self._split(arcs, task.query)
        if here:
            outcome = self._member.tell(task.cast, task.query, task.payload)
            task.count(outcome in (Outcome.TAKEN, Outcome.REPEAT), outcome == Outcome.FULL)
        for ref, pieces in onward:
            self._send(task, task.query, ref, pieces)
        if stuck:
            self._wait(task, stuck)
        self._finish(task)

    def _split(self, arcs: tuple[Arc, ...], query: Query) -> tuple[bool, Onward, tuple[Arc, ...]]:
        match: Match = query.matcher() if isinstance(query, Sought) else query.match
        ring = self.ring
        if ring.links.detector is not None:  # else nobody is suspected, and nothing grows old
            ring.table.expire(self.host.now_us)
            if ring.some_are_lost():
                return split_around(ring.table, arcs, match, ring.is_lost)
        return *split(ring.table, arcs, match), ()

    def _send(self, task: Task, query: Query, ref: Ref, arcs: tuple[Arc, ...]) -> None:
        self._token += 1
        carry = Carry(task.cast, self._token, arcs, query, task.payload, ref.incarnation)
        if self.asker.ask(CARRY, self._token, ref.address, carry):
            self.errands[self._token] = task.open[self._token] = Errand(task, ref, arcs)
        else:
            task.count(0, len(arcs))

    # --- answers

    @handles(ArcsCovered)
    def on_covered(self, sender: Address, covered: ArcsCovered) -> None:
        errand = self._errand(sender, covered.token, covered.cast)
        if errand is not None:
            self._close(covered.token)
            self.ring.links.company.heard(errand.to)
            errand.task.count(covered.told, covered.lost)
            self._finish(errand.task)

    @handles(StillCarrying)
    def on_working(self, sender: Address, working: StillCarrying) -> None:
        errand = self._errand(sender, working.token, working.cast)
        if errand is not None:
            self.ring.links.company.heard(errand.to)
            if errand.task.is_over(self.host.now_us):
                self._give_up(errand.task)
            else:
                self.asker.postpone(CARRY, working.token, errand.goes_on())

    @handles(Astray)
    def on_astray(self, sender: Address, astray: Astray) -> None:
        errand = self._errand(sender, astray.token, astray.cast)
        if errand is not None:
            self.ring.lost(errand.to)
            if not self.ring.is_lost(
                errand.to
            ):  # still the right neighbour, until the ring has closed over it
                self.ring.suspect(errand.to)
            self._again(astray.token)

    def _errand(self, sender: Address, token: int, cast: CastId) -> Errand | None:
        """The errand that this answers."""
        errand = self.errands.get(token)
        return (
            errand
            if errand is not None and errand.to.address == sender and errand.task.cast == cast
            else None
        )

    def _close(self, token: int) -> Errand | None:
        errand = self.errands.pop(token, None)
        if errand is not None:
            self.asker.answered(CARRY, token)
            errand.task.open.pop(token, None)
        return errand

    def _finish(self, task: Task) -> None:
        """Nothing is open any more: say so to whoever asked."""
        if not (task.open or task.stuck or task.query is None):
            task.end()
            self._answer(task)

    def _answer(self, task: Task) -> None:
        if task.asker is None:
            self.host.deliver(Settled(task.cast, task.told, task.lost))
        else:
            self.host.send(task.asker[0], task.answer(task.asker[1]))

    # --- silence

    def _unanswered(self, token: int, question: Question) -> None:
        errand = self.errands.get(token)
        if errand is not None and not errand.task.is_over(self.host.now_us):
            self.ring.suspect(
                errand.to
            )  # comes back as `silent`, for all errands to it, if it is news
        self._again(token)

    def silent(self, ref: Ref) -> None:
        """A node is suspected: what it has not covered goes another way."""
        for token in [token for token, errand in self.errands.items() if errand.to == ref]:
            self._again(token)

    def _again(self, token: int) -> None:
        errand = self._close(token)
        if errand is not None:
            self._spread(errand.arcs, errand.task)

    def _wait(self, task: Task, arcs: tuple[Arc, ...]) -> None:
        """These arcs lie beyond a lost neighbour."""
        task.wait(arcs)
        if task not in self._stuck.values():
            self._token += 1
            self._stuck[self._token] = task
            self.host.after(STUCK_US, StuckAgain(self._token))

    def moved(self) -> None:
        """A neighbour has changed: what was stuck may go on."""
        for token in list(self._stuck):
            self.on_stuck_again(StuckAgain(token))

    @handles(StuckAgain)
    def on_stuck_again(self, alarm: StuckAgain) -> None:
        task = self._stuck.pop(alarm.token, None)
        if task is not None:
            self._spread(task.take_stuck(), task)

    def _give_up(self, task: Task) -> None:
        for token, errand in list(task.open.items()):
            self._close(token)
            task.count(0, len(errand.arcs))
        task.count(0, len(task.take_stuck()))
        self._finish(task)

    def hand_back(self) -> None:
        """This peer leaves: whoever asked it has to find another way. Its own casts it still looks after."""
        for given, task in list(self.tasks.items()):
            if task.query is not None:
                self.tasks.forget(given)
                for token in list(task.open):
                    self._close(token)
                task.end()
                self.host.send(given[0], Astray(given[1], given[2]))
