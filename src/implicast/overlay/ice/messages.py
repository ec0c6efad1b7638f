"""Messages between the peers of an ICE surface.

Heartbeats keep neighbours informed of each other, handoffs move an extent from one live peer to
another, snapshots and deltas keep backup copies, and death polls precede the takeover of a dead
owner's extents.
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


class HopAck(Message):
    """Acknowledges one hop of a routed message by the number that the message had on this hop."""

    wire = 0x0905
    number: Number


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


class HandoffOffer(Message):
    """One part of a handoff: the receiver's future claim, the sender's neighbours, and a share of
    the items.
    """

    wire = 0x0908
    number: Number
    part: PartNumber
    parts: PartNumber
    claim: OwnershipClaim
    around: Surroundings
    items: Items


class HandoffProgress(Message):
    """Progress of a handoff: the receiver has this part and is working on it."""

    wire = 0x0909
    number: Number
    part: PartNumber


class HandoffPrepared(Message):
    """The receiver and all its backups have the items. The receiver does not answer for the extent
    before `HandoffCommit`.
    """

    wire = 0x090A
    number: Number
    claim: OwnershipClaim
    backups: Backups
    stamp_us: Micros
    """By the receiver's clock; supersedes its earlier statements about its backup set."""


class HandoffCommit(Message):
    """The sender has given up its claim: the extent belongs to the receiver alone."""

    wire = 0x090B
    number: Number


class HandoffAbort(Message):
    """Ends a handoff without effect: the receiver declines, or the sender does not know the
    handoff. The sender keeps the extent.
    """

    wire = 0x090C
    number: Number


class BackupSnapshot(Message):
    """One part of an owner's complete state, for a peer that becomes its backup."""

    wire = 0x090D
    number: Number
    part: PartNumber
    parts: PartNumber
    serial: Number
    stamp_us: Micros
    version: StateVersion
    claims: Claims
    backups: Backups
    around: Surroundings
    items: Items


class SnapshotAck(Message):
    """Acknowledges one part of a snapshot."""

    wire = 0x090E
    number: Number
    part: PartNumber
    stamp_us: Micros


class BackupDelta(Message):
    """Changes of an owner's items since its snapshot."""

    wire = 0x090F
    number: Number
    serial: Number
    stamp_us: Micros
    version: StateVersion
    claims: Claims
    items: Items


class DeltaAck(Message):
    """The backup has stored a delta."""

    wire = 0x0910
    number: Number
    stamp_us: Micros


class NoBackupCopy(Message):
    """The backup has no copy to which a delta could be applied."""

    wire = 0x0911
    number: Number


class ConfirmDeath(Message):
    """Asks other peers whether they have heard the suspect lately. A backup sends it before it
    takes over the suspect's extents, and a handoff receiver when the sender is silent.
    """

    wire = 0x0912
    suspect: Address
    extents: Claims
    rank: Annotated[int, Meta(ge=0, le=BACKUPS_MAX + 1)]
    incoming: Claims
    """Extents on their way from the suspect to the requester, which keeps them if it is dead."""
    serial: OptionalNumber
    """Serial of the suspect's last write in the requester's copy: a voter with a later one sends
    its items; -2: the requester has no complete copy.
    """
    certain: bool = False
    """True if a later incarnation runs at the suspect's address: the suspect is certainly dead."""


class DeathVote(Message):
    """Answer to `ConfirmDeath`: what the voter knows of the suspect."""

    wire = 0x0913
    suspect: Address
    ago_us: OptionalNumber
    """Time since the voter last heard the suspect; -1: unknown."""
    claims: Claims
    items: Items
    whole: bool
    """True if the items are complete for the requested extents, and newer than the requester's."""
    in_transit: Claims
    """Claims to extents that the voter is handing off to the suspect (as they will be after an
    abort) or receiving from it (as they will be if the suspect is dead). They are not valid yet, so
    the requester does not record them; it only leaves these extents alone.
    """


class RelocationQuery(Message):
    """Searches the area (a prefix) for a peer that can take a surplus extent and hand its own one
    to the owner of its sibling.
    """

    wire = 0x0914
    surplus: OwnershipClaim
    low: Code
    bits: Bits
    requester: Address
    depth: Annotated[int, Meta(ge=0, le=BITS)]


class RelocationOffer(Message):
    """The sender can take that surplus extent."""

    wire = 0x0915
    surplus: OwnershipClaim


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


KINDS: tuple[type, ...] = (
    Heartbeat,
    HeartbeatAck,
    FullStateRequest,
    ClaimUpdate,
    HopAck,
    JoinRequest,
    FindOwner,
    HandoffOffer,
    HandoffProgress,
    HandoffPrepared,
    HandoffCommit,
    HandoffAbort,
    BackupSnapshot,
    SnapshotAck,
    BackupDelta,
    DeltaAck,
    NoBackupCopy,
    ConfirmDeath,
    DeathVote,
    RelocationQuery,
    RelocationOffer,
    LatencyProbe,
    LatencyReply,
    Introduction,
)
"""Kinds that are sent over the network."""
