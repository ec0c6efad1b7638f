"""The owner's side of leases: asks whoever confirmed an entry, now and then, whether it is still there."""

from collections.abc import Callable, Iterable

from implicast.casting.keeping.messages import Renew, Renewed, RenewLate, RenewRound
from implicast.casting.keeping.pieces import Piece, Stretch, renewal
from implicast.language.target import Scalar
from implicast.peer.contract import Address, Host, Part, handles

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

    __slots__ = ("_lay_again", "_lost_here", "_pieces", "_renew_us", "_silent", "_waiting")

    def __init__(
        self, address: Address, host: Host, renew_us: int, pieces: dict[int, Piece],
        lost_here: Callable[[Renew], list[tuple[int, Scalar, Scalar]]], lay_again: Callable[[Held], None],
    ) -> None:  # fmt: skip
        """`lost_here(renew)` asks this peer itself. `renew_us`: 0: nothing is ever renewed."""
        super().__init__(address, host)
        self._renew_us, self._pieces, self._lost_here, self._lay_again = renew_us, pieces, lost_here, lay_again
        self._silent: dict[Address, int] = {}
        self._waiting = False
        self._next_round()

    def _next_round(self) -> None:
        if self._renew_us:
            self.host.after(int(self._renew_us * (0.5 + self.host.rng.random())), RenewRound())

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self._next_round()
        self.renew_all()

    def renew_all(self) -> None:
        """Ask all who confirmed something: now and then, and after a time in which this peer may have missed what was
        told to all."""
        for holder, held in self._by_holder().items():
            if holder == self.address:
                self._take_back(self._lost_here(renewal(held)))
            else:
                self._silent[holder] = 1
                self._ask(holder, held)
        self._arm()

    def _by_holder(self) -> dict[Address, Held]:
        found: dict[Address, Held] = {}
        for piece in self._pieces.values():
            for stretch, holder in piece.held.items():
                found.setdefault(holder, []).append((piece, stretch))
        return found

    def _arm(self) -> None:
        if self._silent and not self._waiting:
            self._waiting = True
            self.host.after(min(RENEW_WAIT_US, self._renew_us // 8), RenewLate())

    @handles(RenewLate)
    def on_renew_late(self, alarm: RenewLate) -> None:
        """Ask those again that have not answered; one that never does is given up."""
        self._waiting = False
        silent, self._silent = self._silent, {}
        by_holder = self._by_holder() if silent else {}
        for holder, asked in silent.items():
            held = by_holder.get(holder, [])
            if asked >= SILENT_MAX:
                self._lay_again(held)
            elif held:
                self._silent[holder] = asked + 1
                self._ask(holder, held)
        self._arm()

    def _ask(self, holder: Address, held: Held) -> None:
        for start in range(0, len(held), PIECES_PER_MESSAGE):
            self.host.send(holder, renewal(held[start : start + PIECES_PER_MESSAGE]))

    @handles(Renewed)
    def on_renewed(self, sender: Address, renewed: Renewed) -> None:
        self._silent.pop(sender, None)
        self._take_back(renewed.lost)

    def _take_back(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        pieces = self._pieces
        self._lay_again([(pieces[serial], (low, high)) for serial, low, high in lost if serial in pieces])
