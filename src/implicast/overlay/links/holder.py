"""The answering side: the holder of a link changes it, in one step, if what the asker believes is so.

No locks: a conflict means that another asker succeeded. That an operation takes effect at most once, and never after
its refusal was believed, rests on the memory of answers; the number in the comparison guards the same once more.
"""

from typing import TYPE_CHECKING

from implicast.overlay.links.messages import (
    BUSY,
    GONE,
    INSERT,
    MOVED,
    REPLACE,
    CheckLink,
    Confirm,
    Gone,
    GraceOver,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
    Stat,
)
from implicast.overlay.links.refs import Ref, after, cut_list, lies_between
from implicast.overlay.links.state import DEL, IN, INS, OUT, Answered, Grace
from implicast.peer.contract import Address, Part, handles
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

GRACES_MAX = 16
"""Former lives of one peer that still answer."""


class Holder(Part):
    """Keeps the link to the right, and believes the newest news about the left."""

    __slots__ = ("_answered", "_links", "graces")

    def __init__(self, links: "Links") -> None:
        super().__init__(links.address, links.host)
        self._links = links
        self.graces: Recent[Ref, Grace] = Recent(GRACES_MAX)
        """What former lives still know, for operations under way depend on it."""

    def begin(self) -> None:
        """A life begins: it has answered nobody."""
        self._answered: Answered = Recent(self._links.settings.seen_max)

    def depart(self) -> None:
        """This life has left: it still gives the answers it gave."""
        links = self._links
        self.graces[links.me] = Grace(self._answered, links.left, links.right)
        self.host.after(links.settings.grace_us, GraceOver(links.me))

    @handles(GraceOver)
    def on_grace_over(self, alarm: GraceOver) -> None:
        self.graces.pop(alarm.ref, None)

    # --- the right pointer

    @handles(SetR)
    def on_set_r(self, sender: Address, request: SetR) -> None:
        links = self._links
        if request.to != links.me or links.state == OUT:
            self._answer_for_the_departed(request)
            return
        links.heard(request.by)
        if not self._says_again(self._answered, request):
            self._say(self._answered, request, self._refusal(request) or self._carry_out(request))
            over_us = self.host.now_us - links.settings.keep_us
            self._answered.drop_while(lambda known: known[2] < over_us)

    def _answer_for_the_departed(self, request: SetR) -> None:
        """A life that has left gives the answers it gave; to anything new it says that it is gone, and means it."""
        grace = self.graces.get(request.to)
        if grace is None:
            self._links.say(request.by, Gone(request.by, request.to, request.op))
        elif not self._says_again(grace.answered, request):
            gone = SetRNak(request.by, request.to, request.op, GONE, grace.right, None)
            self._say(grace.answered, request, gone)

    def _says_again(self, answered: Answered, request: SetR) -> bool:
        """Whether this, or a later request of the same asker, was answered: the answer to this one is given again."""
        op, answer, _ = answered.get(request.by, (-1, None, 0))
        if answer is not None and request.op == op:
            self._links.say(request.by, answer)
        return request.op <= op

    def _say(self, answered: Answered, request: SetR, answer: SetRAck | SetRNak) -> None:
        answered.put(request.by, (request.op, answer, self.host.now_us))
        self._links.say(request.by, answer)

    def _refusal(self, request: SetR) -> SetRNak | None:
        links = self._links
        as_believed = links.right == request.cur and links.rnum == request.cur_num
        fits = request.kind != INSERT or lies_between(links.me, request.new, request.cur)
        if not links.is_busy() and as_believed and fits:
            return None
        reason = BUSY if links.is_busy() else MOVED
        return SetRNak(request.by, links.me, request.op, reason, links.right, links.rnum)

    def _carry_out(self, request: SetR) -> SetRAck:
        links = self._links
        old, old_num, new = links.right, links.rnum, request.new
        assert old_num is not None, "a member knows the number of its link"
        num = after(old_num) if request.kind == INSERT else None
        ack = SetRAck(request.by, links.me, request.op, num, links.list_for(new))
        if request.kind in (INSERT, REPLACE):
            links.take_right(new, request.new_num, confirmed=True)
            if num is not None:
                links.say(old, SetL(old, new, num, cut_list([new, links.me, *links.lefts], old, links.settings.lefts)))
        elif new == links.me:
            num = max(request.new_num, after(links.lnum))
            links.take_right(links.me, num, confirmed=True)
            links.take_left(links.me, num, ())
        else:
            links.take_right(new, request.new_num, confirmed=False)
            self.tell_right()
            self.host.after(links.settings.rto_us, Confirm(new, request.new_num, 1))
        return ack

    # --- the left pointer

    def tell_right(self) -> None:
        """Who its left neighbour is; it answers who it thinks it is."""
        links = self._links
        assert links.rnum is not None, "only a member owes its right neighbour the news"
        links.say(links.right, SetL(links.right, links.me, links.rnum, links.list_for(links.right)))

    @handles(SetL)
    def on_set_l(self, sender: Address, news: SetL) -> None:
        links = self._links
        if news.to != links.me or links.state == OUT:
            links.say(news.left, Gone(news.left, news.to, 0))
            return
        if news.num > links.lnum:
            links.take_left(news.left, news.num, news.lefts)
        links.say(news.left, SetLAck(news.left, links.me, links.left, links.lnum))

    @handles(SetLAck)
    def on_set_l_ack(self, sender: Address, answer: SetLAck) -> None:
        links = self._links
        if answer.to != links.me or answer.by != links.right:
            return
        links.heard(answer.by)
        if links.state == INS:
            if answer.left == links.me:
                links.membership.proven(answer.num)
        elif links.rnum is not None and answer.left == links.me and answer.num >= links.rnum:
            links.confirm(answer.num)
        elif links.rnum is not None and answer.left != links.me and answer.num > links.rnum:
            links.above.overlooked()
            links.walks.check()

    @handles(Confirm)
    def on_confirm(self, alarm: Confirm) -> None:
        links = self._links
        if links.conf or links.state not in (IN, DEL) or (links.right, links.rnum) != (alarm.right, alarm.num):
            return
        self.tell_right()
        links.later(links.settings.backoff_us(alarm.tried), Confirm(alarm.right, alarm.num, alarm.tried + 1))

    @handles(CheckLink)
    def on_check(self, sender: Address, check: CheckLink) -> None:
        links = self._links
        if check.to != links.me or links.state == OUT:
            links.say(check.by, Gone(check.by, check.to, 0))
            return
        links.heard(check.by)
        is_about_us = check.left == links.me and check.by == links.right
        if links.state == INS and is_about_us:
            links.membership.proven(check.num)
        if is_about_us and check.num == links.rnum:
            links.confirm(check.num)
        num = None if links.state == INS else links.rnum
        links.say(check.by, Stat(check.by, links.me, check.token, links.right, num, links.list_for(check.by)))
