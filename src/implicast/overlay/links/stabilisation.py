"""Stabilisation: detects failed neighbours, checks links and repairs them by one search to the
left.

The search only reads. It asks a node on the left for its right pointer and proceeds to the node
named there, until a right pointer names the searching node itself. Changes are made only by the
compare-and-swap SetR: of several repairers one succeeds, the others search again. Each node is
checked by one other node, its right neighbour.

From the second attempt on every node of the left list is queried, and from the third also some
nodes farther away. So neighbours that failed together are found together, and answers from other
nodes show that the silence is not caused by the own connection.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from implicast.overlay.links.attempts import Attempts, after_jittered
from implicast.overlay.links.listener import LayerAbove
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.lookup import PlaceLookup
from implicast.overlay.links.messages import (
    INSERT,
    REPLACE,
    LinkState,
    LinkStateRequest,
    PlaceFound,
)
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Number, Ref, lies_between
from implicast.overlay.links.requests import PointerRequests, Send
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Part, StandingAlarm, handles
from implicast.space.ring import clockwise

REPORTED_TRIES = 3
"""Attempts before a node is suspected that its left neighbour suspects too."""


class LinkStateTimeout(Message):
    """Fires when the queried node should have answered."""

    token: int


class StabiliseRound(StandingAlarm):
    """Fires once per check period."""

    incarnation: int


class SearchAgain(Message):
    """Fires when the pause after a refusal is over: search left again."""

    incarnation: int


@dataclass(slots=True)
class LeftSearch(Attempts):
    """A search for the left neighbour under way: `at` is the queried node, `reached_from` the node
    that named it with the number of that link, `candidates` the nodes to query next, `responsive`
    those of them that have answered.
    """

    token: int
    at: Ref
    reached_from: tuple[Ref, Number] | None
    candidates: list[Ref]
    responsive: list[Ref]

    def is_awaited(self, ref: Ref) -> bool:
        """Whether a node is to be queried next and has not answered yet."""
        return ref in self.candidates and ref not in self.responsive

    def note_answer(self, ref: Ref) -> None:
        self.responsive.append(ref)

    def add_candidates(self, refs: list[Ref]) -> None:
        """Query these too, before the last candidate."""
        self.candidates[-1:-1] = refs


class Stabilisation(Part):
    """Finds the current left neighbour and repairs the link to it."""

    __slots__ = (
        "_above",
        "_hint",
        "_liveness",
        "_lookup",
        "_pointers",
        "_position",
        "_requests",
        "_send",
        "_settings",
        "_token",
        "search",
    )

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        liveness: RingLiveness,
        requests: PointerRequests,
        pointers: Pointers,
        lookup: PlaceLookup,
        above: LayerAbove,
        send: Send,
    ) -> None:
        super().__init__(position.address, host)
        self._position, self._settings, self._liveness = position, settings, liveness
        self._requests, self._pointers, self._lookup = requests, pointers, lookup
        self._above, self._send = above, send
        self._token = 0
        self.search: LeftSearch | None = None
        self._hint: Ref | None = None
        """A node to start the next search from."""

    def start_rounds(self, least: float) -> None:
        """Check the left neighbour periodically, first after at least `least` of a period."""
        if self._settings.check_us:
            alarm = StabiliseRound(self._position.me.incarnation)
            after_jittered(self.host, self._settings.check_us, alarm, least)

    @handles(StabiliseRound)
    def on_stabilise_round(self, alarm: StabiliseRound) -> None:
        position = self._position
        if alarm.incarnation == position.me.incarnation and position.state != OUT:
            self.check_left()
            after_jittered(self.host, self._settings.check_us, alarm)

    def check_again_later(self) -> None:
        """Check again after `again_us`."""
        alarm = SearchAgain(self._position.me.incarnation)
        after_jittered(self.host, self._settings.again_us, alarm)

    @handles(SearchAgain)
    def on_search_again(self, alarm: SearchAgain) -> None:
        if alarm.incarnation == self._position.me.incarnation:
            self.check_left()

    # --- searching

    def stop(self) -> None:
        """An incarnation starts or ends: drop the search and the hint."""
        self.search = self._hint = None

    def check_left(self) -> None:
        """Search for the left neighbour now, unless an operation or a search is under way."""
        position = self._position
        if position.state == IN and self._requests.pending is None and self.search is None:
            hint, self._hint = self._hint, None
            if (
                hint is not None
                and hint not in (position.left, position.me)
                and not self._liveness.is_freshly_lost(hint)
            ):
                self._search_from_hint(hint)
            else:
                self._search_from_first(position.known_lefts())

    def _search_from_hint(self, hint: Ref) -> None:
        """Query the hinted node first, then the left list, because the hinted node may have failed
        since.
        """
        position = self._position
        known = [ref for ref in position.known_lefts() if ref not in (hint, position.me)]
        self.start_search([hint, *known])

    def _search_from_first(self, known: Iterable[Ref]) -> None:
        """Query the first of these nodes that is not lost. If all are, start from the nearest node
        that the overlay above knows.
        """
        me, liveness = self._position.me, self._liveness
        candidates = [ref for ref in known if not liveness.is_lost(ref) and ref != me]
        self.start_search([*(candidates or self._nearest_acquaintances()), me])

    def search_from(self, ref: Ref, speaks: bool = False) -> None:
        """Search from another node, now or as soon as no operation or search is under way. With
        `speaks` the node has sent the hint itself; if it is nearer than the node queried now, it
        replaces the current search. A search that started far away, while all near nodes were
        silent, may otherwise wait for every failed node on its path.
        """
        search = self.search
        is_nearer = search is None or (
            speaks and ref != search.at and lies_between(search.at, ref, self._position.me)
        )
        if self._requests.pending is None and is_nearer:
            self._search_from_hint(ref)
        else:
            self._hint = ref
            self.check_again_later()

    def _nearest_acquaintances(self) -> list[Ref]:
        """Nearest nodes on the left that the overlay above knows. A search that starts from the
        node itself goes round the whole ring.
        """
        me = self._position.me
        others = (ref for ref in self._above.listener.known_nodes() if ref.address != self.address)
        known = (ref for ref in others if not self._liveness.is_lost(ref))
        return nlargest(self._settings.lefts, known, key=lambda ref: clockwise(me.place, ref.place))

    def start_search(
        self,
        candidates: list[Ref],
        reached_from: tuple[Ref, Number] | None = None,
        reported: bool = False,
    ) -> None:
        """Query the first candidate for its right pointer; the others come next. `reported`: its
        left neighbour suspects it too, so fewer attempts suffice.
        """
        self._token += 1
        excused = min(0, REPORTED_TRIES - self._settings.tries) if reported else 0
        self.search = LeftSearch(
            self._token, candidates[0], reached_from, candidates[1:], [], excused=excused
        )
        alarm = LinkStateTimeout(self._token)
        self.search.start(self.host, self._settings, self._liveness, alarm)
        self._request_link_state(candidates[0])

    def _request_link_state(self, ref: Ref) -> None:
        position = self._position
        request = LinkStateRequest(ref, position.me, self._token, position.left, position.lnum)
        self._send(ref, request)

    @handles(LinkStateTimeout)
    def on_link_state_timeout(self, alarm: LinkStateTimeout) -> None:
        search, position, liveness = self.search, self._position, self._liveness
        if search is None or search.token != alarm.token:
            return
        silent = [search.at, *self._others_to_query(search)]
        # Only distant nodes are left to query: start anew from those that answered.
        if search.responsive and not (
            search.reached_from or position.known_lefts().keys() & {search.at, *search.candidates}
        ):
            responsive = [ref for ref in search.candidates if ref in search.responsive]
            self.start_search([*responsive, position.me])
            return
        goes_on = search.retry_or_give_up(self.host, self._settings, liveness, search.at, alarm)
        for ref in silent:
            (self._request_link_state if goes_on else liveness.suspect)(ref)
        if not goes_on:
            self._on_queried_node_lost(search)

    def _others_to_query(self, search: LeftSearch) -> list[Ref]:
        """The candidates that have not answered yet, from the second timeout on with the nearest
        nodes that the overlay above knows; none if no silence is watched.
        """
        me, watches = self._position.me, self._liveness.detector.watches
        if search.tried == 2 and watches(search.at):
            known = (search.at, *search.candidates)
            search.add_candidates(
                [ref for ref in self._nearest_acquaintances() if ref not in known]
            )
        return [
            ref
            for ref in search.candidates
            if ref != me and search.is_awaited(ref) and watches(ref)
        ]

    def abort_search_at(self, gone: Ref) -> bool:
        """If the search is querying this departed node, go on without it and return True."""
        if self.search is None or self.search.at != gone:
            return False
        self._on_queried_node_lost(self.search)
        return True

    def _on_queried_node_lost(self, search: LeftSearch) -> None:
        """The queried node is lost. Take over its place if another node named it; otherwise query
        the next candidate.
        """
        self.search = None
        if search.reached_from is not None:
            self.relink(search.reached_from[0], search.at, search.reached_from[1])
        elif search.candidates:
            self._search_from_first(search.candidates)

    @handles(LinkState)
    def on_link_state(self, sender: Address, link_state: LinkState) -> None:
        liveness, search = self._liveness, self.search
        if link_state.to != self._position.me:
            return
        liveness.on_message_from(link_state.by)
        if liveness.silent.on_answer(sender):
            self._lookup.lookup_via(sender)  # it may stand on another ring
        if search is None or link_state.token != search.token:
            return
        if link_state.by != search.at:
            if search.is_awaited(link_state.by):
                search.note_answer(link_state.by)
                liveness.detector.raise_health()
            return
        search.on_answer(liveness)
        self.search = None
        # Otherwise the next check repeats the search.
        is_free = self._position.state == IN and self._requests.pending is None
        if link_state.num is not None and is_free:
            self._continue_search(link_state, link_state.num)

    def _continue_search(self, link_state: LinkState, num: Number) -> None:
        me, by, right = self._position.me, link_state.by, link_state.right
        if right == me:
            self._on_predecessor_found(link_state, num)
        elif lies_between(by, right, me) and not self._liveness.is_freshly_lost(right):
            self.start_search([right], (by, num), link_state.suspects_right)
        elif self._left_is_responsible(link_state):
            left = self._position.left
            self._send(left, PlaceFound(left, by, right, num))
        else:
            self.relink(by, right, num)

    def _left_is_responsible(self, link_state: LinkState) -> bool:
        """Whether the repair is the left neighbour's task: it is alive and lies between the
        answering node and this one, so the answering node bypasses both.
        """
        me, left = self._position.me, self._position.left
        if left in (me, link_state.right) or self._liveness.is_lost(left):
            return False
        silent_us = self._liveness.detector.silent_for_us(left)
        is_alive = silent_us is not None and silent_us < 2 * self._settings.check_us
        return is_alive and lies_between(link_state.by, left, me)

    def _on_predecessor_found(self, link_state: LinkState, num: Number) -> None:
        """The answering node's right pointer names this node."""
        position, by = self._position, link_state.by
        lefts = position.cut_lefts(list(link_state.lefts), position.me)
        if num > position.lnum:
            self._pointers.set_left(by, num, lefts)
        elif by == position.left and num == position.lnum:
            self._pointers.set_lefts(lefts)
        else:
            self.relink(by, position.me, num)

    # --- repairing

    def relink(self, holder: Ref, cur: Ref, cur_num: Number) -> None:
        """Request that `holder` make this node its right neighbour in place of `cur`, with a number
        that supersedes all earlier ones.

        If the own right neighbour is nearer than `cur` it is kept (REPLACE), so that a whole chain
        of nodes re-enters in one step.
        """
        position, me = self._position, self._position.me
        lefts = position.known_lefts()
        if holder not in lefts:
            self._lookup.merge_soon()
        beyond = cur != me and not lies_between(holder, cur, me)
        # An unknown `cur` means that another node may have bypassed this one too.
        number = position.next_repair_number(beyond or (cur != me and cur not in lefts))
        kind = INSERT if beyond and not lies_between(me, position.right, cur) else REPLACE
        bypassed = self._bypassed(holder, cur) if kind == REPLACE else ()
        self._requests.request(kind, holder, me, cur, cur_num, number, bypassed)

    def _bypassed(self, holder: Ref, cur: Ref) -> tuple[Ref, ...]:
        """The silent nodes between a holder and this node, as far as they are known."""
        position, liveness = self._position, self._liveness
        nearest = {**position.known_lefts(), **dict.fromkeys(liveness.silent.refs())}
        known = dict.fromkeys((*([] if cur in nearest else [cur]), *nearest))
        bypassed = [
            ref
            for ref in known
            if ref not in liveness.departed and lies_between(holder, ref, position.me)
        ]
        return tuple(bypassed[: self._settings.lefts])
