"""The owner's side of kept lists: lays its entries, repeats until every value is confirmed, renews, lays anew.

A piece is one entry for a range of values (one value where order is not kept). What is confirmed of it is noted value
range by value range, so a walk that died somewhere is repeated from there. Pieces of one verb form a group; the verb
is complete when all of them are laid. Afterwards they stay: renewed from time to time at whoever confirmed them, laid
again when that one answers for them no more, is silent, or somebody says that they are lost.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import LaidAt, Lay, LayLate, Name, Renewed, RenewLate, RenewRound
from implicast.casting.keeping.pieces import WAIT_US, Piece, Stretch, length, renewal, values
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Part, handles
from implicast.space.ring import up_to

LOOK_US = 1_000_000
WAIT_MAX_US = 4_000_000
"""Waits double up to this."""
HOP_US = 60_000
"""Patience with each further value of a range."""
PIECES_MAX = 65_536
"""Pieces of one peer; more are refused."""
PIECES_PER_MESSAGE = 200
"""Pieces that one message renews."""
SILENT_MAX = 3
"""A keeper that leaves so many renewals unanswered is taken for dead: its pieces are laid again at once. Whoever
inherited them has them, but its lease runs: asked once a round, the dead would be given up after a lease."""
RENEW_WAIT_US = 5_000_000
"""Patience with each of them; less where leases are short."""


class Layings(Part):
    """What one peer has in lists, and wants there."""

    __slots__ = (
        "_armed",
        "_groups",
        "_laid",
        "_open",
        "_renewing",
        "_serial",
        "_silent",
        "done",
        "keeper",
        "pieces",
        "renew_us",
    )

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, renew_us: int, done: Callable[[Any], None]
    ) -> None:
        """`done(group)` is called when all pieces of a group are laid."""
        super().__init__(address, host)
        self.keeper, self.renew_us, self.done = keeper, renew_us, done
        keeper.laid = lambda laid: self.on_laid(address, laid)
        self.pieces: dict[int, Piece] = {}
        self._open: dict[int, Piece] = {}
        self._groups: dict[Hashable, int] = {}
        self._silent: dict[Address, int] = {}
        self._serial = 0
        self._armed = self._renewing = False
        self._laid: list[tuple[int, int]] | None = None
        host.after(int(renew_us * (0.5 + host.rng.random())), RenewRound())

    def stamp(self) -> int:
        """Newer than all before: the own clock, which only has to go forward."""
        self._serial = max(self._serial + 1, self.host.now_us)
        return self._serial

    def piece(
        self, shelf: str, attribute: str, low: Scalar, high: Scalar, name: Name, packed: bytes, walks: bool
    ) -> Piece:
        """To be laid; nothing packed: taken out."""
        stamp = self.stamp()
        key = self.keeper.key_of(attribute, low)
        return Piece(stamp, shelf, attribute, low, high, key, name, packed, stamp, walks, None, [(low, high)])

    def removal(self, piece: Piece) -> Piece:
        """The same taken out; the piece itself is wanted no more."""
        self.forget(piece)
        return self.piece(piece.shelf, piece.attribute, piece.low, piece.high, piece.name, b"", piece.walks)

    def laid(self) -> list[tuple[int, int]]:
        """Key and mark of every entry that is confirmed. Remembered while nothing changes, for those who look often."""
        if self._laid is None:
            pieces = self.pieces.values()
            self._laid = [(piece.key, piece.mark()) for piece in pieces if piece.packed and not piece.missing]
        return self._laid

    def forget(self, piece: Piece) -> None:
        self._laid = None
        self.pieces.pop(piece.serial, None)
        if self._open.pop(piece.serial, None) is not None:
            self._count_down(piece)

    def lay(self, group: Hashable, pieces: Iterable[Piece]) -> None:
        """Lay these; `done(group)` follows."""
        laid, self._laid = list(pieces), None
        self._groups[group] = len(laid) + 1
        for piece in laid:
            piece.group = group
            if len(self.pieces) < PIECES_MAX:
                self.pieces[piece.serial] = self._open[piece.serial] = piece
                self._send_out(piece)
        self._count_down_group(group)

    def _count_down(self, piece: Piece) -> None:
        if piece.group is not None:
            group, piece.group = piece.group, None
            self._count_down_group(group)

    def _count_down_group(self, group: Hashable) -> None:
        self._groups[group] -= 1
        if not self._groups[group]:
            del self._groups[group]
            self.done(group)

    def _send_out(self, piece: Piece) -> None:
        longest = max(length(stretch) for stretch in piece.missing)
        piece.due_us = self.host.now_us + piece.wait_us + HOP_US * longest
        chord, keeper = self.keeper.chord, self.keeper
        for low, high in list(piece.missing):
            key = piece.key if low == piece.low else keeper.key_of(piece.attribute, low)
            lay = Lay(key, piece.shelf, piece.attribute, low, high, piece.name, piece.stamp, piece.packed, self.address,
                      piece.serial, piece.walks, False)  # fmt: skip
            if chord.ring.state == IN:
                keeper.on_lay(self.address, lay)
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self._open:
            self._armed = True
            self.host.after(LOOK_US, LayLate())

    @handles(LayLate)
    def on_lay_late(self, alarm: LayLate) -> None:
        self._armed = False
        now_us, chord = self.host.now_us, self.keeper.chord
        for piece in list(self._open.values()):
            if piece.due_us <= now_us and piece.serial in self._open:
                chord.detour = int(self.host.rng.random() * 3)
                piece.wait_us = min(WAIT_MAX_US, 2 * piece.wait_us)
                self._send_out(piece)
        chord.detour = 0
        self._arm()

    @handles(LaidAt)
    def on_laid(self, sender: Address, laid: LaidAt) -> None:
        piece = self.pieces.get(laid.serial)
        if piece is None or laid.stamp < piece.stamp:
            return  # what was laid before it was lost does not count
        self._laid = None
        piece.confirm(laid.low, laid.high, laid.holder)
        if not piece.missing and self._open.pop(piece.serial, None) is not None:
            piece.wait_us = WAIT_US
            if not piece.packed:
                del self.pieces[piece.serial]
            self._count_down(piece)

    # Renewing

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self.host.after(int(self.renew_us * (0.5 + self.host.rng.random())), RenewRound())
        self.renew_all()

    def renew_all(self) -> None:
        """Ask whoever confirmed what whether it is there: now and then, and after a time in which one may have missed
        what was told to all."""
        for holder, held in self._by_holder().items():
            if holder == self.address:
                self._renew_here(held)
            else:
                self._silent[holder] = 1
                self._ask_holder(holder, held)
        self._arm_renewal()

    def _by_holder(self) -> dict[Address, list[tuple[Piece, Stretch]]]:
        found: dict[Address, list[tuple[Piece, Stretch]]] = {}
        for piece in self.pieces.values():
            for stretch, holder in piece.held.items():
                found.setdefault(holder, []).append((piece, stretch))
        return found

    def _arm_renewal(self) -> None:
        if self._silent and not self._renewing:
            self._renewing = True
            self.host.after(min(RENEW_WAIT_US, self.renew_us // 8), RenewLate())

    @handles(RenewLate)
    def on_renew_late(self, alarm: RenewLate) -> None:
        """Ask those again that have not answered; who never does is given up."""
        self._renewing = False
        silent, self._silent = self._silent, {}
        by_holder = self._by_holder() if silent else {}
        for holder, asked in silent.items():
            held = by_holder.get(holder, [])
            if asked >= SILENT_MAX:
                self._lay_again(held)
            elif held:
                self._silent[holder] = asked + 1
                self._ask_holder(holder, held)
        self._arm_renewal()

    def _ask_holder(self, holder: Address, held: list[tuple[Piece, Stretch]]) -> None:
        for start in range(0, len(held), PIECES_PER_MESSAGE):
            self.host.send(holder, renewal(held[start : start + PIECES_PER_MESSAGE]))

    def _renew_here(self, held: list[tuple[Piece, Stretch]]) -> None:
        self._take_back(self.keeper.lost_of(renewal(held)))

    @handles(Renewed)
    def on_renewed(self, sender: Address, renewed: Renewed) -> None:
        self._silent.pop(sender, None)
        self._take_back(renewed.lost)

    def _take_back(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        self._lay_again([(self.pieces[serial], (low, high)) for serial, low, high in lost if serial in self.pieces])

    def _lay_again(self, held: Iterable[tuple[Piece, Stretch]]) -> None:
        """With a new stamp: what became of the old entry, a removal even, must not stand in the way."""
        self._laid = None
        for piece, (low, high) in held:
            if piece.packed:
                piece.stamp = self.stamp()
                piece.lose(low, high)
                self._open[piece.serial] = piece
                piece.due_us = self.host.now_us
        self._arm()

    def lay_all_again(self) -> None:
        """Somebody believed this peer dead: whoever holds what now, and whoever held it, may have forgotten."""
        self._lay_again([(piece, stretch) for piece in self.pieces.values() for stretch in list(piece.held)])

    def mourn(self, keeper: Address) -> None:
        """A keeper is said to be dead. Its heir should have what it kept; but only the owner of an entry can know that
        it is there, so it lays again what that one confirmed. If the keeper lives, nothing is lost by it."""
        held = ((piece, stretch, who) for piece in self.pieces.values() for stretch, who in piece.held.items())
        self._lay_again([(piece, stretch) for piece, stretch, who in held if who == keeper])

    def heed(self, low: int, high: int) -> None:
        """The lists of these keys are lost: lay again what was there."""
        key_of = self.keeper.key_of
        self._lay_again([
            (piece, stretch)
            for piece in self.pieces.values()
            for stretch in list(piece.held)
            if (
                up_to(low, piece.key, high) if piece.low == piece.high
                else any(up_to(low, key_of(piece.attribute, value), high) for value in values(stretch))
            )
        ])  # fmt: skip
