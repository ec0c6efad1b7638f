"""The holder's side of the ring: changes the right pointer on request, and tells the neighbours.

A right pointer is changed in one step by the node that holds it: the holder compares the pointer
and number that the requester expects with the current ones (compare-and-swap). The memory of
answers ensures that an operation takes effect at most once, and never after its requester has
accepted a refusal. A departed incarnation still repeats the answers that it gave.
"""

from collections.abc import Callable
from typing import NamedTuple

from implicast.overlay.links.attempts import after_jittered
from implicast.overlay.links.listener import LayerAbove
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.messages import (
    BUSY,
    GONE,
    INSERT,
    MOVED,
    REPLACE,
    IncarnationGone,
    LinkState,
    LinkStateRequest,
    PlaceFound,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Number, Ref, after, lies_between
from implicast.overlay.links.requests import PointerRequests, Send
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, INS, OUT
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.memory import Recent

DEPARTED_MAX = 16
"""Former incarnations of one peer that still answer."""

AnswerMemory = Recent[Ref, tuple[int, SetRAck | SetRNak, int]]
"""For each requester: its last answered operation, the answer, and when it was given. An answer is
final: it may be sent again but never changes.
"""


class Confirm(Message):
    """Fires when the right neighbour should have confirmed this link."""

    right: Ref
    num: Number
    tried: int


class DepartedExpired(Message):
    """Fires when a departed incarnation need not be remembered any longer."""

    ref: Ref


class DepartedIncarnation(NamedTuple):
    """What a departed incarnation still knows: its answers and its last neighbours."""

    answered: AnswerMemory
    left: Ref
    right: Ref


class Pointers(Part):
    """Holds the node's right pointer and its newest left pointer."""

    __slots__ = (
        "_above",
        "_answered",
        "_bypassed",
        "_inserted",
        "_liveness",
        "_position",
        "_requests",
        "_send",
        "_settings",
        "departed",
    )

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        liveness: RingLiveness,
        requests: PointerRequests,
        above: LayerAbove,
        send: Send,
        inserted: Callable[[Number], None],
        bypassed: Callable[[], None],
    ) -> None:
        """`inserted(num)`: the right neighbour knows of the own insertion, whose Ack was lost or
        overtaken; `bypassed()`: the right neighbour has another left neighbour.
        """
        super().__init__(position.address, host)
        self._position, self._settings, self._liveness = position, settings, liveness
        self._requests, self._above, self._send = requests, above, send
        self._inserted, self._bypassed = inserted, bypassed
        self._answered: AnswerMemory = Recent(settings.seen_max)
        self.departed: Recent[Ref, DepartedIncarnation] = Recent(DEPARTED_MAX)
        """Answers of former incarnations, on which operations under way depend."""

    # --- incarnations

    def forget_answers(self) -> None:
        """An incarnation starts, which has answered nothing."""
        self._answered = Recent(self._settings.seen_max)

    def record_departure(self) -> None:
        """This incarnation has left; it still repeats the answers it gave."""
        position = self._position
        if position.state != OUT:
            self.departed[position.me] = DepartedIncarnation(
                self._answered, position.left, position.right
            )
            self.host.after(self._settings.departed_us, DepartedExpired(position.me))
        position.set_state(OUT)

    @handles(DepartedExpired)
    def on_departed_expired(self, alarm: DepartedExpired) -> None:
        self.departed.pop(alarm.ref, None)

    # --- the right pointer

    def is_busy(self) -> bool:
        """Whether the right pointer is frozen by an own operation."""
        return self._position.state != IN or self._requests.is_right_frozen

    def set_right(self, right: Ref, num: Number, confirmed: bool) -> None:
        self._liveness.remember(self._position.right)
        self._position.set_right(right, num, confirmed)
        self._above.listener.on_neighbours_changed()

    def take_over_right(self, right: Ref, num: Number) -> None:
        """This node takes the link to `right` over, which has to confirm it."""
        self.host.after(self._settings.rto_us, Confirm(right, num, 1))
        former = self._position.right
        self.set_right(right, num, confirmed=False)
        self.notify_replaced(former)

    @handles(SetR)
    def on_set_r(self, sender: Address, request: SetR) -> None:
        if self._position.is_former(request.to):
            self._answer_for_departed(request)
            return
        self._liveness.on_message_from(request.by)
        if not self.repeat_answer(self._answered, request):
            self._answer(self._answered, request, self._refusal(request) or self._apply(request))
            over_us = self.host.now_us - self._settings.keep_us
            self._answered.drop_while(lambda known: known[2] < over_us)

    def _answer_for_departed(self, request: SetR) -> None:
        """Repeat a stored answer; refuse a new request as GONE and store the refusal."""
        departed = self.departed.get(request.to)
        if departed is None:
            self._send(request.by, IncarnationGone(request.by, request.to, request.op))
        elif not self.repeat_answer(departed.answered, request):
            gone = SetRNak(request.by, request.to, request.op, GONE, departed.right, None)
            self._answer(departed.answered, request, gone)

    def repeat_answer(self, answered: AnswerMemory, request: SetR) -> bool:
        """Send the stored answer again. True: this or a later request was answered before."""
        op, answer, _ = answered.get(request.by, (-1, None, 0))
        if answer is not None and request.op == op:
            self._send(request.by, answer)
        return request.op <= op

    def _answer(self, answered: AnswerMemory, request: SetR, answer: SetRAck | SetRNak) -> None:
        answered.put(request.by, (request.op, answer, self.host.now_us))
        self._send(request.by, answer)

    def _refusal(self, request: SetR) -> SetRNak | None:
        position = self._position
        me, right, num = position.me, position.right, position.rnum
        as_believed = right == request.cur and num == request.cur_num
        fits = request.kind != INSERT or lies_between(me, request.new, request.cur)
        if not self.is_busy() and as_believed and fits:
            return None
        reason = BUSY if self.is_busy() else MOVED
        return SetRNak(request.by, me, request.op, reason, right, num)

    def _apply(self, request: SetR) -> SetRAck:
        position = self._position
        me, old, old_num, new = position.me, position.right, position.rnum, request.new
        assert old_num is not None, "a member knows the number of its link"
        num = after(old_num) if request.kind == INSERT else None
        uncertainty = self._liveness.silent.shared()
        ack = SetRAck(request.by, me, request.op, num, position.left_list_for(new), uncertainty)
        if request.kind == REPLACE and old != me and lies_between(me, old, new):
            self._above.listener.on_right_bypassed(old, new, request.bypassed)
        if request.kind in (INSERT, REPLACE):
            self.set_right(new, request.new_num, confirmed=True)
            if num is None:
                self.notify_replaced(old)
            else:
                lefts = position.cut_lefts([new, me, *position.lefts], old)
                self._send(old, SetL(old, new, num, lefts))
        elif new == me:
            num = max(request.new_num, after(position.lnum))
            self.set_right(me, num, confirmed=True)
            self.set_left(me, num, ())
        else:
            self.set_right(new, request.new_num, confirmed=False)
            self.send_set_l()
            self.host.after(self._settings.rto_us, Confirm(new, request.new_num, 1))
        return ack

    # --- the left pointer

    def set_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        position = self._position
        self._liveness.remember(*reversed(position.lefts), position.left)
        former, is_repair = position.left, num[0] != position.lnum[0]
        position.set_left(left, num, lefts)
        listener = self._above.listener
        listener.on_neighbours_changed()
        if is_repair and position.state != INS:  # the own place is repaired
            (listener.on_bypassed if position.end_bypass() else listener.on_repaired)()
        if position.state == IN:
            self._introduce_neighbours(former, left)

    def set_lefts(self, lefts: tuple[Ref, ...]) -> None:
        """The same left neighbour, with a new list of the nodes on its left."""
        if self._position.set_lefts(lefts):
            self._above.listener.on_left_list_changed()

    def _introduce_neighbours(self, former: Ref, left: Ref) -> None:
        """The left neighbour changed from `former` to `left`: tell the nearer of the two to search
        from the other, so that rings that meet merge step by step.
        """
        me, liveness = self._position.me, self._liveness
        if former in (left, me) or left == me or liveness.is_lost(former):
            return
        if liveness.may_be_apart(former):
            nearer, other = (left, former) if lies_between(former, left, me) else (former, left)
            self._send(nearer, PlaceFound(nearer, other, me, self._position.lnum))

    def notify_replaced(self, former: Ref) -> None:
        """The right neighbour was replaced: tell it, so that it checks its place at once if it is
        alive.
        """
        position = self._position
        if former not in (position.me, position.right) and self._liveness.may_be_apart(former):
            assert position.rnum is not None, "a member knows the number of its link"
            self._send(former, PlaceFound(former, position.me, position.right, position.lnum))

    # --- agreement with the neighbours

    def send_set_l(self) -> None:
        """Tell the right neighbour that this node is its left one; it answers with SetLAck."""
        position = self._position
        right, num = position.right, position.rnum
        assert num is not None, "only a member owes its right neighbour the news"
        self._send(right, SetL(right, position.me, num, position.left_list_for(right)))

    @handles(SetL)
    def on_set_l(self, sender: Address, news: SetL) -> None:
        position = self._position
        if position.is_former(news.to):
            self._send(news.left, IncarnationGone(news.left, news.to, 0))
            return
        if news.num > position.lnum:
            # The sender carried out a request of `left`, so `left` is alive.
            self._liveness.on_message_from(news.left)
            self.set_left(news.left, news.num, news.lefts)
        self._send(news.left, SetLAck(news.left, position.me, position.left, position.lnum))

    @handles(SetLAck)
    def on_set_l_ack(self, sender: Address, answer: SetLAck) -> None:
        position = self._position
        if answer.to != position.me or answer.by != position.right:
            return
        self._liveness.on_message_from(answer.by)
        is_about_us = answer.left == position.me
        if position.state == INS and is_about_us:
            self._inserted(answer.num)
        elif position.rnum is not None and is_about_us and answer.num >= position.rnum:
            self._confirm(answer.num)
        elif position.rnum is not None and not is_about_us and answer.num > position.rnum:
            self._above.listener.on_bypassed()
            self._bypassed()

    def _confirm(self, num: Number) -> None:
        """The right neighbour holds this link under this number."""
        self._position.confirm(None if self.is_busy() else num)

    @handles(Confirm)
    def on_confirm(self, alarm: Confirm) -> None:
        position = self._position
        if (
            not position.is_confirmed
            and position.is_on_ring
            and (position.right, position.rnum) == (alarm.right, alarm.num)
        ):
            self.send_set_l()
            after_jittered(
                self.host,
                self._settings.backoff_us(alarm.tried),
                Confirm(alarm.right, alarm.num, alarm.tried + 1),
            )

    @handles(LinkStateRequest)
    def on_link_state_request(self, sender: Address, request: LinkStateRequest) -> None:
        position = self._position
        if position.is_former(request.to):
            self._send(request.by, IncarnationGone(request.by, request.to, 0))
            return
        self._liveness.on_message_from(request.by)
        is_about_us = request.left == position.me and request.by == position.right
        if position.state == INS and is_about_us:
            self._inserted(request.num)
        if is_about_us and request.num == position.rnum:
            self._confirm(request.num)
        num = None if position.state == INS else position.rnum
        lefts, right = position.left_list_for(request.by), position.right
        is_lost = self._liveness.is_lost(right)
        link = LinkState(request.by, position.me, request.token, right, num, lefts, is_lost)
        self._send(request.by, link)
