"""What peers say to each other about lists that are kept for others."""

from typing import Annotated

from msgspec import Meta

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address, CastId, Contact, Message, Name
from implicast.peer.fields import TEXT_MAX, Flag, Text, Token
from implicast.space.ring import ID_BITS

PARTS_MAX = 4_096
"""Parts of one answer or one estate."""
STAMP_BITS = 22
"""Words that one life of an owner has room for before it counts on into the numbers of lives to come."""

RingKey = Annotated[int, Meta(ge=0, le=(1 << ID_BITS) - 1)]
Scalar = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | Annotated[str, Meta(max_length=TEXT_MAX)]
"""`language.target.Scalar` with bounds."""
Stamp = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
"""Which of two words about an entry is newer: the owner's life, then the number of the word within it."""
Sum = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Few = Annotated[int, Meta(ge=0, le=8)]
"""Right neighbours that are still to be told."""
Number = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]
Part = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Packed = Annotated[bytes, Meta(max_length=1 << 16)]
REMOVED, IN_FORCE = b"\xc1\x00", b"\xc1\x01"
"""Begin what is packed in a signed removal and in a signed entry; nothing that is packed without a proof does."""
Slot = tuple[Text, Text, Scalar]
"""One list: which shelf, which attribute, which of its values."""


class Row(Message):
    """One entry of a list: whose, and which of the owner's (a subscription's id; 0 where it can have only one). The
    larger stamp is newer; nothing packed: it was taken out, or its lease is over."""

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
        """What it is called within its list."""
        return self.number or self.owner.name


SomeRows = Annotated[tuple[Row, ...], Meta(max_length=4_096)]


class Lay(Message):
    """Keep this entry in the lists of the values low..high. Routed to the lowest; from there it goes on to the node of
    each next value, `walking` by right neighbours or, if not, by fingers."""

    wire = 0x0601
    key: RingKey
    shelf: Text
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


class Copy(Message):
    """Keep copies of these, all of one owner, and pass them on to so many more. The last one tells the owner."""

    wire = 0x0602
    by: Ref
    rows: Annotated[tuple[Row, ...], Meta(min_length=1, max_length=1 << 20)]
    more: Few
    serial: Stamp
    low: Scalar
    high: Scalar


class LaidAt(Message):
    """The values low..high of this request are kept by `holder` with this stamp, and copied."""

    wire = 0x0603
    serial: Stamp
    stamp: Stamp
    low: Scalar
    high: Scalar
    holder: Address


class EntryOutdated(Message):
    """What you laid with this serial is older than what I have of you, with this stamp. (To oneself: an alarm.)"""

    wire = 0x0604
    serial: Stamp
    stamp: Stamp


class LaterEntry(Message):
    """The owner's own word, later than what it laid with this serial."""

    wire = 0x0616
    serial: Stamp
    row: Row


class RenewEntries(Message):
    """Do you still answer for these, and have them? Each: serial, shelf, attribute, low, high, number, stamp."""

    wire = 0x0605
    owner: Name
    turn: Token
    pieces: Annotated[
        tuple[tuple[Stamp, Text, Text, Scalar, Scalar, Token, Stamp], ...], Meta(max_length=1_024)
    ]


class EntriesRenewed(Message):
    """All of them, but these: serial, low, high."""

    wire = 0x0606
    turn: Token
    lost: Annotated[tuple[tuple[Stamp, Scalar, Scalar], ...], Meta(max_length=1_024)]


class Summary(Message):
    """What I answer for and keep, in short; for so many to my right, who keep copies of it."""

    wire = 0x0607
    by: Ref
    low: RingKey
    count: Token
    total: Sum
    more: Few


class Compare(Message):
    """I keep copies for you, or should: let me have your summary."""

    wire = 0x0608


class Rows(Message):
    """Entries of the keys (low, high], one part of several. OFFER: what I have, let me have yours; REPLY: my answer."""

    wire = 0x0609
    by: Ref
    kind: Flag
    low: RingKey
    high: RingKey
    part: Part
    parts: Part
    rows: SomeRows


OFFER, REPLY = range(2)


class ClaimRows(Message):
    """I have become your left neighbour, and answer for (low, own]: let me have it."""

    wire = 0x060A
    by: Ref
    low: RingKey
    turn: Flag


class Estate(Message):
    """One part of several: a bequest is all that I keep, for I want to leave; else it is what you claimed."""

    wire = 0x060B
    by: Ref
    bequest: bool
    turn: Flag
    part: Part
    parts: Part
    rows: SomeRows


class EstateTaken(Message):
    """This part of a bequest has arrived, of so many."""

    wire = 0x060C
    turn: Flag
    part: Part
    parts: Part


class Return(Message):
    """These are kept where they do not belong. Routed to the first; each node takes what it answers for."""

    wire = 0x060D
    key: RingKey
    rows: SomeRows
    origin: Address


class Returned(Message):
    """I answer for (low, high], and have what you returned of it."""

    wire = 0x060E
    low: RingKey
    high: RingKey


class Lack(Message):
    """The lists of (low, high] are lost with all their copies: whoever has an entry there, lay it again. Routed to
    `key`; to all nodes from there up to `limit`."""

    wire = 0x060F
    serial: Token
    low: RingKey
    high: RingKey
    key: RingKey
    limit: RingKey
    by: Address


class Death(Message):
    """My left neighbour, at the address `who`, seems to be dead: whoever keeps entries of its may ask it. Routed to
    `key`; to all nodes from there up to `limit`."""

    wire = 0x0610
    serial: Token
    who: Address
    key: RingKey
    limit: RingKey
    by: Address


class LackHeard(Message):
    """I know, and tell those of the arc for whom you told me to."""

    wire = 0x0611
    serial: Token
    key: RingKey
    limit: RingKey


class Still(Message):
    """I keep entries of the peer of this name: are you it?"""

    wire = 0x0612
    name: Name


class Here(Message):
    """I am."""

    wire = 0x0613
    name: Name


class Ask(Message):
    """Who is in the lists of low..high? Goes from node to node as `Lay` does; each answers for its own values.
    `piece` numbers the ranges of one cast. `counts`: how many are there?"""

    wire = 0x0614
    key: RingKey
    piece: Number
    shelf: Text
    attribute: Text
    low: Scalar
    high: Scalar
    cast: CastId
    origin: Address
    walks: bool
    walking: bool
    counts: bool = False


Found = tuple[Contact, Token, Packed]
"""Of one entry: its owner, its number, what is packed in it."""


class Listed(Message):
    """These, among the values low..high: one part of several; or, if only that was asked, how many there are."""

    wire = 0x0615
    cast: CastId
    piece: Number
    low: Scalar
    high: Scalar
    part: Part
    parts: Part
    found: Annotated[tuple[Found, ...], Meta(max_length=1 << 16)]
    count: Token = 0


KEEPING_KINDS: tuple[type[Message], ...] = (
    Lay,
    Copy,
    LaidAt,
    EntryOutdated,
    RenewEntries,
    EntriesRenewed,
    Summary,
    Compare,
    Rows,
    ClaimRows,
    Estate,
    EstateTaken,
    Return,
    Returned,
    Lack,
    LackHeard,
    Death,
    Still,
    Here,
    Ask,
    Listed,
    LaterEntry,
)
