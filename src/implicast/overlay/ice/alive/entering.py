"""Coming to the surface: a newcomer asks for a place until it holds a piece, and owners give what they can spare.

An owner with several pieces gives its smallest whole; any other halves the piece with the place. Busy owners do not
answer, and the newcomer draws another place. A peer that lost all its ground to better titles comes again like this.
"""

from implicast.overlay.ice.alive.estate import Keeper, Way
from implicast.overlay.ice.alive.messages import Enter, EnterAgain, Tick
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.alive.taking import Receiving
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address, Host, handles
from implicast.peer.events import Joined
from implicast.space.morton import BITS

INTRODUCERS_MAX = 64
"""Peers by way of whom a newcomer asks; further ones are not used."""


class Entering(Receiving):
    """Join."""

    __slots__ = ("attempt", "introducers", "joined", "ticked_us", "ticking")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.attempt = 0
        self.introducers: tuple[Address, ...] = ()
        self.joined = self.ticking = False
        self.ticked_us = 0

    def start(self) -> None:
        """Begin with standing upkeep."""
        if not self.ticking:
            self.ticking, self.ticked_us = True, self.host.now_us
            self.host.after(int(self.life.tick_us * self.host.rng.random()), Tick())

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask for a place, by way of peers already there; the first peer owns the whole surface."""
        self.start()
        self.introducers = introducers[:INTRODUCERS_MAX]
        if self.introducers:
            self._ask_for_place()
        else:
            self.atlas.put([Title(0, 0, 0, self.address)])
            self.announce()
            self.settled_in()

    def _ask_for_place(self) -> None:
        self.attempt += 1
        code = self.host.rng.getrandbits(BITS)
        enter = Enter(Way((code, code + 1), self.next_number()), self.address)
        self.host.send(self.host.rng.choice(self.introducers), enter)
        self.host.after(self.life.join_us, EnterAgain(self.attempt))

    @handles(EnterAgain)
    def on_enter_again(self, alarm: EnterAgain) -> None:
        if alarm.attempt != self.attempt or self.pieces or self.leaving:
            return
        if self.receipt is None:
            self._ask_for_place()
        else:
            self.host.after(self.life.join_us, EnterAgain(self.attempt))

    def homeless(self) -> None:
        """All is lost to others: come again as a newcomer, by way of whoever is known."""
        known = [*self.neighbours(), *self.heirs, *self.missed, *self.introducers]
        self.introducers = tuple(dict.fromkeys(each for each in known if each != self.address))[:INTRODUCERS_MAX]
        self.heirs = ()
        self._end_copying()
        self.batches.clear()
        if self.introducers and not self.leaving:
            self.attempt += 1
            self.host.after(int(self.life.rto_us * (1 + self.host.rng.random())), EnterAgain(self.attempt))

    def entering(self, enter: Enter, code: int) -> None:
        """A newcomer asks for a place that is ours."""
        newcomer = enter.newcomer
        busy = self.gift is not None or self.leaving or newcomer == self.address or newcomer in self.neighbours()
        pieces = sorted(self.firm_pieces(), key=lambda title: (-title.bits, title.low))
        if busy or not pieces or self.declined.get(newcomer, 0) > self.host.now_us:
            return
        if len(self.pieces) > 1:
            self.give(pieces[0], newcomer)
        elif pieces[0].bits < BITS:
            self.give(self.split(pieces[0], code), newcomer)

    def settled_in(self) -> None:
        if not self.joined and self.ground:
            self.joined = True
            self.host.deliver(Joined())
