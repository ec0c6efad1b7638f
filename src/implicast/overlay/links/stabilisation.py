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
from heapq import nlargest
from typing import TYPE_CHECKING

from implicast.overlay.links.messages import (
    INSERT,
    REPLACE,
    LinkState,
    LinkStateRequest,
    PlaceFound,
)
from implicast.overlay.links.refs import Number, Ref, cut_list, lies_between
from implicast.overlay.links.state import IN, OUT, LeftSearch
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.space.ring import clockwise

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

REPORTED_TRIES = 3
"""Attempts before a node is suspected that its left neighbour suspects too."""


class LinkStateTimeout(Message):
    """Fires when the queried node should have answered."""

    token: int


class StabiliseRound(StandingAlarm):
    """Fires once per check period."""

    incarnation: int


class Stabilisation(Part):
    """Finds the current left neighbour and repairs the link to it."""

    __slots__ = ("_hint", "_token", "links", "search")

    def __init__(self, links: "Links") -> None:
        super().__init__(links.address, links.host)
        self.links = links
        self._token = 0
        self.search: LeftSearch | None = None
        self._hint: Ref | None = None
        """A node to start the next search from."""

    def stop(self) -> None:
        """An incarnation starts or ends: drop the search and the hint."""
        self.search = self._hint = None

    def check_left(self) -> None:
        """Search for the left neighbour now, unless an operation or a search is under way."""
        links, liveness = self.links, self.links.liveness
        if links.state == IN and links.membership.pending is None and self.search is None:
            hint, self._hint = self._hint, None
            if (
                hint is not None
                and hint not in (links.left, links.me)
                and not liveness.is_freshly_lost(hint)
            ):
                self._search_from_hint(hint)
            else:
                self._search_from_first(dict.fromkeys((links.left, *links.lefts)))

    def _search_from_hint(self, hint: Ref) -> None:
        """Query the hinted node first, then the left list, because the hinted node may have failed
        since.
        """
        links = self.links
        self.start_search(
            [
                hint,
                *(
                    ref
                    for ref in dict.fromkeys((links.left, *links.lefts))
                    if ref not in (hint, links.me)
                ),
            ]
        )

    def _search_from_first(self, known: Iterable[Ref]) -> None:
        """Query the first of these nodes that is not lost. If all are, start from the nearest node
        that the overlay above knows.
        """
        links = self.links
        candidates = [ref for ref in known if not links.liveness.is_lost(ref) and ref != links.me]
        if not candidates and links.detector is not None:
            candidates = self._nearest_acquaintances()
        self.start_search([*candidates, links.me])

    def search_from(self, ref: Ref, speaks: bool = False) -> None:
        """Search from another node, now or as soon as no operation or search is under way. With
        `speaks` the node has sent the hint itself; if it is nearer than the node queried now, it
        replaces the current search. A search that started far away, while all near nodes were
        silent, may otherwise wait for every failed node on its path.
        """
        links, search = self.links, self.search
        is_wary = links.detector is not None
        is_nearer = search is None or (
            is_wary and speaks and ref != search.at and lies_between(search.at, ref, links.me)
        )
        if links.membership.pending is None and is_nearer:
            self._search_from_hint(ref)
        elif is_wary:
            self._hint = ref
            links.membership.schedule_retry()

    def _nearest_acquaintances(self) -> list[Ref]:
        """Nearest nodes on the left that the overlay above knows. A search that starts from the
        node itself goes round the whole ring.
        """
        links = self.links
        others = (ref for ref in links.listener.known_nodes() if ref.address != self.address)
        known = (ref for ref in others if not links.liveness.is_lost(ref))
        return nlargest(
            links.settings.lefts, known, key=lambda ref: clockwise(links.me.place, ref.place)
        )

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
        excused = min(0, REPORTED_TRIES - self.links.settings.tries) if reported else 0
        self.search = LeftSearch(
            self._token, candidates[0], reached_from, candidates[1:], [], excused=excused
        )
        self.search.start(self.links, LinkStateTimeout(self._token))
        self._request_link_state(candidates[0])

    def _request_link_state(self, ref: Ref) -> None:
        links = self.links
        links.send_to(ref, LinkStateRequest(ref, links.me, self._token, links.left, links.lnum))

    @handles(LinkStateTimeout)
    def on_link_state_timeout(self, alarm: LinkStateTimeout) -> None:
        search, links = self.search, self.links
        if search is None or search.token != alarm.token:
            return
        silent = [search.at]
        if links.detector is not None:  # also the candidates that have not answered yet
            if search.tried == 2:
                search.candidates[-1:-1] = [
                    ref
                    for ref in self._nearest_acquaintances()
                    if ref not in (search.at, *search.candidates)
                ]
            silent += [
                ref for ref in search.candidates if ref != links.me and ref not in search.responsive
            ]
        # Only distant nodes are left to query: start anew from those that answered.
        if search.responsive and not (
            search.reached_from or {links.left, *links.lefts} & {search.at, *search.candidates}
        ):
            self.start_search(
                [*(ref for ref in search.candidates if ref in search.responsive), links.me]
            )
            return
        retry_or_give_up = search.retry_or_give_up(links, search.at, alarm)
        for ref in silent:
            (self._request_link_state if retry_or_give_up else links.liveness.suspect)(ref)
        if not retry_or_give_up:
            self._on_queried_node_lost(search)

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
        links = self.links
        if link_state.to != links.me:
            return
        links.liveness.on_message_from(link_state.by)
        if links.liveness.silent.on_answer(sender):
            links.lookup.lookup_via(sender)  # it may stand on another ring
        search = self.search
        if search is None or link_state.token != search.token:
            return
        if link_state.by != search.at:
            if (
                links.detector is not None
                and link_state.by in search.candidates
                and link_state.by not in search.responsive
            ):
                search.responsive.append(link_state.by)
                links.detector.raise_health()
            return
        search.on_answer(links)
        self.search = None
        # Otherwise the next check repeats the search.
        if link_state.num is not None and links.state == IN and links.membership.pending is None:
            self._continue_search(link_state, link_state.num)

    def _continue_search(self, link_state: LinkState, num: Number) -> None:
        links = self.links
        if link_state.right == links.me:
            self._on_predecessor_found(link_state, num)
        elif lies_between(
            link_state.by, link_state.right, links.me
        ) and not links.liveness.is_freshly_lost(link_state.right):
            self.start_search([link_state.right], (link_state.by, num), link_state.suspects_right)
        elif self._left_is_responsible(link_state):
            links.send_to(links.left, PlaceFound(links.left, link_state.by, link_state.right, num))
        else:
            self.relink(link_state.by, link_state.right, num)

    def _left_is_responsible(self, link_state: LinkState) -> bool:
        """Whether the repair is the left neighbour's task: it is alive and lies between the
        answering node and this one, so the answering node bypasses both.
        """
        links = self.links
        if (
            links.detector is None
            or links.left in (links.me, link_state.right)
            or links.liveness.is_lost(links.left)
        ):
            return False
        silent_us = links.detector.silent_for_us(links.left)
        is_alive = silent_us is not None and silent_us < 2 * links.settings.check_us
        return is_alive and lies_between(link_state.by, links.left, links.me)

    def _on_predecessor_found(self, link_state: LinkState, num: Number) -> None:
        """The answering node's right pointer names this node."""
        links = self.links
        lefts = cut_list(list(link_state.lefts), links.me, links.settings.lefts)
        if num > links.lnum:
            links.set_left(link_state.by, num, lefts)
        elif link_state.by == links.left and num == links.lnum:
            links.set_lefts(lefts)
        else:
            self.relink(link_state.by, links.me, num)

    def relink(self, holder: Ref, cur: Ref, cur_num: Number) -> None:
        """Request that `holder` make this node its right neighbour in place of `cur`, with a number
        that supersedes all earlier ones.

        If the own right neighbour is nearer than `cur` it is kept (REPLACE), so that a whole chain
        of nodes re-enters in one step.
        """
        links = self.links
        if holder not in (links.left, *links.lefts):
            links.lookup.merge_soon()
        beyond = cur != links.me and not lies_between(holder, cur, links.me)
        # An unknown `cur` means that another node may have bypassed this one too.
        number = links.next_repair_number(beyond or cur not in (links.me, links.left, *links.lefts))
        kind = INSERT if beyond and not lies_between(links.me, links.right, cur) else REPLACE
        nearest = dict.fromkeys((links.left, *links.lefts, *links.liveness.silent.refs()))
        known = dict.fromkeys((*([] if cur in nearest else [cur]), *nearest))
        if kind != REPLACE:
            known = {}
        bypassed = [
            ref
            for ref in known
            if ref not in links.liveness.departed and lies_between(holder, ref, links.me)
        ]
        some = tuple(bypassed[: links.settings.lefts])
        links.membership.request(kind, holder, links.me, cur, cur_num, number, some)

    @handles(StabiliseRound)
    def on_stabilise_round(self, alarm: StabiliseRound) -> None:
        links = self.links
        if alarm.incarnation == links.me.incarnation and links.state != OUT:
            self.check_left()
            links.after_jittered(links.settings.check_us, alarm)
