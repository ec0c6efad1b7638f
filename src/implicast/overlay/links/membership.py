"""Joining and leaving a linked ring, and the node's own SetR requests."""

from typing import TYPE_CHECKING

from implicast.overlay.links.messages import (
    BUSY,
    DELETE,
    INSERT,
    MOVED,
    Confirm,
    IncarnationGone,
    KnownNodesRequest,
    PlaceFound,
    SetR,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.refs import Number, Ref, after, lies_between
from implicast.overlay.links.state import DEL, IN, INS, OUT, PendingSetR
from implicast.peer.contract import Address, Incarnation, Message, Part, handles

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

INTRODUCERS_MAX = 24
"""Members through which a joining node looks its place up."""
INTRODUCERS_KEPT = 8
"""Of these, those known first are kept when others are added."""
ENTRIES_BITS = 16
"""Bits for the number of joins within one incarnation of the peer."""
GAP_CLOSE_US = 400_000
"""About how long neighbours take to close the gap of an earlier incarnation once they know of it.
"""


class SetRTimeout(Message):
    """Fires when an own SetR should have been answered."""

    op: int


class PlaceLookupRetry(Message):
    """Fires when a joining node should look its place up again."""

    incarnation: int
    attempts: int


class BackoffOver(Message):
    """Fires when the pause after a refusal is over: search left again, or try to leave again."""

    incarnation: int
    leaving: bool


class Membership(Part):
    """Keeps one own request under way at a time."""

    __slots__ = (
        "_incarnation",
        "_leave_by_us",
        "_leave_wanted",
        "_op",
        "introducers",
        "joined_through",
        "links",
        "neighbours",
        "pending",
    )

    def __init__(
        self, links: "Links", incarnation: Incarnation | None, neighbours: tuple[Ref, ...]
    ) -> None:
        super().__init__(links.address, links.host)
        self.links, self._incarnation, self.neighbours = links, incarnation, neighbours
        self.introducers: tuple[Address, ...] = ()
        """Members through which a joining node looks its place up; empty: it is not joining."""
        self.joined_through: tuple[Address, ...] = ()  # the introducers of the last join
        self._op = self._leave_by_us = 0

    @property
    def is_new(self) -> bool:
        """Whether this node remembers no ring."""
        return not self.neighbours

    def reset(self) -> None:
        """An incarnation starts: it has no request under way."""
        self.pending: PendingSetR | None = None
        """The own request that is not settled."""
        self._leave_wanted = False

    # --- joining

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join through the introducers and the neighbours of an earlier incarnation, because the
        introducers may all have left. A node that knows no other node is the first of a ring.
        """
        assert self.links.state == OUT, f"{self.address} is {self.links.state} and cannot join"
        before = [ref.address for ref in self.neighbours if ref.address != self.address]
        known = tuple(dict.fromkeys((*introducers, *before)))
        if not known:
            self.start_new_incarnation()
            self._become_member()
            return
        self.set_introducers(known)
        self.start_new_incarnation()
        self.links.lookup.reset_attempts()
        self.links.founding.begin()
        self.lookup_place()

    def set_introducers(self, introducers: tuple[Address, ...]) -> None:
        """Set the members through which to look the own place up."""
        self.introducers = introducers[:INTRODUCERS_MAX]

    def add_introducers(self, *refs: Ref) -> None:
        """Look the own place up through these nodes too."""
        told = (ref.address for ref in refs if ref.address != self.address)
        known = tuple(dict.fromkeys((*self.introducers, *told)))
        first, others = known[:INTRODUCERS_KEPT], known[INTRODUCERS_KEPT:]
        self.introducers = (*first, *others[INTRODUCERS_KEPT - INTRODUCERS_MAX :])

    def start_new_incarnation(self) -> None:
        """Start a new incarnation on the ring. One incarnation of the peer has room for many,
        because it may leave and rejoin, or give up a join and start another.
        """
        first = self.host.now_us if self._incarnation is None else self._incarnation << ENTRIES_BITS
        self.links.start_incarnation(max(first, self.links.me.incarnation + 1))

    def lookup_place(self) -> None:
        """Look the place up through the next introducer. After a failed attempt use two at a time,
        because a path may lead over failed nodes, and after several attempts four, because most
        introducers may have failed. Also ask for other members: all that it knows may fail before
        the ring is repaired.
        """
        links = self.links
        attempts = links.lookup.attempts
        at_once = 1 if links.detector is None or not attempts else 2 if attempts < 5 else 4
        asked = 0 if at_once == 1 else len(self.introducers) if attempts < 5 else 1
        for turn in range(min(at_once, len(self.introducers))):
            to = self.introducers[links.lookup.attempts % len(self.introducers)]
            links.lookup.send_find_place(to)
            if turn < asked:
                self.host.send(to, KnownNodesRequest())
        links.after_jittered(
            links.settings.seek_us, PlaceLookupRetry(links.me.incarnation, links.lookup.attempts)
        )

    @handles(PlaceLookupRetry)
    def on_place_lookup_retry(self, alarm: PlaceLookupRetry) -> None:
        links = self.links
        if (
            links.state == OUT
            and self.introducers
            and (alarm.incarnation, alarm.attempts) == (links.me.incarnation, links.lookup.attempts)
        ):
            if links.detector is not None and links.founding.is_due(self.introducers, self.is_new):
                links.liveness.silent.note_founded()
                self.start_new_incarnation()  # a refused insertion has left its neighbours here
                self._become_member()
                links.lookup.merge_soon()
            else:
                self.lookup_place()

    @handles(PlaceFound)
    def on_place_found(self, sender: Address, found: PlaceFound) -> None:
        links = self.links
        if found.to != links.me:
            return
        if links.state == OUT and self.introducers and self.pending is None:
            if found.right.place == links.me.place:
                self._report_former_incarnation(found.right)
            else:
                self.insert(found.left, found.right, found.num)
        elif links.state == IN and found.left != links.me:
            if speaks := sender == found.left.address:
                links.liveness.on_message_from(found.left)
            if found.left != links.left or (links.detector is not None and found.right != links.me):
                links.stabilisation.search_from(found.left, speaks)

    def _report_former_incarnation(self, former: Ref) -> None:
        """An earlier incarnation of this peer is still linked at its place. Its right neighbour
        closes the gap once it notices; the peer reports the earlier incarnation as gone to its
        former neighbours, so that they notice at once.
        """
        links = self.links
        for ref in self.neighbours:
            if ref.address != self.address:
                self.host.send(ref.address, IncarnationGone(ref, former, 0))
        links.after_jittered(
            GAP_CLOSE_US, PlaceLookupRetry(links.me.incarnation, links.lookup.attempts)
        )

    def insert(self, left: Ref, right: Ref, num: Number) -> None:
        """Ask `left` to insert this node before `right`."""
        links = self.links
        if not lies_between(left, links.me, right):
            return  # the ring is being repaired there
        links.begin_insertion(left, right)
        self.request(INSERT, left, links.me, right, num, links.lnum)

    def on_insertion_proven(self, num: Number) -> None:
        """The right neighbour knows of the insertion, so it took place although the Ack was lost or
        overtaken. The Ack would have carried the left list; the node asks for it at once, because
        its left neighbour may fail before the next check.
        """
        self.pending = None
        self.links.set_right(self.links.right, num, confirmed=True)
        self._become_member()
        self.links.stabilisation.check_left()

    def _become_member(self) -> None:
        self.links.set_state(IN)
        self.joined_through, self.introducers = self.introducers, ()
        # Members that founded other rings after the same outage are among these.
        self.links.liveness.remember(*self.neighbours)
        self.links.start_rounds()
        self.links.listener.on_joined()

    def _abandon_incarnation(self) -> None:
        """It cannot be known whether the insertion took place. This incarnation counts as crashed
        and a new one joins, also through the node that was to be the right neighbour, because the
        introducers may have failed too.
        """
        links, wish = self.links, self._leave_wanted
        if links.right.address not in (self.address, *self.introducers):
            self.introducers = (*self.introducers[: INTRODUCERS_MAX - 1], links.right.address)
        self.start_new_incarnation()
        (self._depart if wish else self.lookup_place)()

    # --- leaving

    def leave(self) -> None:
        self._leave_wanted = True
        self._leave_by_us = self.host.now_us + self.links.settings.leave_us
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        links = self.links
        if links.state == DEL or not self._leave_wanted:
            return
        too_long = links.detector is not None and self.host.now_us > self._leave_by_us
        is_busy = (
            links.state == INS or self.pending is not None or links.stabilisation.search is not None
        )
        if links.state == OUT or links.right == links.me or too_long:
            self._depart()
        # another operation or a repair comes first
        elif is_busy or links.liveness.is_lost(links.left):
            links.stabilisation.check_left()
            self.schedule_retry(leaving=True)
        else:
            links.set_state(DEL)
            assert links.rnum is not None, "a member knows the number of its link"
            self.request(DELETE, links.left, links.right, links.me, links.lnum, after(links.rnum))

    def schedule_retry(self, leaving: bool = False) -> None:
        """Try again after `again_us`."""
        self.links.after_jittered(
            self.links.settings.again_us, BackoffOver(self.links.me.incarnation, leaving)
        )

    @handles(BackoffOver)
    def on_backoff_over(self, alarm: BackoffOver) -> None:
        if alarm.incarnation == self.links.me.incarnation:
            (self._try_to_leave if alarm.leaving else self.links.stabilisation.check_left)()

    def _depart(self) -> None:
        links = self.links
        links.record_departure()
        self.introducers, self.pending, self._leave_wanted = (), None, False
        links.stabilisation.stop()
        links.listener.on_departed()

    # --- own requests

    def request(
        self,
        kind: int,
        target: Ref,
        new: Ref,
        cur: Ref,
        cur_num: Number,
        new_num: Number,
        bypassed: tuple[Ref, ...] = (),
    ) -> None:
        """Ask a holder to change its right pointer."""
        links = self.links
        self._op += 1
        request = SetR(target, links.me, self._op, kind, new, cur, cur_num, new_num, bypassed)
        self.pending = PendingSetR(request)
        self.pending.start(links, SetRTimeout(self._op))
        links.send_to(target, request)

    @handles(SetRTimeout)
    def on_set_r_timeout(self, alarm: SetRTimeout) -> None:
        links, pending = self.links, self.pending
        if pending is None or alarm.op != pending.request.op:
            return
        if pending.retry_or_give_up(links, pending.request.to, alarm):
            links.send_to(pending.request.to, pending.request)
        else:
            links.liveness.suspect(pending.request.to)
            self._target_dead(pending.request.kind)

    def _match_answer(self, answer: SetRAck | SetRNak) -> SetR | None:
        """The own request that this answers, which is then no longer pending; None if there is no
        such request.
        """
        pending = self.pending
        if pending is None or (answer.to, answer.op, answer.by) != (
            self.links.me,
            pending.request.op,
            pending.request.to,
        ):
            return None
        self.links.liveness.on_message_from(answer.by)
        pending.on_answer(self.links)
        self.pending = None
        return pending.request

    @handles(SetRAck)
    def on_set_r_ack(self, sender: Address, ack: SetRAck) -> None:
        links = self.links
        if ack.num is None and self.pending is not None and self.pending.request.kind == INSERT:
            return  # not an answer to an INSERT: it would carry the number of the link taken over
        if (request := self._match_answer(ack)) is None:
            return
        if request.kind == DELETE:
            self._depart()
            return
        was_ins = links.state == INS
        if request.new_num > links.lnum or (was_ins and links.lnum == request.new_num):
            links.set_left(ack.by, request.new_num, ack.lefts)
        if request.kind == INSERT and ack.num is not None:
            self.host.after(links.settings.rto_us, Confirm(request.cur, ack.num, 1))
            former = links.right
            links.set_right(request.cur, ack.num, confirmed=False)
            links.lookup.notify_replaced(former)
            if was_ins:
                self._become_member()
        links.liveness.inherit(ack.uncertainty, links.right)

    @handles(SetRNak)
    def on_set_r_nak(self, sender: Address, nak: SetRNak) -> None:
        links = self.links
        if (request := self._match_answer(nak)) is None:
            return
        if links.state == INS:
            links.set_state(OUT)
            if self._leave_wanted:
                self._depart()
            elif (
                nak.reason == MOVED
                and nak.num is not None
                and lies_between(nak.by, links.me, nak.right)
            ):
                self.insert(nak.by, nak.right, nak.num)
            else:
                links.after_jittered(
                    links.settings.again_us,
                    PlaceLookupRetry(links.me.incarnation, links.lookup.attempts),
                )
            return
        links.set_state(IN)
        if request.kind == DELETE and nak.reason != BUSY:
            links.stabilisation.check_left()
        self.schedule_retry(leaving=request.kind == DELETE)

    def _target_dead(self, kind: int) -> None:
        links, self.pending = self.links, None
        if links.state == INS:
            self._abandon_incarnation()
            return
        links.set_state(IN)
        links.stabilisation.check_left()
        if kind == DELETE:
            self.schedule_retry(leaving=True)

    @handles(IncarnationGone)
    def on_incarnation_gone(self, sender: Address, gone: IncarnationGone) -> None:
        """A SetR is settled only by its stored answer. `IncarnationGone` settles it only if it
        answers that very request, which means that the stored answers have expired. Any other
        `IncarnationGone` does not show whether the departed node had carried the request out.
        """
        links = self.links
        if gone.to != links.me:
            return
        links.liveness.note_departed(gone.by)
        if self.pending is not None and self.pending.request.to == gone.by:
            if gone.op == self.pending.request.op:
                self._target_dead(self.pending.request.kind)
        elif not links.stabilisation.abort_search_at(gone.by) and gone.by == links.left:
            links.stabilisation.check_left()
