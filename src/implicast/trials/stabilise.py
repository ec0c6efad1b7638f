"""Chord's own stabilisation, for comparison: successors become correct some time after joins and
failures have stopped.

    stabilise:  x = successor.predecessor ; if x in (self, successor): successor = x ;
                successor.notify(self)
    notify(x):  if predecessor is nil or x in (predecessor, self): predecessor = x

Chord, "Node joins and stabilization": a joining peer finds only its successor. Its predecessor
learns of it by stabilising, so for one round lookups bypass it and some keys have two owners.
`cured` adds what Zave found missing: the joining node fetches its successor's whole list, a
candidate is asked before it is adopted, lists are adopted as a whole, and leaving is the same as
failing (no edit of other nodes' pointers). It needs a base of more than `successors` peers that
never leave. No design uses it by default.
"""

from dataclasses import dataclass

from implicast.overlay.links.listener import RingListener
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Part, handles
from implicast.trials.stabilise_messages import (
    ChordStabiliseRound,
    FindSuccessor,
    FindSuccessorRetry,
    GetPredecessor,
    LeaveHint,
    NotifySuccessor,
    PingLeft,
    PongLeft,
    PredecessorReply,
    SuccessorFound,
)


@dataclass(frozen=True, slots=True)
class StabiliseSettings:
    """Periods and bounds."""

    period_us: int = 2_000_000
    successors: int = 4
    """Length of the list of nearest successors."""
    silent_rounds: int = 2
    """A neighbour that leaves this many requests unanswered counts as dead."""
    seek_us: int = 1_000_000
    find_hops: int = 1024
    cured: bool = True


