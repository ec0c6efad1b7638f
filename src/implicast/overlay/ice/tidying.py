"""How a peer with several pieces comes to have one again.

It is CAN's hand-over to the deepest pair, as two ordinary gives at leisure: a spare piece goes to its sibling if that
is one piece; else to a peer deeper inside the sibling's area whose own piece has such a sibling, and which then passes
its own piece there.
"""

from implicast.overlay.ice.atlas import sibling
from implicast.overlay.ice.messages import FindMover, Mover, Title
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.space.morton import BITS


class Tidying(SurfacePart):
    """Parts with spare pieces."""

    __slots__ = ("_next_us",)

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._next_us = 0

    def tidy(self) -> None:
        """At each tick with several pieces: one step towards a single one, if it is time for one."""
        surface, plot = self.surface, self.surface.plot
        if not self._next_us:
            self._later()
        if self.host.now_us < self._next_us or surface.giver.gift is not None or surface.is_doubtful:
            return
        self._later()
        pieces = sorted(plot.firm_pieces(), key=lambda title: (-title.bits, title.low))
        for piece in pieces:
            other = plot.lone_sibling(piece)
            if other is not None and surface.departure.may_take(other.owner):
                surface.giver.give(piece, other.owner)
                return
        if pieces:
            self._find_mover(pieces)

    def _later(self) -> None:
        """The more spare pieces there are the sooner: after a partition one peer may have those of half the surface."""
        pause_us = self.timers.tidy_us * (0.5 + self.host.rng.random())
        self._next_us = self.host.now_us + int(pause_us / max(1, len(self.surface.pieces) - 1))

    def _find_mover(self, pieces: list[Title]) -> None:
        """Any spare will do; chance picks, so that one that nobody can take does not stand in the way for ever."""
        piece = self.host.rng.choice(pieces)
        if piece.bits:
            self._look_inside(FindMover(piece, sibling(piece.low, piece.bits), piece.bits, self.address, 0))

    def _look_inside(self, find: FindMover) -> None:
        """Pass the search to the owner of the smallest piece known inside the area."""
        may_take = self.surface.departure.may_take
        inside = [each for each in self.surface.plot.inside(find.low, find.bits) if may_take(each.owner)]
        inside = [each for each in inside if each.owner != find.asker]
        if inside and find.depth < BITS:
            smallest = min(inside, key=lambda title: (-title.bits, title.low))
            self.host.send(smallest.owner, FindMover(find.spare, find.low, find.bits, find.asker, find.depth + 1))

    @handles(FindMover)
    def on_find_mover(self, sender: Address, find: FindMover) -> None:
        surface, plot = self.surface, self.surface.plot
        surface.circle.heard(sender)
        if surface.leaving or len(plot.pieces) != 1 or not plot.firm or find.asker == self.address:
            return
        piece = plot.pieces[0]
        other = plot.lone_sibling(piece)
        if other is not None:
            if other.owner != find.asker and surface.departure.may_take(other.owner):
                self.host.send(find.asker, Mover(find.spare))
        elif piece.bits > find.bits:
            area = sibling(piece.low, piece.bits)
            self._look_inside(FindMover(find.spare, area, piece.bits, find.asker, find.depth))

    @handles(Mover)
    def on_mover(self, sender: Address, mover: Mover) -> None:
        surface, plot = self.surface, self.surface.plot
        surface.circle.heard(sender)
        busy = surface.giver.gift is not None or surface.leaving or surface.is_doubtful or len(plot.pieces) < 2
        spare = next((each for each in plot.firm_pieces() if each == mover.spare), None)
        if spare is not None and not busy and sender != self.address:
            surface.giver.give(spare, sender)
