"""Becoming a member of a linked ring, ceasing to be one, and settling the node's own requests."""

from typing import TYPE_CHECKING

from implicast.overlay.links.messages import (
    BUSY,
    DELETE,
    INSERT,
    MOVED,
    Confirm,
    Found,
    Gone,
    SetR,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.refs import Number, Ref, after, lies_between
from implicast.overlay.links.state import DEL, IN, INS, OUT, Operation
from implicast.peer.contract import Address, Incarnation, Message, Part, handles

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

INTRODUCERS_MAX = 8
"""Members through whom a newcomer seeks its place."""
ENTRIES_BITS = 16
"""So often a peer may join and leave within one life, in bits."""
BURIED_US = 400_000
"""About how long neighbours take to close the gap that an earlier life has left, once they know."""


class RetrySetR(Message):
    """Rings when an own operation should have been answered."""

    op: int


class SeekAgain(Message):
    """Rings when a newcomer may have to ask for its place again."""

    incarnation: int
    turn: int


class PauseOver(Message):
    """Rings when a pause after a refusal is over: look left again, or try again to leave."""

    incarnation: int
    leaving: bool


class Membership(Part):
    """One request at a time is under way."""

    __slots__ = (
        "_incarnation",
        "_leave_by_us",
        "_links",
        "_op",
        "_wish_to_leave",
        "introducers",
        "neighbours",
        "pend",
        "via",
    )

    def __init__(
        self, links: "Links", incarnation: Incarnation | None, neighbours: tuple[Ref, ...]
    ) -> None:
        super().__init__(links.address, links.host)
        self._links, self._incarnation, self.neighbours = links, incarnation, neighbours
        self.introducers: tuple[Address, ...] = ()
        """Through whom a newcomer seeks its place; none: it does not want to join."""
        self.via: tuple[Address, ...] = ()  # through whom it came in
        self._op = self._leave_by_us = 0

    def begin(self) -> None:
        """A life begins: it has asked for nothing."""
        self.pend: Operation | None = None
        """The own request that is not settled."""
        self._wish_to_leave = False

    # --- joining

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Also through those who were neighbours in an earlier life: the introducers may all have gone."""
        assert self._links.state == OUT, f"{self.address} is {self._links.state} and cannot join"
        if not introducers:
            self._new_incarnation()
            self._enter()
            return
        before = [
            ref.address
            for ref in self.neighbours
            if ref.address not in (self.address, *introducers)
        ]
        self.seek_through((*introducers, *before))
        self._new_incarnation()
        self._links.seeking.restart()
        self._seek()

    def seek_through(self, introducers: tuple[Address, ...]) -> None:
        """These may know the way."""
        self.introducers = introducers[:INTRODUCERS_MAX]

    def _new_incarnation(self) -> None:
        """A life of the peer has room for many on the ring: it may leave and join again, or give up and join anew."""
        first = self.host.now_us if self._incarnation is None else self._incarnation << ENTRIES_BITS
        self._links.begin(max(first, self._links.me.incarnation + 1))

    def _seek(self) -> None:
        """Through the next of them; after an attempt in vain through two at a time: a way may lead over dead nodes."""
        links = self._links
        first = links.detector is None or not links.seeking.turn
        for _ in range(1 if first else min(2, len(self.introducers))):
            links.seeking.ask(self.introducers[links.seeking.turn % len(self.introducers)])
        links.later(links.settings.seek_us, SeekAgain(links.me.incarnation, links.seeking.turn))

    @handles(SeekAgain)
    def on_seek_again(self, alarm: SeekAgain) -> None:
        links = self._links
        if (
            links.state == OUT
            and self.introducers
            and (alarm.incarnation, alarm.turn) == (links.me.incarnation, links.seeking.turn)
        ):
            self._seek()

    @handles(Found)
    def on_found(self, sender: Address, found: Found) -> None:
        links = self._links
        if found.to != links.me:
            return
        if links.state == OUT and self.introducers and self.pend is None:
            if found.right.place == links.me.place:
                self._bury(found.right)
            else:
                self.insert(found.left, found.right, found.num)
        elif links.state == IN and found.left != links.me:
            if speaks := sender == found.left.address:
                links.company.heard(found.left)
            if found.left != links.left or (links.detector is not None and found.right != links.me):
                links.walks.look_from(found.left, speaks)

    def _bury(self, former: Ref) -> None:
        """An earlier life of this peer is still linked where it wants to stand. Its right neighbour has to close the
        gap, and would notice in a while; the peer says so at once to those who were its neighbours then."""
        links = self._links
        for ref in self.neighbours:
            if ref.address != self.address:
                self.host.send(ref.address, Gone(ref, former, 0))
        links.later(BURIED_US, SeekAgain(links.me.incarnation, links.seeking.turn))

    def insert(self, left: Ref, right: Ref, num: Number) -> None:
        """Ask `left` to put this node before `right`."""
        links = self._links
        if not lies_between(left, links.me, right):
            return  # the ring is being mended there
        links.expect(left, right)
        self.request(INSERT, left, links.me, right, num, links.lnum)

    def proven(self, num: Number) -> None:
        """The Ack was lost or overtaken, the insertion was not: the right neighbour knows of it. Who stands further to
        the left the Ack would have told; it is asked at once, for the left neighbour may die before the first look."""
        self.pend = None
        self._links.take_right(self._links.right, num, confirmed=True)
        self._enter()
        self._links.walks.check()

    def _enter(self) -> None:
        self._links.become(IN)
        self.via, self.introducers = self.introducers, ()
        self._links.watch()
        self._links.above.entered()

    def _abandon_incarnation(self) -> None:
        """Nobody can say whether the insertion took place. This life counts as crashed; another one joins, also
        through the node that was to be its right neighbour, for the introducers may have died too."""
        links, wish = self._links, self._wish_to_leave
        if links.right.address not in (self.address, *self.introducers):
            self.introducers = (*self.introducers[: INTRODUCERS_MAX - 1], links.right.address)
        self._new_incarnation()
        (self._depart if wish else self._seek)()

    # --- leaving

    def leave(self) -> None:
        self._wish_to_leave = True
        self._leave_by_us = self.host.now_us + self._links.settings.leave_us
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        links = self._links
        if links.state == DEL or not self._wish_to_leave:
            return
        too_long = links.detector is not None and self.host.now_us > self._leave_by_us
        is_busy = links.state == INS or self.pend is not None or links.walks.walk is not None
        if links.state == OUT or links.right == links.me or too_long:
            self._depart()
        elif is_busy or links.company.is_lost(links.left):  # something else is to be settled first
            links.walks.check()
            self.pause(leaving=True)
        else:
            links.become(DEL)
            assert links.rnum is not None, "a member knows the number of its link"
            self.request(DELETE, links.left, links.right, links.me, links.lnum, after(links.rnum))

    def pause(self, leaving: bool = False) -> None:
        """Try again in a while."""
        self._links.later(
            self._links.settings.again_us, PauseOver(self._links.me.incarnation, leaving)
        )

    @handles(PauseOver)
    def on_pause_over(self, alarm: PauseOver) -> None:
        if alarm.incarnation == self._links.me.incarnation:
            (self._try_to_leave if alarm.leaving else self._links.walks.check)()

    def _depart(self) -> None:
        links = self._links
        links.depart()
        self.introducers, self.pend, self._wish_to_leave = (), None, False
        links.walks.stop()
        links.above.departed()

    # --- own requests

    def request(
        self, kind: int, target: Ref, new: Ref, cur: Ref, cur_num: Number, new_num: Number
    ) -> None:
        """Ask a holder to change its right pointer."""
        links = self._links
        self._op += 1
        request = SetR(target, links.me, self._op, kind, new, cur, cur_num, new_num)
        self.pend = Operation(request)
        self.pend.begin(links, RetrySetR(self._op))
        links.say(target, request)

    @handles(RetrySetR)
    def on_retry(self, alarm: RetrySetR) -> None:
        links, pend = self._links, self.pend
        if pend is None or alarm.op != pend.request.op:
            return
        if pend.goes_on(links, pend.request.to, alarm):
            links.say(pend.request.to, pend.request)
        else:
            links.company.suspect(pend.request.to)
            self._target_dead(pend.request.kind)

    def _settled_by(self, answer: SetRAck | SetRNak) -> SetR | None:
        """The own request that this answers, which then is pending no more."""
        pend = self.pend
        if pend is None or (answer.to, answer.op, answer.by) != (
            self._links.me,
            pend.request.op,
            pend.request.to,
        ):
            return None
        self._links.company.heard(answer.by)
        pend.answered(self._links)
        self.pend = None
        return pend.request

    @handles(SetRAck)
    def on_ack(self, sender: Address, ack: SetRAck) -> None:
        links = self._links
        if ack.num is None and self.pend is not None and self.pend.request.kind == INSERT:
            return  # no answer to an insert: what it takes over has a number
        if (request := self._settled_by(ack)) is None:
            return
        if request.kind == DELETE:
            self._depart()
            return
        was_ins = links.state == INS
        if request.new_num > links.lnum or (was_ins and links.lnum == request.new_num):
            links.take_left(ack.by, request.new_num, ack.lefts)
        if request.kind == INSERT and ack.num is not None:
            self.host.after(links.settings.rto_us, Confirm(request.cur, ack.num, 1))
            former = links.right
            links.take_right(request.cur, ack.num, confirmed=False)
            links.seeking.part_with(former)
            if was_ins:
                self._enter()

    @handles(SetRNak)
    def on_nak(self, sender: Address, nak: SetRNak) -> None:
        links = self._links
        if (request := self._settled_by(nak)) is None:
            return
        if links.state == INS:
            links.become(OUT)
            if self._wish_to_leave:
                self._depart()
            elif (
                nak.reason == MOVED
                and nak.num is not None
                and lies_between(nak.by, links.me, nak.right)
            ):
                self.insert(nak.by, nak.right, nak.num)
            else:
                links.later(
                    links.settings.again_us, SeekAgain(links.me.incarnation, links.seeking.turn)
                )
            return
        links.become(IN)
        if request.kind == DELETE and nak.reason != BUSY:
            links.walks.check()
        self.pause(leaving=request.kind == DELETE)

    def _target_dead(self, kind: int) -> None:
        links, self.pend = self._links, None
        if links.state == INS:
            self._abandon_incarnation()
            return
        links.become(IN)
        links.walks.check()
        if kind == DELETE:
            self.pause(leaving=True)

    @handles(Gone)
    def on_gone(self, sender: Address, gone: Gone) -> None:
        """Only the stored answer settles a SetR. `Gone` does so only if it answers that very one, for then the
        memory is gone too; a stray `Gone` from a node in grace says nothing about what it had carried out."""
        links = self._links
        if gone.to != links.me:
            return
        links.company.note_gone(gone.by)
        if self.pend is not None and self.pend.request.to == gone.by:
            if gone.op == self.pend.request.op:
                self._target_dead(self.pend.request.kind)
        elif not links.walks.walks_into(gone.by) and gone.by == links.left:
            links.walks.check()
