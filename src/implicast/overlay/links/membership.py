"""Joining and leaving a linked ring."""

from implicast.overlay.links.attempts import after_jittered
from implicast.overlay.links.introducers import Introducers
from implicast.overlay.links.listener import LayerAbove
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.lookup import MergeRound, PlaceLookup
from implicast.overlay.links.messages import (
    BUSY,
    DELETE,
    INSERT,
    MOVED,
    IncarnationGone,
    KnownNodesRequest,
    PlaceFound,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Number, Ref, after, lies_between
from implicast.overlay.links.requests import PointerRequests
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.stabilisation import Stabilisation
from implicast.overlay.links.state import DEL, IN, INS, OUT
from implicast.peer.contract import Address, Host, Incarnation, Message, Part, handles

ENTRIES_BITS = 16
"""Bits for the number of joins within one incarnation of the peer."""
GAP_CLOSE_US = 400_000
"""About how long neighbours take to close the gap of an earlier incarnation once they know of it.
"""


class PlaceLookupRetry(Message):
    """Fires when a joining node should look its place up again."""

    incarnation: int
    attempts: int


class LeaveRetry(Message):
    """Fires when a leaving node should try again."""

    incarnation: int


class Membership(Part):
    """Moves the node between the states of its position: joins, leaves, gives up."""

    __slots__ = (
        "_above",
        "_incarnation",
        "_introducers",
        "_leave_by_us",
        "_leave_wanted",
        "_liveness",
        "_lookup",
        "_pointers",
        "_position",
        "_requests",
        "_settings",
        "_stabilisation",
    )

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        liveness: RingLiveness,
        requests: PointerRequests,
        pointers: Pointers,
        introducers: Introducers,
        lookup: PlaceLookup,
        stabilisation: Stabilisation,
        above: LayerAbove,
        incarnation: Incarnation | None,
    ) -> None:
        """`incarnation`: of the peer; None: by the clock."""
        super().__init__(position.address, host)
        self._position, self._settings, self._liveness = position, settings, liveness
        self._requests, self._pointers, self._introducers = requests, pointers, introducers
        self._lookup, self._stabilisation, self._above = lookup, stabilisation, above
        self._incarnation, self._leave_by_us, self._leave_wanted = incarnation, 0, False

    # --- incarnations

    def start_incarnation(self, incarnation: int) -> None:
        """Start an incarnation, which knows nothing of an earlier one."""
        self._position.start(incarnation)
        self._pointers.forget_answers()
        self._stabilisation.stop()
        self._requests.drop()
        self._leave_wanted = False

    def start_new_incarnation(self) -> None:
        """Start a new incarnation on the ring. One incarnation of the peer has room for many,
        because it may leave and rejoin, or give up a join and start another.
        """
        first = self.host.now_us if self._incarnation is None else self._incarnation << ENTRIES_BITS
        self.start_incarnation(max(first, self._position.me.incarnation + 1))

    def start_rounds(self, least: float = 0.5) -> None:
        """Start periodic stabilisation and merging, after at least `least` of a period."""
        self._stabilisation.start_rounds(least)
        if self._settings.merge_us:
            alarm = MergeRound(self._position.me.incarnation)
            after_jittered(self.host, self._settings.merge_us, alarm, least)

    # --- joining

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Join through the introducers and the neighbours of an earlier incarnation. A node that
        knows no other node is the first of a ring.
        """
        state = self._position.state
        assert state == OUT, f"{self.address} is {state} and cannot join"
        known = self._introducers.begin(introducers)
        self.start_new_incarnation()
        if known:
            self._lookup.reset_attempts()
            self.lookup_place()
        else:
            self._become_member()

    def lookup_place(self) -> None:
        """Look the place up through the next introducer. After a failed attempt use two at a time,
        because a path may lead over failed nodes, and after several attempts four, because most
        introducers may have failed. Also ask for other members: all that it knows may fail before
        the ring is repaired.
        """
        lookup, introducers = self._lookup, self._introducers.addresses
        attempts = lookup.attempts
        at_once = min(
            self._settings.lookups_at_once, 1 if not attempts else 2 if attempts < 5 else 4
        )
        asked = 0 if at_once == 1 else len(introducers) if attempts < 5 else 1
        for turn in range(min(at_once, len(introducers))):
            to = introducers[lookup.attempts % len(introducers)]
            lookup.send_find_place(to)
            if turn < asked:
                self.host.send(to, KnownNodesRequest())
        self._retry_lookup_after(self._settings.seek_us)

    def _retry_lookup_after(self, wait_us: int) -> None:
        alarm = PlaceLookupRetry(self._position.me.incarnation, self._lookup.attempts)
        after_jittered(self.host, wait_us, alarm)

    @handles(PlaceLookupRetry)
    def on_place_lookup_retry(self, alarm: PlaceLookupRetry) -> None:
        position, introducers = self._position, self._introducers
        now = position.me.incarnation, self._lookup.attempts
        if position.state != OUT or not introducers.addresses:
            return
        if (alarm.incarnation, alarm.attempts) != now:
            return
        if not introducers.is_founding_due():
            self.lookup_place()
            return
        self._liveness.silent.note_founded()
        self.start_new_incarnation()  # a refused insertion has left its neighbours here
        self._become_member()
        self._lookup.merge_soon()

    @handles(PlaceFound)
    def on_place_found(self, sender: Address, found: PlaceFound) -> None:
        position = self._position
        if found.to != position.me:
            return
        if position.state == OUT and self._introducers.addresses and not self._requests.pending:
            if found.right.place == position.me.place:
                self._report_former_incarnation(found.right)
            else:
                self.insert(found.left, found.right, found.num)
        elif position.state == IN and found.left != position.me:
            if speaks := sender == found.left.address:
                self._liveness.on_message_from(found.left)
            is_other = found.right != position.me and self._liveness.may_be_apart(found.right)
            if found.left != position.left or is_other:
                self._stabilisation.search_from(found.left, speaks)

    def _report_former_incarnation(self, former: Ref) -> None:
        """An earlier incarnation of this peer is still linked at its place. Its right neighbour
        closes the gap once it notices; the peer reports the earlier incarnation as gone to its
        former neighbours, so that they notice at once.
        """
        for ref in self._introducers.former:
            if ref.address != self.address:
                self.host.send(ref.address, IncarnationGone(ref, former, 0))
        self._retry_lookup_after(GAP_CLOSE_US)

    def insert(self, left: Ref, right: Ref, num: Number) -> None:
        """Ask `left` to insert this node before `right`."""
        position = self._position
        if lies_between(left, position.me, right):  # else the ring is being repaired there
            position.begin_insertion(left, right)
            self._requests.request(INSERT, left, position.me, right, num, position.lnum)

    def on_insertion_proven(self, num: Number) -> None:
        """The right neighbour knows of the insertion, so it took place although the Ack was lost or
        overtaken. The Ack would have carried the left list; the node asks for it at once, because
        its left neighbour may fail before the next check.
        """
        self._requests.drop()
        self._pointers.set_right(self._position.right, num, confirmed=True)
        self._become_member()
        self._stabilisation.check_left()

    def _become_member(self) -> None:
        self._position.set_state(IN)
        self._introducers.set_joined()
        # Members that founded other rings after the same outage are among these.
        self._liveness.remember(*self._introducers.former)
        self.start_rounds()
        self._above.listener.on_joined()

    def _abandon_incarnation(self) -> None:
        """It cannot be known whether the insertion took place. This incarnation counts as crashed
        and a new one joins, also through the node that was to be the right neighbour, because the
        introducers may have failed too.
        """
        is_leaving = self._leave_wanted
        self._introducers.add_surely(self._position.right)
        self.start_new_incarnation()
        (self._depart if is_leaving else self.lookup_place)()

    # --- leaving

    def leave(self) -> None:
        self._leave_wanted = True
        self._leave_by_us = self.host.now_us + self._settings.leave_limit_us
        self._try_to_leave()

    def _try_to_leave(self) -> None:
        position = self._position
        state, left, me = position.state, position.left, position.me
        if state == DEL or not self._leave_wanted:
            return
        if state == OUT or position.is_alone or self.host.now_us > self._leave_by_us:
            self._depart()
        # another operation or a repair comes first
        elif state == INS or self._is_occupied() or self._liveness.is_lost(left):
            self._stabilisation.check_left()
            self._retry_leaving()
        else:
            position.set_state(DEL)
            assert position.rnum is not None, "a member knows the number of its link"
            self._requests.request(
                DELETE, left, position.right, me, position.lnum, after(position.rnum)
            )

    def _is_occupied(self) -> bool:
        """Whether an own request or a search is under way."""
        return self._requests.pending is not None or self._stabilisation.search is not None

    def _retry_leaving(self) -> None:
        alarm = LeaveRetry(self._position.me.incarnation)
        after_jittered(self.host, self._settings.again_us, alarm)

    @handles(LeaveRetry)
    def on_leave_retry(self, alarm: LeaveRetry) -> None:
        if alarm.incarnation == self._position.me.incarnation:
            self._try_to_leave()

    def _depart(self) -> None:
        self._pointers.record_departure()
        self._introducers.give_up()
        self._requests.drop()
        self._leave_wanted = False
        self._stabilisation.stop()
        self._above.listener.on_departed()

    # --- answers to own requests

    @handles(SetRAck)
    def on_set_r_ack(self, sender: Address, ack: SetRAck) -> None:
        position, pending = self._position, self._requests.pending
        if ack.num is None and pending is not None and pending.request.kind == INSERT:
            return  # not an answer to an INSERT: it would carry the number of the link taken over
        if (request := self._requests.settle(ack)) is None:
            return
        if request.kind == DELETE:
            self._depart()
            return
        was_ins = position.state == INS
        if request.new_num > position.lnum or (was_ins and position.lnum == request.new_num):
            self._pointers.set_left(ack.by, request.new_num, ack.lefts)
        if request.kind == INSERT and ack.num is not None:
            self._pointers.take_over_right(request.cur, ack.num)
            if was_ins:
                self._become_member()
        self._liveness.inherit(ack.uncertainty, position.right)

    @handles(SetRNak)
    def on_set_r_nak(self, sender: Address, nak: SetRNak) -> None:
        if (request := self._requests.settle(nak)) is None:
            return
        if self._position.state == INS:
            self._on_insertion_refused(nak)
            return
        self._position.set_state(IN)
        if request.kind != DELETE:
            self._stabilisation.check_again_later()
            return
        if nak.reason != BUSY:
            self._stabilisation.check_left()
        self._retry_leaving()

    def _on_insertion_refused(self, nak: SetRNak) -> None:
        me = self._position.me
        self._position.set_state(OUT)
        if self._leave_wanted:
            self._depart()
        elif nak.reason == MOVED and nak.num is not None and lies_between(nak.by, me, nak.right):
            self.insert(nak.by, nak.right, nak.num)
        else:
            self._retry_lookup_after(self._settings.again_us)

    def on_target_lost(self, kind: int) -> None:
        """The target of the own request is lost."""
        if self._position.state == INS:
            self._abandon_incarnation()
            return
        self._position.set_state(IN)
        self._stabilisation.check_left()
        if kind == DELETE:
            self._retry_leaving()

    @handles(IncarnationGone)
    def on_incarnation_gone(self, sender: Address, gone: IncarnationGone) -> None:
        """A SetR is settled only by its stored answer. `IncarnationGone` settles it only if it
        answers that very request, which means that the stored answers have expired. Any other
        `IncarnationGone` does not show whether the departed node had carried the request out.
        """
        position = self._position
        if gone.to != position.me:
            return
        self._liveness.note_departed(gone.by)
        if self._requests.on_gone(gone.by, gone.op):
            return
        if not self._stabilisation.abort_search_at(gone.by) and gone.by == position.left:
            self._stabilisation.check_left()
