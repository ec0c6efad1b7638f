"""The owner's side of kept lists: lays its entries, repeats until every value is confirmed, renews, lays anew.

What is confirmed of a piece is noted value range by value range, so a walk that died is repeated from there. Pieces of
one verb form a group; the verb is complete when all of them are laid. Afterwards they stay: renewed now and then at the
keeper that confirmed them, laid again when it answers for them no more, is silent, or they are said to be lost.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import (
    STAMP_BITS,
    EntriesRenewed,
    EntryOutdated,
    LaidAt,
    LaterEntry,
    Lay,
    RenewEntries,
    Row,
)
from implicast.casting.keeping.pieces import (
    LOOK_US,
    KeptPiece,
    Piece,
    Range,
    Stretch,
    overlap,
    values,
    without,
)
from implicast.casting.keeping.rows import PAST_MAX
from implicast.casting.keeping.share import Share, Shareholder, in_parts
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.asking import Patience, Question, UpkeepAsker
from implicast.peer.contract import Address, Incarnation, Message, StandingAlarm, handles
from implicast.peer.name import has_next
from implicast.space.ring import up_to

SECRET_BITS = 61
PIECES_MAX = 65_536
"""Pieces of one peer; more are refused."""
RENEWALS = 2
"""Times that an entry is renewed within its lease: what is not answered is repeated at once, so twice is enough."""
RENEWING = "renewing"
PIECES_PER_MESSAGE = 200
"""Pieces that one message renews."""
SILENT_MAX = 3
"""A keeper that leaves so many renewals unanswered is taken for dead: its pieces are laid again at once."""
RENEW_WAIT_US = 5_000_000
"""Patience with each of them; less where leases are short."""


class LayLate(Message):
    """Rings while something is not laid everywhere."""


class RenewRound(StandingAlarm):
    """Rings when the own entries are to be renewed."""


class Layings(Shareholder):
    """What one peer has in lists, and wants there."""

    __slots__ = (
        "_armed",
        "_asker",
        "_contact",
        "_done",
        "_groups",
        "_holders",
        "_holders_most",
        "_keeper",
        "_open",
        "_outlived",
        "_renew_us",
        "_stamp",
        "_turn",
        "pieces",
    )

    def __init__(
        self,
        share: Share,
        keeper: Keeper,
        asker: UpkeepAsker,
        incarnation: Incarnation,
        done: Callable[[Any], None],
        outlived: Callable[[Incarnation], None],
    ) -> None:
        """`done(group)`: all pieces of a group are laid. `outlived(incarnation)`: a keeper knows words of this later life."""
        super().__init__(share)
        self._contact, self._keeper, self._asker = share.contact, keeper, asker
        self._done, self._outlived = done, outlived
        self.pieces: dict[int, Piece] = {}
        self._open: dict[int, Piece] = {}
        self._groups: dict[int, tuple[Hashable, set[int]]] = {}
        """By serial, the group of a piece, and the serials of all in it that are still to be laid."""
        self._holders: set[Address] = set()
        """All who hold a piece, and some who did; looked up, never gone through. Worked out anew above the other."""
        self._holders_most = PAST_MAX
        self._armed = False
        self.begin(incarnation)
        self._renew_us, self._turn = share.settings.lease_us // RENEWALS, 0
        if self._renew_us:
            asker.topic(
                RENEWING, Patience(min(RENEW_WAIT_US, self._renew_us // 8), SILENT_MAX), self._lost
            )
            self._ring.later(self._renew_us, RenewRound())

    def begin(self, incarnation: Incarnation) -> None:
        """Words said from now on are of this life, and above all before."""
        self._stamp = incarnation << STAMP_BITS

    def stamp(self, words: int = 1) -> int:
        """Newer than all before, and so many words."""
        self._stamp += words
        return self._stamp

    def piece(self, where: Range, number: int, packed: bytes) -> Piece:
        """To be laid; nothing packed: taken out."""
        shelf, attribute, low, high, walks = where
        stamp, key = self.stamp(), self._share.key_of(attribute, low)
        # Who does not pass a request on must not be able to confirm it: where words are signed its serial is secret.
        serial = self.host.rng.getrandbits(SECRET_BITS) if self._share.deeds.signed else stamp
        return Piece(
            serial, shelf, attribute, low, high, key, number, packed, stamp, walks, ((low, high),)
        )

    def restore(self, pieces: Iterable[KeptPiece]) -> list[Piece]:
        """What an earlier life had laid is there, or on its way; it keeps the serials it had then. What that life was
        taking out has yet to be taken out: these pieces are the answer."""
        removals = []
        for shelf, attribute, low, high, number, packed, walks, serial in pieces:
            piece = self.piece((shelf, attribute, low, high, walks), number, packed)
            if packed:
                self.pieces[serial] = replace(piece, serial=serial, missing=())
            else:
                removals.append(piece)
        return removals

    def stand(self, piece: Piece, holder: Address) -> Row:
        """A piece laid already, remembered if it is ever renewed; the entry of its lowest value, as keepers have it."""
        if self._share.settings.lease_us:
            piece.confirm(piece.low, piece.high, (holder, piece.stamp))
            self._holders.add(holder)
            self.pieces[piece.serial] = piece
        packed = self._share.deeds.seal(self._contact, piece, piece.low, piece.high)
        slot = (piece.shelf, piece.attribute, piece.low)
        return Row(piece.key, slot, self._contact, piece.number, piece.stamp, packed)

    def removal(self, piece: Piece) -> Piece:
        """The same taken out; the piece itself is wanted no more."""
        self.forget(piece)
        return self._out(piece, piece.low, piece.high)

    def _out(self, piece: Piece, low: Scalar, high: Scalar) -> Piece:
        """These values of a piece taken out."""
        return self.piece((piece.shelf, piece.attribute, low, high, piece.walks), piece.number, b"")

    def narrow(self, piece: Piece, low: Scalar, high: Scalar) -> list[Piece]:
        """Only these values of a piece are wanted any more: the others taken out. What it lacks is not added."""
        wanted, whole = overlap((piece.low, piece.high), (low, high)), (piece.low, piece.high)
        if wanted == whole:
            return []
        if wanted is None:
            return [self.removal(piece)]
        piece.narrow(*wanted, self._share.key_of(piece.attribute, wanted[0]))
        if not piece.missing:
            self._close(piece)
        return [self._out(piece, *each) for each in without(whole, *wanted)]

    def progress(self) -> tuple[int, int, int]:
        """Differs whenever what is laid has changed: what is laid anew has a new stamp, and the rest only ends."""
        return self._stamp, len(self._open), len(self.pieces)

    def forget(self, piece: Piece) -> None:
        self.pieces.pop(piece.serial, None)
        self._close(piece)

    def lay(self, group: Hashable, pieces: Iterable[Piece]) -> None:
        """Lay these; `done(group)` follows."""
        laid = self._agreeing(list(pieces))
        awaited = {piece.serial for piece in laid}
        for piece in laid:
            self._groups[piece.serial] = group, awaited
            if len(self.pieces) < PIECES_MAX:
                self.pieces[piece.serial] = self._open[piece.serial] = piece
                self._send_out(piece)
        if not laid:
            self._done(group)

    def _agreeing(self, pieces: list[Piece]) -> list[Piece]:
        """What is wanted is not taken out any more: a removal with a new stamp would undo what was laid since."""
        under_way = [piece for piece in self._open.values() if not piece.packed]
        if not under_way and all(piece.packed for piece in pieces):
            return pieces
        wanted: dict[tuple[str, str, int], list[Stretch]] = {}
        for piece in (*self.pieces.values(), *pieces):
            if piece.packed:
                wanted.setdefault((piece.shelf, piece.attribute, piece.number), []).append(
                    (piece.low, piece.high)
                )
        agreed: list[Piece] = []
        for piece in (*pieces, *under_way):
            agreed += [piece] if piece.packed else self._cut(piece, wanted)
        return agreed

    def _cut(
        self, removal: Piece, wanted: dict[tuple[str, str, int], list[Stretch]]
    ) -> list[Piece]:
        """What is still to be laid of a removal: nothing, if it concerns nothing wanted and is under way already."""
        left = [(removal.low, removal.high)]
        for low, high in wanted.get((removal.shelf, removal.attribute, removal.number), ()):
            left = [part for each in left for part in without(each, low, high)]
        if left == [(removal.low, removal.high)]:
            return [] if removal.serial in self._open else [removal]
        self.forget(removal)
        return [self._out(removal, *part) for part in left]

    def _close(self, piece: Piece) -> None:
        """Nothing of it is to be laid any more."""
        if self._open.pop(piece.serial, None) is not None and piece.serial in self._groups:
            group, awaited = self._groups.pop(piece.serial)
            awaited.remove(piece.serial)
            if not awaited:
                self._done(group)

    def _send_out(self, piece: Piece) -> None:
        piece.wait(self.host.now_us, 1 if piece.low == piece.high else self._chord.nodes_estimate())
        if self._ring.state == IN:
            for low, high in piece.missing:
                key = piece.key if low == piece.low else self._share.key_of(piece.attribute, low)
                packed = self._share.deeds.seal(self._contact, piece, low, high)
                lay = Lay(
                    key,
                    piece.shelf,
                    piece.attribute,
                    low,
                    high,
                    self._contact,
                    piece.number,
                    piece.stamp,
                    packed,
                    piece.serial,
                    piece.walks,
                    False,
                )
                self._keeper.on_request(self.address, lay)
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self._open and self._share.settings.lease_us:
            self._armed = True
            self.host.after(LOOK_US, LayLate())

    @handles(LayLate)
    def on_lay_late(self, alarm: LayLate) -> None:
        self._armed = False
        for piece in list(self._open.values()):
            if piece.due_us <= self.host.now_us and piece.serial in self._open:
                self._chord.turn_off(int(self.host.rng.random() * 3))
                self._send_out(piece)
        self._chord.turn_off(0)
        self._arm()

    @handles(LaidAt)
    def on_laid(self, sender: Address, laid: LaidAt) -> None:
        piece = self.pieces.get(laid.serial)
        if piece is None or laid.stamp < piece.stamp:
            return  # what was laid before it was lost does not count
        piece.confirm(laid.low, laid.high, (laid.holder, laid.stamp) if self._renew_us else None)
        if self._renew_us:
            self._holders.add(laid.holder)
            if len(self._holders) > self._holders_most:
                self._holders = {holder for _, _, holder in self._held()}
                self._holders_most = 2 * len(self._holders) + PAST_MAX
        if not piece.missing and piece.serial in self._open:
            if not piece.packed or not self._share.settings.lease_us:
                del self.pieces[piece.serial]  # never renewed, never asked for
            self._close(piece)
            if not self._open:  # else they would stay as large as they once were
                self._open, self._groups = {}, {}

    @handles(EntryOutdated)
    def on_outdated(self, sender: Address, outdated: EntryOutdated) -> None:
        """A keeper has a newer word. Of a later life than this one: this peer began from an old copy of its disk, and
        must go on above what is known of it. Else the entry lapsed, or a repeat came late."""
        if outdated.stamp > self._stamp:
            if not self._share.deeds.signed and has_next(outdated.stamp >> STAMP_BITS):
                self._outlived(outdated.stamp >> STAMP_BITS)
        elif (
            piece := self._open.get(outdated.serial)
        ) is not None and piece.stamp <= outdated.stamp:
            self.lay_again([(piece, stretch) for stretch in piece.missing])

    @handles(LaterEntry)
    def on_later(self, sender: Address, later: LaterEntry) -> None:
        """This peer's own word, of a life that it has forgotten."""
        row = later.row
        if (
            row.owner.name == self._contact.name
            and row.stamp > self._stamp
            and self._share.deeds.are_sound((row,))
        ):
            self._outlived(row.stamp >> STAMP_BITS)

    @handles(EntryOutdated)
    def on_outdated_here(self, alarm: EntryOutdated) -> None:
        """This peer, as a keeper, has a newer word itself."""
        self.on_outdated(self.address, alarm)

    def lay_again(self, held: Iterable[tuple[Piece, Stretch]]) -> None:
        """With a new stamp: what became of the old entry, a removal even, must not stand in the way. What the peer has
        replaced since it was asked for is past, and must not come back above the newer word."""
        for piece, (low, high) in [each for each in held if each[0].serial in self.pieces]:
            piece.lose(low, high, self.stamp(), self.host.now_us)
            self._open[piece.serial] = piece
        self._arm()

    def lay_all_again(self) -> None:
        """Somebody believed this peer dead: whoever holds what now, and whoever held it, may have forgotten."""
        self.lay_again(
            [(each, part) for each in self.pieces.values() for part in (*each.held, *each.missing)]
        )

    def mourn(self, keeper: Address) -> None:
        """A keeper is said to be dead. Its heir should have all; but only the owner of an entry can know that it is."""
        if (
            keeper in self._holders
        ):  # of a thousand peers hardly any holds something of this one: 7 % of a run
            self.lay_again(
                [(piece, stretch) for piece, stretch, holder in self._held() if holder == keeper]
            )

    def heed(self, low: int, high: int) -> None:
        """The lists of these keys are lost: lay again what was there."""
        key_of = self._share.key_of
        self.lay_again(
            [
                (piece, stretch)
                for piece, stretch, _ in self._held()
                if any(
                    up_to(low, key_of(piece.attribute, value), high) for value in values(stretch)
                )
            ]
        )

    # Leases

    @handles(RenewRound)
    def on_renew_round(self, alarm: RenewRound) -> None:
        self._ring.later(self._renew_us, RenewRound())
        self.renew_all()

    def renew_all(self) -> None:
        """Ask all who confirmed something whether it is still there."""
        by_holder: dict[Address, list[tuple[Piece, Stretch]]] = {}
        for piece, stretch, holder in self._held():
            by_holder.setdefault(holder, []).append((piece, stretch))
        for holder, held in by_holder.items():
            if holder == self.address:
                self._take_back(self._keeper.lost_of(self._renewal(held), holder))
                continue
            for _, _, some in in_parts(held, PIECES_PER_MESSAGE):
                self._turn += 1
                self._asker.ask(RENEWING, (holder, self._turn), holder, self._renewal(some), some)

    def _held(self) -> Iterator[tuple[Piece, Stretch, Address]]:
        for piece in self.pieces.values():
            for stretch, (holder, _) in piece.held.items():
                yield piece, stretch, holder

    def _renewal(self, held: Iterable[tuple[Piece, Stretch]]) -> RenewEntries:
        named = [
            (one.serial, one.shelf, one.attribute, *part, one.number, one.held[part][1])
            for one, part in held
        ]
        return RenewEntries(self._contact.name, self._turn, tuple(named))

    @handles(EntriesRenewed)
    def on_renewed(self, sender: Address, renewed: EntriesRenewed) -> None:
        if self._asker.answered(RENEWING, (sender, renewed.turn)) is not None:
            self._take_back(renewed.lost)

    def _lost(self, key: tuple[Address, int], question: Question) -> None:
        """A keeper that never answers is given up."""
        self.lay_again(
            [
                (piece, part)
                for piece, part in question.about
                if piece.held.get(part, (None,))[0] == key[0]
            ]
        )

    def _take_back(self, lost: Iterable[tuple[int, Scalar, Scalar]]) -> None:
        self.lay_again(
            [
                (self.pieces[serial], (low, high))
                for serial, low, high in lost
                if serial in self.pieces
            ]
        )
