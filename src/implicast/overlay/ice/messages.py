"""Messages that several parts of a surface share: claims and heartbeats, joining, and queries for
owners. Those of one protocol alone stand in the file of its part; `kinds.py` lists all.
"""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.ice.item_store import (
    VERSION_MAX,
    Code,
    Item,
    Number,
    RouteHeader,
    StateVersion,
)
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Micros
from implicast.space.morton import BITS, CODES, DIMENSIONS

CLAIMS_MAX = 1_024
"""Claims in one field. A peer has a few claims of its own and some dozens of neighbouring ones."""
INTRODUCED_MAX = 8
"""Peers named in one introduction."""
BACKUPS_MAX = 16
"""Backups named in one message."""
ITEMS_MAX = 16_384
"""Items in one message."""
PARTS_MAX = 4_096
"""Parts of one handoff or snapshot: 256 MB at 64 KB each."""

Bits = Annotated[int, Meta(ge=0, le=BITS)]
Digit = Annotated[int, Meta(ge=0, lt=1 << DIMENSIONS[-1])]
"""One base-2^d digit of an address on the surface."""
PartNumber = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Backups = Annotated[tuple[Address, ...], Meta(max_length=BACKUPS_MAX)]
Items = Annotated[tuple[Item, ...], Meta(max_length=ITEMS_MAX)]
OptionalNumber = Annotated[int, Meta(ge=-2, le=VERSION_MAX)]
"""A number from 0 on; negative: no value."""


class OwnershipClaim(Message):
    """Ownership claim: the extent of all codes with the prefix of `bits` bits that begins at `low`
    belongs to `owner`. Where claims overlap the larger epoch wins; at equal epochs the smaller
    owner address wins.
    """

    low: Code
    bits: Bits
    epoch: StateVersion
    owner: Address

    @property
    def high(self) -> int:
        return self.low + (1 << (BITS - self.bits))

    def __post_init__(self) -> None:
        if self.low & ((1 << (BITS - self.bits)) - 1) or self.low >= CODES:
            raise ValueError(f"no prefix of {self.bits} bits begins at {self.low:#x}")


Claims = Annotated[tuple[OwnershipClaim, ...], Meta(max_length=CLAIMS_MAX)]
Neighbour = tuple[OwnershipClaim, Backups]
"""A claim and the backup set of its owner."""
Surroundings = Annotated[tuple[Neighbour, ...], Meta(max_length=CLAIMS_MAX)]


class Heartbeat(Message):
    """Full state of the sender: its extents, its backup set, and the claims by which it lately
    parted with extents. Answered by `HeartbeatAck`.
    """

    wire = 0x0901
    stamp_us: Micros
    """Time of sending by the sender's clock; returned in the ack."""
    born_us: Micros
    """Start of the sender's incarnation by its own clock. A later value than the known one proves
    that the previous incarnation at this address is dead.
    """
    version: StateVersion
    """State version: increases whenever the sender's extents, their status or its backups change,
    also from one incarnation to the next.
    """
    extents: Claims
    provisional: Claims
    """Extents that are received but not yet committed. Only backups of the sender record these."""
    backups: Backups
    new_backups: Backups
    """Peers that are receiving a snapshot and will become backups."""
    leaving: bool
    relinquished: Claims
    around: Surroundings = ()
    """Sent to backups only: the claims of the sender's neighbours, each with its owner's backup
    set.
    """


class HeartbeatAck(Message):
    """Acknowledges a heartbeat."""

    wire = 0x0902
    stamp_us: Micros
    version: StateVersion
    own_stamp_us: Micros
    """The answerer's own timestamp, which the receiver acknowledges at once; 0: none wanted."""
    has_copy: bool
    """True if the answerer holds a complete backup copy of the receiver's items."""


class FullStateRequest(Message):
    """Asks for a heartbeat: the sender does not know the receiver's current state version."""

    wire = 0x0903


class ClaimUpdate(Message):
    """Claims that beat the ones the receiver uses, or the answer to `FindOwner`."""

    wire = 0x0904
    claims: Claims


class JoinRequest(Message):
    """Routed request of a joining peer to the owner of a code: hand off an extent to me."""

    wire = 0x0906
    way: RouteHeader
    newcomer: Address
    born_us: Micros


class FindOwner(Message):
    """Routed query for the owner of a code. The owner, or a peer that has the message parked for
    the owner, answers the requester with `ClaimUpdate`.
    """

    wire = 0x0907
    way: RouteHeader
    requester: Address


class LatencyProbe(Message):
    """Latency probe of a joining peer to the owner of a code: first routed, then sent directly."""

    wire = 0x0916
    way: RouteHeader
    newcomer: Address
    round: Number
    digit: Digit
    direct: bool


class LatencyReply(Message):
    """Answer of the owner: the probed code, and the prefix length of its extent."""

    wire = 0x0917
    round: Number
    digit: Digit
    direct: bool
    low: Code
    bits: Bits


class Introduction(Message):
    """Answer of an introducer to a joining peer: further peers through which it can ask. The
    introducers that the joining peer began with may be gone before it has a place.
    """

    wire = 0x0918
    peers: Annotated[tuple[Address, ...], Meta(max_length=INTRODUCED_MAX)]
