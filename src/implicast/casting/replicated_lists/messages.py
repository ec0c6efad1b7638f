"""Messages about replicated lists."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Ref
from implicast.overlay.links.silence import NO_UNCERTAINTY, Uncertainty
from implicast.peer.contract import Address, CastId, Contact, Message, Name
from implicast.peer.fields import TEXT_MAX, Count, Flag, Micros, Text, Token
from implicast.space.ring import ID_BITS

PARTS_MAX = 4_096
"""Upper limit for the parts of one answer or of one range handoff."""
STAMP_BITS = 22
"""Stamps that one incarnation of an owner can issue. Beyond 2^22 the counter runs into the stamps
of the next incarnation.
"""

RingKey = Annotated[int, Meta(ge=0, le=(1 << ID_BITS) - 1)]
Scalar = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | Annotated[str, Meta(max_length=TEXT_MAX)]
"""`language.target.Scalar` with bounds."""
Stamp = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
"""Version of an entry: the owner's incarnation in the high bits, a counter within it in the low
`STAMP_BITS`. The larger stamp is newer.
"""
Sum = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Few = Annotated[int, Meta(ge=0, le=8)]
"""Successors to which a message is still to be forwarded."""
Number = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
Part = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Packed = Annotated[bytes, Meta(max_length=1 << 16)]
REMOVED, IN_FORCE = b"\xc1\x00", b"\xc1\x01"
"""Prefixes of the content of a signed removal and of a signed entry. 0xc1 is unused in MessagePack,
so unsigned content never begins with either.
"""
Slot = tuple[Text, Text, Scalar]
"""Identifies one list: namespace, attribute, value."""


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
        """The key of the entry within its list."""
        return self.number or self.owner.name


SomeEntries = Annotated[tuple[ListEntry, ...], Meta(max_length=4_096)]


class PutEntry(Message):
    """Put this entry into the lists of the values low..high. Routed to the holder of the lowest
    value. From there it goes to the holder of each next value: along successors if `walking`, else
    by finger routing. `walks` says which of the two the rest of the range uses.
    """

    wire = 0x0601
    key: RingKey
    namespace: Text
    attribute: Text
    low: Scalar
    high: Scalar
    owner: Contact
    number: Token
    stamp: Stamp
    packed: Packed
    serial: Stamp
    walks: bool
    walking: bool


class CopyEntries(Message):
    """Store copies of these entries, all of one owner, and forward them to `more` further
    successors. The last one sends `PutAck` to the owner.
    """

    wire = 0x0602
    by: Ref
    entries: Annotated[tuple[ListEntry, ...], Meta(min_length=1, max_length=1 << 20)]
    more: Few
    serial: Stamp
    low: Scalar
    high: Scalar


class PutAck(Message):
    """Positive answer to `PutEntry`: `holder` stores the values low..high with this stamp, and all
    copies are made.
    """

    wire = 0x0603
    serial: Stamp
    stamp: Stamp
    low: Scalar
    high: Scalar
    holder: Address


class PutRepeated(Message):
    """Answer to a repeated `PutEntry`: the sender has stored this put before, so its acknowledgement
    or that of the copies was lost. The owner sends further repeats to the sender directly.
    """

    wire = 0x0617
    serial: Stamp


class EntryOutdated(Message):
    """Negative answer to `PutEntry`: the holder has a newer entry of this owner; `stamp` is its
    stamp. As an alarm: the same, where the owner is its own holder.
    """

    wire = 0x0604
    serial: Stamp
    stamp: Stamp


class NewerListEntry(Message):
    """Sent with `EntryOutdated` in a signed network: the newer entry itself, which the owner can
    verify.
    """

    wire = 0x0616
    serial: Stamp
    entry: ListEntry


class RenewEntries(Message):
    """Renew the leases of these entries. Each: serial, namespace, attribute, low, high, number,
    stamp.
    """

    wire = 0x0605
    owner: Name
    turn: Token
    ranges: Annotated[
        tuple[tuple[Stamp, Text, Text, Scalar, Scalar, Token, Stamp], ...], Meta(max_length=1_024)
    ]


class EntriesRenewed(Message):
    """Answer to `RenewEntries`: all are renewed except these (serial, low, high), which the sender
    does not own or does not have.
    """

    wire = 0x0606
    turn: Token
    lost: Annotated[tuple[tuple[Stamp, Scalar, Scalar], ...], Meta(max_length=1_024)]


class RangeDigest(Message):
    """Anti-entropy: count and digest of the entries that `by` owns, in (low, key of `by`].
    Forwarded along `more` successors, which hold copies of them.
    """

    wire = 0x0607
    by: Ref
    low: RingKey
    count: Token
    total: Sum
    more: Few


class DigestRequest(Message):
    """Anti-entropy: the sender holds copies of the receiver's entries, or should, and asks for a
    `RangeDigest`.
    """

    wire = 0x0608


class SyncEntries(Message):
    """Anti-entropy: entries of the keys (low, high], part `part` of `parts`. OFFER asks for the
    receiver's entries of that range in return; REPLY does not.
    """

    wire = 0x0609
    by: Ref
    kind: Flag
    low: RingKey
    high: RingKey
    part: Part
    parts: Part
    entries: SomeEntries


OFFER, REPLY = range(2)


LostRanges = Annotated[tuple[tuple[RingKey, RingKey, Micros], ...], Meta(max_length=256)]
"""Key ranges (low, high] whose entries were lost with all copies, each with the time since then."""


class PullRange(Message):
    """Range handoff on a join: the sender is the new predecessor, owns (low, own key] and asks for
    its entries.
    """

    wire = 0x060A
    by: Ref
    low: RingKey
    turn: Flag


class RangeEntries(Message):
    """Range handoff: one part of the entries of a range. `pushed`: the sender is leaving and sends
    all it holds; otherwise this answers `PullRange`.
    """

    wire = 0x060B
    by: Ref
    pushed: bool
    turn: Flag
    part: Part
    parts: Part
    entries: SomeEntries
    lost: LostRanges = ()
    """Ranges whose entries were lost a short while ago and may not have been put again."""
    uncertainty: Uncertainty = NO_UNCERTAINTY
    """What the sender knows of silent nodes: the receiver joins after they were reported."""


class RangeTaken(Message):
    """Acknowledges one part of a pushed range."""

    wire = 0x060C
    turn: Flag
    part: Part
    parts: Part


class ReturnEntries(Message):
    """Entries that `origin` holds although it neither owns them nor keeps copies for their owner.
    Routed to the first key; each node on the way stores those it owns and forwards the rest.
    """

    wire = 0x060D
    key: RingKey
    entries: SomeEntries
    origin: Address


class EntriesReturned(Message):
    """Acknowledges `ReturnEntries`: the sender owns (low, high] and stored what was returned."""

    wire = 0x060E
    low: RingKey
    high: RingKey


class RangeLost(Message):
    """Broadcast: all copies of the lists of (low, high] are lost, so owners of entries there must
    put them again. Routed to `key`, and forwarded to all nodes from there up to `limit`.
    """

    wire = 0x060F
    serial: Token
    low: RingKey
    high: RingKey
    key: RingKey
    limit: RingKey
    by: Address


class SuspectReport(Message):
    """Broadcast: the peer at address `who`, the predecessor of the reporting node, is suspected to
    have crashed. Receivers probe it themselves. Routed to `key`, and forwarded to all nodes from
    there up to `limit`.
    """

    wire = 0x0610
    serial: Token
    who: Address
    key: RingKey
    limit: RingKey
    by: Address
    silent: Ref | None = None
    """The node at this address."""


class BroadcastAck(Message):
    """Acknowledges a broadcast: the sender forwards it from `key` up to `limit`."""

    wire = 0x0611
    serial: Token
    key: RingKey
    limit: RingKey


class ProbeOwner(Message):
    """Asks whether the peer of this name is still at the receiver's address."""

    wire = 0x0612
    name: Name


