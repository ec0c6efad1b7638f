"""The owner's side of leases: asks whoever confirmed an entry, now and then, whether it is still there."""

from collections.abc import Callable, Iterable

from implicast.casting.keeping.messages import EntriesRenewed, RenewEntries, RenewRound
from implicast.casting.keeping.pieces import Piece, Stretch, renewal
from implicast.language.target import Scalar
from implicast.peer.asking import Patience, Question, UpkeepAsker
from implicast.peer.contract import Address, Contact, Host, Part, handles

RENEWING = "renewing"
PIECES_PER_MESSAGE = 200
"""Pieces that one message renews."""
SILENT_MAX = 3
"""A keeper that leaves so many renewals unanswered is taken for dead: its pieces are laid again at once. Its heir has
them, but its lease runs: asked once a round, the dead would be given up after a lease."""
RENEW_WAIT_US = 5_000_000
"""Patience with each of them; less where leases are short."""

Held = list[tuple[Piece, Stretch]]


class Renewals(Part):
    """What one peer asks of those who confirmed its entries."""

    __slots__ = ("_asker", "_lay_again", "_lost_here", "_name", "_pieces", "_renew_us", "_turn")

    def __init__(
        self, contact: Contact, host: Host, asker: UpkeepAsker, renew_us: int, pieces: dict[int, Piece],
        lost_here: Callable[[RenewEntries], list[tuple[int, Scalar, Scalar]]], lay_again: Callable[[Held], None],
    ) -> None:  # fmt: skip
        """`lost_here(renew)` asks this peer itself. `renew_us`: 0: nothing is ever renewed."""
        super().__init__(contact.address, host)
        self._name, self._asker, self._renew_us = contact.name, asker, renew_us
        self._pieces, self._lost_here, self._lay_again = pieces, lost_here, lay_again
        self._turn = 0
        if renew_us:
            asker.topic(RENEWING, Patience(min(RENEW_WAIT_US, renew_us // 8), SILENT_MAX), self._lost)
            self._next_round()

    def _next_round(self) -> None:
        self.host.after(int(self._renew_us * (0.5 + self.host.rng.random())), RenewRound())

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self._next_round()
        self.renew_all()

    def renew_all(self) -> None:
        """Ask all who confirmed something: now and then, and after a time in which this peer may have missed what was
        told to all."""
        for holder, held in self._by_holder().items() if self._renew_us else ():
            if holder == self.address:
                self._take_back(self._lost_here(renewal(self._name, 0, held)))
            else:
                self._ask(holder, held)

    def _by_holder(self) -> dict[Address, Held]:
        found: dict[Address, Held] = {}
        for piece in self._pieces.values():
            for stretch, (holder, _) in piece.held.items():
                found.setdefault(holder, []).append((piece, stretch))
        return found

    def _ask(self, holder: Address, held: Held) -> None:
        for start in range(0, len(held), PIECES_PER_MESSAGE):
            chunk = held[start : start + PIECES_PER_MESSAGE]
            self._turn += 1
            self._asker.ask(RENEWING, (holder, self._turn), holder, renewal(self._name, self._turn, chunk), chunk)

    @handles(EntriesRenewed)
    def on_renewed(self, sender: Address, renewed: EntriesRenewed) -> None:
        if self._asker.answered(RENEWING, (sender, renewed.turn)) is not None:
            self._take_back(renewed.lost)

    def _lost(self, key: tuple[Address, int], question: Question) -> None:
        """A keeper that never answers is given up."""
        held: Held = question.about
        still = [(piece, stretch) for piece, stretch in held if stretch in piece.held]
        self._lay_again([(piece, stretch) for piece, stretch in still if piece.held[stretch][0] == key[0]])

    def _take_back(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        pieces = self._pieces
        self._lay_again([(pieces[serial], (low, high)) for serial, low, high in lost if serial in pieces])
