"""Forwards casts to every arc of their range.

Without receipts a cast is forwarded once, to where aggregates allow a match. With receipts a peer
that accepts a cast for some arcs owes a coverage report: it sends `ArcsCovered` when it has
notified itself, if selected, and all peers to which it forwarded pieces have reported the same. So
responsibility never ends at a peer that may crash with it.

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

from typing import TYPE_CHECKING, Any

from implicast.casting.condcast.messages import (
    ArcsCovered,
    ForwardCast,
    ForwardProgress,
    Query,
    StuckRetry,
    WrongIncarnation,
)
from implicast.casting.condcast.split import Match, NextHops, split, split_alone, split_around
from implicast.casting.condcast.tasks import SubTask, Task, Tasks
from implicast.casting.inbox import Outcome
from implicast.language.aggregate import TargetQuery
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, CastId, Part, handles
from implicast.peer.events import Settled
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.space.ring import Arc

if TYPE_CHECKING:
    from implicast.casting.condcast.condcast import Condcast

FORWARD = "forward"
RETRY = RetryPolicy(1_000_000, times=5)
"""Five unanswered requests, one second apart, before a peer is suspected."""
STUCK_US = 1_000_000
INCARNATION_MASK, INCARNATION_SHIFT = 0xFFFF, 16
"""The low 16 bits of the incarnation select the first token: consecutive incarnations are 2^16
tokens apart.
"""


_NO_TASKS = Tasks()
_NONE: dict[int, Any] = {}
"""Shared by peers without receipts; replaced, never modified."""


class CastForwarder(Part, parts={"requests": Requests}):
    """One peer's part in all casts under way."""

    __slots__ = (
        "_member",
        "_requests",
        "_settings",
        "_token",
        "ring",
        "stuck_tasks",
        "subtasks",
        "tasks",
    )

    def __init__(self, member: "Condcast") -> None:
        super().__init__(member.address, member.host)
        self._member, self.ring, self._settings = member, member.ring, member.settings
        self.tasks = _NO_TASKS
        self.subtasks: dict[int, SubTask] = _NONE
        self.stuck_tasks: dict[int, Task] = _NONE
        self._token = (member.incarnation & INCARNATION_MASK) << INCARNATION_SHIFT
        """Last token. Each incarnation starts at another one, so that an answer to an earlier
        incarnation matches no subtask.
        """
        self._requests: Requests | None = None
        if self._settings.assured:
            self._assure()

    def _assure(self) -> None:
        """Create what receipts need; never called where no peer asks for them."""
        self.tasks, self.subtasks, self.stuck_tasks = Tasks(), {}, {}
        self._requests = Requests(self.address, self.host)
        self._requests.topic(FORWARD, RETRY, self._unanswered)

    @property
    def requests(self) -> Requests:
        assert self._requests is not None, "only a peer with receipts has subtasks"
        return self._requests

    # --- start

    def cast(self, cast: CastId, arc: Arc, query: Query, payload: bytes) -> None:
        """Start a cast of this peer."""
        if not self._settings.assured:
            self._pass_on(ForwardCast(cast, 0, (arc,), query, payload))
        else:
            self.spread((arc,), Task(cast, query, payload, None, self.host.now_us))

    @handles(ForwardCast)
    def on_forward_cast(self, sender: Address, message: ForwardCast) -> None:
        if not self._is_valid(message):
            return
        state, is_meant = (
            self.ring.links.state,
            message.incarnation == self.ring.links.me.incarnation,
        )
        if not message.token:
            if is_meant:
                self._pass_on(message)
            return
        if self._requests is None:
            self._assure()  # a peer without receipts still gives them to others
        if state == INS and is_meant:
            return  # may be a member in a moment: the sender will repeat
        key = sender, message.cast, message.token
        task = self.tasks.get(key)
        if task is not None:
            self._answer(task)
        elif state == OUT or not is_meant:
            self.host.send(sender, WrongIncarnation(message.cast, message.token))
        else:
            task = Task(
                message.cast,
                message.query,
                message.payload,
                (sender, message.token),
                self.host.now_us,
            )
            self.tasks.remember(key, task)
            self.spread(message.arcs, task)

    def _is_valid(self, message: ForwardCast) -> bool:
        """Whether the publisher's signature verifies, the cast has not expired, the arcs have
        integer keys, and the query has this network's filter size.
        """
        query, settings = message.query, self._settings
        if isinstance(query, TargetQuery) and (
            query.bits != settings.bits or query.hashes != settings.hashes
        ):
            return False
        for arc in message.arcs:  # a loop: twice as fast as `any`
            if type(arc.start) is not int or type(arc.end) is not int:
                return False
        payload = self._member.signing.verified_payload(
            message.cast, query, message.payload, self.host.now_us
        )
        return payload is not None

    def _pass_on(self, message: ForwardCast) -> None:
        """Forward once, without any answer."""
        cast, query, payload = message.cast, message.query, message.payload
        here, onward, _ = self._split(message.arcs, query)
        if here:
            self._member.notify(cast, query, payload)
        for node, pieces in onward:
            self.host.send(
                node.address, ForwardCast(cast, 0, pieces, query, payload, node.incarnation)
            )

    def spread(self, arcs: tuple[Arc, ...], task: Task) -> None:
        """Notify this peer if it is in the arcs, and forward the other pieces. Called again for
        pieces that a peer did not cover, until the time limit.
        """
        if task.query is None:
            return
        if task.is_over(self.host.now_us):
            task.count(0, uncertain=len(arcs))
            self._give_up(task)
            return
        here, onward, stuck = self._split(arcs, task.query)
        if here:
            outcome = self._member.notify(task.cast, task.query, task.payload)
            task.count(
                outcome in (Outcome.TAKEN, Outcome.REPEAT),
                outcome in (Outcome.FULL, Outcome.EXPIRED),
            )
        for ref, pieces in onward:
            self._send(task, task.query, ref, pieces)
        if stuck:
            self._wait(task, stuck)
        self._finish(task)

    def _split(self, arcs: tuple[Arc, ...], query: Query) -> tuple[bool, NextHops, tuple[Arc, ...]]:
        match: Match = query.matcher() if isinstance(query, TargetQuery) else query.match
        ring = self.ring
        # otherwise no peer is suspected and no aggregate expires
        if ring.links.detector is not None:
            if not ring.table.nodes and ring.links.right != ring.links.me:
                return split_alone(ring.table, arcs, ring.links.right)
            ring.table.expire(self.host.now_us)
            if ring.any_lost():
                return split_around(ring.table, arcs, match, ring.is_lost)
        return *split(ring.table, arcs, match), ()

    def _send(self, task: Task, query: Query, ref: Ref, arcs: tuple[Arc, ...]) -> None:
        self._token += 1
        message = ForwardCast(task.cast, self._token, arcs, query, task.payload, ref.incarnation)
        if self.requests.ask(FORWARD, self._token, ref.address, message):
            self.subtasks[self._token] = task.open[self._token] = SubTask(task, ref, arcs)
        else:
            task.count(0, uncertain=len(arcs))

    # --- answers

    @handles(ArcsCovered)
    def on_covered(self, sender: Address, covered: ArcsCovered) -> None:
        subtask = self._subtask(sender, covered.token, covered.cast)
        if subtask is not None:
            self._close(covered.token)
            self.ring.links.liveness.on_message_from(subtask.to)
            subtask.task.count(covered.notified, covered.unreachable, covered.uncertain)
            self._finish(subtask.task)

    @handles(ForwardProgress)
    def on_progress(self, sender: Address, progress: ForwardProgress) -> None:
        subtask = self._subtask(sender, progress.token, progress.cast)
        if subtask is not None:
            self.ring.links.liveness.on_message_from(subtask.to)
            if subtask.task.is_over(self.host.now_us):
                self._give_up(subtask.task)
            else:
                self.requests.postpone(FORWARD, progress.token, subtask.back_off())

    @handles(WrongIncarnation)
    def on_wrong_incarnation(self, sender: Address, answer: WrongIncarnation) -> None:
        subtask = self._subtask(sender, answer.token, answer.cast)
        if subtask is not None:
            self.ring.on_node_left(subtask.to)
            if not self.ring.is_lost(
                subtask.to
            ):  # still the successor until the ring is repaired over it
                self.ring.suspect(subtask.to)
            self._split_again(answer.token)

    def _subtask(self, sender: Address, token: int, cast: CastId) -> SubTask | None:
        """Return the subtask that this answers; None if there is none."""
        subtask = self.subtasks.get(token)
        return (
            subtask
            if subtask is not None and subtask.to.address == sender and subtask.task.cast == cast
            else None
        )

    def _close(self, token: int) -> SubTask | None:
        subtask = self.subtasks.pop(token, None)
        if subtask is not None:
            self.requests.answered(FORWARD, token)
            subtask.task.open.pop(token, None)
        return subtask

    def _finish(self, task: Task) -> None:
        """Complete the task and report, if nothing of it is open. Nodes that are silent may have
        members on a ring of their own.
        """
        if not (task.open or task.stuck or task.query is None):
            silent = self.ring.links.liveness.silent
            if silent.are_uncertain():
                silent.probe()
                task.count(0, uncertain=1)
            task.end()
            self._answer(task)

    def _answer(self, task: Task) -> None:
        if task.requester is None:
            self.host.deliver(
                Settled(task.cast, task.notified, task.unreachable, uncertain=task.uncertain)
            )
        else:
            self.host.send(task.requester[0], task.answer(task.requester[1]))

    # --- silence

    def _unanswered(self, token: int, request: PendingRequest) -> None:
        subtask = self.subtasks.get(token)
        if subtask is not None and not subtask.task.is_over(self.host.now_us):
            self.ring.suspect(
                subtask.to
            )  # calls `on_node_suspected`, for all its subtasks, unless known
        self._split_again(token)

    def on_node_suspected(self, ref: Ref) -> None:
        """A node is suspected: route its uncovered arcs around it."""
        for token in [token for token, subtask in self.subtasks.items() if subtask.to == ref]:
            self._split_again(token)

    def _split_again(self, token: int) -> None:
        subtask = self._close(token)
        if subtask is not None:
            self.spread(subtask.arcs, subtask.task)

    def _wait(self, task: Task, arcs: tuple[Arc, ...]) -> None:
        """These arcs lie beyond a lost neighbour: try them again after `STUCK_US`."""
        task.wait(arcs)
        if task not in self.stuck_tasks.values():
            self._token += 1
            self.stuck_tasks[self._token] = task
            self.host.after(STUCK_US, StuckRetry(self._token))

    def on_neighbours_changed(self) -> None:
        """A neighbour has changed: try the stuck arcs again."""
        for token in list(self.stuck_tasks):
            self.on_stuck_retry(StuckRetry(token))

    @handles(StuckRetry)
    def on_stuck_retry(self, alarm: StuckRetry) -> None:
        task = self.stuck_tasks.pop(alarm.token, None)
        if task is not None:
            self.spread(task.take_stuck(), task)

    def _give_up(self, task: Task) -> None:
        for token, subtask in list(task.open.items()):
            self._close(token)
            task.count(0, uncertain=len(subtask.arcs))
        task.count(0, uncertain=len(task.take_stuck()))
        self._finish(task)

    def return_tasks(self) -> None:
        """This peer leaves: tell all requesters to route around it. Its own casts continue."""
        for key, task in list(self.tasks.items()):
            if task.query is not None:
                self.tasks.forget(key)
                for token in list(task.open):
                    self._close(token)
                task.end()
                self.host.send(key[0], WrongIncarnation(key[1], key[2]))