class OwnerAlive(Message):
    """Positive answer to `ProbeOwner`."""

    wire = 0x0613
    name: Name


class FetchLists(Message):
    """Read the lists of the values low..high. Goes from holder to holder as `PutEntry` does; each
    holder answers for its own values. `range_number` identifies the range within one cast.
    `counts`: return only the number of entries.
    """

    wire = 0x0614
    key: RingKey
    range_number: Number
    namespace: Text
    attribute: Text
    low: Scalar
    high: Scalar
    cast: CastId
    origin: Address
    walks: bool
    walking: bool
    counts: bool = False


Found = tuple[Contact, Token, Packed]
"""One entry as returned to a reader: owner, number, content."""


class ListsFetched(Message):
    """Answer to `FetchLists`: the entries of the values low..high, part `part` of `parts`; or only
    their `count`.
    """

    wire = 0x0615
    cast: CastId
    range_number: Number
    low: Scalar
    high: Scalar
    part: Part
    parts: Part
    found: Annotated[tuple[Found, ...], Meta(max_length=1 << 16)]
    count: Token = 0
    silent: Annotated[tuple[Found, ...], Meta(max_length=1 << 16)] = ()
    """Entries that were removed because their owner is silent."""
    uncertain: Count = 0
    """1 if entries of these lists were lost and may not have been put again."""


REPLICATED_LIST_KINDS: tuple[type[Message], ...] = (
    PutEntry,
    CopyEntries,
    PutAck,
    PutRepeated,
    EntryOutdated,
    RenewEntries,
    EntriesRenewed,
    RangeDigest,
    DigestRequest,
    SyncEntries,
    PullRange,
    RangeEntries,
    RangeTaken,
    ReturnEntries,
    EntriesReturned,
    RangeLost,
    BroadcastAck,
    SuspectReport,
    ProbeOwner,
    OwnerAlive,
    FetchLists,
    ListsFetched,
    NewerListEntry,
)
