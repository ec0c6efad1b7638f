"""What peers of the Byzantine-tolerant design send: the paper's two-part message, and the errands to the authority."""

from typing import ClassVar

import msgspec

from implicast.casting.bft.multicast import Arc
from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, Message
from implicast.peer.identity import Certificate, Revocation

_encode = msgspec.msgpack.Encoder().encode


class Source(Message):
    """The source part m_s: made and signed once, by the publisher, and carried unchanged to everyone.

    Paper, section 3.4; beyond it: the time (against replay) and the handles (which arc stands for which term).
    """

    cast: CastId
    query: int
    low: bytes
    high: bytes
    start: int
    sent_us: int
    target: Target
    handles: tuple[int, ...]
    payload: bytes
    certificate: Certificate
    signature: bytes

    @property
    def arc(self) -> Arc:
        return Arc(self.low, self.high)

    @property
    def name(self) -> tuple[int, bytes]:
        """(q, key of s): with q alone a liar could block a message by using its number first."""
        return self.query, self.certificate.key

    def body(self) -> bytes:
        """What the source signs: all but the signature."""
        fields = (self.cast, self.query, self.low, self.high, self.start, self.sent_us, self.target, self.handles)
        return b"source" + _encode((fields, self.payload, self.certificate.serial, self.certificate.key))


class Hop(Message):
    """One step: the source part at a level, signed by the place that forwards it.

    It is for every place of the receiving address that it concerns, so a leg's message is made and signed once for
    all its receivers. The signature of the source stands for the whole source part.
    """

    source: Source
    level: int
    forwarder: Certificate
    signature: bytes

    def body(self) -> bytes:
        return hop_body(self.source, self.level)


def hop_body(source: Source, level: int) -> bytes:
    return b"hop" + source.signature + level.to_bytes(8, "big", signed=True)


class Held(Message):
    """Confirms a step: all places of the receiver that it is for have it."""

    cast: CastId
    query: int
    level: int
    place: bytes
    """The one that forwarded it."""


class Apply(Message):
    """A peer asks the authority for its places in these realms and gives others up. Signed with its own key."""

    errand: int
    public: bytes
    wanted: tuple[bytes, ...]
    given_up: tuple[bytes, ...]
    signature: bytes

    def body(self, address: Address) -> bytes:
        return b"apply" + _encode((self.errand, self.public, self.wanted, self.given_up, address))


class Granted(Message):
    """The certificates asked for, some peers to begin with, drawn by the authority, and what it has revoked."""

    errand: int
    certificates: tuple[Certificate, ...]
    introducers: tuple[Address, ...]
    revocation: Revocation | None


class Denied(Message):
    """The authority declines, and says why."""

    errand: int
    reason: str


class Again(Message):
    """Rings when the authority has not answered for a while."""


class Unheld(Message):
    """Rings when steps of multicasts have not been confirmed for a while."""


class Present(Message):
    """Rings when the authority is to be told that this peer is there, or asked once more for introducers."""

    upkeep: ClassVar[bool] = True

    errand: int
