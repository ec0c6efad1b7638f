"""Values of replicated lists: entries as they are sent and stored, an owner's own entries, and
ranges of values.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from implicast.peer.contract import Address, Contact, Message, Name
from implicast.peer.fields import TEXT_MAX, Text, Token
from implicast.peer.wire import UNREADABLE
from implicast.space.ring import ID_BITS, hashed
from implicast.space.steps import ValueRange, overlap, without

PARTS_MAX = 4_096
"""Upper limit for the parts of one answer or of one range handoff."""
STAMP_BITS = 22
"""Stamps that one incarnation of an owner can issue. Beyond 2^22 the counter runs into the stamps
of the next incarnation.
"""
KEYS_MAX = 16_384
"""Value keys that are cached: all peers share them, and popular values recur."""
DECODED_MAX = 4_096
"""Decoded entries of one type that are cached: those in popular lists recur."""

RingKey = Annotated[int, Meta(ge=0, le=(1 << ID_BITS) - 1)]
Scalar = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | Annotated[str, Meta(max_length=TEXT_MAX)]
"""`language.target.Scalar` with bounds."""
Stamp = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
"""Version of an entry: the owner's incarnation in the high bits, a counter within it in the low
`STAMP_BITS`. The larger stamp is newer.
"""
Part = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Packed = Annotated[bytes, Meta(max_length=1 << 16)]
REMOVED, IN_FORCE = b"\xc1\x00", b"\xc1\x01"
"""Prefixes of the content of a signed removal and of a signed entry. 0xc1 is unused in MessagePack,
so unsigned content never begins with either.
"""
PRESENT = msgspec.msgpack.encode(None)
"""Content of an entry that states nothing but its presence."""
Slot = tuple[Text, Text, Scalar]
"""Identifies one list: namespace, attribute, value."""
KeyOf = Callable[[str, Scalar], int]
"""Ring key of a value of an attribute. Raises `RemoteError` if it has none."""
ListRange = tuple[str, str, Scalar, Scalar, bool]
"""Namespace, attribute, low, high, and whether the range is walked along successors."""
Listing = tuple[ListRange, int, bytes]
"""What an owner wants in lists: where, number, content."""
DurableEntry = tuple[str, str, Scalar, Scalar, int, bytes, bool, int]
"""An own entry in durable state: namespace, attribute, low, high, number, packed, walks, serial."""
Confirmation = tuple[Address, int]
"""The holder that confirmed a range of values, and the stamp that it stores."""
Found = tuple[Contact, Token, Packed]
"""One entry as returned to a reader: owner, number, content."""

key_of_value = lru_cache(KEYS_MAX)(hashed)
Read = TypeVar("Read")
Nonsense = TypeVar("Nonsense")


class ListEntry(Message):
    """One entry of a list. `number` tells entries of one owner apart (a subscription's id; 0 where
    an owner has at most one entry in a list). The larger stamp is newer. Empty `packed`: a removal
    (tombstone), by the owner or because the lease expired.
    """

    key: RingKey
    slot: Slot
    owner: Contact
    number: Token
    stamp: Stamp
    packed: Packed

    @property
    def in_force(self) -> bool:
        return bool(self.packed) and not self.packed.startswith(REMOVED)

    @property
    def ident(self) -> Name | int:
        """The key of the entry within its list: its number, or the owner's name where that is 0."""
        return self.number or self.owner.name

    def expired(self) -> "ListEntry":
        """The same entry as a removal, whose lease has ended."""
        return replace(self, packed=b"")


SomeEntries = Annotated[tuple[ListEntry, ...], Meta(max_length=4_096)]


@dataclass(slots=True)
class OwnEntry:
    """One entry of this peer for one range of values, and which values are confirmed by which
    holder.
    """

    serial: int
    namespace: str
    attribute: str
    low: Scalar
    high: Scalar
    key: int
    """Ring key of the lowest value."""
    number: int
    """A subscription's id; 0 where a peer has at most one entry in a list."""
    packed: bytes
    """Empty: a removal."""
    stamp: int
    walks: bool
    missing: tuple[ValueRange, ...]
    confirmed: dict[ValueRange, Confirmation] = field(default_factory=dict)
    """Holder of each confirmed range; empty without leases, where nothing is renewed."""
    due_us: int = 0
    """When a put that is not confirmed is due again."""
    holder: Address | None = None
    """The node that has stored a put that is repeated."""

    @property
    def slot(self) -> Slot:
        """The list of the lowest value."""
        return self.namespace, self.attribute, self.low

    def durable_state(self) -> DurableEntry:
        ends = self.namespace, self.attribute, self.low, self.high
        return (*ends, self.number, self.packed, self.walks, self.serial)

    def wait_until(self, due_us: int) -> None:
        self.due_us = due_us

    def note_holder(self, holder: Address) -> None:
        self.holder = holder

    def narrow(self, low: Scalar, high: Scalar, key: int) -> None:
        """Restrict the entry to these values; `key` is that of the lowest."""
        self.low, self.high, self.key, wanted = low, high, key, (low, high)
        self.missing = tuple(
            left for each in self.missing if (left := overlap(each, wanted)) is not None
        )
        self.confirmed = {
            left: who
            for each, who in self.confirmed.items()
            if (left := overlap(each, wanted)) is not None
        }

    def confirm(self, low: Scalar, high: Scalar, confirmed: Confirmation | None) -> None:
        """Mark these values as stored; `confirmed`: the holder to renew them at, None without
        leases.
        """
        if low == self.low and high == self.high:  # nearly always: one value
            self.missing = ()
            if confirmed is not None:
                self.confirmed = {(low, high): confirmed}
        elif (wanted := overlap((low, high), (self.low, self.high))) is not None:
            self.missing = tuple(left for each in self.missing for left in without(each, *wanted))
            if confirmed is not None:
                others = {s: who for s, who in self.confirmed.items() if without(s, *wanted)}
                self.confirmed = others | {wanted: confirmed}

    def lose(self, low: Scalar, high: Scalar, stamp: int, now_us: int) -> None:
        """Mark these values as missing, to be put again with a new stamp."""
        if (wanted := overlap((low, high), (self.low, self.high))) is None:
            return
        self.stamp, self.due_us, self.holder = stamp, now_us, None
        if wanted not in self.missing:
            self.missing += (wanted,)
        self.confirmed.pop(wanted, None)


def reader(kind: type[Read], nonsense: Nonsense) -> Callable[[bytes], Read | Nonsense]:
    """Return a cached decoder of entry content that returns `nonsense` for content that does not
    decode.
    """
    decode = msgspec.msgpack.Decoder(kind).decode

    @lru_cache(DECODED_MAX)
    def read(packed: bytes) -> Read | Nonsense:
        try:
            return decode(packed)
        except UNREADABLE:
            return nonsense

    return read
