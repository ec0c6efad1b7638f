"""Looking left: detection, consistency and repair in one walk.

The walk only reads: it asks a node on the left who is on its right, and goes on to that one until it arrives
at itself. What changes anything is again the comparing SetR. Of several repairers one wins, the others look again.
Failures are noticed only from the right: each node is looked at by one other.

From the second attempt on all that are known on the left are asked, from the third also some farther off: neighbours
that died together are found dead together, and those that answer show that the silence is not the observer's own.
"""

from collections.abc import Iterable
from heapq import nlargest
from typing import TYPE_CHECKING

from implicast.overlay.links.messages import INSERT, REPLACE, CheckLink, Found, Stat
from implicast.overlay.links.refs import Number, Ref, cut_list, lies_between
from implicast.overlay.links.state import IN, OUT, Walk
from implicast.peer.contract import Address, Message, Part, StandingAlarm, handles
from implicast.space.ring import clockwise

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

MISSED_TRIES = 3
"""Attempts before one is suspected that another has found silent."""


class RetryCheck(Message):
    """Rings when the node that is looked at should have answered."""

    token: int


class LinkRound(StandingAlarm):
    """Rings once per check period."""

    incarnation: int


class Looks(Part):
    """Finds the true left neighbour."""

    __slots__ = ("_hint", "_links", "_token", "walk")

    def __init__(self, links: "Links") -> None:
        super().__init__(links.address, links.host)
        self._links = links
        self._token = 0
        self.walk: Walk | None = None
        self._hint: Ref | None = None
        """A node to look from at the next occasion."""

    def stop(self) -> None:
        """A life begins or ends: no look is under way."""
        self.walk = self._hint = None

    def check(self) -> None:
        """Look to the left now, if nothing else is under way."""
        links, company = self._links, self._links.company
        if links.state == IN and links.membership.pend is None and self.walk is None:
            hint, self._hint = self._hint, None
            if (
                hint is not None
                and hint not in (links.left, links.me)
                and not company.is_surely_lost(hint)
            ):
                self._look_from_hint(hint)
            else:
                self._look_from_first(dict.fromkeys((links.left, *links.lefts)))

    def _look_from_hint(self, hint: Ref) -> None:
        """Those on the left come next: whoever was hinted at may have died since."""
        links = self._links
        self.look(
            [
                hint,
                *(
                    ref
                    for ref in dict.fromkeys((links.left, *links.lefts))
                    if ref not in (hint, links.me)
                ),
            ]
        )

    def _look_from_first(self, known: Iterable[Ref]) -> None:
        """Look to the left from the first of these that is not lost; else from as near as can be."""
        links = self._links
        rest = [ref for ref in known if not links.company.is_lost(ref) and ref != links.me]
        if not rest and links.detector is not None:
            rest = self._nearest_acquaintances()
        self.look([*rest, links.me])

    def look_from(self, ref: Ref, speaks: bool = False) -> None:
        """Look to the left from another node, now or as soon as nothing else is under way. A node that speaks itself,
        and is nearer than where a walk has come to, saves the rest of it: a walk from afar, begun when all near were
        silent, may be held up by each of the dead on its way."""
        links, walk = self._links, self.walk
        is_wary = links.detector is not None
        is_nearer = walk is None or (
            is_wary and speaks and ref != walk.at and lies_between(walk.at, ref, links.me)
        )
        if links.membership.pend is None and is_nearer:
            self._look_from_hint(ref)
        elif is_wary:
            self._hint = ref
            links.membership.pause()

    def _nearest_acquaintances(self) -> list[Ref]:
        """A node that knows nobody on its left begins as near as it can: a walk over itself goes round the ring."""
        links = self._links
        others = (ref for ref in links.above.acquaintances() if ref.address != self.address)
        known = (ref for ref in others if not links.company.is_lost(ref))
        return nlargest(
            links.settings.lefts, known, key=lambda ref: clockwise(links.me.place, ref.place)
        )

    def look(
        self, rest: list[Ref], reached_from: tuple[Ref, Number] | None = None, missed: bool = False
    ) -> None:
        """Ask the first of these who is on its right; the others come next. `missed`: by its left neighbour, too."""
        self._token += 1
        granted = min(0, MISSED_TRIES - self._links.settings.tries) if missed else 0
        self.walk = Walk(self._token, rest[0], reached_from, rest[1:], [], granted=granted)
        self.walk.begin(self._links, RetryCheck(self._token))
        self._ask_who_is_right_of(rest[0])

    def _ask_who_is_right_of(self, ref: Ref) -> None:
        links = self._links
        links.say(ref, CheckLink(ref, links.me, self._token, links.left, links.lnum))

    @handles(RetryCheck)
    def on_retry_check(self, alarm: RetryCheck) -> None:
        walk, links = self.walk, self._links
        if walk is None or walk.token != alarm.token:
            return
        silent = [walk.at]
        if links.detector is not None:  # also those of the list that have not answered yet
            if walk.tried == 2:
                walk.rest[-1:-1] = [
                    ref for ref in self._nearest_acquaintances() if ref not in (walk.at, *walk.rest)
                ]
            silent += [ref for ref in walk.rest if ref != links.me and ref not in walk.living]
        if walk.living and not (
            walk.reached_from or {links.left, *links.lefts} & {walk.at, *walk.rest}
        ):  # all are far
            self.look([*(ref for ref in walk.rest if ref in walk.living), links.me])
            return
        goes_on = walk.goes_on(links, walk.at, alarm)
        for ref in silent:
            (self._ask_who_is_right_of if goes_on else links.company.suspect)(ref)
        if not goes_on:
            self._walked_into_nobody(walk)

    def walks_into(self, gone: Ref) -> bool:
        """Whether the node that is being asked is this one, which says that it left."""
        if self.walk is None or self.walk.at != gone:
            return False
        self._walked_into_nobody(self.walk)
        return True

    def _walked_into_nobody(self, walk: Walk) -> None:
        """The node that was asked is lost: mend where it was reached from, else begin with the next of the list."""
        self.walk = None
        if walk.reached_from is not None:
            self.settle(walk.reached_from[0], walk.at, walk.reached_from[1])
        elif walk.rest:
            self._look_from_first(walk.rest)

    @handles(Stat)
    def on_stat(self, sender: Address, stat: Stat) -> None:
        links = self._links
        if stat.to != links.me:
            return
        links.company.heard(stat.by)
        walk = self.walk  # a word may bring a ring back, not end a walk
        if walk is None or stat.token != walk.token:
            return
        if stat.by != walk.at:
            if links.detector is not None and stat.by in walk.rest and stat.by not in walk.living:
                walk.living.append(stat.by)
                links.detector.ease()
            return
        walk.answered(links)
        self.walk = None
        if (
            stat.num is not None and links.state == IN and links.membership.pend is None
        ):  # else the next check does
            self._proceed(stat, stat.num)

    def _proceed(self, stat: Stat, num: Number) -> None:
        links = self._links
        if stat.right == links.me:
            self._arrived(stat, num)
        elif lies_between(stat.by, stat.right, links.me) and not links.company.is_surely_lost(
            stat.right
        ):
            self.look([stat.right], (stat.by, num), stat.misses)
        elif self._left_is_nearer(stat):
            links.say(links.left, Found(links.left, stat.by, stat.right, num))
        else:
            self.settle(stat.by, stat.right, num)

    def _left_is_nearer(self, stat: Stat) -> bool:
        """Whether it is the left neighbour's business: it lives, between this node and one that passes both over."""
        links = self._links
        if (
            links.detector is None
            or links.left in (links.me, stat.right)
            or links.company.is_lost(links.left)
        ):
            return False
        silent_us = links.detector.silent_for_us(links.left)
        incarnations = silent_us is not None and silent_us < 2 * links.settings.check_us
        return incarnations and lies_between(stat.by, links.left, links.me)

    def _arrived(self, stat: Stat, num: Number) -> None:
        """At the node whose right is this one."""
        links = self._links
        lefts = cut_list(list(stat.lefts), links.me, links.settings.lefts)
        if num > links.lnum:
            links.take_left(stat.by, num, lefts)
        elif stat.by == links.left and num == links.lnum:
            links.take_lefts(lefts)
        else:
            self.settle(stat.by, links.me, num)

    def settle(self, holder: Ref, cur: Ref, cur_num: Number) -> None:
        """Make this node the right neighbour of `holder`, in place of `cur`, with a number that beats all before.

        A nearer right neighbour is kept when re-entering (replace), so that whole stretches come back in one step.
        """
        links = self._links
        beyond = cur != links.me and not lies_between(holder, cur, links.me)
        # a stranger may have passed it over, too
        number = links.next_repair(beyond or cur not in (links.me, links.left, *links.lefts))
        kind = INSERT if beyond and not lies_between(links.me, links.right, cur) else REPLACE
        links.membership.request(kind, holder, links.me, cur, cur_num, number)

    @handles(LinkRound)
    def on_check_round(self, alarm: LinkRound) -> None:
        links = self._links
        if alarm.incarnation == links.me.incarnation and links.state != OUT:
            self.check()
            links.later(links.settings.check_us, alarm)
