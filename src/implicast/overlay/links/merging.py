"""Merging: rings that fell apart, in a partition or when more neighbours died at once than lists know, become one.

Now and then a node seeks its own place through somebody who is not its neighbour: a shortcut of the overlay above, or a
node that it misses. In a whole ring the answer is its left neighbour. Else it looks left from the answer, and so
threads itself into the other ring; each node that gains a left neighbour introduces its former one to the new, so
that the two rings close like a zip, in as many round trips as there are teeth and not in as many periods.
"""

from implicast.overlay.links.looking import Looking
from implicast.overlay.links.messages import Find, Found, MergeRound
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.state import IN
from implicast.peer.contract import handles

ATTEMPTS = 64
"""So many attempts of a seeker can be told from repeats."""
ALONE = 8
"""Who has no neighbour left asks so many at once."""


class Merging(Looking):
    """Looks at its own place from outside."""

    __slots__ = ()

    def _start_merging(self) -> None:
        if self.settings.merge_us:
            self._later(self.settings.merge_us, MergeRound(self.me.life))

    @handles(MergeRound)
    def on_merge_round(self, alarm: MergeRound) -> None:
        if alarm.life != self.me.life or self.state != IN:
            return
        self._start_merging()
        for contact in self._contacts():
            self.reunite(contact)

    def _contacts(self) -> list[Ref]:
        """Who may stand on another ring: somebody known or met before, by chance, and the next of those who are
        missed, in turn. Who is alone asks several."""
        many = ALONE if self.right == self.me else 1
        near = (self.left, self.right, self.me)
        known = dict.fromkeys((*self.above.acquaintances(), *self.lefts[1:], *self.met))
        others = [ref for ref in known if ref not in near and ref not in self.missed]
        missed = list(self.missed)[:many]
        for ref in missed:
            self._keep_in_mind(self.missed, ref)
        return [*self.host.rng.sample(others, min(many, len(others))), *missed]

    def reunite(self, ref: Ref) -> None:
        if self.state == IN and ref.address != self.address:
            self.turn += 1
            self.host.send(ref.address, self.find())

    def find(self) -> Find:
        """A question for the own place. Where repeats must be told from new attempts, the hops tell them apart."""
        less = self.turn % ATTEMPTS if self.detector is not None else 0
        return Find(self.me, self.settings.find_hops - less)

    def introduce(self, former: Ref, left: Ref) -> None:
        """The nearer one looks at its place from the other: where two rings meet, they close like a zip."""
        if former in (left, self.me) or left == self.me or self._is_lost(former):
            return
        nearer, other = (left, former) if lies_between(former, left, self.me) else (former, left)
        self._say(nearer, Found(nearer, other, self.me, self.lnum))
