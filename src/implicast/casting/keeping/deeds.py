"""The owners' words on entries in lists: an entry of a signed network carries its owner's proof inside what is packed.

The proof covers the owner's name and address, the range of values for which the owner laid the entry, its number, its
stamp and what is packed; so a keeper, an heir, the holder of a copy and the publisher that is told a list can check it,
and an old one cannot be brought forward. An owner's removal is proved like an entry. That a lease is over the keeper of
the list decides by itself, without a proof: those who keep copies for it believe it, and only it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from implicast.casting.keeping.messages import IN_FORCE, REMOVED, Found, Packed, Row, Scalar, Slot, Stamp
from implicast.language.target import Description
from implicast.peer.contract import Contact, Message, Name
from implicast.peer.wire import UNREADABLE
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
_decode = msgspec.msgpack.Decoder(Deed).decode


def deed_of(packed: bytes) -> Deed | None:
    try:
        return _decode(packed[len(IN_FORCE) :]) if packed.startswith((IN_FORCE, REMOVED)) else None
    except UNREADABLE:
        return None


class Deeds:
    """One peer's way to prove its own entries and to check those of others."""

    __slots__ = ("_described", "_last", "_numbered", "_words")

    def __init__(self, words: Words, described: Described, numbered: Numbered) -> None:
        self._words, self._described, self._numbered = words, described, numbered
        self._last: tuple[Any, ...] = ()

    @property
    def signed(self) -> bool:
        return self._words.signed

    def seal(
        self, owner: Contact, shelf: str, attribute: str, low: Scalar, high: Scalar, number: int, stamp: int,
        packed: bytes,
    ) -> bytes:  # fmt: skip
        """What is packed in an entry, as it travels; nothing packed: taken out."""
        if not self._words.signed:
            return packed
        about = ("row", owner, shelf, attribute, low, high, number, stamp, packed)
        proof = self._words.prove(about, self._described((shelf, attribute, low), packed))
        return (IN_FORCE if packed else REMOVED) + _encode(Deed(low, high, stamp, packed, proof))

    def is_sound(self, row: Row) -> bool:
        """Whether the owner has said this."""
        if not self._words.signed:
            return True
        known = (row.slot[:2], row.owner, row.number, row.stamp, row.packed)
        if self._last != known:  # a range is laid value by value with one proof
            deed = deed_of(row.packed)
            if deed is None or deed.stamp != row.stamp or not self._is_proved(row.owner, row.number, row.slot, deed):
                return False
            if bool(deed.packed) != row.in_force or not self._numbered(row.owner.name, row.number):
                return False
            self._last = known
        deed = deed_of(row.packed)
        return deed is not None and _within(row.slot[2], deed.low, deed.high)

    def _is_proved(self, owner: Contact, number: int, slot: Slot, deed: Deed) -> bool:
        about = ("row", owner, slot[0], slot[1], deed.low, deed.high, number, deed.stamp, deed.packed)
        return self._words.proved(owner.name, about, deed.proof, self._described(slot, deed.packed))

    def plain(self, found: tuple[Found, ...], slot: Slot, verified: bool) -> tuple[Found, ...]:
        """Entries as their owners packed them; `verified`: only those whose owners have said them."""
        if not self._words.signed:
            return found
        opened = [(owner, number, deed_of(packed)) for owner, number, packed in found]
        return tuple([
            (owner, number, deed.packed)
            for owner, number, deed in opened
            if deed is not None and (not verified or self._is_proved(owner, number, slot, deed))
        ])  # fmt: skip


def _within(value: Scalar, low: Scalar, high: Scalar) -> bool:
    if isinstance(value, str) or isinstance(low, str) or isinstance(high, str):
        return value == low == high
    return low <= value <= high
