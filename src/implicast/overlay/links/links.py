"""A node of the doubly linked ring (DDLL): its neighbours, its incarnations, and their maintenance.

A right pointer is changed in one step by the node that holds it: the holder compares the pointer
and number that the requester expects with the current ones (compare-and-swap). Without crashes and
false suspicions the right pointers of the members form one cycle in key order at every moment, so
every key has exactly one owner while peers join and leave. Messages may be lost, delayed,
duplicated and reordered. Left pointers are hints that follow; the newer one has the larger number.

There are no locks: a conflict means that another requester succeeded. The memory of answers ensures
that an operation takes effect at most once, and never after its requester has accepted a refusal.

    liveness    departed and suspected nodes      stabilisation  search left, detection, repair
    membership  joining, leaving, own requests    lookup         place lookups
    founding    a new ring after a stop of all
"""

from implicast.overlay.links.founding import Founding
from implicast.overlay.links.listener import RingListener
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.lookup import MergeRound, PlaceLookup
from implicast.overlay.links.membership import Membership
from implicast.overlay.links.messages import (
    BUSY,
    GONE,
    INSERT,
    MOVED,
    REPLACE,
    Confirm,
    IncarnationGone,
    LinkState,
    LinkStateRequest,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.refs import FIRST, Number, Ref, after, cut_list, lies_between
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.stabilisation import Stabilisation, StabiliseRound
from implicast.overlay.links.state import (
    DEL,
    IN,
    INS,
    OUT,
    AnswerMemory,
    DepartedExpired,
    DepartedIncarnation,
)
from implicast.peer.contract import Address, Host, Incarnation, Message, Part, decisions, handles
from implicast.peer.memory import Recent

NEIGHBOURS_SAVED = 24
"""Nodes saved for the next incarnation: the nearest, and fingers to distant parts of the ring."""
DEPARTED_MAX = 16
"""Former incarnations of one peer that still answer."""


PARTS: dict[str, type[Part]] = {
    "stabilisation": Stabilisation,
    "lookup": PlaceLookup,
    "founding": Founding,
    "membership": Membership,
}


class Links(Part, parts=PARTS):
    """One peer's right pointer, changed on request, and its newest left pointer."""

    __slots__ = (
        "_answered",
        "bypassed",
        "departed_incarnations",
        "detector",
        "founding",
        "is_confirmed",
        "key",
        "left",
        "lefts",
        "listener",
        "liveness",
        "lnum",
        "lookup",
        "me",
        "membership",
        "repairs",
        "right",
        "rnum",
        "settings",
        "stabilisation",
        "state",
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
        """`incarnation`: of the peer; None: by the clock. `neighbours`: of the earlier one."""
        super().__init__(address, host)
        self.key, self.settings, self.state = key, settings, OUT
        self.listener = RingListener()
        self.liveness = RingLiveness(self)
        self.detector = self.liveness.detector
        self.departed_incarnations: Recent[Ref, DepartedIncarnation] = Recent(DEPARTED_MAX)
        """Answers of former incarnations, on which operations under way depend."""
        self.stabilisation = Stabilisation(self)
        self.lookup = PlaceLookup(self)
        self.founding = Founding(address, host, lambda: self.me)
        self.membership = Membership(self, incarnation, neighbours)
        self.start_incarnation(0)

    def start_incarnation(self, incarnation: int) -> None:
        """Start an incarnation, which knows nothing of an earlier one."""
        self.state = OUT
        self.me = Ref(self.key, self.address, incarnation)
        self.left = self.right = self.me
        self.lnum: Number = FIRST
        self.rnum: Number | None = FIRST
        self.is_confirmed = True
        """Whether the right neighbour has confirmed this link."""
        self.repairs = 0
        """The repair number of the last repair of the own place."""
        self.bypassed = False
        """Whether other nodes have bypassed this node since it was last linked in."""
        self.lefts: tuple[Ref, ...] = ()
        self._answered: AnswerMemory = Recent(self.settings.seen_max)
        self.stabilisation.stop()
        self.membership.reset()

    # --- verbs

    def set_listener(self, listener: RingListener) -> None:
        self.listener = listener

    def set_key(self, key: int) -> None:
        """Off the ring: choose the key for the next join."""
        assert self.state == OUT, f"{self.address} is {self.state} and cannot move"
        self.key = key

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join through members in a new incarnation; without introducers form a ring of one."""
        self.membership.join(introducers)

    def leave(self) -> None:
        """Leave the ring. The node keeps trying until it has left."""
        self.membership.leave()

    def restore(self, left: Ref, right: Ref, lefts: tuple[Ref, ...]) -> None:
        """Be a member of a converged ring, without callbacks; checks start at a random phase."""
        self.state = IN
        self.left, self.right, self.lefts = left, right, lefts
        self.lnum = self.rnum = FIRST
        self.start_rounds(least=0.0)

    def nearby_nodes(self) -> tuple[Ref, ...]:
        """Nodes for the next incarnation to contact, the right neighbour first."""
        known = self.listener.known_nodes()
        near = dict.fromkeys((self.right, *known[:2], self.left, *self.lefts, *known[2:]))
        near.pop(self.me, None)
        return tuple(near)[:NEIGHBOURS_SAVED] or self.membership.neighbours

    def send_right(self, message: Message) -> None:
        """Send to the right neighbour, unless that is an earlier incarnation of this node."""
        if self.right.address != self.address:
            self.host.send(self.right.address, message)

    # --- for the parts

    def start_rounds(self, least: float = 0.5) -> None:
        """Start periodic stabilisation and merging, after at least `least` of a period."""
        for period_us, kind in (
            (self.settings.check_us, StabiliseRound),
            (self.settings.merge_us, MergeRound),
        ):
            if period_us:
                self.after_jittered(period_us, kind(self.me.incarnation), least)

    def after_jittered(self, wait_us: int, alarm: Message, least: float = 0.5) -> int:
        """Set an alarm after `wait_us` times `least` to `least` + 1; returns the wait."""
        wait_us = int(wait_us * (least + self.host.rng.random()))
        self.host.after(wait_us, alarm)
        return wait_us

    def send_to(self, to: Ref, message: Message) -> None:
        """Send a message; a message to this node itself is handled by a direct call."""
        if to.address == self.address:
            self.handle_message(self.address, message)
        else:
            self.host.send(to.address, message)

    def handle_message(self, sender: Address, message: Message) -> None:
        """Handle a message of the ring."""
        _DECIDES[type(message)](self, sender, message)

    def set_state(self, state: str) -> None:
        self.state = state

    def begin_insertion(self, left: Ref, right: Ref) -> None:
        """Start the insertion of this node between these two nodes."""
        self.state, self.left, self.right, self.rnum = INS, left, right, None

    def record_departure(self) -> None:
        """This incarnation has left; it still repeats the answers it gave."""
        if self.state != OUT:
            self.departed_incarnations[self.me] = DepartedIncarnation(
                self._answered, self.left, self.right
            )
            self.host.after(self.settings.departed_us, DepartedExpired(self.me))
        self.state = OUT

    @handles(DepartedExpired)
    def on_departed_expired(self, alarm: DepartedExpired) -> None:
        self.departed_incarnations.pop(alarm.ref, None)

    def _is_former(self, incarnation: Ref) -> bool:
        """Whether the addressed incarnation is not, or no longer, on the ring."""
        return incarnation != self.me or self.state == OUT

    def _left_list_for(self, owner: Ref) -> tuple[Ref, ...]:
        """This node and the nodes on its left, as the left list of `owner`."""
        return cut_list([self.me, *self.lefts], owner, self.settings.lefts)

    # --- the right pointer

    def is_busy(self) -> bool:
        """Whether the right pointer is frozen by an own operation."""
        pending = self.membership.pending
        return self.state != IN or (pending is not None and pending.request.kind != REPLACE)

    def set_right(self, right: Ref, num: Number, confirmed: bool) -> None:
        self.liveness.remember(self.right)
        self.right, self.rnum, self.is_confirmed = right, num, confirmed
        self.listener.on_neighbours_changed()

    @handles(SetR)
    def on_set_r(self, sender: Address, request: SetR) -> None:
        if self._is_former(request.to):
            self._answer_for_departed(request)
            return
        self.liveness.on_message_from(request.by)
        if not self.repeat_answer(self._answered, request):
            self._answer(self._answered, request, self._refusal(request) or self._apply(request))
            over_us = self.host.now_us - self.settings.keep_us
            self._answered.drop_while(lambda known: known[2] < over_us)

    def _answer_for_departed(self, request: SetR) -> None:
        """Repeat a stored answer; refuse a new request as GONE and store the refusal."""
        departed = self.departed_incarnations.get(request.to)
        if departed is None:
            self.send_to(request.by, IncarnationGone(request.by, request.to, request.op))
        elif not self.repeat_answer(departed.answered, request):
            gone = SetRNak(request.by, request.to, request.op, GONE, departed.right, None)
            self._answer(departed.answered, request, gone)

    def repeat_answer(self, answered: AnswerMemory, request: SetR) -> bool:
        """Send the stored answer again. True: this or a later request was answered before."""
        op, answer, _ = answered.get(request.by, (-1, None, 0))
        if answer is not None and request.op == op:
            self.send_to(request.by, answer)
        return request.op <= op

    def _answer(self, answered: AnswerMemory, request: SetR, answer: SetRAck | SetRNak) -> None:
        answered.put(request.by, (request.op, answer, self.host.now_us))
        self.send_to(request.by, answer)

    def _refusal(self, request: SetR) -> SetRNak | None:
        as_believed = self.right == request.cur and self.rnum == request.cur_num
        fits = request.kind != INSERT or lies_between(self.me, request.new, request.cur)
        if not self.is_busy() and as_believed and fits:
            return None
        reason = BUSY if self.is_busy() else MOVED
        return SetRNak(request.by, self.me, request.op, reason, self.right, self.rnum)

    def _apply(self, request: SetR) -> SetRAck:
        old, old_num, new, uncertainty = (
            self.right,
            self.rnum,
            request.new,
            self.liveness.silent.shared(),
        )
        assert old_num is not None, "a member knows the number of its link"
        num = after(old_num) if request.kind == INSERT else None
        ack = SetRAck(request.by, self.me, request.op, num, self._left_list_for(new), uncertainty)
        if request.kind == REPLACE and old != self.me and lies_between(self.me, old, new):
            self.listener.on_right_bypassed(old, new, request.bypassed)
        if request.kind in (INSERT, REPLACE):
            self.set_right(new, request.new_num, confirmed=True)
            if num is None:
                self.lookup.notify_replaced(old)
            else:
                lefts = cut_list([new, self.me, *self.lefts], old, self.settings.lefts)
                self.send_to(old, SetL(old, new, num, lefts))
        elif new == self.me:
            num = max(request.new_num, after(self.lnum))
            self.set_right(self.me, num, confirmed=True)
            self.set_left(self.me, num, ())
        else:
            self.set_right(new, request.new_num, confirmed=False)
            self.send_set_l()
            self.host.after(self.settings.rto_us, Confirm(new, request.new_num, 1))
        return ack

    # --- the left pointer

    def set_left(self, left: Ref, num: Number, lefts: tuple[Ref, ...]) -> None:
        self.liveness.remember(*reversed(self.lefts), self.left)
        former, is_repair = self.left, num[0] != self.lnum[0]
        self.left, self.lnum, self.lefts = left, num, lefts
        self.listener.on_neighbours_changed()
        if is_repair and self.state != INS:  # the own place is repaired
            was_bypassed, self.bypassed = self.bypassed, False
            (self.listener.on_bypassed if was_bypassed else self.listener.on_repaired)()
        if self.detector is not None and self.state == IN:
            self.lookup.introduce_neighbours(former, left)

    def set_lefts(self, lefts: tuple[Ref, ...]) -> None:
        """The same left neighbour, with a new list of the nodes on its left."""
        if lefts != self.lefts:
            self.lefts = lefts
            self.listener.on_left_list_changed()

    def next_repair_number(self, bypassed: bool) -> Number:
        """A number that supersedes all earlier ones. `bypassed`: another node took this place."""
        self.bypassed = self.bypassed or bypassed
        self.repairs = max(self.repairs, self.lnum[0]) + 1
        return self.repairs, 0

    def send_set_l(self) -> None:
        """Tell the right neighbour that this node is its left one; it answers with SetLAck."""
        assert self.rnum is not None, "only a member owes its right neighbour the news"
        self.send_to(
            self.right, SetL(self.right, self.me, self.rnum, self._left_list_for(self.right))
        )

    def request_state(self, ref: Ref) -> None:
        """Ask a silent node for its links. Its answer ends the suspicion."""
        self.send_to(ref, LinkStateRequest(ref, self.me, 0, self.left, self.lnum))

    @handles(SetL)
    def on_set_l(self, sender: Address, news: SetL) -> None:
        if self._is_former(news.to):
            self.send_to(news.left, IncarnationGone(news.left, news.to, 0))
            return
        if news.num > self.lnum:
            # The sender carried out a request of `left`, so `left` is alive.
            self.liveness.on_message_from(news.left)
            self.set_left(news.left, news.num, news.lefts)
        self.send_to(news.left, SetLAck(news.left, self.me, self.left, self.lnum))

    @handles(SetLAck)
    def on_set_l_ack(self, sender: Address, answer: SetLAck) -> None:
        if answer.to != self.me or answer.by != self.right:
            return
        self.liveness.on_message_from(answer.by)
        is_about_us = answer.left == self.me
        if self.state == INS and is_about_us:
            self.membership.on_insertion_proven(answer.num)
        elif self.rnum is not None and is_about_us and answer.num >= self.rnum:
            self._confirm(answer.num)
        elif self.rnum is not None and not is_about_us and answer.num > self.rnum:
            self.listener.on_bypassed()
            self.stabilisation.check_left()

    @handles(Confirm)
    def on_confirm(self, alarm: Confirm) -> None:
        if (
            not self.is_confirmed
            and self.state in (IN, DEL)
            and (self.right, self.rnum) == (alarm.right, alarm.num)
        ):
            self.send_set_l()
            self.after_jittered(
                self.settings.backoff_us(alarm.tried),
                Confirm(alarm.right, alarm.num, alarm.tried + 1),
            )

    @handles(LinkStateRequest)
    def on_link_state_request(self, sender: Address, request: LinkStateRequest) -> None:
        if self._is_former(request.to):
            self.send_to(request.by, IncarnationGone(request.by, request.to, 0))
            return
        self.liveness.on_message_from(request.by)
        is_about_us = request.left == self.me and request.by == self.right
        if self.state == INS and is_about_us:
            self.membership.on_insertion_proven(request.num)
        if is_about_us and request.num == self.rnum:
            self._confirm(request.num)
        num = None if self.state == INS else self.rnum
        lefts, is_lost = self._left_list_for(request.by), self.liveness.is_lost(self.right)
        link = LinkState(request.by, self.me, request.token, self.right, num, lefts, is_lost)
        self.send_to(request.by, link)

    def _confirm(self, num: Number) -> None:
        """The right neighbour holds this link under this number."""
        self.is_confirmed = True
        if not self.is_busy():
            self.rnum = num


_DECIDES, _ = decisions(Links)
