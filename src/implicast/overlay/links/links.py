"""A node of the doubly linked ring: its neighbours, its life, and the parts that keep them right.

A right pointer changes at one place in one step: the node that holds it compares what the asker believes with what is.
Without crashes and false suspicions the right pointers of the members form one cycle in key order at every moment, so
every key has exactly one holder while peers join and leave. Messages may be lost, delayed, repeated and overtaken.
Right pointers are the truth; left pointers are hints that follow, told apart in age by their numbers.

No locks: a conflict means that another asker succeeded. That an operation takes effect at most once, and never after
its refusal was believed, rests on the memory of answers; the number in the comparison guards the same once more.

    company     what is believed of others                  walks     looks left: detection and repair
    membership  joining, leaving, own requests              seeking   places: own one from outside, and those of others

The spec's letters stand in `FIDELITY.md`.
"""

from implicast.overlay.links.above import Above
from implicast.overlay.links.company import Company
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import (
    BUSY,
    GONE,
    INSERT,
    MOVED,
    REPLACE,
    CheckLink,
    Confirm,
    Gone,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
    Stat,
)
from implicast.overlay.links.refs import FIRST, Number, Ref, after, cut_list, lies_between
from implicast.overlay.links.seeking import MergeRound, Seeking
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import DEL, IN, INS, OUT, Answered, Grace
from implicast.overlay.links.walks import LinkRound, Looks
from implicast.peer.contract import Address, Host, Incarnation, Message, Part, decisions, handles
from implicast.peer.memory import Recent

NEIGHBOURS_KEPT = 8
"""Nodes nearby that are written down for the next life."""
GRACES_MAX = 16
"""Former lives of one peer that still answer."""


class GraceOver(Message):
    """Rings when a life that has left need not be remembered any more."""

    ref: Ref


