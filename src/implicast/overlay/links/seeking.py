"""Places on a linked ring: the own one looked at from outside, and those of seekers who ask the way.

Rings that fell apart, in a partition or when more neighbours died at once than lists know, become one: now and then a
node seeks its own place through a node that is not its neighbour, a shortcut of the overlay above, or a node that it
misses. In a whole ring the answer is its left neighbour. Else it looks left from the answer, and so threads itself into
the other ring; each node that gains a left neighbour introduces its former one to the new, so that the two rings close
like a zip, in as many round trips as there are teeth and not in as many periods.
"""

from typing import TYPE_CHECKING

from implicast.overlay.links.messages import Departed, Find, Found
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.state import IN, INS, OUT
from implicast.peer.contract import Address, Part, StandingAlarm, handles
from implicast.peer.memory import Repeats

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

ATTEMPTS = 64
"""So many attempts of a seeker can be told from repeats."""
ALONE = 8
"""A node without neighbours asks so many at once."""
PASSED_US = 2_000_000
"""A question that comes by once more within this time is a repeat."""
_NONE_PASSED: Repeats[Find] = Repeats(0)


class MergeRound(StandingAlarm):
    """Rings when a node should look at its place from outside."""

    incarnation: int


class Seeking(Part):
    """Asks for the own place, and passes the questions of seekers on, or answers them."""

    __slots__ = ("_links", "_passed", "turn")

    def __init__(self, links: "Links") -> None:
        super().__init__(links.address, links.host)
        self._links = links
        self.turn = 0
        """Attempts so far."""
        self._passed = (
            Repeats[Find](links.settings.passed_max) if links.detector is not None else _NONE_PASSED
        )
        """Questions of seekers that came by; where pointers may lead in a circle."""

    # --- the own place

    def restart(self) -> None:
        """A newcomer begins to seek."""
        self.turn = 0

    def ask(self, to: Address) -> None:
        """Where repeats must be told from new attempts, the hops tell them apart."""
        links = self._links
        self.turn += 1
        less = self.turn % ATTEMPTS if links.detector is not None else 0
        self.host.send(to, Find(links.me, links.settings.find_hops - less))

    @handles(MergeRound)
    def on_merge_round(self, alarm: MergeRound) -> None:
        links = self._links
        if alarm.incarnation == links.me.incarnation and links.state == IN:
            links.later(links.settings.merge_us, alarm)
            for contact in self._contacts():
                self.reunite(contact)

    def _contacts(self) -> list[Address]:
        """Where nodes may stand on another ring: one known before, by chance, and the next missed. A node that is alone
        asks more, also by whom it came, and who is now where others were: all it knew may have died or live anew."""
        links, company, is_alone = (
            self._links,
            self._links.company,
            self._links.right == self._links.me,
        )
        many, gone = (ALONE, company.gone) if is_alone else (1, ())
        known = dict.fromkeys((*links.above.acquaintances(), *links.lefts[1:], *company.met, *gone))
        others = [
            ref for ref in known if ref not in (links.left, links.right, links.me, *company.missed)
        ]
        missed = company.next_missed(many)
        found = [
            ref.address for ref in (*self.host.rng.sample(others, min(many, len(others))), *missed)
        ]
        return [*found, *links.membership.via] if is_alone else found

    def reunite(self, contact: Address) -> None:
        """Seek the own place through a node that may stand on another ring."""
        if self._links.state == IN and contact != self.address:
            self.ask(contact)

    def introduce(self, former: Ref, left: Ref) -> None:
        """The nearer one looks at its place from the other: where two rings meet, they close like a zip."""
        links = self._links
        if former in (left, links.me) or left == links.me or links.company.is_lost(former):
            return
        nearer, other = (left, former) if lies_between(former, left, links.me) else (former, left)
        links.say(nearer, Found(nearer, other, links.me, links.lnum))

    def part_with(self, former: Ref) -> None:
        """Who stood on the right until now may live after all: then it looks at its place at once."""
        links = self._links
        if links.detector is not None and former not in (
            links.me,
            links.right,
            *links.company.gone,
        ):
            links.say(former, Found(former, links.me, links.right, links.lnum))

    # --- the places of others

    @handles(Find)
    def on_find(self, sender: Address, find: Find) -> None:
        links, seeker = self._links, find.seeker
        if links.detector is not None and self._passed.came_by(find, self.host.now_us, PASSED_US):
            return
        if links.state in (OUT, INS):
            self._pass_on_from_outside(sender, find)
        elif seeker.place == links.right.place or lies_between(links.me, seeker, links.right):
            assert links.rnum is not None, "a member knows the number of its link"
            links.say(seeker, Found(seeker, links.me, links.right, links.rnum))
        elif find.hops_left > 0 and (step := self._towards(seeker)) is not None:
            links.say(step, Find(seeker, find.hops_left - 1))

    def _towards(self, seeker: Ref) -> Ref | None:
        """The next step to a seeker's place. A pointer to one that has gone, or to an earlier life of this node, is
        taken away: else it would swallow all that a newcomer asks. So would one to whoever stood at its address before,
        under another name: the way past that one is by the right neighbour."""
        links = self._links
        step = links.above.nearest_before(seeker.place) or links.right
        if self._is_stale(step):
            links.above.lost(step)
            step = links.above.nearest_before(seeker.place) or links.right
        if step.address == seeker.address:
            step = links.right
        return None if self._is_stale(step) or step.address == seeker.address else step

    def _is_stale(self, step: Ref) -> bool:
        return step.address == self.address or (
            self._links.detector is not None and step in self._links.company.gone
        )

    def _pass_on_from_outside(self, sender: Address, find: Find) -> None:
        """A node that has left sends a seeker back to the left, where its place can still lie ahead, and says that it
        has left, else a stale finger would lead there for ever. One not yet in knows nobody better than its right."""
        links = self._links
        grace = next(reversed(links.graces.items()), None)
        step = links.right if links.state == INS else grace[1].left if grace else None
        if step is not None and step.address != self.address and find.hops_left > 0:
            self.host.send(step.address, Find(find.seeker, find.hops_left - 1))
        if links.state == OUT and grace is not None and sender != find.seeker.address:
            self.host.send(sender, Departed(grace[0]))

    @handles(Departed)
    def on_departed(self, sender: Address, departed: Departed) -> None:
        if self._links.detector is not None:
            self._links.company.note_gone(departed.ref)
        self._links.above.lost(departed.ref)
