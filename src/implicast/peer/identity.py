"""Who may be where: enrolments, certificates, lists of what counts no more, and the view by which every peer checks.

Follows the Byzantine-tolerant multicast paper, section 2.1: a central authority gives each admitted peer its place
(key and membership vector) and signs what binds place and public key; peers exchange and check these certificates.
So nobody chooses its neighbours (eclipse), and the number of places per applicant is limited (Sybil).

An applicant is a name that was enrolled: the authority has signed, once, that this public key belongs to it. What it
may choose is its `realm`, the first part of a key (a tag it bears, a value it has); where it stands inside the realm is
drawn by the authority (`authority.py`). Beyond the paper a certificate also binds name and address, so that a liar
cannot send others to a wrong one, and a time of validity; certificates can be revoked.

Left out: how the authority knows that two applicants are two persons. That is its roster, kept by people.
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
"""The drawn part of a key: two applicants in one realm collide with a chance of n^2 / 2^65."""
KEY_BYTES_MAX = 4_224
"""Of a key, the realm in front of it included."""
Key = Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]
"""Where a place is on the circle: its realm, then what the authority drew."""
Vector = Annotated[int, Meta(ge=0, le=(1 << VECTOR_BITS) - 1)]
Public = Annotated[bytes, Meta(max_length=PUBLIC_BYTES)]
Signature = Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)]

CHECKED_MAX = 2_048
"""Certificates that a peer remembers to have checked; its lists name some hundreds."""
EARLY_US = 300_000_000
"""A certificate counts so long before it was issued: clocks differ."""
NAMES_MAX = 8_192
"""Names expelled that one list carries."""

_encode = msgspec.msgpack.Encoder().encode


class Enrolment(Message):
    """The authority's word that this public key belongs to this name, given once and for good."""

    name: Name
    public: Public
    signature: Signature

    def body(self) -> bytes:
        """What the authority signs."""
        return b"enrolment" + _encode((self.name, self.public))


class Certificate(Message):
    """The authority's word that this public key, of this name and at this address, holds this place."""

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
        """What the authority signs."""
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
    """The authority's list of certificates, and of names, that count no more. A higher number replaces a lower one."""

    wire = 0x0C01

    number: Token
    serials: Annotated[tuple[Token, ...], Meta(max_length=ITEMS_MAX)]
    signature: Signature
    after: Token = 0
    """The newest list of the authority's former lives that it knew of when it made this one."""
    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)] = ()

    def body(self) -> bytes:
        return b"revocation" + _encode((self.number, self.serials, self.after, self.names))

    def forgets(self, other: "Revocation") -> bool:
        """Whether an authority that began again from an old copy of its disk made this without knowing the other. Who
        was expelled once is on every later list."""
        is_former = other.number >> NUMBER_BITS != self.number >> NUMBER_BITS
        return (is_former and other.number > self.after) or not set(other.names) <= set(self.names)


class Trust:
    """One peer's view of the authority: its public key, what it revoked, and which certificates were checked already.

    `flaw` names what is wrong with a certificate, or None. Checked certificates are remembered, the first come go
    first: a table's entries are met again and again, and Ed25519 costs 118 us a time. Peers simulated together may
    share that memory (`checked`): whoever else meets the very same value would find the same.
    """

    __slots__ = (
        "_authority",
        "_checked",
        "_expelled",
        "_revocation",
        "_revoked",
        "_scheme",
        "_vectors",
    )

    def __init__(
        self,
        scheme: Scheme,
        authority: bytes,
        vectors: Vectors,
        checked: Recent[bytes, Certificate] | None = None,
    ) -> None:
        self._scheme, self._authority, self._vectors = scheme, authority, vectors
        self._checked = checked if checked is not None else Recent[bytes, Certificate](CHECKED_MAX)
        self._revoked: frozenset[int] = frozenset()
        self._expelled: frozenset[Name] = frozenset()
        self._revocation: Revocation | None = None

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    @property
    def revocation(self) -> Revocation | None:
        """The newest list of revoked certificates that is known here."""
        return self._revocation

    def is_known(self, certificate: Certificate, now_us: int) -> bool:
        """Whether this very certificate was found sound before, and still is. False says nothing."""
        return (
            self._is_remembered(certificate)
            and certificate.since_us - EARLY_US <= now_us < certificate.until_us
            and certificate.serial not in self._revoked
            and certificate.name not in self._expelled
        )

    def unknown(self, certificates: Iterable[Certificate], now_us: int) -> list[Certificate]:
        """Those of several of which that cannot be said, without a call for each."""
        checked, revoked, expelled = self._checked, self._revoked, self._expelled
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
        """Whether the authority gave this certificate and took it back."""
        return certificate.serial in self._revoked and self._is_genuine(certificate)

    def _is_remembered(self, certificate: Certificate) -> bool:
        """The same object in a world, another of the same value on a network."""
        known = self._checked.get(certificate.signature)
        return known is certificate or known == certificate

    def _is_genuine(self, certificate: Certificate) -> bool:
        if self._is_remembered(certificate):
            return True
        if not self._vectors.valid(certificate.vector):
            return False
        if not self._scheme.verify(self._authority, certificate.body(), certificate.signature):
            return False
        self._checked[certificate.signature] = certificate
        return True

    def signed(self, certificate: Certificate, data: bytes, signature: bytes) -> bool:
        """Whether the holder of this certificate signed the data."""
        return self._scheme.verify(certificate.public, data, signature)

    def learn(self, revocation: Revocation) -> bool:
        """Take a newer list over. False for an old, a known or a forged one, and for one by an authority that has
        forgotten what we know: it is to be shown our list."""
        known = self._revocation
        if known is not None and (revocation.number <= known.number or revocation.forgets(known)):
            return False
        if not self._scheme.verify(self._authority, revocation.body(), revocation.signature):
            return False
        self._revocation, self._revoked = revocation, frozenset(revocation.serials)
        self._expelled = frozenset(revocation.names)
        return True

    def genuine(self, revocation: Revocation) -> bool:
        """Whether the authority made this list, at whatever time."""
        return self._scheme.verify(self._authority, revocation.body(), revocation.signature)