class Links(Part, parts={"walks": Looks, "seeking": Seeking, "membership": Membership}):
    """One peer's share of the ring: it keeps the link to the right, changes it for askers, and believes the newest news
    about the left. `above` is told of changes and asked for shortcuts (`Above`)."""

    __slots__ = (
        "_answered",
        "above",
        "company",
        "conf",
        "detector",
        "gen",
        "graces",
        "key",
        "left",
        "lefts",
        "lnum",
        "me",
        "membership",
        "overlooked",
        "right",
        "rnum",
        "seeking",
        "settings",
        "state",
        "walks",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        key: int,
        settings: LinkSettings,
        incarnation: Incarnation | None = None,
        neighbours: tuple[Ref, ...] = (),
    ) -> None:
        """`incarnation`: the peer's; without one, the clock tells lives apart. `neighbours`: those of an earlier life."""
        super().__init__(address, host)
        self.key, self.settings, self.state = key, settings, OUT
        self.above = Above()
        self.company = Company(self)
        self.detector = self.company.detector
        self.graces: Recent[Ref, Grace] = Recent(GRACES_MAX)
        """What former lives still know, for operations under way depend on it."""
        self.walks, self.seeking, self.membership = (
            Looks(self),
            Seeking(self),
            Membership(self, incarnation, neighbours),
        )
        self.begin(0)

    def begin(self, incarnation: int) -> None:
        """A life begins: nothing of an earlier one is known."""
        self.state = OUT
        self.me = Ref(self.key, self.address, incarnation)
        self.left = self.right = self.me
        self.lnum: Number = FIRST
        self.rnum: Number | None = FIRST
        self.conf = True
        """Whether the right neighbour is known to have this very link."""
        self.gen = 0
        """The last repair of the own place."""
        self.overlooked = False
        """Whether others have passed this node over since it was last linked in."""
        self.lefts: tuple[Ref, ...] = ()
        self._answered: Answered = Recent(self.settings.seen_max)
        self.walks.stop()
        self.membership.begin()

    # --- verbs

    def carry(self, above: Above) -> None:
        """This overlay stands on the ring."""
        self.above = above

    def move(self, key: int) -> None:
        """Off the ring: stand elsewhere from now on."""
        assert self.state == OUT, f"{self.address} is {self.state} and cannot move"
        self.key = key

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Find the own place with the help of members, and link in there; none: be the first. A new life begins."""
        self.membership.join(introducers)

    def leave(self) -> None:
        """The wish stays until it is fulfilled."""
        self.membership.leave()

    def stand(self, left: Ref, right: Ref, lefts: tuple[Ref, ...]) -> None:
        """Be part of a ring that has stood for long: it is no news. Checks begin at a random phase, not all at once."""
        self.state = IN
        self.left, self.right, self.lefts = left, right, lefts
        self.lnum = self.rnum = FIRST
        self.watch(least=0.0)

    def near(self) -> tuple[Ref, ...]:
        """Who stands next to this node, its right neighbour first, for its next life to ask; off the ring, who did."""
        near = dict.fromkeys((self.right, *self.above.acquaintances()[:2], self.left, *self.lefts))
        near.pop(self.me, None)
        return tuple(near)[:NEIGHBOURS_KEPT] or self.membership.neighbours

    def tell_right(self, message: Message) -> None:
        """Tell the right neighbour; not the former life of this node, which stands there until the ring notices."""
        if self.right.address != self.address:
            self.host.send(self.right.address, message)

    # --- for the parts

    def watch(self, least: float = 0.5) -> None:
        """Look once per period, to the left and from outside; the first time after so much of one at least."""
        for period_us, kind in (
            (self.settings.check_us, LinkRound),
            (self.settings.merge_us, MergeRound),
        ):
            if period_us:
                self.later(period_us, kind(self.me.incarnation), least)

    def later(self, wait_us: int, alarm: Message, least: float = 0.5) -> int:
        """Ring after about so long: after so much of it at least, and at most as much and once the whole."""
        wait_us = int(wait_us * (least + self.host.rng.random()))
        self.host.after(wait_us, alarm)
        return wait_us

    def say(self, to: Ref, message: Message) -> None:
        """Send; to oneself it is a plain call."""
        if to.address == self.address:
            self.hear(self.address, message)
        else:
            self.host.send(to.address, message)

    def hear(self, sender: Address, message: Message) -> None:
        """Decide on a message of the ring."""
        _DECIDES[type(message)](self, sender, message)

    def become(self, state: str) -> None:
        self.state = state

    def expect(self, left: Ref, right: Ref) -> None:
        """Between these two the node wants to be inserted."""
        self.state, self.left, self.right, self.rnum = INS, left, right, None

    def depart(self) -> None:
        """This life has left: it still gives the answers it gave."""
        if self.state != OUT:
            self.graces[self.me] = Grace(self._answered, self.left, self.right)
            self.host.after(self.settings.grace_us, GraceOver(self.me))
        self.state = OUT

    @handles(GraceOver)
    def on_grace_over(self, alarm: GraceOver) -> None:
        self.graces.pop(alarm.ref, None)

    def _is_over(self, incarnation: Ref) -> bool:
        """Whether something is meant for a life that is not, or no more, on the ring."""
        return incarnation != self.me or self.state == OUT

    def _list_for(self, owner: Ref) -> tuple[Ref, ...]:
        """This node and those on its left, as `owner` may list them."""
        return cut_list([self.me, *self.lefts], owner, self.settings.lefts)

    # --- the right pointer

    def is_busy(self) -> bool:
        """Whether `right` is frozen."""
        pend = self.membership.pend
        return self.state != IN or (pend is not None and pend.request.kind != REPLACE)

    def take_right(self, right: Ref, num: Number, confirmed: bool) -> None:
        self.company.note_met(self.right)
        self.right, self.rnum, self.conf = right, num, confirmed
        self.above.moved()

    @handles(SetR)
    def on_set_r(self, sender: Address, request: SetR) -> None:
        if self._is_over(request.to):
            self._answer_for_the_departed(request)
            return
        self.company.heard(request.by)
        if not self._says_again(self._answered, request):
            self._answer(
                self._answered, request, self._refusal(request) or self._carry_out(request)
            )
            over_us = self.host.now_us - self.settings.keep_us
            self._answered.drop_while(lambda known: known[2] < over_us)

    def _answer_for_the_departed(self, request: SetR) -> None:
        """A life that has left gives the answers it gave; to anything new it says that it is gone, and means it."""
        grace = self.graces.get(request.to)
        if grace is None:
            self.say(request.by, Gone(request.by, request.to, request.op))
        elif not self._says_again(grace.answered, request):
            gone = SetRNak(request.by, request.to, request.op, GONE, grace.right, None)
            self._answer(grace.answered, request, gone)

    def _says_again(self, answered: Answered, request: SetR) -> bool:
        """Whether this, or a later request of the same asker, was answered: the answer to this one is given again."""
        op, answer, _ = answered.get(request.by, (-1, None, 0))
        if answer is not None and request.op == op:
            self.say(request.by, answer)
        return request.op <= op

    def _answer(self, answered: Answered, request: SetR, answer: SetRAck | SetRNak) -> None:
        answered.put(request.by, (request.op, answer, self.host.now_us))
        self.say(request.by, answer)

    def _refusal(self, request: SetR) -> SetRNak | None:
        as_believed = self.right == request.cur and self.rnum == request.cur_num
        fits = request.kind != INSERT or lies_between(self.me, request.new, request.cur)
        if not self.is_busy() and as_believed and fits:
            return None
        reason = BUSY if self.is_busy() else MOVED
        return SetRNak(request.by, self.me, request.op, reason, self.right, self.rnum)

    def _carry_out(self, request: SetR) -> SetRAck:
        old, old_num, new = self.right, self.rnum, request.new
        assert old_num is not None, "a member knows the number of its link"
        num = after(old_num) if request.kind == INSERT else None
        ack = SetRAck(request.by, self.me, request.op, num, self._list_for(new))
        if request.kind in (INSERT, REPLACE):
            self.take_right(new, request.new_num, confirmed=True)
            if num is None:
                self.seeking.part_with(old)
            else:
                lefts = cut_list([new, self.me, *self.lefts], old, self.settings.lefts)
                self.say(old, SetL(old, new, num, lefts))
        elif new == self.me:
            num = max(request.new_num, after(self.lnum))
            self.take_right(self.me, num, confirmed=True)
            self.take_left(self.me, num, ())
        else:
            self.take_right(new, request.new_num, confirmed=False)
            self.tell_link()
            self.host.after(self.settings.rto_us, Confirm(new, request.new_num, 1))
        return ack

    # --- the left pointer

    def take_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.company.note_met(*reversed(self.lefts), self.left)
        former, is_repair = self.left, num[0] != self.lnum[0]
        self.left, self.lnum, self.lefts = left, num, lefts
        self.above.moved()
        if (
            is_repair and self.state != INS
        ):  # the own place is mended: others are told of it from here on
            was_overlooked, self.overlooked = self.overlooked, False
            (self.above.overlooked if was_overlooked else self.above.mended)()
        if self.detector is not None and self.state == IN:
            self.seeking.introduce(former, left)

    def take_lefts(self, lefts: tuple[Ref, ...]) -> None:
        """The same neighbour, with those to its left as they are now."""
        if lefts != self.lefts:
            self.lefts = lefts
            self.above.surrounded()

    def next_repair(self, overlooked: bool) -> Number:
        """A number that beats all before; and whether another stands where this node should: it was passed over."""
        self.overlooked = self.overlooked or overlooked
        self.gen = max(self.gen, self.lnum[0]) + 1
        return self.gen, 0

    def tell_link(self) -> None:
        """Tell the right neighbour who its left one is; it answers who it thinks it is."""
        assert self.rnum is not None, "only a member owes its right neighbour the news"
        self.say(self.right, SetL(self.right, self.me, self.rnum, self._list_for(self.right)))

    @handles(SetL)
    def on_set_l(self, sender: Address, news: SetL) -> None:
        if self._is_over(news.to):
            self.say(news.left, Gone(news.left, news.to, 0))
            return
        if news.num > self.lnum:
            self.company.heard(
                news.left
            )  # the holder has just done what that node asked for: it lives
            self.take_left(news.left, news.num, news.lefts)
        self.say(news.left, SetLAck(news.left, self.me, self.left, self.lnum))

    @handles(SetLAck)
    def on_set_l_ack(self, sender: Address, answer: SetLAck) -> None:
        if answer.to != self.me or answer.by != self.right:
            return
        self.company.heard(answer.by)
        is_about_us = answer.left == self.me
        if self.state == INS and is_about_us:
            self.membership.proven(answer.num)
        elif self.rnum is not None and is_about_us and answer.num >= self.rnum:
            self._confirm(answer.num)
        elif self.rnum is not None and not is_about_us and answer.num > self.rnum:
            self.above.overlooked()
            self.walks.check()

    @handles(Confirm)
    def on_confirm(self, alarm: Confirm) -> None:
        if (
            not self.conf
            and self.state in (IN, DEL)
            and (self.right, self.rnum) == (alarm.right, alarm.num)
        ):
            self.tell_link()
            self.later(
                self.settings.backoff_us(alarm.tried),
                Confirm(alarm.right, alarm.num, alarm.tried + 1),
            )

    @handles(CheckLink)
    def on_check(self, sender: Address, check: CheckLink) -> None:
        if self._is_over(check.to):
            self.say(check.by, Gone(check.by, check.to, 0))
            return
        self.company.heard(check.by)
        is_about_us = check.left == self.me and check.by == self.right
        if self.state == INS and is_about_us:
            self.membership.proven(check.num)
        if is_about_us and check.num == self.rnum:
            self._confirm(check.num)
        num, misses = None if self.state == INS else self.rnum, self.company.is_lost(self.right)
        self.say(
            check.by,
            Stat(check.by, self.me, check.token, self.right, num, self._list_for(check.by), misses),
        )

    def _confirm(self, num: Number) -> None:
        """The right neighbour has this very link, under this number."""
        self.conf = True
        if not self.is_busy():
            self.rnum = num


_DECIDES, _ = decisions(Links)
