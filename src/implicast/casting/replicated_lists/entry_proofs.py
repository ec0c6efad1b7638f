"""Owners' signatures on entries: in a signed network the content of an entry carries its owner's
proof.

The proof covers the owner's name and address, the range of values of the put, the entry's number,
its stamp and its content. So a holder, the holder of a copy, the receiver of a range handoff and a
publisher that reads the list can all verify an entry, and an old version cannot be passed off as
new. A removal by the owner is signed in the same way. The expiry of a lease is decided by the
holder without a proof: nodes with copies accept an unsigned removal from the holder only.
"""

from collections.abc import Callable, Iterable

import msgspec

from implicast.casting.replicated_lists.entries import (
    IN_FORCE,
    REMOVED,
    Found,
    ListEntry,
    OwnEntry,
    Packed,
    Scalar,
    Slot,
    Stamp,
    reader,
)
from implicast.language.target import Description
from implicast.peer.contract import Contact, Message, Name
from implicast.peer.signing import Proof, Signing
from implicast.space.steps import overlap

Described = Callable[[Slot, bytes], Description | None]
"""Returns what an entry states about its owner; protected tags in it need the authority's
signature.
"""
Numbered = Callable[[Name, int], bool]
"""Whether an entry number may belong to this owner."""


class EntryProof(Message):
    """Content of a signed entry and the owner's proof of it for a range of values."""

    low: Scalar
    high: Scalar
    stamp: Stamp
    packed: Packed
    proof: Proof


_encode = msgspec.msgpack.Encoder().encode
_read = reader(EntryProof, None)


def entry_proof_of(packed: bytes) -> EntryProof | None:
    return _read(packed[len(IN_FORCE) :]) if packed.startswith((IN_FORCE, REMOVED)) else None


class EntryProofs:
    """Signs the own entries of a peer and verifies those of others."""

    __slots__ = ("_described", "_last", "_numbered", "_signing", "signed")

    def __init__(self, signing: Signing, described: Described, numbered: Numbered) -> None:
        self._signing, self._described, self._numbered = signing, described, numbered
        self.signed = signing.signed
        """False: entries carry no proofs, and none is asked for."""
        self._last: tuple[object, ...] = ()

    def sign(self, owner: Contact, own_entry: OwnEntry, low: Scalar, high: Scalar) -> bytes:
        """Return the content of an own entry as sent for the values low..high; signed if the
        network is. Empty content is a removal.
        """
        one, packed = own_entry, own_entry.packed
        if not self.signed:
            return packed
        about = _statement(owner, one.slot, low, high, one.number, one.stamp, packed)
        states = self._described((one.namespace, one.attribute, low), packed)
        signed = EntryProof(low, high, one.stamp, packed, self._signing.prove(about, states))
        return (IN_FORCE if packed else REMOVED) + _encode(signed)

    def are_valid(self, entries: Iterable[ListEntry]) -> bool:
        """Whether all entries are signed by their owners; always true in an unsigned network."""
        return not self.signed or all(map(self._is_valid, entries))

    def _is_valid(self, entry: ListEntry) -> bool:
        one, value = entry_proof_of(entry.packed), entry.slot[2]
        if one is None or overlap((value, value), (one.low, one.high)) is None:
            return False
        checked = (entry.slot[:2], entry.owner, entry.number, entry.stamp, entry.packed)
        if self._last == checked:  # a range is put value by value with one proof: verify it once
            return True
        is_same = one.stamp == entry.stamp and bool(one.packed) == entry.in_force
        if not (
            is_same
            and self._numbered(entry.owner.name, entry.number)
            and self._is_proved(entry.owner, entry.number, entry.slot, one)
        ):
            return False
        self._last = checked
        return True

    def _is_proved(self, owner: Contact, number: int, slot: Slot, one: EntryProof) -> bool:
        about = _statement(owner, slot, one.low, one.high, number, one.stamp, one.packed)
        states = self._described(slot, one.packed)
        return self._signing.verify_proof(owner.name, about, one.proof, states)

    def unwrap(self, found: Iterable[Found], slot: Slot, verified: bool) -> tuple[Found, ...]:
        """Unwrap signed entries into the content their owners gave. `verified`: drop those whose
        signature does not verify.
        """
        return tuple(
            [
                (owner, number, one.packed)
                for owner, number, packed in found
                if (one := entry_proof_of(packed)) is not None
                and (not verified or self._is_proved(owner, number, slot, one))
            ]
        )


def _statement(
    owner: Contact, slot: Slot, low: Scalar, high: Scalar, number: int, stamp: int, packed: bytes
) -> tuple[object, ...]:
    """What a proof covers."""
    return ("row", owner, slot[0], slot[1], low, high, number, stamp, packed)
