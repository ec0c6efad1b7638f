"""What peers say to each other about lists that outlive their keepers, and their alarms."""

from typing import ClassVar

from implicast.language.target import Description, Scalar, Target
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address, CastId, Message

Slot = tuple[str, str, Scalar]
"""One list: which shelf, which attribute, which of its values."""
Name = int | tuple[str, int]
"""Whose entry it is: an address, or a subscription's id."""


class Row(Message):
    """One entry of a list. The larger stamp is newer; nothing packed: it was taken out, or its lease is over."""

    key: int
    slot: Slot
    name: Name
    stamp: int
    packed: bytes


class Lay(Message):
    """Keep this entry in the lists of the values low..high. Routed to the lowest; from there it goes on to the node of
    each next value, `walking` by right neighbours or, if not, by fingers."""

    key: int
    shelf: str
    attribute: str
    low: Scalar
    high: Scalar
    name: Name
    stamp: int
    packed: bytes
    origin: Address
    serial: int
    walks: bool
    walking: bool


class Copy(Message):
    """Keep copies of these, and pass them on to so many more. The last one tells the origin."""

    by: Ref
    rows: tuple[Row, ...]
    more: int
    origin: Address
    serial: int
    low: Scalar
    high: Scalar


class LaidAt(Message):
    """The values low..high of this request are kept by `holder` with this stamp, and copied."""

    serial: int
    stamp: int
    low: Scalar
    high: Scalar
    holder: Address


class Renew(Message):
    """Do you still answer for these, and have them? Each: serial, shelf, attribute, low, high, name, stamp."""

    pieces: tuple[tuple[int, str, str, Scalar, Scalar, Name, int], ...]


class Renewed(Message):
    """All of them, but these: serial, low, high."""

    lost: tuple[tuple[int, Scalar, Scalar], ...]


class Summary(Message):
    """What I answer for and keep, in short; for so many to my right, who keep copies of it."""

    by: Ref
    low: int
    count: int
    total: int
    more: int


class Compare(Message):
    """I keep copies for you, or should: let me have your summary."""


class Rows(Message):
    """Entries of the keys (low, high]: one part of several. OFFER: here is what I have, let me have yours; REPLY: my
    answer."""

    by: Ref
    kind: int
    low: int
    high: int
    part: int
    parts: int
    rows: tuple[Row, ...]


OFFER, REPLY = range(2)


class ClaimRows(Message):
    """I have become your left neighbour, and answer for (low, own]: let me have it."""

    by: Ref
    low: int


class Estate(Message):
    """One part of several: a bequest is all that I keep, for I want to leave; else it is what you claimed."""

    by: Ref
    bequest: bool
    turn: int
    part: int
    parts: int
    rows: tuple[Row, ...]


class EstateTaken(Message):
    """This part of a bequest has arrived, of so many."""

    turn: int
    part: int
    parts: int


class Return(Message):
    """These are kept where they do not belong. Routed to the first; each node takes what it answers for."""

    key: int
    rows: tuple[Row, ...]
    origin: Address


class Returned(Message):
    """I answer for (low, high], and have what you returned of it."""

    low: int
    high: int


class Lack(Message):
    """The lists of (low, high] are lost with all their copies: whoever has an entry there, lay it again. Routed to
    `key`; to all nodes from there up to `limit`."""

    serial: int
    low: int
    high: int
    key: int
    limit: int
    by: Address


class Death(Message):
    """My left neighbour `who` seems to be dead: whoever keeps entries of its may ask it. Routed to `key`; to all
    nodes from there up to `limit`."""

    serial: int
    who: Address
    key: int
    limit: int
    by: Address


class Still(Message):
    """I keep entries of yours: are you there?"""


class Here(Message):
    """I am."""


class LackHeard(Message):
    """I know, and tell those of the arc for whom you told me to."""

    serial: int
    key: int
    limit: int


class Ask(Message):
    """Who is in the lists of low..high? Goes from node to node as `Lay` does; each answers for its own values.
    `piece` numbers the ranges of one cast."""

    key: int
    piece: int
    shelf: str
    attribute: str
    low: Scalar
    high: Scalar
    cast: CastId
    origin: Address
    walks: bool
    walking: bool


class Told(Message):
    """These, among the values low..high: one part of several."""

    cast: CastId
    piece: int
    low: Scalar
    high: Scalar
    part: int
    parts: int
    found: tuple[tuple[Name, bytes], ...]


class Deliver(Message):
    """The publisher tells a peer that its target selects."""

    cast: CastId
    target: Target
    payload: bytes


class Matched(Message):
    """The publisher tells a peer whose subscriptions with these numbers seem to match."""

    cast: CastId
    numbers: tuple[int, ...]
    description: Description
    payload: bytes


class LayLate(Message):
    """Rings while something is not laid everywhere."""


class AskLate(Message):
    """Rings while lists are awaited."""


class SyncRound(Message):
    """Rings when copies are to be compared."""

    upkeep: ClassVar[bool] = True
    life: int


class SyncSoon(Message):
    """Rings a moment after the neighbourhood has changed or there were news: which news these are, and for the how
    manieth time."""

    upkeep: ClassVar[bool] = True
    news: int
    time: int


class RenewRound(Message):
    """Rings when the own entries are to be renewed."""

    upkeep: ClassVar[bool] = True


class RenewLate(Message):
    """Rings when renewals should have been answered."""

    upkeep: ClassVar[bool] = True


class ClaimLate(Message):
    """Rings when a claim or a bequest should have been answered."""

    life: int


class DoubtRound(Message):
    """Rings when those who are said to be dead should have answered."""

    upkeep: ClassVar[bool] = True
    due_us: int


class LeaveLate(Message):
    """Rings while a leaver's own casts are under way."""


class Rouse(Message):
    """Rings when the own entries may be laid again for somebody who had asked too soon."""

    upkeep: ClassVar[bool] = True


class LackLate(Message):
    """Rings while not everybody has confirmed to know of a lack."""

    upkeep: ClassVar[bool] = True


KEEPING_KINDS: tuple[type, ...] = (
    Lay, Copy, LaidAt, Renew, Renewed, Summary, Compare, Rows, ClaimRows, Estate, EstateTaken, Return, Returned, Lack,
    LackHeard, Death, Still, Here, Ask, Told, Deliver, Matched,
)  # fmt: skip
