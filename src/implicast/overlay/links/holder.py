"""The answering side: whoever holds a link changes it, in one step, if what the asker believes is so.

No locks: a conflict means that somebody else succeeded. That an operation takes effect at most once, and never after
its refusal was believed, rests on the memory of answers; the number in the comparison guards the same once more.
"""

from abc import abstractmethod

from implicast.overlay.links.messages import (
    BUSY,
    INSERT,
    MOVED,
    REPLACE,
    Check,
    Confirm,
    Gone,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
    Stat,
)
from implicast.overlay.links.refs import Number, Ref, after, cut_list, lies_between
from implicast.overlay.links.state import DEL, IN, INS, OUT, LinkState
from implicast.peer.contract import Address, handles


class Holder(LinkState):
    """Keeps the link to the right, and believes the newest news about the left."""

    __slots__ = ()

    @abstractmethod
    def check(self) -> None:
        """Look to the left now."""

    @abstractmethod
    def proven(self, num: Number) -> None:
        """The own insertion took place: the right neighbour knows of it."""

    @handles(SetR)
    def on_set_r(self, sender: Address, request: SetR) -> None:
        if request.to != self.me or self.state == OUT:
            self._answer_for_the_departed(request)
            return
        self.heard(request.by)
        known = self.seen.get(request.by)
        if known is not None and request.op < known[0]:
            return
        if known is not None and request.op == known[0]:
            self._say(request.by, known[1])
            return
        answer = self._refusal(request) or self._carry_out(request)
        self._remember(request, answer)
        self._say(request.by, answer)

    def _refusal(self, request: SetR) -> SetRNak | None:
        as_believed = self.right == request.cur and self.rnum == request.cur_num
        fits = request.kind != INSERT or lies_between(self.me, request.new, request.cur)
        if not self._is_busy() and as_believed and fits:
            return None
        reason = BUSY if self._is_busy() else MOVED
        return SetRNak(request.by, self.me, request.op, reason, self.right, self.rnum)

    def _carry_out(self, request: SetR) -> SetRAck:
        old, old_num = self.right, self.rnum
        assert old_num is not None, "a member knows the number of its link"
        new = request.new
        ack = SetRAck(request.by, self.me, request.op, None, self._list_for(new))
        if request.kind == INSERT:
            self._take_right(new, request.new_num, confirmed=True)
            ack = SetRAck(request.by, self.me, request.op, after(old_num), self._list_for(new))
            lefts = cut_list([new, self.me, *self.lefts], old, self.settings.lefts)
            self._say(old, SetL(old, new, after(old_num), lefts))
        elif request.kind == REPLACE:
            self._take_right(new, request.new_num, confirmed=True)
        elif new == self.me:
            num = max(request.new_num, after(self.lnum))
            self._take_right(self.me, num, confirmed=True)
            self._take_left(self.me, num, ())
        else:
            self._take_right(new, request.new_num, confirmed=False)
            self._tell_right()
            self.host.after(self.settings.rto_us, Confirm(new, request.new_num, 1))
        return ack

    def _remember(self, request: SetR, answer: SetRAck | SetRNak) -> None:
        now_us = self.host.now_us
        self.seen.pop(request.by, None)  # put last again: the dict stays in order of age
        self.seen[request.by] = (request.op, answer, now_us)
        oldest = next(iter(self.seen))
        while self.seen[oldest][2] + self.settings.keep_us < now_us or len(self.seen) > self.settings.seen_max:
            del self.seen[oldest]
            oldest = next(iter(self.seen))

    def _tell_right(self) -> None:
        assert self.rnum is not None, "only a member owes its right neighbour the news"
        self._say(self.right, SetL(self.right, self.me, self.rnum, self._list_for(self.right)))

    @handles(SetL)
    def on_set_l(self, sender: Address, news: SetL) -> None:
        if news.to != self.me or self.state == OUT:
            self._say(news.left, Gone(news.left, news.to, 0))
            return
        if news.num > self.lnum:
            self._take_left(news.left, news.num, news.lefts)
        self._say(news.left, SetLAck(news.left, self.me, self.left, self.lnum))

    @handles(SetLAck)
    def on_set_l_ack(self, sender: Address, answer: SetLAck) -> None:
        if answer.to != self.me or answer.by != self.right:
            return
        self.heard(answer.by)
        if self.state == INS:
            if answer.left == self.me:
                self.proven(answer.num)
        elif self.rnum is not None and answer.left == self.me and answer.num >= self.rnum:
            self.conf = True
            if not self._is_busy():
                self.rnum = answer.num
        elif self.rnum is not None and answer.left != self.me and answer.num > self.rnum:
            self.check()

    @handles(Confirm)
    def on_confirm(self, alarm: Confirm) -> None:
        if self.conf or self.state not in (IN, DEL) or (self.right, self.rnum) != (alarm.right, alarm.num):
            return
        self._tell_right()
        self._later(self._backoff_us(alarm.tried), Confirm(alarm.right, alarm.num, alarm.tried + 1))

    @handles(Check)
    def on_check(self, sender: Address, check: Check) -> None:
        if check.to != self.me or self.state == OUT:
            self._say(check.by, Gone(check.by, check.to, 0))
            return
        self.heard(check.by)
        is_about_us = check.left == self.me and check.by == self.right
        if self.state == INS and is_about_us:
            self.proven(check.num)
        if is_about_us and check.num == self.rnum:
            self.conf = True
        self._say(check.by, self._stat(check.by, check.token))

    def _stat(self, to: Ref, token: int) -> Stat:
        num = None if self.state == INS else self.rnum
        return Stat(to, self.me, token, self.right, num, self._list_for(to))
