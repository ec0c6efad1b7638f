"""What peers of the Byzantine-tolerant design send: the paper's two-part message, and the errands to the authority."""

from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.casting.bft.multicast import Arc
from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, Message, Name, StandingAlarm, Version
from implicast.peer.fields import Count, Flag, Micros, Payload, Text, Token
from implicast.peer.identity import Certificate, Enrolment, Key, Revocation, Signature
from implicast.peer.words import RIGHTS_MAX, Right

_encode = msgspec.msgpack.Encoder().encode

TERMS_MAX = 1_024
"""Terms of one target (`language/limits.py`), each with its handle."""
REALMS_MAX = 2_049
"""Realms in one application: a home and all tags and values of a description."""
SILENT_MAX = 64
"""Members out of reach that are named in one report; the others are only counted."""


class Source(Message):
    """The source part m_s: made and signed once, by the publisher, and carried unchanged to everyone.

    Paper, section 3.4; beyond it: the time (against replay) and the handles (which arc stands for which term).
    """

    cast: CastId
    query: Token
    low: Key
    high: Key
    start: Flag
    sent_us: Micros
    target: Target
    handles: Annotated[tuple[Count, ...], Meta(max_length=TERMS_MAX)]
    payload: Payload
    certificate: Certificate
    signature: Signature

    @property
    def arc(self) -> Arc:
        return Arc(self.low, self.high)

    @property
    def name(self) -> tuple[int, bytes]:
        """(q, key of s): with q alone a liar could block a message by using its number first."""
        return self.query, self.certificate.key

    def body(self) -> bytes:
        """What the source signs: all but the signature."""
        fields = (
            self.cast,
            self.query,
            self.low,
            self.high,
            self.start,
            self.sent_us,
            self.target,
            self.handles,
        )
        return b"source" + _encode(
            (fields, self.payload, self.certificate.serial, self.certificate.key)
        )


class CastHop(Message):
    """One step: the source part at a level, signed by the place that forwards it.

    It is for every place of the receiving address that it concerns, so a leg's message is made and signed once for
    all its receivers. The signature of the source stands for the whole source part.
    """

    wire = 0x0C02
    source: Source
    level: Flag
    forwarder: Certificate
    signature: Signature


def hop_body(source: Source, level: int) -> bytes:
    return b"hop" + source.signature + level.to_bytes(8, "big", signed=True)


class HopHeld(Message):
    """Confirms a step: all places of the receiver that it is for have it. To its parent also what became of the cast at
    the receiver and below."""

    wire = 0x0C03
    cast: CastId
    query: Token
    level: Flag
    place: Key
    """The one that forwarded it."""
    open: bool = False
    """Some whom the receiver serves have not confirmed yet: another word will follow."""
    taken: Count = 0
    declined: Count = 0
    missed: Count = 0
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()


class Apply(Message):
    """A peer asks the authority for its places in these realms and gives others up. Signed with its own key."""

    wire = 0x0C04
    errand: Version
    stamp: Version
    """Later applications of a peer have higher ones: a copy that comes late takes nothing away."""
    enrolment: Enrolment
    wanted: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    given_up: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    newest: Certificate | None
    """The newest certificate that the peer has: the authority must not count from below it."""
    listed: Token
    """The number of the newest list of revoked certificates that the peer knows."""
    signature: Signature
    rights: Annotated[tuple[Right, ...], Meta(max_length=RIGHTS_MAX)] = ()
    """To what is protected of what it says of itself by its places."""

    def body(self, address: Address) -> bytes:
        serial = self.newest.serial if self.newest is not None else 0
        fields = (self.errand, self.stamp, self.enrolment, self.wanted, self.given_up)
        return b"apply" + _encode((fields, serial, address, self.rights))


class Granted(Message):
    """The certificates asked for, some peers to begin with, drawn by the authority, and what it has revoked."""

    wire = 0x0C05
    errand: Version
    certificates: Annotated[tuple[Certificate, ...], Meta(max_length=REALMS_MAX)]
    introducers: Annotated[tuple[Address, ...], Meta(max_length=16)]
    revocation: Revocation | None


class Denied(Message):
    """The authority declines, and says why."""

    wire = 0x0C06
    errand: Version
    reason: Text


class Outstripped(Message):
    """A peer shows the authority a list of revoked certificates that is newer than the one the authority sent."""

    wire = 0x0C07
    revocation: Revocation


class ListNumber(Message):
    """The newest list of what counts no more that the sender knows has this number; 0: it knows none."""

    wire = 0x0C08
    number: Token


class AskList(Message):
    """Send your list if it is newer than this."""

    wire = 0x0C09
    number: Token


class Echoed(Message):
    """A multicast that the sender has: of which cast, its query and the key of its source, and the range it is for."""

    cast: CastId
    query: Token
    place: Key
    low: Key
    high: Key


class EchoOfCasts(Message):
    """The sender has these."""

    wire = 0x0C0A
    casts: Annotated[tuple[Echoed, ...], Meta(max_length=256)]


class AskEcho(Message):
    """Hand this multicast over: we lack it."""

    wire = 0x0C0B
    query: Token
    place: Key


class EchoedCast(Message):
    """A multicast that was asked for, as its publisher signed it."""

    wire = 0x0C0C
    source: Source


class EchoDue(StandingAlarm):
    """Rings when neighbours are to be told which casts we have."""


class TellList(StandingAlarm):
    """Rings when one more contact is to be told the number of our list."""


class PublishList(StandingAlarm):
    """Rings when what counts no more is to be published."""


class Recalled(StandingAlarm):
    """Rings when an authority that began again has waited long enough for members to show it what it forgot."""


class Vacate(Message):
    """Rings when places given up with this version have been kept long enough."""

    version: Version


class Present(StandingAlarm):
    """Rings when the authority is to be told that this peer is there."""


class Alone(Message):
    """Rings when a newcomer whose introducers were all silent is to ask the authority for others."""


BFT_KINDS = (
    Revocation,
    CastHop,
    HopHeld,
    Apply,
    Granted,
    Denied,
    Outstripped,
    ListNumber,
    AskList,
    EchoOfCasts,
    AskEcho,
    EchoedCast,
)
