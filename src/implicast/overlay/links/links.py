"""A node of the doubly linked ring: joining, leaving, and settling its own operations.

A right pointer changes at one place in one step: the node that holds it compares what the asker believes with what is
(`holder.py`). Without crashes and false suspicions the right pointers of the members form one cycle in key order at
every moment, so every key has exactly one holder while peers join and leave. Messages may be lost, delayed, repeated
and overtaken. The spec's letters stand in `FIDELITY.md`.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from implicast.overlay.links.above import Above
from implicast.overlay.links.guiding import Guiding
from implicast.overlay.links.messages import (
    BUSY,
    DELETE,
    INSERT,
    MOVED,
    Check,
    CheckNow,
    Confirm,
    Find,
    Found,
    Gone,
    GraceOver,
    LeaveAgain,
    RetrySetR,
    SeekAgain,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
    Stat,
)
from implicast.overlay.links.refs import Number, Ref, after, lies_between
from implicast.overlay.links.state import DEL, IN, INS, OUT, Grace, Operation
from implicast.peer.contract import Address, Message, handles

__all__ = ["Above", "Links"]

GRACES_MAX = 16
"""Former lives of one peer that still answer."""
INTRODUCERS_MAX = 8
"""Members through whom a newcomer seeks its place."""


class Links(Guiding):
    """One peer's share of the ring. `above` is told of changes and asked for shortcuts (`Above`)."""

    __slots__ = ()

    # Joining

    def found_ring(self) -> None:
        """Be the first."""
        self._begin(self._new_life())
        self._become_member()

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Find the own place with the help of members, and link in there. A new life begins."""
        assert self.state == OUT, f"{self.address} is {self.state} and cannot join"
        if not introducers:
            self.found_ring()
            return
        self.introducers = introducers[:INTRODUCERS_MAX]
        self._begin(self._new_life())
        self.turn = 0
        self._seek()

    def _new_life(self) -> int:
        return max(self.host.now_us, self.me.life + 1)

    def _seek(self) -> None:
        introducer = self.introducers[self.turn % len(self.introducers)]
        self.turn += 1
        self.host.send(introducer, self.find())
        self._later(self.settings.seek_us, SeekAgain(self.me.life, self.turn))

    @handles(SeekAgain)
    def on_seek_again(self, alarm: SeekAgain) -> None:
        if self.state == OUT and self.introducers and (alarm.life, alarm.turn) == (self.me.life, self.turn):
            self._seek()

    @handles(Found)
    def on_found(self, sender: Address, found: Found) -> None:
        if found.to != self.me:
            return
        if self.state == OUT and self.introducers and self.pend is None:
            self._insert(found.left, found.right, found.num)
        elif self.state == IN and found.left != self.me:
            speaks = sender == found.left.address
            if speaks:
                self.heard(found.left)
            if found.left != self.left or (self.detector is not None and found.right != self.me):
                self.look_from(found.left, speaks)

    def _insert(self, left: Ref, right: Ref, num: Number) -> None:
        if not lies_between(left, self.me, right):
            return  # an earlier life of this peer is still linked there
        self.state = INS
        self.left, self.right, self.rnum = left, right, None
        self.request(INSERT, left, self.me, right, num, self.lnum)

    def proven(self, num: Number) -> None:
        """The Ack was lost, the insertion was not: the right neighbour knows of it."""
        self.pend = None
        self._take_right(self.right, num, confirmed=True)
        self._become_member()

    def _become_member(self) -> None:
        self.state = IN
        self.introducers = ()
        self._start_checking()
        self._start_merging()
        self.above.linked()

    def _abandon_life(self) -> None:
        """Nobody can say whether the insertion took place. This life counts as crashed; another one joins, also
        through the node that was to be its right neighbour, for the introducers may have died too."""
        self.state = OUT
        wish = self.wish_to_leave
        if self.right.address not in (self.address, *self.introducers):
            self.introducers = (*self.introducers[: INTRODUCERS_MAX - 1], self.right.address)
        self._begin(self._new_life())
        if wish:
            self._depart()
        else:
            self._seek()

    # Leaving

    def leave(self) -> None:
        """The wish stays until it is fulfilled."""
        self.wish_to_leave = True
        self.leave_by_us = self.host.now_us + self.settings.leave_us
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        if self.state == DEL or not self.wish_to_leave:
            return
        too_long = self.detector is not None and self.host.now_us > self.leave_by_us
        if self.state == OUT or self.right == self.me or too_long:
            self._depart()
        elif self.state == INS or self.pend is not None or self.walk is not None or self._is_lost(self.left):
            self.check()
            self._later(self.settings.again_us, LeaveAgain(self.me.life))
        else:
            self.state = DEL
            assert self.rnum is not None, "a member knows the number of its link"
            self.request(DELETE, self.left, self.right, self.me, self.lnum, after(self.rnum))

    def _depart(self) -> None:
        """Left: in grace, this life still gives the answers it gave, for operations under way depend on them."""
        if self.state != OUT:
            self.graces[self.me] = Grace(self.seen, self.left, self.right)
            if len(self.graces) > GRACES_MAX:
                del self.graces[next(iter(self.graces))]
            self.host.after(self.settings.grace_us, GraceOver(self.me))
        self.state = OUT
        self.introducers = ()
        self.pend = self.walk = None
        self.wish_to_leave = False
        self.above.unlinked()

    @handles(LeaveAgain)
    def on_leave_again(self, alarm: LeaveAgain) -> None:
        if alarm.life == self.me.life:
            self._try_to_leave()

    @handles(GraceOver)
    def on_grace_over(self, alarm: GraceOver) -> None:
        self.graces.pop(alarm.ref, None)

    # Own operations

    def request(self, kind: int, target: Ref, new: Ref, cur: Ref, cur_num: Number, new_num: Number) -> None:
        self.op += 1
        request = SetR(target, self.me, self.op, kind, new, cur, cur_num, new_num)
        self.pend = Operation(request)
        self._begin_waiting(self.pend, RetrySetR(self.me.life, self.op))
        self._say(target, request)

    @handles(RetrySetR)
    def on_retry(self, alarm: RetrySetR) -> None:
        pend = self.pend
        if pend is None or (alarm.life, alarm.op) != (self.me.life, pend.request.op):
            return
        if self._is_spent(pend, pend.request.to):
            self._suspect(pend.request.to)
            self._target_dead()
            return
        self._wait_on(pend, alarm)
        self._say(pend.request.to, pend.request)

    def _settled_by(self, to: Ref, by: Ref, op: int) -> SetR | None:
        """The own request that this answers, which then is pending no more."""
        pend = self.pend
        if to != self.me or pend is None or pend.request.op != op or pend.request.to != by:
            return None
        self.heard(by)
        self._answered(pend)
        self.pend = None
        return pend.request

    @handles(SetRAck)
    def on_ack(self, sender: Address, ack: SetRAck) -> None:
        request = self._settled_by(ack.to, ack.by, ack.op)
        if request is None:
            return
        if request.kind == DELETE:
            self._depart()
            return
        was_ins = self.state == INS
        if request.new_num > self.lnum or (was_ins and self.lnum == request.new_num):
            self._take_left(ack.by, request.new_num, ack.lefts)
        if request.kind == INSERT:
            assert ack.num is not None, "who inserts takes a link over"
            self.host.after(self.settings.rto_us, Confirm(request.cur, ack.num, 1))
            self._take_right(request.cur, ack.num, confirmed=False)
            if was_ins:
                self._become_member()

    @handles(SetRNak)
    def on_nak(self, sender: Address, nak: SetRNak) -> None:
        request = self._settled_by(nak.to, nak.by, nak.op)
        if request is None:
            return
        if self.state == INS:
            self._refused_entry(nak)
        elif request.kind == DELETE:
            self.state = IN
            if nak.reason != BUSY:
                self.check()
            self._later(self.settings.again_us, LeaveAgain(self.me.life))
        else:
            self._later(self.settings.again_us, CheckNow(self.me.life))

    def _refused_entry(self, nak: SetRNak) -> None:
        self.state = OUT
        if self.wish_to_leave:
            self._depart()
        elif nak.reason == MOVED and nak.num is not None and lies_between(nak.by, self.me, nak.right):
            self._insert(nak.by, nak.right, nak.num)
        else:
            self._later(self.settings.again_us, SeekAgain(self.me.life, self.turn))

    def _target_dead(self) -> None:
        assert self.pend is not None, "an operation was pending"
        kind = self.pend.request.kind
        self.pend = None
        if self.state == INS:
            self._abandon_life()
        elif kind == DELETE:
            self.state = IN
            self.check()
            self._later(self.settings.again_us, LeaveAgain(self.me.life))
        else:
            self.check()

    @handles(Gone)
    def on_gone(self, sender: Address, gone: Gone) -> None:
        """Only the stored answer settles a SetR. `Gone` does so only if it answers that very one, for then the
        memory is gone too; a stray `Gone` from a node in grace says nothing about what it had carried out."""
        if gone.to != self.me:
            return
        self._note_gone(gone.by)
        if self.pend is not None and self.pend.request.to == gone.by:
            if gone.op == self.pend.request.op:
                self._target_dead()
        elif self.walk is not None and self.walk.at == gone.by:
            self.walked_into_nobody(self.walk)
        elif gone.by == self.left:
            self.check()

    _CALLS: ClassVar[Mapping[type, Callable[..., None]]] = {  # what a node may say to itself
        SetR: Guiding.on_set_r,
        SetL: Guiding.on_set_l,
        SetLAck: Guiding.on_set_l_ack,
        Check: Guiding.on_check,
        Stat: Guiding.on_stat,
        SetRAck: on_ack,
        SetRNak: on_nak,
        Gone: on_gone,
        Find: Guiding.on_find,
        Found: on_found,
    }

    def _hear(self, message: Message) -> None:
        self._CALLS[type(message)](self, self.address, message)
