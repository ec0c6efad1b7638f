"""Carries casts until every arc of their range is covered.

Whoever is asked to carry a cast over some arcs owes an answer: *covered*, when it has told itself, if it is meant, and
all to whom it passed pieces have said the same. So responsibility never ends at a peer that may die with it: who asked
keeps asking until the answer comes.

- Not answered: said again every second. One that works on it says so, and is asked less and less often.
- Silent for long: suspected (the ring's own detector), and its arcs are split anew, around it. Those who had the cast
  already are told again and say so; nobody is notified twice, for each recognises repeats.
- Beyond a dead right neighbour nobody can be reached until the ring has closed over it: such arcs wait, and go on as
  soon as the neighbour changes.
- Given up after `PATIENCE_US` (`errands.py`): longer than freezes and partitions that are to be outlived.

An arc is answered for by exactly one branch in the end, however often it was sent, so the publisher learns how many
were told (`Settled`).
"""

from collections.abc import Callable

from implicast.casting.condcast.around import split_around
from implicast.casting.condcast.errands import TRIES, Errand, Name, Task, remember
from implicast.casting.condcast.living_messages import Astray, Carry, Covered, Unanswered, Working
from implicast.casting.condcast.messages import Query
from implicast.casting.condcast.split import Match, Onward, split
from implicast.language.portrait import Sought
from implicast.overlay.chord_sharp import LivingSharp
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, CastId, Host, Part, handles
from implicast.peer.pending import Pending
from implicast.space.ring import Arc

REPEAT_US = 1_000_000
ERRANDS_MAX = 65_536
"""Pieces under way from one peer; more are given up at once."""


Tell = Callable[[CastId, Query, bytes], bool]
"""Notify this peer if the query selects it; whether it does."""


