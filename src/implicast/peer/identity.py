"""Enrolments, certificates and revocation lists, and the view by which every peer verifies them.

Follows the Byzantine-tolerant multicast paper, section 2.1: a central authority assigns each
admitted peer its place (key and membership vector) and signs the binding of place and public key.
Peers exchange and verify these certificates. Therefore no peer can choose its neighbours (eclipse
attack), and the number of places per applicant is limited (Sybil attack).

An applicant is an enrolled name: the authority has signed, once, that this public key belongs to
it. The applicant chooses its `realm`, the first part of a key (one of its tags or values). The
authority draws its position inside the realm (`authority.py`). Beyond the paper a certificate also
binds name and address, so that a malicious peer cannot redirect others to a wrong address, and a
period of validity; certificates can be revoked.

Left out: how the authority knows that two applicants are two persons. People decide that.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.peer.contract import NUMBER_BITS, Address, Message, Name
from implicast.peer.fields import ITEMS_MAX, Micros, Token
from implicast.peer.memory import Recent
from implicast.peer.signatures import PUBLIC_BYTES, SIGNATURE_BYTES, Scheme
from implicast.space.vector import VECTOR_BITS, Vectors

TAIL_BYTES = 8
"""Length of the drawn part of a key. Among n applicants in one realm two collide with probability
n^2 / 2^65.
"""
KEY_BYTES_MAX = 4_224
"""Longest key, including the realm."""
Key = Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]
"""Position of a place on the ring: its realm, then the part drawn by the authority."""
Vector = Annotated[int, Meta(ge=0, le=(1 << VECTOR_BITS) - 1)]
Public = Annotated[bytes, Meta(max_length=PUBLIC_BYTES)]
Signature = Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)]

CHECKED_MAX = 2_048
"""Verified certificates that a peer remembers; its neighbour lists name some hundreds."""
EARLY_US = 300_000_000
"""A certificate is accepted up to 300 s before its time of issue, because clocks differ."""
SKEW_US = 120_000_000
"""Largest difference of two clocks that dated messages tolerate: each may be off by a minute. A
node whose clock is further off than that does not join.
"""
NAMES_MAX = 8_192
"""Expelled names in one list."""

_encode = msgspec.msgpack.Encoder().encode


class Enrolment(Message):
    """The authority's statement, made once, that this public key belongs to this name."""

    name: Name
    public: Public
    signature: Signature

    def body(self) -> bytes:
        """The text that the authority signs."""
        return b"enrolment" + _encode((self.name, self.public))


class Certificate(Message):
    """The authority's statement that this name, with this public key and at this address, holds
    this place.
    """

    key: Key
    vector: Vector
    name: Name
    address: Address
    public: Public
    serial: Token
    since_us: Micros
    until_us: Micros
    signature: Signature

    @property
    def realm(self) -> bytes:
        return self.key[:-TAIL_BYTES]

    def body(self) -> bytes:
        """The text that the authority signs."""
        bound = (
            self.key,
            self.vector,
            self.name,
            self.address,
            self.public,
            self.serial,
            self.since_us,
            self.until_us,
        )
        return b"certificate" + _encode(bound)


class Revocation(Message):
    """The authority's list of revoked certificates and expelled names. A higher number replaces a
    lower one.
    """

    wire = 0x0C01

    number: Token
    serials: Annotated[tuple[Token, ...], Meta(max_length=ITEMS_MAX)]
    signature: Signature
    after: Token = 0
    """The newest list of earlier incarnations of the authority that it knew when it made this one.
    """
    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()

    def body(self) -> bytes:
        return b"revocation" + _encode((self.number, self.serials, self.after, self.names))

    def forgets(self, other: "Revocation") -> bool:
        """Whether the authority made this list without knowing the other, having restarted from an
        old copy of its disk. Every list names all names that were expelled before it.
        """
        is_former = other.number >> NUMBER_BITS != self.number >> NUMBER_BITS
        return (is_former and other.number > self.after) or not set(other.names) <= set(self.names)


