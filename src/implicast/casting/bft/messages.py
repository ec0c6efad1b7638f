"""Messages and alarms of the Byzantine-tolerant design: the paper's two-part message, applications
to the authority, gossip of revocation lists, and digest exchange.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.casting.bft.multicast import KeyRange
from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, Message, Name, StandingAlarm, Version
from implicast.peer.fields import Count, Flag, Micros, Payload, Text, Token
from implicast.peer.identity import Certificate, Enrolment, Key, Revocation, Signature
from implicast.peer.trust_policy import RIGHTS_MAX, Right

_encode = msgspec.msgpack.Encoder().encode

TERMS_MAX = 1_024
"""Terms of one target (`language/limits.py`), each with its handle."""
REALMS_MAX = 2_049
"""Realms in one application: home, and all tags and values of a description."""
SILENT_MAX = 64
"""Members out of reach named in one report; further ones are only counted."""


class Source(Message):
    """The source part m_s (paper, section 3.4): signed once by the publisher, and forwarded
    unchanged.

    Not in the paper: the time, against replay, and the handles, which tell the range that stands
    for each term.
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
    def key_range(self) -> KeyRange:
        return KeyRange(self.low, self.high)

    @property
    def name(self) -> tuple[int, bytes]:
        """(q, key of s). With q alone, a liar could block a message by using its number first."""
        return self.query, self.certificate.key

    def body(self) -> bytes:
        """The bytes that the source signs: all fields but the signature."""
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
    """One step: the source part at a level, signed by the forwarding place.

    It is for every place of the receiver that it concerns, so one message is signed for all
    receivers of a leg. The signature of the source stands for the whole source part.
    """

    wire = 0x0C02
    source: Source
    level: Flag
    forwarder: Certificate
    signature: Signature


def hop_body(source: Source, level: int) -> bytes:
    return b"hop" + source.signature + level.to_bytes(8, "big", signed=True)


class CastHopAck(Message):
    """Acknowledges a step: all places of the receiver that it is for have the message. To the
    parent it also carries the outcome at the receiver and below.
    """

    wire = 0x0C03
    reports_notices = True
    cast: CastId
    query: Token
    level: Flag
    place: Key
    """The key of the forwarding place."""
    open: bool = False
    """True while steps that the receiver sent on are unacknowledged: a final acknowledgement
    follows.
    """
    taken: Count = 0
    declined: Count = 0
    missed: Count = 0
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()
    uncertain: Count = 0
    """Key ranges below whose members are not known."""


class Apply(Message):
    """Application to the authority for places in some realms, and release of others. Signed by the
    applicant.
    """

    wire = 0x0C04
    request: Version
    stamp: Version
    """Increases with each application of a peer: a late copy releases nothing."""
    enrolment: Enrolment
    wanted: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    given_up: Annotated[tuple[Key, ...], Meta(max_length=REALMS_MAX)]
    newest: Certificate | None
    """The newest certificate of the applicant: the authority must continue serial numbers above it.
    """
    listed: Token
    """Number of the newest revocation list that the applicant knows."""
    signature: Signature
    rights: Annotated[tuple[Right, ...], Meta(max_length=RIGHTS_MAX)] = ()
    """Rights to the protected tags and values among the realms wanted."""

    def body(self, address: Address) -> bytes:
        serial = self.newest.serial if self.newest is not None else 0
        fields = (self.request, self.stamp, self.enrolment, self.wanted, self.given_up)
        return b"apply" + _encode((fields, serial, address, self.rights))


class Granted(Message):
    """Grants an application: certificates, introducers drawn by the authority, and its revocation
    list if the applicant's differs.
    """

    wire = 0x0C05
    request: Version
    certificates: Annotated[tuple[Certificate, ...], Meta(max_length=REALMS_MAX)]
    introducers: Annotated[tuple[Address, ...], Meta(max_length=16)]
    revocation: Revocation | None


class Denied(Message):
    """Denies an application, with the reason."""

    wire = 0x0C06
    request: Version
    reason: Text


class NewerList(Message):
    """Sends the authority a revocation list that is newer than its own."""

    wire = 0x0C07
    revocation: Revocation


class ListNumber(Message):
    """Number of the newest revocation list that the sender knows; 0 for none."""

    wire = 0x0C08
    number: Token


class AskList(Message):
    """Asks for the receiver's revocation list if it is newer than this number."""

    wire = 0x0C09
    number: Token


class CastDigest(Message):
    """A multicast that the sender has: cast, query, key of the source, and key range."""

    cast: CastId
    query: Token
    place: Key
    low: Key
    high: Key


class CastDigests(Message):
    """Digests of multicasts that the sender has."""

    wire = 0x0C0A
    casts: Annotated[tuple[CastDigest, ...], Meta(max_length=256)]


class RequestCast(Message):
    """Requests a multicast that the sender lacks."""

    wire = 0x0C0B
    query: Token
    place: Key


class RequestedCast(Message):
    """A requested multicast as its publisher signed it."""

    wire = 0x0C0C
    source: Source


class DigestDue(StandingAlarm):
    """Fires when digests of received casts are to be sent."""


class ListGossipDue(StandingAlarm):
    """Fires when one contact is to be sent the number of our revocation list."""


class PublishListDue(StandingAlarm):
    """Fires when new revocations are to be published."""


class RecoveryOver(StandingAlarm):
    """Fires when a restarted authority stops waiting for members' lists."""


class ReleaseDue(Message):
    """Fires when places that this version no longer wants are to be released."""

    version: Version


class LeaseRenewalDue(StandingAlarm):
    """Fires when the lease at the authority is to be renewed."""


class IntroducersDue(Message):
    """Fires when a newcomer whose introducers did not answer is to ask the authority for others."""


BFT_KINDS = (
    Revocation,
    CastHop,
    CastHopAck,
    Apply,
    Granted,
    Denied,
    NewerList,
    ListNumber,
    AskList,
    CastDigests,
    RequestCast,
    RequestedCast,
)
