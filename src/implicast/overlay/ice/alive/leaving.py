"""Leaving without loss, and tidying: how a peer with several pieces comes to have one again.

A leaver gives each piece to the owner of its sibling, else to an heir, else to any neighbour; it waits while it holds
the estate of a silent peer, because it may be the last to have it. Tidying is CAN's hand-over to the deepest pair, as
two ordinary gives at leisure: a spare piece goes to its sibling if that is one piece; else to a peer deeper inside the
sibling's area whose own piece has such a sibling, and which then passes its own piece there.
"""

from implicast.overlay.ice.alive.entering import Entering
from implicast.overlay.ice.alive.estate import Keeper
from implicast.overlay.ice.alive.messages import Depart, FindMover, Mover
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import sibling, tract_of
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address, Host, handles
from implicast.peer.events import Left
from implicast.space.morton import BITS
from implicast.space.tract import volume


class Leaving(Entering):
    """Part with pieces for good, or for order's sake."""

    __slots__ = ("_departing", "_tidy_us", "left")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.left = self._departing = False
        self._tidy_us = 0

    def leave(self) -> None:
        """Give every piece away, stay a while for strays, go."""
        if not self.leaving:
            self.leaving = True
            self.announce()
            self.depart_step()

    def gave(self) -> None:
        if not self.pieces and not self.leaving:
            self.homeless()  # the others were lost while this one, then a spare, was on its way
        self.depart_step()

    def depart_step(self) -> None:
        """The next thing a leaver can do; at each tick, and whenever a piece has gone."""
        if not self.leaving or self.gift is not None or self.receipt is not None:
            return
        if not self.pieces or self.alone:
            self._go()
        elif not self._on_duty() and not self.is_doubtful:
            self._give_next()

    def _on_duty(self) -> bool:
        """Do we hold the estate of a peer that may be dead?"""
        return any(self.silence_us(owner) > self.life.sus_us for owner in self.estates)

    def _give_next(self) -> None:
        pieces = self.firm_pieces()
        takers = [each for each in self.neighbours() if self._may_take(each)] or self._leavers_before_us()
        if pieces and takers:
            piece = min(pieces, key=lambda title: (title.bits, title.low))
            self.give(piece, self._taker(piece, takers))

    def _may_take(self, peer: Address) -> bool:
        return self._may_be_asked(peer) and not self.news[peer].leaving

    def _may_be_asked(self, peer: Address) -> bool:
        news = self.news.get(peer)
        return news is not None and news.suspect_us < 0 and self.declined.get(peer, 0) <= self.host.now_us

    def _leavers_before_us(self) -> list[Address]:
        """Where all leave at once they give to those with smaller addresses, and the last has nobody to give to."""
        near = [each for each in self.neighbours() if each < self.address]  # type: ignore[operator]
        return [each for each in near if self._may_be_asked(each)]

    def _taker(self, piece: Title, takers: list[Address]) -> Address:
        other = self.lone_sibling(piece)
        if other is not None and other.owner in takers:
            return other.owner
        heir = next((each for each in self.heirs if each in takers), None)
        if heir is not None:
            return heir
        return min(takers, key=lambda each: (volume(tract_of(self.atlas.of(each))), each))

    def _go(self) -> None:
        if not self._departing and not self._on_duty():
            self._departing = True
            told = {*self.heirs, *self.estates, *self.neighbours()}
            self.heirs = ()
            self.announce(told)
            self.host.after(self.life.grace_us, Depart())

    @handles(Depart)
    def on_depart(self, alarm: Depart) -> None:
        if self._on_duty() or self.receipt is not None or (self.pieces and not self.alone):
            self._departing = False  # ground of the dead has come to us meanwhile: give that away too
        elif not self.left:
            self.left = True
            self.host.deliver(Left())

    # --- tidying

    def tidy(self) -> None:
        """At each tick: one step towards a single piece, if it is time for one."""
        now_us = self.host.now_us
        if len(self.pieces) < 2 or self.leaving:
            self._tidy_us = 0
            return
        if not self._tidy_us:
            self._later()
        if now_us < self._tidy_us or self.gift is not None or self.is_doubtful:
            return
        self._later()
        pieces = sorted(self.firm_pieces(), key=lambda title: (-title.bits, title.low))
        for piece in pieces:
            other = self.lone_sibling(piece)
            if other is not None and self._may_take(other.owner):
                self.give(piece, other.owner)
                return
        if pieces:
            self._find_mover(pieces)

    def _later(self) -> None:
        self._tidy_us = self.host.now_us + int(self.life.tidy_us * (0.5 + self.host.rng.random()))

    def _find_mover(self, pieces: list[Title]) -> None:
        """Any spare will do; chance picks, so that one that nobody can take does not stand in the way for ever."""
        piece = self.host.rng.choice(pieces)
        if piece.bits:
            self._look_inside(FindMover(piece, sibling(piece.low, piece.bits), piece.bits, self.address, 0))

    def _look_inside(self, find: FindMover) -> None:
        """Pass the search to the owner of the smallest piece known inside the area."""
        inside = [each for each in self.inside(find.low, find.bits) if self._may_take(each.owner)]
        inside = [each for each in inside if each.owner != find.asker]
        if inside and find.depth < BITS:
            smallest = min(inside, key=lambda title: (-title.bits, title.low))
            self.host.send(smallest.owner, FindMover(find.spare, find.low, find.bits, find.asker, find.depth + 1))

    @handles(FindMover)
    def on_find_mover(self, sender: Address, find: FindMover) -> None:
        self.heard(sender)
        if self.leaving or len(self.pieces) != 1 or not self.ground:
            return
        piece = self.pieces[0]
        other = self.lone_sibling(piece)
        if other is not None:
            if other.owner != find.asker and self._may_take(other.owner):
                self.host.send(find.asker, Mover(find.spare))
        elif piece.bits > find.bits:
            area = sibling(piece.low, piece.bits)
            self._look_inside(FindMover(find.spare, area, piece.bits, find.asker, find.depth))

    @handles(Mover)
    def on_mover(self, sender: Address, mover: Mover) -> None:
        self.heard(sender)
        busy = self.gift is not None or self.leaving or self.is_doubtful or len(self.pieces) < 2
        spare = next((each for each in self.firm_pieces() if each == mover.spare), None)
        if spare is not None and not busy and sender != self.address:
            self.give(spare, sender)
