"""Coming to the surface: a newcomer asks for a place until it holds a piece, and owners give what they can spare.

An owner with several pieces gives its smallest whole; any other halves the piece with the place. Busy owners do not
answer, and the newcomer draws another place. A peer that lost all its ground to better titles comes again like this.
"""

from implicast.overlay.ice.estate import Way
from implicast.overlay.ice.messages import Enter, EnterAgain, Title
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.overlay.ice.soundings import Extent
from implicast.peer.contract import Address, handles
from implicast.peer.events import Joined
from implicast.peer.memory import Recent
from implicast.space.morton import BITS

INTRODUCERS_MAX = 64
"""Peers by way of whom a newcomer asks; further ones are not used."""
UNPROVED_MAX = 64
"""Peers said to be in a new life that are asked themselves; the one named first is forgotten, and asks again."""
NEARBY_MAX = 3
"""Attempts at ground nearby; then a newcomer asks for any."""


class Admission(SurfacePart):
    """Joins, and lets others join."""

    __slots__ = ("_attempt", "_homeless_us", "_introducers", "_unproved", "joined")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._attempt = 0
        self._introducers: tuple[Address, ...] = ()
        self._homeless_us = -1
        """Since when we have had no ground, after we had some; -1: we have."""
        self._unproved: Recent[Address, tuple[Enter, int]] = Recent(UNPROVED_MAX)
        """Peers that we knew and that others say to have begun another life. Anybody could say so of a neighbour and
        have its ground seized: they are asked, and their own greeting counts."""
        self.joined = False

    def join(self, introducers: tuple[Address, ...], known: tuple[Address, ...] = ()) -> None:
        """Ask for a place, by way of peers already there; the first peer owns the whole surface.

        Those who knew us in a life before are told that it is over: our old ground finds its heirs.
        """
        self.surface.upkeep.start()
        self.surface.greetings.hail(known)
        others = list(dict.fromkeys(each for each in (*introducers, *known) if each != self.address))
        self._introducers = tuple(self.host.rng.sample(others, min(len(others), INTRODUCERS_MAX)))
        if self._introducers and self.surface.terms.soundings:
            self.surface.soundings.begin(self._introducers)
        elif self._introducers:
            self.ask_for_place()
        else:
            self.surface.plot.atlas.put([Title(0, 0, 0, self.address)])
            self.surface.announce()
            self.settled_in()

    def ask_for_place(self) -> None:
        """Anywhere; or, the first few times, inside the extent where those are who are near us. Introducers are asked
        in turn: some may be gone."""
        self._attempt += 1
        extent = self.surface.soundings.extent if self._attempt <= NEARBY_MAX else Extent()
        code = extent.low | self.host.rng.getrandbits(BITS - extent.bits)
        enter = Enter(Way((code, code + 1), self.surface.next_number()), self.address, self.surface.born_us)
        self.host.send(self._introducers[self._attempt % len(self._introducers)], enter)
        self.host.after(self.timers.join_us, EnterAgain(self._attempt))

    @handles(EnterAgain)
    def on_enter_again(self, alarm: EnterAgain) -> None:
        if alarm.attempt != self._attempt or self.surface.pieces or self.surface.leaving:
            return
        if self._nobody_has_any():
            self.surface.seizures.begin_again()
            self.surface.greetings.hail(self._introducers)
        elif self.surface.taker.receipt is None:
            self.ask_for_place()
            return
        self.host.after(self.timers.join_us, EnterAgain(self._attempt))

    def _nobody_has_any(self) -> bool:
        """Have we been without ground for long, and all whom we hear too? Then titles that their owners deny, or whose
        owners never were, took it from all of us."""
        now_us, timers, circle = self.host.now_us, self.timers, self.surface.circle
        if not self.joined or now_us - self._homeless_us <= timers.gap_us:
            return False
        if any(circle.silence_us(each) <= timers.dead_us for each in self.surface.plot.neighbours()):
            return False
        return any(now_us - news.marked_us <= timers.self_us for news in circle.news.values())

    def come_again(self, known: list[Address]) -> None:
        """All is lost to others: come again as a newcomer, by way of these or those of before."""
        self._homeless_us = self.host.now_us
        known = [each for each in (*known, *self._introducers) if each != self.address]
        self._introducers = tuple(dict.fromkeys(known))[:INTRODUCERS_MAX]
        if self._introducers and not self.surface.leaving:
            self._attempt += 1
            self.host.after(int(self.timers.rto_us * (1 + self.host.rng.random())), EnterAgain(self._attempt))

    def asked(self, enter: Enter, code: int) -> None:
        """A newcomer asks for a place that is ours."""
        surface, plot, newcomer = self.surface, self.surface.plot, enter.newcomer
        if surface.circle.is_new_life(newcomer, enter.born_us):
            self._unproved.put(newcomer, (enter, code))
            surface.greetings.ask_more(newcomer)
            return
        busy = surface.giver.gift is not None or surface.leaving
        if busy or newcomer == self.address or newcomer in plot.neighbours() or surface.giver.has_declined(newcomer):
            return
        pieces = sorted(plot.firm_pieces(), key=lambda title: (-title.bits, title.low))
        if pieces and len(plot.pieces) > 1:
            surface.giver.give(pieces[0], newcomer)
        elif pieces and pieces[0].bits < BITS:
            surface.giver.give(plot.split(pieces[0], code), newcomer)

    def met(self, newcomer: Address) -> None:
        """It has greeted us in its new life: if it asked for a place before, it gets one now."""
        asked = self._unproved.pop(newcomer, None)
        if asked is not None:
            self.asked(*asked)

    def settle(self) -> None:
        """We have a place from the beginning."""
        self.joined = True

    def settled_in(self) -> None:
        """There is firm ground under us."""
        if not self.joined and self.surface.plot.firm:
            self.joined = True
            self.host.deliver(Joined())
