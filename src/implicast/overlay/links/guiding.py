"""Showing seekers their place on a linked ring: newcomers, and members that look at their own place from outside."""

from implicast.overlay.links.merging import Merging
from implicast.overlay.links.messages import Departed, Find, Found
from implicast.overlay.links.refs import lies_between
from implicast.overlay.links.repeats import came_by
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, handles

PASSED_US = 2_000_000
"""A question that comes by once more within this time is a repeat."""


class Guiding(Merging):
    """A node that passes the questions of seekers on, or answers them."""

    __slots__ = ()

    @handles(Find)
    def on_find(self, sender: Address, find: Find) -> None:
        if self.detector is not None and self._came_by(find):
            return
        if self.state in (OUT, INS):
            self._pass_on_from_outside(sender, find)
        elif find.seeker.place == self.right.place or lies_between(self.me, find.seeker, self.right):
            assert self.rnum is not None, "a member knows the number of its link"
            self._say(find.seeker, Found(find.seeker, self.me, self.right, self.rnum))
        elif find.hops_left > 0:
            step = self.above.nearest_before(find.seeker.place) or self.right
            if self.detector is None or step not in self.gone:
                self._say(step, Find(find.seeker, find.hops_left - 1))

    def _came_by(self, find: Find) -> bool:
        """A repeat, where pointers lead in a circle until they are mended."""
        return came_by(self.passed, find, self.host.now_us, PASSED_US, self.settings.passed_max)

    def _pass_on_from_outside(self, sender: Address, find: Find) -> None:
        """Who has left sends a seeker back to the left, where its place can still lie ahead, and says that it has left,
        else a stale finger would lead there for ever. Who is not yet in knows nobody better than its right."""
        grace = next(reversed(self.graces.items()), None)
        step = self.right if self.state == INS else grace[1].left if grace else None
        if step is not None and step.address != self.address and find.hops_left > 0:
            self.host.send(step.address, Find(find.seeker, find.hops_left - 1))
        if self.state == OUT and grace is not None and sender != find.seeker.address:
            self.host.send(sender, Departed(grace[0]))

    @handles(Departed)
    def on_departed(self, sender: Address, departed: Departed) -> None:
        if self.detector is not None:
            self._note_gone(departed.ref)
        self.above.lost(departed.ref)
