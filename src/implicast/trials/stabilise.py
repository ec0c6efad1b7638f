"""Chord's own upkeep, for comparison: successors become right some time after joins and failures have ceased.

    stabilise:  x = successor.predecessor ; if x in (self, successor): successor = x ; successor.notify(self)
    notify(x):  if predecessor is nil or x in (predecessor, self): predecessor = x

Chord, "Node joins and stabilization": a joining peer finds only its successor; its predecessor learns of it by
stabilising, so for one round look-ups pass it by: keys have two owners meanwhile. `cured` adds what Zave found
wanting: the newcomer fetches its successor's whole list, a candidate is asked before it is adopted, lists are adopted
as a whole, and leaving is failing (no edit of others' pointers). It needs a base of more than `successors` peers that
never leave. Never the default of any design.
"""

from dataclasses import dataclass

from implicast.overlay.links.above import Above
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Part, handles
from implicast.trials.stabilise_messages import (
    FindSuccessor,
    GetPredecessor,
    PingLeft,
    PongLeft,
    Predecessor,
    SeekSuccessor,
    StabiliseRound,
    StepAside,
    SuccessorIs,
    TakePredecessor,
)


@dataclass(frozen=True, slots=True)
class StabiliseSettings:
    """Periods and bounds."""

    period_us: int = 2_000_000
    successors: int = 4
    """Length of the list of nearest successors."""
    silent_rounds: int = 2
    """A neighbour that leaves so many requests unanswered counts as dead."""
    seek_us: int = 1_000_000
    find_hops: int = 1024
    cured: bool = True


