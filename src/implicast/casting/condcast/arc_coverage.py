"""Coverage of arcs: a peer that accepts a cast for some arcs owes a report (`casting/coverage.py`).

It sends `ArcsCovered` when it has notified itself, if selected, and all peers to which it forwarded
pieces have reported the same.

- No answer: the request is repeated every second. A peer that is still working says so, and is
  asked less and less often.
- No answer for long: the peer is suspected (the ring's detector), and its arcs are split anew,
  around it.
- Arcs beyond a crashed successor cannot be reached: they wait until the ring is repaired over it.
- After `FORWARD_MAX_US` open arcs are given up: longer than the freezes and partitions to be
  survived.

In the end exactly one branch reports each arc, however often it was sent, so the publisher learns
how many members were notified (`Settled`).
"""

from collections.abc import Callable, Hashable

from implicast.casting.condcast.messages import (
    ArcsCovered,
    ForwardCast,
    ForwardProgress,
    Query,
    StuckRetry,
    WrongIncarnation,
)
from implicast.casting.condcast.routing import ArcRouter
from implicast.casting.condcast.tasks import FORWARD_MAX_US, Task, Tasks
from implicast.casting.coverage import CastTally, Child, Coverages, Split
from implicast.casting.inbox import Outcome
from implicast.overlay.chord_sharp import ChordSharp
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, CastId, Incarnation, Part, handles
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.space.ring import Arc

Notify = Callable[[CastId, Query, bytes], Outcome]
FORWARD = "forward"
RETRY = RetryPolicy(1_000_000, times=5)
"""Five unanswered requests, one second apart, before a peer is suspected."""
PROGRESS = RetryPolicy(2_000_000, times=1 << 30, factor=2, most_us=9_000_000)
"""A peer that reports progress is asked again after 2, 4, 8, then 9 s."""
NOTIFIED = (Outcome.TAKEN, Outcome.REPEAT)
UNREACHABLE = (Outcome.FULL, Outcome.EXPIRED)
STUCK_US = 1_000_000
INCARNATION_MASK, INCARNATION_SHIFT = 0xFFFF, 16
"""The low 16 bits of the incarnation select the first token: consecutive incarnations are 2^16
tokens apart.
"""


