"""What a peer parts with of its own accord: spare pieces at leisure, and every piece when it leaves.

How a peer with several pieces comes to have one again is CAN's hand-over to the deepest pair, as two ordinary gives: a
spare piece goes to its sibling if that is one piece; else to a peer deeper inside the sibling's area whose own piece
has such a sibling, and which then passes its own piece there.

A leaver gives each piece to the owner of its sibling, else to an heir, else to any neighbour; it waits while it holds
the estate of a silent peer, because it may be the last to have it.
"""

from implicast.overlay.ice.messages import FindMover, MayGo, Mover
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles, in_order
from implicast.peer.events import Left
from implicast.space.morton import BITS
from implicast.space.prefix import sibling


class Parting(SurfacePart):
    """Gives pieces away, to whom they belong best."""

    __slots__ = ("_departing", "_tidy_us", "leaving", "left")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.leaving = self.left = self._departing = False
        self._tidy_us = 0
        """When the next spare piece may go."""

    def may_take(self, peer: Address) -> bool:
        """Can a piece be given to this peer?"""
        return self._may_be_asked(peer) and not self.surface.circle.news[peer].leaving

    def _may_be_asked(self, peer: Address) -> bool:
        news = self.surface.circle.news.get(peer)
        return (
            news is not None and news.suspect_us < 0 and not self.surface.giver.has_declined(peer)
        )

    # --- spare pieces

    def tidy(self) -> None:
        """At each tick with several pieces: one step towards a single one, if it is time for one."""
        surface, plot = self.surface, self.surface.plot
        if not self._tidy_us:
            self._tidy_later()
        if (
            self.host.now_us < self._tidy_us
            or surface.giver.gift is not None
            or surface.is_doubtful
        ):
            return
        self._tidy_later()
        pieces = sorted(plot.firm_pieces(), key=lambda title: (-title.bits, title.low))
        for piece in pieces:
            other = plot.lone_sibling(piece)
            if other is not None and self.may_take(other.owner):
                surface.giver.give(piece, other.owner)
                return
        if pieces:
            # Chance picks, so that one that nobody can take does not stand in the way for ever.
            piece = self.host.rng.choice(pieces)
            self._look_inside(
                FindMover(piece, sibling(piece.low, piece.bits), piece.bits, self.address, 0)
            )

    def _tidy_later(self) -> None:
        """The more spare pieces there are the sooner: after a partition one peer may have those of half the surface."""
        pause_us = self.timers.tidy_us * (0.5 + self.host.rng.random())
        self._tidy_us = self.host.now_us + int(pause_us / max(1, len(self.surface.pieces) - 1))

    def _look_inside(self, find: FindMover) -> None:
        """Pass the search to the owner of the smallest piece known inside the area."""
        high = find.low + (1 << (BITS - find.bits))
        inside = [
            each for each in self.surface.plot.others if find.low <= each.low and each.high <= high
        ]
        inside = [each for each in inside if each.owner != find.asker and self.may_take(each.owner)]
        if inside and find.depth < BITS:
            smallest = min(inside, key=lambda title: (-title.bits, title.low))
            self.host.send(
                smallest.owner,
                FindMover(find.spare, find.low, find.bits, find.asker, find.depth + 1),
            )

    @handles(FindMover)
    def on_find_mover(self, sender: Address, find: FindMover) -> None:
        plot = self.surface.plot
        self.surface.circle.heard(sender)
        if self.leaving or len(plot.pieces) != 1 or not plot.firm or find.asker == self.address:
            return
        piece = plot.pieces[0]
        other = plot.lone_sibling(piece)
        if other is not None:
            if other.owner != find.asker and self.may_take(other.owner):
                self.host.send(find.asker, Mover(find.spare))
        elif piece.bits > find.bits:
            self._look_inside(
                FindMover(
                    find.spare, sibling(piece.low, piece.bits), piece.bits, find.asker, find.depth
                )
            )

    @handles(Mover)
    def on_mover(self, sender: Address, mover: Mover) -> None:
        surface, plot = self.surface, self.surface.plot
        surface.circle.heard(sender)
        busy = (
            surface.giver.gift is not None
            or self.leaving
            or surface.is_doubtful
            or len(plot.pieces) < 2
        )
        if mover.spare in plot.firm_pieces() and not busy and sender != self.address:
            surface.giver.give(mover.spare, sender)

    # --- all pieces

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
        if not (plot.pieces and plot.others):
            self._go()
        elif not self._on_duty() and not surface.is_doubtful:
            self._give_next()

    def _on_duty(self) -> bool:
        """Do we hold the estate of a peer that may be dead?"""
        silence_us, self_us = self.surface.circle.silence_us, self.timers.self_us
        return any(silence_us(owner) > self_us for owner in self.surface.estates.held)

    def _give_next(self) -> None:
        """Where all leave at once they give to those with smaller addresses, and the last has nobody to give to."""
        plot, near = self.surface.plot, self.surface.plot.neighbours()
        pieces = plot.firm_pieces()
        before_us = (each for each in near if in_order(each) < in_order(self.address))
        takers = list(filter(self.may_take, near)) or list(filter(self._may_be_asked, before_us))
        if pieces and takers:
            piece = min(pieces, key=lambda title: (title.bits, title.low))
            best = min(takers, key=lambda each: plot.preference(piece, each))
            heirs = [
                each
                for each in self.surface.heirs
                if each in takers and plot.preference(piece, best)[0]
            ]
            self.surface.giver.give(piece, heirs[0] if heirs else best)

    def _go(self) -> None:
        surface = self.surface
        if not self._departing and not self._on_duty():
            self._departing = True
            told = {*surface.heirs, *surface.estates.held, *surface.plot.neighbours()}
            surface.succession.begin_with((), 0)  # we have nothing that could be inherited
            surface.announce(told)
            self.host.after(self.timers.grace_us, MayGo())

    @handles(MayGo)
    def on_may_go(self, alarm: MayGo) -> None:
        plot = self.surface.plot
        if (
            self._on_duty()
            or self.surface.taker.receipt is not None
            or (plot.pieces and plot.others)
        ):
            self._departing = (
                False  # ground of the dead has come to us meanwhile: give that away too
            )
        elif not self.left:
            self.left = True
            self.host.deliver(Left())