class Stabilise(Part):
    """One peer's part of a ring maintained by stabilisation."""

    __slots__ = (
        "introducers",
        "key",
        "left",
        "left_silent",
        "listener",
        "me",
        "right_silent",
        "rights",
        "settings",
        "state",
    )

    def __init__(self, address: Address, host: Host, key: int, settings: StabiliseSettings) -> None:
        super().__init__(address, host)
        self.settings, self.key = settings, key
        self.listener = RingListener()
        self.state = OUT
        self.me = Ref(key, address, 0)
        self.left: Ref | None = None
        self.rights: tuple[Ref, ...] = ()
        self.introducers: tuple[Address, ...] = ()
        self.left_silent = self.right_silent = 0

    @property
    def right(self) -> Ref:
        return self.rights[0] if self.rights else self.me

    def found_ring(self) -> None:
        self._start_incarnation()
        self._become_member(())

    def restore(self, left: Ref, rights: tuple[Ref, ...]) -> None:
        """Be a member of a converged ring, without callbacks."""
        self.state = IN
        self.left, self.rights = left, rights
        self._next_round()

    def join(self, introducers: tuple[Address, ...]) -> None:
        if not introducers:
            self.found_ring()
            return
        self.set_introducers(introducers)
        self._start_incarnation()
        self._find_successor()

    def set_introducers(self, introducers: tuple[Address, ...]) -> None:
        """Set the members through which to look the successor up."""
        self.introducers = introducers

    def leave(self) -> None:
        if self.state == IN and not self.settings.cured:
            if self.right != self.me:
                self.host.send(self.right.address, LeaveHint(self.me, self.left, None))
            if self.left is not None and self.left != self.me:
                self.host.send(self.left.address, LeaveHint(self.me, None, self.right))
        self.state = OUT
        self.introducers = ()
        self.listener.on_departed()

    def _start_incarnation(self) -> None:
        self.me = Ref(self.key, self.address, max(self.host.now_us, self.me.incarnation + 1))
        self.left, self.rights = None, ()
        self.left_silent = self.right_silent = 0

    def _find_successor(self) -> None:
        introducer = self.introducers[self.host.rng.randrange(len(self.introducers))]
        self.host.send(introducer, FindSuccessor(self.me, self.settings.find_hops))
        self.host.after(self.settings.seek_us, FindSuccessorRetry(self.me.incarnation))

    @handles(FindSuccessorRetry)
    def on_find_successor(self, alarm: FindSuccessorRetry) -> None:
        if alarm.incarnation == self.me.incarnation and self.state == OUT and self.introducers:
            self._find_successor()

    @handles(FindSuccessor)
    def on_find(self, sender: Address, find: FindSuccessor) -> None:
        if self.state != IN or find.hops_left <= 0:
            return
        if self.right == self.me or lies_between(self.me, find.origin, self.right):
            self.host.send(find.origin.address, SuccessorFound(find.origin, self.right))
        else:
            step = self.listener.closest_preceding(find.origin.place) or self.right
            if step.address != find.origin.address:
                self.host.send(step.address, FindSuccessor(find.origin, find.hops_left - 1))

    @handles(SuccessorFound)
    def on_found(self, sender: Address, found: SuccessorFound) -> None:
        if self.state != OUT or found.to != self.me or found.right.address == self.address:
            return
        if self.settings.cured:
            # The answer carries the successor's whole list.
            self.host.send(found.right.address, GetPredecessor(self.me))
        else:
            self._become_member((found.right,))

    def _become_member(self, rights: tuple[Ref, ...]) -> None:
        self.state = IN
        self.introducers = ()
        self.rights = rights
        self._next_round()
        self.listener.on_joined()

    def _next_round(self) -> None:
        wait_us = int(self.settings.period_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, ChordStabiliseRound(self.me.incarnation))

    @handles(ChordStabiliseRound)
    def on_round(self, alarm: ChordStabiliseRound) -> None:
        if alarm.incarnation != self.me.incarnation or self.state != IN:
            return
        self._check_left()
        if self.rights and self.right_silent >= self.settings.silent_rounds:
            self._drop_right()
        if self.state == OUT:
            return
        if self.right != self.me:
            self.right_silent += 1
            self.host.send(self.right.address, GetPredecessor(self.me))
        elif self.left is not None and self.left != self.me:
            # alone, but another node has notified this one as its successor
            self._adopt(self.left, ())
        self._next_round()

    def _drop_right(self) -> None:
        """Replace the right neighbour by the next of the list. A node that has lost the whole list
        joins again through its predecessor.
        """
        lost, self.rights, self.right_silent = self.rights[0], self.rights[1:], 0
        if self.rights or self.left is None or self.left == lost:
            self.listener.on_neighbours_changed()
            return
        self.state = OUT
        self.join((self.left.address,))

    def _check_left(self) -> None:
        if self.left is None or self.left == self.me:
            return
        if self.left_silent >= self.settings.silent_rounds:
            self.left, self.left_silent = None, 0
            return
        self.left_silent += 1
        self.host.send(self.left.address, PingLeft(self.me))

    @handles(GetPredecessor)
    def on_get_predecessor(self, sender: Address, ask: GetPredecessor) -> None:
        if self.state == IN:
            self.host.send(ask.by.address, PredecessorReply(self.me, self.left, self.rights))

    @handles(PredecessorReply)
    def on_predecessor(self, sender: Address, answer: PredecessorReply) -> None:
        if self.state == OUT:
            if self.settings.cured and self.introducers:
                self._become_member(self._list(answer.by, answer.rights))
                self.host.send(answer.by.address, NotifySuccessor(self.me))
            return
        nearer = answer.left
        if answer.by == self.right:
            self.right_silent = 0
            self._adopt(answer.by, answer.rights)
        elif self.right == self.me or lies_between(self.me, answer.by, self.right):
            self._adopt(answer.by, answer.rights)  # a candidate that was asked and is alive
        if nearer is not None and nearer != self.me and lies_between(self.me, nearer, self.right):
            if self.settings.cured:
                self.host.send(nearer.address, GetPredecessor(self.me))
            else:
                self._adopt(nearer, self.rights)
        self._notify()

    def _adopt(self, right: Ref, its_rights: tuple[Ref, ...]) -> None:
        """Adopt the successor and its list as a whole, never entry by entry: a list with gaps loses
        members for good.
        """
        self.rights = self._list(right, its_rights)
        self.listener.on_neighbours_changed()

    def _list(self, right: Ref, its_rights: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return (right, *(ref for ref in its_rights if ref.address != self.address))[
            : self.settings.successors
        ]

    def _notify(self) -> None:
        if self.right != self.me:
            self.host.send(self.right.address, NotifySuccessor(self.me))

    @handles(NotifySuccessor)
    def on_notify(self, sender: Address, notify: NotifySuccessor) -> None:
        if self.state == IN and (self.left is None or lies_between(self.left, notify.by, self.me)):
            self.left, self.left_silent = notify.by, 0
            self.listener.on_neighbours_changed()

    @handles(PingLeft)
    def on_ping(self, sender: Address, ping: PingLeft) -> None:
        if self.state == IN:
            self.host.send(ping.by.address, PongLeft(self.me))

    @handles(PongLeft)
    def on_pong(self, sender: Address, pong: PongLeft) -> None:
        if pong.by == self.left:
            self.left_silent = 0

    @handles(LeaveHint)
    def on_leave_hint(self, sender: Address, message: LeaveHint) -> None:
        if self.state != IN:
            return
        if message.by == self.right and message.right is not None:
            self.rights = tuple(ref for ref in (message.right, *self.rights[1:]) if ref != self.me)
            self.right_silent = 0
        if message.by == self.left:
            self.left = message.left
        self.listener.on_neighbours_changed()
