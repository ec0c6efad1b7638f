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

from implicast.casting.replicated_lists.messages import (
    IN_FORCE,
    REMOVED,
    Found,
    ListEntry,
    Packed,
    Scalar,
    Slot,
    Stamp,
)
from implicast.casting.replicated_lists.own_entry import OwnEntry, overlap, reader
from implicast.language.target import Description
from implicast.peer.contract import Contact, Message, Name
from implicast.peer.signing import Proof, Signing

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
        self._signing, self._described, self._numbered, self.signed = (
            signing,
            described,
            numbered,
            signing.signed,
        )
        self._last: tuple[object, ...] = ()

    def sign(self, owner: Contact, own_entry: OwnEntry, low: Scalar, high: Scalar) -> bytes:
        """Return the content of an own entry as sent for the values low..high; signed if the
        network is. Empty content is a removal.
        """
        packed, stamp = own_entry.packed, own_entry.stamp
        if not self.signed:
            return packed
        about = (
            "row",
            owner,
            own_entry.namespace,
            own_entry.attribute,
            low,
            high,
            own_entry.number,
            stamp,
            packed,
        )
        proof = self._signing.prove(
            about, self._described((own_entry.namespace, own_entry.attribute, low), packed)
        )
        return (IN_FORCE if packed else REMOVED) + _encode(
            EntryProof(low, high, stamp, packed, proof)
        )

    def are_valid(self, entries: Iterable[ListEntry]) -> bool:
        """Whether all entries are signed by their owners; always true in an unsigned network."""
        return not self.signed or all(map(self._is_valid, entries))

    def _is_valid(self, entry: ListEntry) -> bool:
        entry_proof, value = entry_proof_of(entry.packed), entry.slot[2]
        if (
            entry_proof is None
            or overlap((value, value), (entry_proof.low, entry_proof.high)) is None
        ):
            return False
        checked = (entry.slot[:2], entry.owner, entry.number, entry.stamp, entry.packed)
        if self._last != checked:  # a range is put value by value with one proof: verify it once
            is_same = (
                entry_proof.stamp == entry.stamp and bool(entry_proof.packed) == entry.in_force
            )
            is_theirs = is_same and self._numbered(entry.owner.name, entry.number)
            if not is_theirs or not self._is_proved(
                entry.owner, entry.number, entry.slot, entry_proof
            ):
                return False
            self._last = checked
        return True

    def _is_proved(self, owner: Contact, number: int, slot: Slot, entry_proof: EntryProof) -> bool:
        about = (
            "row",
            owner,
            slot[0],
            slot[1],
            entry_proof.low,
            entry_proof.high,
            number,
            entry_proof.stamp,
            entry_proof.packed,
        )
        return self._signing.verify_proof(
            owner.name, about, entry_proof.proof, self._described(slot, entry_proof.packed)
        )

    def unwrap(self, found: Iterable[Found], slot: Slot, verified: bool) -> tuple[Found, ...]:
        """Unwrap signed entries into the content their owners gave. `verified`: drop those whose
        signature does not verify.
        """
        opened = [
            (owner, number, entry_proof)
            for owner, number, packed in found
            if (entry_proof := entry_proof_of(packed)) is not None
        ]
        if verified:
            opened = [each for each in opened if self._is_proved(each[0], each[1], slot, each[2])]
        return tuple([(owner, number, entry_proof.packed) for owner, number, entry_proof in opened])