class ArcCoverage(Part, parts={"requests": Requests}):
    """The casts that one peer covers, for others or for itself."""

    __slots__ = (
        "_liveness",
        "_notify",
        "_position",
        "_progress",
        "_ring",
        "_router",
        "_token",
        "coverages",
        "requests",
        "stuck_tasks",
        "tasks",
    )

    def __init__(
        self, ring: ChordSharp, router: ArcRouter, notify: Notify, incarnation: Incarnation
    ) -> None:
        super().__init__(ring.address, ring.host)
        self._ring, self._router, self._notify = ring, router, notify
        self._position, self._liveness = ring.links.position, ring.links.liveness
        self.tasks = Tasks()
        self.coverages: Coverages[Task, Arc] = Coverages(self, lambda: self.host.now_us)
        self.stuck_tasks: dict[int, Task] = {}
        """By token of the alarm, the tasks with arcs that wait."""
        self._progress: dict[Hashable, int] = {}
        """By child, how often it has reported progress."""
        self._token = (incarnation & INCARNATION_MASK) << INCARNATION_SHIFT
        """Last token. Each incarnation starts at another one, so that an answer to an earlier
        incarnation matches no child.
        """
        self.requests = Requests(self.address, self.host)
        self.requests.topic(FORWARD, RETRY, self._on_unanswered)

    # --- start

    def start(self, cast: CastId, arc: Arc, query: Query, payload: bytes) -> None:
        """Cover a cast of this peer."""
        task = Task(self._until_us(), cast=cast, query=query, payload=payload)
        self.coverages.cover(task, (arc,))

    def accept(self, sender: Address, message: ForwardCast, is_meant: bool) -> None:
        """Cover a cast for another peer. `is_meant`: it is addressed to this incarnation."""
        state, cast, token = self._position.state, message.cast, message.token
        if state == INS and is_meant:
            return  # may be a member in a moment: the sender will repeat
        key = sender, cast, token
        task = self.tasks.get(key)
        if task is not None:
            self._answer(task)
        elif state == OUT or not is_meant:
            self.host.send(sender, WrongIncarnation(cast, token))
        else:
            task = Task(
                self._until_us(),
                cast=cast,
                query=message.query,
                payload=message.payload,
                requester=(sender, token),
            )
            self.tasks.remember(key, task)
            self.coverages.cover(task, message.arcs)

    def _until_us(self) -> int:
        return self.host.now_us + FORWARD_MAX_US

    # --- what coverage needs of the design

    def split(self, task: Task, arcs: tuple[Arc, ...]) -> Split[Arc]:
        """Divide arcs among this peer and the closest fingers before them."""
        assert task.query is not None, "an ended task has no arcs"
        return self._router.split(arcs, task.query)

    def local(self, task: Task, arcs: tuple[Arc, ...]) -> None:
        """Notify this peer."""
        assert task.query is not None, "an ended task has no arcs"
        outcome = self._notify(task.cast, task.query, task.payload)
        task.here.add_known(outcome in NOTIFIED, outcome in UNREACHABLE)

    def pass_on(self, task: Task, to: Ref, arcs: tuple[Arc, ...]) -> int | None:
        """Ask another peer to cover arcs."""
        assert task.query is not None, "an ended task has no arcs"
        self._token += 1
        query, payload = task.query, task.payload
        message = ForwardCast(task.cast, self._token, arcs, query, payload, to.incarnation)
        is_asked = self.requests.ask(FORWARD, self._token, to.address, message)
        return self._token if is_asked else None

    def stop(self, child: Hashable) -> None:
        """Ask this child no longer."""
        self.requests.answered(FORWARD, child)
        if self._progress:
            self._progress.pop(child, None)

    def wait(self, task: Task) -> None:
        """Arcs lie beyond a lost neighbour: try them again after `STUCK_US`."""
        if task not in self.stuck_tasks.values():
            self._token += 1
            self.stuck_tasks[self._token] = task
            self.host.after(STUCK_US, StuckRetry(self._token))

    def changed(self, task: Task) -> None:
        """Complete the task and report, if nothing of it is open. Nodes that are silent may have
        members on a ring of their own.
        """
        if task.query is not None and not task.is_open:
            if self._liveness.silent.are_uncertain():
                self._liveness.silent.probe()
                task.here.add_uncertain(1)
            task.end()
            self._answer(task)

    # --- answers

    @handles(ArcsCovered)
    def on_covered(self, sender: Address, covered: ArcsCovered) -> None:
        found = self._child_at(sender, covered.token, covered.cast)
        if found is not None:
            self._liveness.on_message_from(found[1].to)
            report = CastTally(uncertain=covered.uncertain)
            report.add_known(covered.notified, covered.unreachable)
            self.coverages.report(covered.token, report)

    @handles(ForwardProgress)
    def on_progress(self, sender: Address, progress: ForwardProgress) -> None:
        token = progress.token
        found = self._child_at(sender, token, progress.cast)
        if found is None:
            return
        task, child = found
        self._liveness.on_message_from(child.to)
        if self.host.now_us > task.until_us:
            self.coverages.give_up(task)
        else:
            times = self._progress[token] = self._progress.get(token, 0) + 1
            self.requests.postpone(FORWARD, token, PROGRESS.wait_us(times))

    @handles(WrongIncarnation)
    def on_wrong_incarnation(self, sender: Address, answer: WrongIncarnation) -> None:
        found = self._child_at(sender, answer.token, answer.cast)
        if found is not None:
            to = found[1].to
            self._ring.on_node_left(to)
            if not self._ring.is_lost(to):  # still the successor until the ring is repaired over it
                self._ring.suspect(to)
            self.coverages.lose(answer.token)

    def _child_at(
        self, sender: Address, token: int, cast: CastId
    ) -> tuple[Task, Child[Arc]] | None:
        """The task and the child that a peer answers for; None if there is none."""
        found = self.coverages.child(token)
        if found is None or found[1].to.address != sender or found[0].cast != cast:
            return None
        return found

    def _answer(self, task: Task) -> None:
        if task.requester is not None:
            self.host.send(task.requester[0], task.answer(task.requester[1]))
        elif task.report is not None:
            self.host.deliver(task.settled(task.report))

    # --- silence

    def _on_unanswered(self, token: int, request: PendingRequest) -> None:
        found = self.coverages.child(token)
        if found is not None and self.host.now_us <= found[0].until_us:
            # calls `on_node_suspected`, for all its children, unless known
            self._ring.suspect(found[1].to)
        self.coverages.lose(token)

    def on_node_suspected(self, ref: Ref) -> None:
        """A node is suspected: route its uncovered arcs around it."""
        self.coverages.lose_peer(ref)

    def on_neighbours_changed(self) -> None:
        """A neighbour has changed: try the stuck arcs again."""
        for token in list(self.stuck_tasks):
            self.on_stuck_retry(StuckRetry(token))

    @handles(StuckRetry)
    def on_stuck_retry(self, alarm: StuckRetry) -> None:
        task = self.stuck_tasks.pop(alarm.token, None)
        if task is not None and not task.is_ended:
            self.coverages.retry(task)

    def return_tasks(self) -> None:
        """This peer leaves: tell all requesters to route around it. Its own casts continue."""
        for key, task in list(self.tasks.items()):
            if not task.is_ended:
                self.tasks.forget(key)
                self.coverages.drop(task)
                task.end()
                self.host.send(key[0], WrongIncarnation(key[1], key[2]))