class Stabilise(Part):
    """One peer's share of a ring that is kept by stabilising."""

    __slots__ = (
        "above",
        "introducers",
        "key",
        "left",
        "left_silent",
        "me",
        "right_silent",
        "rights",
        "settings",
        "state",
    )

    def __init__(self, address: Address, host: Host, key: int, settings: StabiliseSettings) -> None:
        super().__init__(address, host)
        self.settings, self.key = settings, key
        self.above = Above()
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
        self._begin()
        self._enter(())

    def stand(self, left: Ref, rights: tuple[Ref, ...]) -> None:
        """Be part of a ring that has stood for long: nobody is told, for it is no news."""
        self.state = IN
        self.left, self.rights = left, rights
        self._next_round()

    def join(self, introducers: tuple[Address, ...]) -> None:
        if not introducers:
            self.found_ring()
            return
        self.seek_through(introducers)
        self._begin()
        self._seek()

    def seek_through(self, introducers: tuple[Address, ...]) -> None:
        """These may know the way."""
        self.introducers = introducers

    def leave(self) -> None:
        if self.state == IN and not self.settings.cured:
            if self.right != self.me:
                self.host.send(self.right.address, StepAside(self.me, self.left, None))
            if self.left is not None and self.left != self.me:
                self.host.send(self.left.address, StepAside(self.me, None, self.right))
        self.state = OUT
        self.introducers = ()
        self.above.departed()

    def _begin(self) -> None:
        self.me = Ref(self.key, self.address, max(self.host.now_us, self.me.incarnation + 1))
        self.left, self.rights = None, ()
        self.left_silent = self.right_silent = 0

    def _seek(self) -> None:
        introducer = self.introducers[self.host.rng.randrange(len(self.introducers))]
        self.host.send(introducer, FindSuccessor(self.me, self.settings.find_hops))
        self.host.after(self.settings.seek_us, SeekSuccessor(self.me.incarnation))

    @handles(SeekSuccessor)
    def on_seek(self, alarm: SeekSuccessor) -> None:
        if alarm.incarnation == self.me.incarnation and self.state == OUT and self.introducers:
            self._seek()

    @handles(FindSuccessor)
    def on_find(self, sender: Address, find: FindSuccessor) -> None:
        if self.state != IN or find.hops_left <= 0:
            return
        if self.right == self.me or lies_between(self.me, find.seeker, self.right):
            self.host.send(find.seeker.address, SuccessorIs(find.seeker, self.right))
        else:
            step = self.above.nearest_before(find.seeker.place) or self.right
            if step.address != find.seeker.address:
                self.host.send(step.address, FindSuccessor(find.seeker, find.hops_left - 1))

    @handles(SuccessorIs)
    def on_found(self, sender: Address, found: SuccessorIs) -> None:
        if self.state != OUT or found.to != self.me or found.right.address == self.address:
            return
        if self.settings.cured:
            self.host.send(
                found.right.address, GetPredecessor(self.me)
            )  # its answer brings the whole list
        else:
            self._enter((found.right,))

    def _enter(self, rights: tuple[Ref, ...]) -> None:
        self.state = IN
        self.introducers = ()
        self.rights = rights
        self._next_round()
        self.above.entered()

    def _next_round(self) -> None:
        wait_us = int(self.settings.period_us * (0.5 + self.host.rng.random()))
        self.host.after(wait_us, StabiliseRound(self.me.incarnation))

    @handles(StabiliseRound)
    def on_round(self, alarm: StabiliseRound) -> None:
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
            self._adopt(self.left, ())  # alone, but somebody took this one for its successor
        self._next_round()

    def _drop_right(self) -> None:
        """The next of the list takes its place; who has lost all of them can only join again."""
        lost, self.rights, self.right_silent = self.rights[0], self.rights[1:], 0
        if self.rights or self.left is None or self.left == lost:
            self.above.moved()
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
            self.host.send(ask.by.address, Predecessor(self.me, self.left, self.rights))

    @handles(Predecessor)
    def on_predecessor(self, sender: Address, answer: Predecessor) -> None:
        if self.state == OUT:
            if self.settings.cured and self.introducers:
                self._enter(self._list(answer.by, answer.rights))
                self.host.send(answer.by.address, TakePredecessor(self.me))
            return
        nearer = answer.left
        if answer.by == self.right:
            self.right_silent = 0
            self._adopt(answer.by, answer.rights)
        elif self.right == self.me or lies_between(self.me, answer.by, self.right):
            self._adopt(answer.by, answer.rights)  # a candidate that was asked, and lives
        if nearer is not None and nearer != self.me and lies_between(self.me, nearer, self.right):
            if self.settings.cured:
                self.host.send(nearer.address, GetPredecessor(self.me))
            else:
                self._adopt(nearer, self.rights)
        self._notify()

    def _adopt(self, right: Ref, its_rights: tuple[Ref, ...]) -> None:
        """The successor and its list as a whole, never entry by entry: a list with gaps loses members for good."""
        self.rights = self._list(right, its_rights)
        self.above.moved()

    def _list(self, right: Ref, its_rights: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return (right, *(ref for ref in its_rights if ref.address != self.address))[
            : self.settings.successors
        ]

    def _notify(self) -> None:
        if self.right != self.me:
            self.host.send(self.right.address, TakePredecessor(self.me))

    @handles(TakePredecessor)
    def on_notify(self, sender: Address, notify: TakePredecessor) -> None:
        if self.state == IN and (self.left is None or lies_between(self.left, notify.by, self.me)):
            self.left, self.left_silent = notify.by, 0
            self.above.moved()

    @handles(PingLeft)
    def on_ping(self, sender: Address, ping: PingLeft) -> None:
        if self.state == IN:
            self.host.send(ping.by.address, PongLeft(self.me))

    @handles(PongLeft)
    def on_pong(self, sender: Address, pong: PongLeft) -> None:
        if pong.by == self.left:
            self.left_silent = 0

    @handles(StepAside)
    def on_farewell(self, sender: Address, farewell: StepAside) -> None:
        if self.state != IN:
            return
        if farewell.by == self.right and farewell.right is not None:
            self.rights = tuple(ref for ref in (farewell.right, *self.rights[1:]) if ref != self.me)
            self.right_silent = 0
        if farewell.by == self.left:
            self.left = farewell.left
        self.above.moved()
