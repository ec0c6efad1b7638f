"""The owners' words on entries in lists: an entry of a signed network carries its owner's proof inside what is packed.

The proof covers the owner's name and address, the range of values for which the owner laid the entry, its number, its
stamp and what is packed; so a keeper, an heir, the holder of a copy and the publisher that is told a list can check it,
and an old one cannot be brought forward. An owner's removal is proved like an entry. That a lease is over the keeper of
the list decides by itself, without a proof: those who keep copies for it believe it, and only it.
"""

from collections.abc import Callable, Iterable

import msgspec

from implicast.casting.keeping.messages import (
    IN_FORCE,
    REMOVED,
    Found,
    Packed,
    Row,
    Scalar,
    Slot,
    Stamp,
)
from implicast.casting.keeping.pieces import Piece, overlap, reader
from implicast.language.target import Description
from implicast.peer.contract import Contact, Message, Name
from implicast.peer.words import Proof, Words

Described = Callable[[Slot, bytes], Description | None]
"""What an entry in a list says of its owner: that needs the authority's word where it is protected."""
Numbered = Callable[[Name, int], bool]
"""Whether a number of an entry can be this owner's."""


class Deed(Message):
    """What is packed in an entry, and the owner's proof of it for a range of values."""

    low: Scalar
    high: Scalar
    stamp: Stamp
    packed: Packed
    proof: Proof


_encode = msgspec.msgpack.Encoder().encode
_read = reader(Deed, None)


def deed_of(packed: bytes) -> Deed | None:
    return _read(packed[len(IN_FORCE) :]) if packed.startswith((IN_FORCE, REMOVED)) else None


class Deeds:
    """One peer's way to prove its own entries and to check those of others."""

    __slots__ = ("_described", "_last", "_numbered", "_words", "signed")

    def __init__(self, words: Words, described: Described, numbered: Numbered) -> None:
        self._words, self._described, self._numbered, self.signed = (
            words,
            described,
            numbered,
            words.signed,
        )
        self._last: tuple[object, ...] = ()

    def seal(self, owner: Contact, piece: Piece, low: Scalar, high: Scalar) -> bytes:
        """What is packed in a piece, as it travels for these of its values; nothing packed: taken out."""
        packed, stamp = piece.packed, piece.stamp
        if not self.signed:
            return packed
        about = ("row", owner, piece.shelf, piece.attribute, low, high, piece.number, stamp, packed)
        proof = self._words.prove(
            about, self._described((piece.shelf, piece.attribute, low), packed)
        )
        return (IN_FORCE if packed else REMOVED) + _encode(Deed(low, high, stamp, packed, proof))

    def are_sound(self, rows: Iterable[Row]) -> bool:
        """Whether their owners have said all of them."""
        return not self.signed or all(map(self._is_sound, rows))

    def _is_sound(self, row: Row) -> bool:
        deed, value = deed_of(row.packed), row.slot[2]
        if deed is None or overlap((value, value), (deed.low, deed.high)) is None:
            return False
        said = (row.slot[:2], row.owner, row.number, row.stamp, row.packed)
        if self._last != said:  # a range is laid value by value with one proof
            is_same = deed.stamp == row.stamp and bool(deed.packed) == row.in_force
            is_theirs = is_same and self._numbered(row.owner.name, row.number)
            if not is_theirs or not self._is_proved(row.owner, row.number, row.slot, deed):
                return False
            self._last = said
        return True

    def _is_proved(self, owner: Contact, number: int, slot: Slot, deed: Deed) -> bool:
        about = (
            "row",
            owner,
            slot[0],
            slot[1],
            deed.low,
            deed.high,
            number,
            deed.stamp,
            deed.packed,
        )
        return self._words.proved(owner.name, about, deed.proof, self._described(slot, deed.packed))

    def plain(self, found: Iterable[Found], slot: Slot, verified: bool) -> tuple[Found, ...]:
        """Signed entries as their owners packed them; `verified`: only those whose owners have said them."""
        opened = [
            (owner, number, deed)
            for owner, number, packed in found
            if (deed := deed_of(packed)) is not None
        ]
        if verified:
            opened = [each for each in opened if self._is_proved(each[0], each[1], slot, each[2])]
        return tuple([(owner, number, deed.packed) for owner, number, deed in opened])
