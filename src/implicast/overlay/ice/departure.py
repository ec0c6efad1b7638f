"""Leaving without loss.

A leaver gives each piece to the owner of its sibling, else to an heir, else to any neighbour; it waits while it holds
the estate of a silent peer, because it may be the last to have it.
"""

from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.messages import MayGo, Title
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.events import Left
from implicast.space.tract import volume


class Departure(SurfacePart):
    """Parts with all pieces for good."""

    __slots__ = ("_departing", "leaving", "left")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.leaving = self.left = self._departing = False

    def leave(self) -> None:
        """Give every piece away, stay a while for strays, go."""
        if not self.leaving:
            self.leaving = True
            self.surface.announce()
            self.step()

    def step(self) -> None:
        """The next thing a leaver can do; at each tick, and whenever a piece has gone."""
        surface, plot = self.surface, self.surface.plot
        if not self.leaving or surface.giver.gift is not None or surface.taker.receipt is not None:
            return
        if not plot.pieces or plot.alone:
            self._go()
        elif not self._on_duty() and not surface.is_doubtful:
            self._give_next()

    def _on_duty(self) -> bool:
        """Do we hold the estate of a peer that may be dead?"""
        silence_us, self_us = self.surface.circle.silence_us, self.timers.self_us
        return any(silence_us(owner) > self_us for owner in self.surface.estates.held)

    def _give_next(self) -> None:
        plot = self.surface.plot
        pieces = plot.firm_pieces()
        takers = [each for each in plot.neighbours() if self.may_take(each)] or self._leavers_before_us()
        if pieces and takers:
            piece = min(pieces, key=lambda title: (title.bits, title.low))
            self.surface.giver.give(piece, self._taker(piece, takers))

    def may_take(self, peer: Address) -> bool:
        """Can a piece be given to this peer?"""
        return self._may_be_asked(peer) and not self.surface.circle.news[peer].leaving

    def _may_be_asked(self, peer: Address) -> bool:
        news = self.surface.circle.news.get(peer)
        return news is not None and news.suspect_us < 0 and not self.surface.giver.has_declined(peer)

    def _leavers_before_us(self) -> list[Address]:
        """Where all leave at once they give to those with smaller addresses, and the last has nobody to give to."""
        near = [each for each in self.surface.plot.neighbours() if each < self.address]  # type: ignore[operator]
        return [each for each in near if self._may_be_asked(each)]

    def _taker(self, piece: Title, takers: list[Address]) -> Address:
        plot = self.surface.plot
        other = plot.lone_sibling(piece)
        if other is not None and other.owner in takers:
            return other.owner
        heir = next((each for each in self.surface.heirs if each in takers), None)
        if heir is not None:
            return heir
        return min(takers, key=lambda each: (volume(tract_of(plot.atlas.of(each))), each))

    def _go(self) -> None:
        surface = self.surface
        if not self._departing and not self._on_duty():
            self._departing = True
            told = {*surface.heirs, *surface.estates.held, *surface.plot.neighbours()}
            surface.succession.renounce()
            surface.announce(told)
            self.host.after(self.timers.grace_us, MayGo())

    @handles(MayGo)
    def on_may_go(self, alarm: MayGo) -> None:
        plot = self.surface.plot
        if self._on_duty() or self.surface.taker.receipt is not None or (plot.pieces and not plot.alone):
            self._departing = False  # ground of the dead has come to us meanwhile: give that away too
        elif not self.left:
            self.left = True
            self.host.deliver(Left())