class Carrier(Part):
    """One peer's share in the casts under way. `settled` is told how the own casts ended."""

    __slots__ = ("errands", "ring", "settled", "stuck", "tasks", "tell", "token", "waiting")

    def __init__(
        self, address: Address, host: Host, ring: LivingSharp, tell: Tell, settled: Callable[[CastId, int, int], None]
    ) -> None:
        super().__init__(address, host)
        self.ring, self.tell, self.settled = ring, tell, settled
        self.tasks: dict[Name, Task] = {}
        self.errands: dict[int, Errand] = {}
        self.waiting: Pending[int, Task | None] = Pending(host, Unanswered(), REPEAT_US, ERRANDS_MAX)
        """Tokens of errands, and of tasks that are stuck."""
        self.stuck: dict[int, Task] = {}
        self.token = 0

    # --- beginning

    def cast(self, cast: CastId, arc: Arc, query: Query, payload: bytes) -> None:
        """A cast of one's own."""
        self._begin((arc,), Task(cast, query, payload, None, self.host.now_us))

    @handles(Carry)
    def on_carry(self, sender: Address, carry: Carry) -> None:
        state = self.ring.links.state
        if state == INS:
            return  # a member in a moment, perhaps: it will be said again
        name = sender, carry.cast, carry.token
        task = self.tasks.get(name)
        if task is not None:
            self._answer(task)
        elif state == OUT:
            self.host.send(sender, Astray(carry.cast, carry.token))
        else:
            task = Task(carry.cast, carry.query, carry.payload, (sender, carry.token), self.host.now_us)
            remember(self.tasks, name, task)
            self._begin(carry.arcs, task)

    def _begin(self, arcs: tuple[Arc, ...], task: Task) -> None:
        self._spread(arcs, task)
        self._finish(task)

    def _spread(self, arcs: tuple[Arc, ...], task: Task) -> None:
        """Split and send; pieces of which this peer is no part, when they were in vain, again."""
        assert task.query is not None, "a task that is done spreads nothing"
        here, onward, stuck = self._split(arcs, task.query)
        if here and self.tell(task.cast, task.query, task.payload):
            task.told += 1
        for ref, pieces in onward:
            self._send(task, ref, pieces)
        if stuck:
            self._wait(task, stuck)

    def _split(self, arcs: tuple[Arc, ...], query: Query) -> tuple[bool, Onward, tuple[Arc, ...]]:
        match: Match = query.matcher() if isinstance(query, Sought) else query.match
        ring = self.ring
        ring.table.expire(self.host.now_us)
        if ring.some_are_lost():
            return split_around(ring.table, arcs, match, ring.is_lost)
        return *split(ring.table, arcs, match), ()

    def _send(self, task: Task, ref: Ref, arcs: tuple[Arc, ...]) -> None:
        self.token += 1
        if not self.waiting.ask(self.token, None):
            task.lost += len(arcs)
            return
        self.errands[self.token] = task.open[self.token] = Errand(task, ref, arcs)
        self._say(self.token)

    def _say(self, token: int) -> None:
        errand = self.errands[token]
        self.host.send(errand.to.address, errand.carry(token))

    # --- answers

    @handles(Covered)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        errand = self._close(covered.token)
        if errand is not None:
            self.ring.links.heard(errand.to)
            errand.task.told += covered.told
            errand.task.lost += covered.lost
            self._finish(errand.task)

    @handles(Working)
    def on_working(self, sender: Address, working: Working) -> None:
        errand = self.errands.get(working.token)
        if errand is not None:
            self.ring.links.heard(errand.to)
            errand.goes_on()

    @handles(Astray)
    def on_astray(self, sender: Address, astray: Astray) -> None:
        errand = self.errands.get(astray.token)
        if errand is not None:
            self.ring.lost(errand.to)
            if not self.ring.is_lost(errand.to):  # still the right neighbour, until the ring has closed over it
                self._suspect(errand.to)
            self._again(astray.token)

    def _close(self, token: int) -> Errand | None:
        errand = self.errands.pop(token, None)
        if errand is not None:
            self.waiting.answer(token)
            errand.task.open.pop(token, None)
        return errand

    def _finish(self, task: Task) -> None:
        """Nothing is open any more: say so to whoever asked."""
        if task.open or task.stuck or task.query is None:
            return
        task.query, task.payload = None, b""
        if task.asker is None:
            self.settled(task.cast, task.told, task.lost)
        else:
            self._answer(task)

    def _answer(self, task: Task) -> None:
        assert task.asker is not None, "nobody asked"
        to, token = task.asker
        self.host.send(to, task.answer(token))

    # --- silence

    @handles(Unanswered)
    def on_unanswered(self, alarm: Unanswered) -> None:
        for token, task in self.waiting.due():
            if task is not None:
                self._try_stuck(token)
            elif token in self.errands:
                self._repeat(token)

    def _repeat(self, token: int) -> None:
        errand = self.errands[token]
        if errand.task.is_over(self.host.now_us):
            self._give_up(errand.task)
        elif errand.waited < errand.wait:
            errand.waited += 1
            self.waiting.ask(token, None)
        elif errand.silent < TRIES:
            errand.silent += 1
            self.waiting.ask(token, None)
            self._say(token)
        else:
            self._suspect(errand.to)
            self._again(token)

    def _suspect(self, ref: Ref) -> None:
        """Comes back as `silent`, for all errands to it, if it is news."""
        assert self.ring.links.detector is not None, "in a living ring somebody watches"
        self.ring.links.detector.suspect(ref)

    def silent(self, ref: Ref) -> None:
        """A node is suspected: what it has not covered goes another way."""
        for token in [token for token, errand in self.errands.items() if errand.to == ref]:
            self._again(token)

    def _again(self, token: int) -> None:
        errand = self._close(token)
        if errand is not None:
            self._spread(errand.arcs, errand.task)
            self._finish(errand.task)

    def _wait(self, task: Task, arcs: tuple[Arc, ...]) -> None:
        """These arcs lie beyond a lost neighbour."""
        self.token += 1
        if self.waiting.ask(self.token, task):
            task.stuck += arcs
            self.stuck[self.token] = task
        else:
            task.lost += len(arcs)

    def moved(self) -> None:
        """A neighbour has changed: what was stuck may go on."""
        for token in list(self.stuck):
            self.waiting.answer(token)
            self._try_stuck(token)

    def _try_stuck(self, token: int) -> None:
        task = self.stuck.pop(token, None)
        if task is None or task.query is None:
            return
        if task.is_over(self.host.now_us):
            self._give_up(task)
            return
        arcs, task.stuck = task.stuck, ()
        self._spread(arcs, task)
        self._finish(task)

    def _give_up(self, task: Task) -> None:
        for token in list(task.open):
            errand = self._close(token)
            task.lost += len(errand.arcs) if errand is not None else 0
        task.lost += len(task.stuck)
        task.stuck = ()
        self._finish(task)

    def hand_back(self) -> None:
        """This peer leaves: whoever asked it has to find another way. Its own casts it still looks after."""
        for name, task in list(self.tasks.items()):
            if task.query is None or task.asker is None:
                continue
            del self.tasks[name]
            for token in list(task.open):
                self._close(token)
            task.query, task.stuck = None, ()
            self.host.send(task.asker[0], Astray(task.cast, task.asker[1]))