class Trust:
    """One peer's view of the authority: its public key, its revocation list, and the certificates
    verified so far.

    `flaw` names what is wrong with a certificate, or returns None. Verified certificates are
    remembered, because the entries of a table are met again and again and Ed25519 takes 118 us for
    each; the oldest is forgotten first. Peers simulated together may share that memory (`checked`),
    since verification of the same value has the same result for all.
    """

    __slots__ = (
        "_authority",
        "_expelled",
        "_revocation",
        "_revoked",
        "_scheme",
        "_vectors",
        "checked",
    )

    def __init__(
        self,
        scheme: Scheme,
        authority: bytes,
        vectors: Vectors,
        checked: Recent[bytes, Certificate] | None = None,
    ) -> None:
        self._scheme, self._authority, self._vectors = scheme, authority, vectors
        self.checked = checked if checked is not None else Recent[bytes, Certificate](CHECKED_MAX)
        self._revoked: frozenset[int] = frozenset()
        self._expelled: frozenset[Name] = frozenset()
        self._revocation: Revocation | None = None

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    @property
    def revocation(self) -> Revocation | None:
        """The newest revocation list that this peer knows."""
        return self._revocation

    def is_known(self, certificate: Certificate, now_us: int) -> bool:
        """Whether exactly this certificate was verified before and is still valid. False is
        inconclusive.
        """
        return (
            self._is_remembered(certificate)
            and certificate.since_us - EARLY_US <= now_us < certificate.until_us
            and certificate.serial not in self._revoked
            and certificate.name not in self._expelled
        )

    def unknown(self, certificates: Iterable[Certificate], now_us: int) -> list[Certificate]:
        """Those certificates for which `is_known` is false, without a call for each."""
        checked, revoked, expelled = self.checked, self._revoked, self._expelled
        return [
            each
            for each in certificates
            if ((known := checked.get(each.signature)) is not each and known != each)
            or each.serial in revoked
            or each.name in expelled
            or not each.since_us - EARLY_US <= now_us < each.until_us
        ]

    def flaw(self, certificate: Certificate, now_us: int) -> str | None:
        if not certificate.since_us - EARLY_US <= now_us < certificate.until_us:
            return "expired_certificate"
        if certificate.serial in self._revoked:
            return "revoked_certificate"
        if certificate.name in self._expelled:
            return "expelled"
        return None if self._is_genuine(certificate) else "forged_certificate"

    def is_void(self, certificate: Certificate) -> bool:
        """Whether the authority issued this certificate and revoked it."""
        return certificate.serial in self._revoked and self._is_genuine(certificate)

    def _is_remembered(self, certificate: Certificate) -> bool:
        """The same object in the simulator, an equal one on a network."""
        known = self.checked.get(certificate.signature)
        return known is certificate or known == certificate

    def _is_genuine(self, certificate: Certificate) -> bool:
        if self._is_remembered(certificate):
            return True
        if not self._vectors.valid(certificate.vector):
            return False
        if not self._scheme.verify(self._authority, certificate.body(), certificate.signature):
            return False
        self.checked[certificate.signature] = certificate
        return True

    def signed(self, certificate: Certificate, data: bytes, signature: bytes) -> bool:
        """Whether the holder of this certificate signed the data."""
        return self._scheme.verify(certificate.public, data, signature)

    def learn(self, revocation: Revocation) -> bool:
        """Adopt a newer revocation list. False for an old, a known or a forged list, and for one by
        an authority that has forgotten the list we know; it has to be shown ours.
        """
        known = self._revocation
        if known is not None and (revocation.number <= known.number or revocation.forgets(known)):
            return False
        if not self._scheme.verify(self._authority, revocation.body(), revocation.signature):
            return False
        self._revocation, self._revoked = revocation, frozenset(revocation.serials)
        self._expelled = frozenset(revocation.names)
        return True

    def genuine(self, revocation: Revocation) -> bool:
        """Whether the authority made this list, at any time."""
        return self._scheme.verify(self._authority, revocation.body(), revocation.signature)
