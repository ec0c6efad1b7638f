"""Complaints in SPICE: the keepers of a registry hear them, and decline for themselves and for those beyond them.

A member complains to the keeper that told it. The keeper passes that on to the one from which the walk came, and so on
to where the cast entered the registry: there all complaints of one copy meet, with how many it reached. A keeper that
declines a cast does not pass it on. The publisher is told along the way the cast came, hop by hop, for as long as the
walk is open.
"""

from implicast.casting.complaints import Complain, Docket, KeptDocket, Slowing
from implicast.casting.spice.messages import CastTo, ComplainedOf, Covered, SlowingAt
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Work
from implicast.peer.contract import Address, CastId, Name, handles
from implicast.peer.events import Slowed
from implicast.peer.memory import Recent

WAYS_MAX = 1_024
"""Casts of which is remembered from where they came, once somebody has complained here."""
TOLD_MAX = 64
"""Casts whose publishers have been told that they are slowed: once by each keeper."""


class Complaints(SpicePart):
    """A peer's part in complaining, and in being complained of."""

    __slots__ = ("_told", "_ways", "docket")

    def __init__(self, spice: Spice, kept: KeptDocket = ()) -> None:
        super().__init__(spice)
        self.docket = Docket(lambda: spice.host.now_us, kept)
        self._told: Recent[CastId, None] = Recent(TOLD_MAX)
        self._ways: Recent[CastId, tuple[Address, ...]] = Recent(WAYS_MAX)
        """By cast: from which keepers of the registry it came here."""
        spice.heed(self)

    def complain(self, cast: CastId) -> bool:
        """To the keeper that told us, which we may be ourselves; False if that is not known any more."""
        teller = self.spice.ears.teller(cast)
        if teller is not None:
            self.host.send(teller, self.spice.words.say(Complain(cast, self.spice.name)))
        elif self._is_known(cast):
            self.docket.complain(Complain(cast, self.spice.name), self.address)
            self._pass_on(cast, self.spice.name)
        else:
            return False
        return True

    def _is_known(self, cast: CastId) -> bool:
        return cast in self._ways or bool(self.spice.walks.works_of(cast))

    @handles(Complain)
    def on_complain(self, sender: Address, complaint: Complain) -> None:
        """From a member that we told; the keeper from which the walk came hears of it too."""
        if self.spice.words.vouches(complaint):
            self.docket.complain(complaint, sender)
            self._pass_on(complaint.cast, complaint.by)

    @handles(ComplainedOf)
    def on_complained_of(self, sender: Address, complained: ComplainedOf) -> None:
        if self._is_known(complained.cast):
            self.docket.complain(Complain(complained.cast, complained.by), None)
            self._pass_on(complained.cast, complained.by)

    def _pass_on(self, cast: CastId, by: Name) -> None:
        for work in self.spice.walks.works_of(cast):
            self._remember(work)
        for keeper in self._ways.get(cast, ()):
            self.host.send(keeper, ComplainedOf(cast, by))

    def _remember(self, work: Work) -> None:
        """From which keepers the walk came: none to the one where it entered the registry."""
        walk = work.walk
        if isinstance(walk, CastTo) and walk.cast not in self._ways:
            came = [seen[0] for seen in work.behind()] if walk.notch else []
            self._ways[walk.cast] = tuple(dict.fromkeys(came))

    # --- being slow

    def refuses(self, work: Work | None, walk: CastTo) -> bool:
        """Is nobody to be told here and beyond, because too many complained of the publisher? It hears of it."""
        if work is not None and not walk.asks:
            self._remember(work)
        if walk.asks or not self.docket.declines(walk.cast):
            return False
        slowing = self.docket.slowing(walk.cast)
        if work is not None and slowing is not None and self._told.once(walk.cast, None):
            work.count(Covered(0, declined=slowing.reached))
            self._tell(work, slowing)
        return True

    def _tell(self, work: Work, slowing: Slowing) -> None:
        if slowing.cast in self.spice.casts.publishing:
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))
        for to, number in work.behind():
            self.host.send(to, SlowingAt(number, slowing))

    @handles(SlowingAt)
    def on_slowing(self, sender: Address, slowing: SlowingAt) -> None:
        """One hop further back; at last the publisher's application hears of it."""
        seen, work = self.spice.walks.sent_by(sender, slowing.number)
        if seen is not None:
            self.host.send(seen[0], SlowingAt(seen[1], slowing.slowing))
        elif work is not None:
            self._tell(work, slowing.slowing)
