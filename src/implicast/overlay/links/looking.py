"""Looking left: detection, consistency and repair in one walk.

The walk only reads: it asks a node on the left who is on its right, and goes on to whoever that is until it arrives
at itself. What changes anything is again the comparing SetR. Of several repairers one wins, the others look again.
Failures are noticed only from the right: each node is looked at by one other.

From the second attempt on all that are known on the left are asked: neighbours that died together are found dead
together, and those that answer show that the silence is not the observer's own.
"""

from abc import abstractmethod

from implicast.overlay.links.holder import Holder
from implicast.overlay.links.messages import INSERT, REPLACE, Check, CheckNow, CheckRound, Found, RetryCheck, Stat
from implicast.overlay.links.refs import Number, Ref, cut_list, lies_between
from implicast.overlay.links.state import IN, OUT, Walk
from implicast.peer.contract import Address, handles
from implicast.space.ring import clockwise


class Looking(Holder):
    """Finds its true left neighbour."""

    __slots__ = ()

    @abstractmethod
    def request(self, kind: int, target: Ref, new: Ref, cur: Ref, cur_num: Number, new_num: Number) -> None:
        """Ask a holder to change its right pointer."""

    def check(self) -> None:
        """Look to the left now, if nothing else is under way."""
        if self.state == IN and self.pend is None and self.walk is None:
            hint, self.hint = self.hint, None
            if hint is not None and hint not in (self.left, self.me) and not self._is_surely_lost(hint):
                self.look([hint])
                return
            lefts = self.lefts
            known = lefts if lefts and lefts[0] == self.left else [self.left, *(r for r in lefts if r != self.left)]
            rest = [ref for ref in known if not self._is_lost(ref) and ref != self.me]
            if not rest and self.detector is not None:
                rest = self._nearest_acquaintances()
            self.look([*rest, self.me])

    def look_from(self, ref: Ref, speaks: bool = False) -> None:
        """Look to the left from somebody else, now or as soon as nothing else is under way. Who speaks itself, and is
        nearer than where a walk has come to, saves the rest of it: a walk from afar, begun when all near were silent,
        may be held up by each of the dead on its way."""
        walk = self.walk
        if self.pend is None and (walk is None or (speaks and self._is_nearer(ref, walk.at))):
            self.look([ref])
        elif self.detector is not None:
            self.hint = ref
            self._later(self.settings.again_us, CheckNow(self.me.life))

    def _is_nearer(self, ref: Ref, at: Ref) -> bool:
        return self.detector is not None and ref != at and lies_between(at, ref, self.me)

    def _nearest_acquaintances(self) -> list[Ref]:
        """Who knows nobody on its left any more begins as near as it can: a walk over itself goes round the ring."""
        known = [ref for ref in self.above.acquaintances() if ref.address != self.address and not self._is_lost(ref)]
        known.sort(key=lambda ref: clockwise(self.me.place, ref.place), reverse=True)
        return known[: self.settings.lefts]

    def look(self, rest: list[Ref], reached_from: tuple[Ref, Number] | None = None) -> None:
        self.token += 1
        self.walk = Walk(self.token, rest[0], reached_from, rest[1:], [])
        self._begin_waiting(self.walk, RetryCheck(self.token))
        self._ask_who_is_right_of(rest[0])

    def _ask_who_is_right_of(self, ref: Ref) -> None:
        self._say(ref, Check(ref, self.me, self.token, self.left, self.lnum))

    @handles(RetryCheck)
    def on_retry_check(self, alarm: RetryCheck) -> None:
        walk = self.walk
        if walk is None or walk.token != alarm.token:
            return
        if self._is_spent(walk, walk.at):
            for ref in (walk.at, *self._asked_beside(walk)):
                self._suspect(ref)
            self.walked_into_nobody(walk)
            return
        self._wait_on(walk, alarm)
        self._ask_who_is_right_of(walk.at)
        if self.detector is not None:
            for ref in self._asked_beside(walk):
                self._ask_who_is_right_of(ref)

    def _asked_beside(self, walk: Walk) -> list[Ref]:
        """Those of the list that have not answered yet."""
        return [ref for ref in walk.rest if ref != self.me and ref not in walk.living]

    def walked_into_nobody(self, walk: Walk) -> None:
        """The node that was asked is lost: mend where it was reached from, else begin with the next of the list."""
        self.walk = None
        if walk.reached_from is not None:
            self.settle(walk.reached_from[0], walk.at, walk.reached_from[1])
            return
        rest = [ref for ref in walk.rest if not self._is_lost(ref)]
        if rest == [self.me] and self.detector is not None:
            rest = [*self._nearest_acquaintances(), self.me]
        if rest:
            self.look(rest)

    @handles(Stat)
    def on_stat(self, sender: Address, stat: Stat) -> None:
        walk = self.walk
        if stat.to != self.me:
            return
        self.heard(stat.by)
        if walk is None or stat.token != walk.token:
            return
        if stat.by != walk.at:
            if self.detector is not None and stat.by in walk.rest and stat.by not in walk.living:
                walk.living.append(stat.by)
                self.detector.ease()
            return
        self._answered(walk)
        self.walk = None
        if stat.num is None or self.state != IN or self.pend is not None:
            return  # still being inserted: nothing can be said; the next check will
        if stat.right == self.me:
            self._arrived(stat, stat.num)
        elif lies_between(stat.by, stat.right, self.me) and not self._is_surely_lost(stat.right):
            self.look([stat.right], (stat.by, stat.num))
        elif self._left_is_nearer(stat):
            self._say(self.left, Found(self.left, stat.by, stat.right, stat.num))
        else:
            self.settle(stat.by, stat.right, stat.num)

    def _left_is_nearer(self, stat: Stat) -> bool:
        """Whether it is the left neighbour's business: it lives, between this node and one that passes both over."""
        if self.detector is None or self.left in (self.me, stat.right) or self._is_lost(self.left):
            return False
        silent_us = self.detector.silent_for_us(self.left)
        lives = silent_us is not None and silent_us < 2 * self.settings.check_us
        return lives and lies_between(stat.by, self.left, self.me)

    def _arrived(self, stat: Stat, num: Number) -> None:
        """At the node whose right is this one."""
        lefts = cut_list(list(stat.lefts), self.me, self.settings.lefts)
        if num > self.lnum:
            self._take_left(stat.by, num, lefts)
        elif stat.by == self.left and num == self.lnum:
            self._take_lefts(lefts)
        else:
            self.settle(stat.by, self.me, num)

    def settle(self, holder: Ref, cur: Ref, cur_num: Number) -> None:
        """Make this node the right neighbour of `holder`, in place of `cur`, with a number that beats all before.

        A nearer right neighbour is kept when re-entering (replace), so that whole stretches come back in one step.
        """
        self.gen = max(self.gen, self.lnum[0]) + 1
        beyond = cur != self.me and not lies_between(holder, cur, self.me)
        kind = INSERT if beyond and not lies_between(self.me, self.right, cur) else REPLACE
        self.request(kind, holder, self.me, cur, cur_num, (self.gen, 0))

    @handles(CheckNow)
    def on_check_now(self, alarm: CheckNow) -> None:
        if alarm.life == self.me.life:
            self.check()

    @handles(CheckRound)
    def on_check_round(self, alarm: CheckRound) -> None:
        if alarm.life == self.me.life and self.state != OUT:
            self.check()
            self._start_checking()
