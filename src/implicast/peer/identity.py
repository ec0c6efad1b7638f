"""Who may be where: enrolments, the authority, its certificates, and the view by which every peer checks them.

Follows the Byzantine-tolerant multicast paper, section 2.1: a central authority gives each admitted peer its place
(key and membership vector) and signs what binds place and public key; peers exchange and check these certificates.
So nobody chooses its neighbours (eclipse), and the number of places per applicant is limited (Sybil).

An applicant is a name that was enrolled: the authority has signed, once, that this public key belongs to it. What it
may choose is its `realm`, the first part of a key (a tag it bears, a value it has). Where it stands inside the realm
and in which rings, the authority draws from its secret, the applicant's name and the realm: asking again gives the same
place, so there is nothing to try. Beyond the paper a certificate also binds name and address, so that a liar cannot
send others to a wrong one, and a time of validity; certificates can be revoked.

Left out: how the authority knows that two applicants are two persons. That is its roster, kept by people.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.peer.contract import NUMBER_BITS, Address, Life, Message, Name
from implicast.peer.errors import LocalError
from implicast.peer.fields import ITEMS_MAX, Micros, Token
from implicast.peer.memory import Recent
from implicast.peer.signatures import PUBLIC_BYTES, SIGNATURE_BYTES, Scheme, Signer
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

PLACES_MAX = 128
"""Default bound on the places one applicant may hold."""
TRIALS_MAX = 1_024
"""Realms one applicant may ever ask for: each shows it one more place, and it might keep the best."""
REVOKED_LOOKED_AT = 1_024
"""Beyond so many, and beyond twice those that were left, the authority drops revoked certificates that have expired."""
CHECKED_MAX = 2_048
"""Certificates that a peer remembers to have checked; its lists name some hundreds."""
EARLY_US = 300_000_000
"""A certificate counts so long before it was issued: clocks differ."""
VALIDITY_US = 365 * 86_400 * 1_000_000
FOR_EVER_US = 1 << 62

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
        bound = (self.key, self.vector, self.name, self.address, self.public, self.serial, self.since_us, self.until_us)
        return b"certificate" + _encode(bound)


class Revocation(Message):
    """The authority's list of certificates that count no more. A higher number replaces a lower one."""

    wire = 0x0C01

    number: Token
    serials: Annotated[tuple[Token, ...], Meta(max_length=ITEMS_MAX)]
    signature: Signature

    def body(self) -> bytes:
        return b"revocation" + _encode((self.number, self.serials))


class GrantDeclined(LocalError):
    """The authority gives no certificate; the text says why."""


class PlacesHeld(Message):
    """What the authority keeps of one applicant."""

    name: Name
    places: tuple[tuple[bytes, tuple[Certificate, ...]], ...]
    """By realm, every certificate that may still be valid, the newest last."""
    tried: tuple[bytes, ...]


class Roll(Message):
    """What the authority writes down: numbers never come again, and places stay given."""

    number: Token
    revoked: tuple[tuple[int, int], ...]
    holders: tuple[PlacesHeld, ...]


class Authority:
    """Gives places, at most `places_max` per applicant, and takes them back.

    Certificates and lists of revoked ones are numbered by one counter that begins with the authority's life: what was
    written down before a crash is below it. With an old copy of its disk the authority learns from the applicants how
    far it had counted (`count_on_from`).
    """

    def __init__(
        self,
        scheme: Scheme,
        secret: bytes,
        vectors: Vectors,
        places_max: int = PLACES_MAX,
        validity_us: int = VALIDITY_US,
        life: Life = 0,
        roll: Roll | None = None,
    ) -> None:
        self._signer: Signer = scheme.signer(_draw(secret, b"key", size=32))
        self._scheme, self._secret, self._vectors = scheme, secret, vectors
        self._places_max, self._validity_us = places_max, validity_us
        self._number = max(life << NUMBER_BITS, roll.number if roll is not None else 0)
        holders = roll.holders if roll is not None else ()
        self._places: dict[Name, dict[bytes, tuple[Certificate, ...]]] = {
            each.name: dict(each.places) for each in holders
        }  # fmt: skip
        self._tried: dict[Name, set[bytes]] = {each.name: set(each.tried) for each in holders}
        self._revoked = dict(roll.revoked if roll is not None else ())  # serial -> until_us; then it need not be
        self._crowded = REVOKED_LOOKED_AT
        self._list: Revocation | None = None
        self._fresh_until_us = FOR_EVER_US  # then something on the list has expired

    @property
    def public(self) -> bytes:
        return self._signer.public

    def roll(self) -> Roll:
        """All that must outlive a crash."""
        holders = [
            PlacesHeld(name, tuple(places.items()), tuple(sorted(self._tried.get(name, ()))))
            for name, places in self._places.items()
        ]
        return Roll(self._number, tuple(self._revoked.items()), tuple(holders))

    # --- who

    def enrol(self, name: Name, public: bytes) -> Enrolment:
        """Admit a name with its key. People decide."""
        bare = Enrolment(name, public, b"")
        return Enrolment(name, public, self._signer.sign(bare.body()))

    def admits(self, enrolment: Enrolment) -> bool:
        """Whether this name was enrolled with this key."""
        return self._scheme.verify(self.public, enrolment.body(), enrolment.signature)

    # --- where

    def place(self, applicant: Name, realm: bytes) -> tuple[bytes, int]:
        """Key and vector that belong to an applicant in a realm; nobody else can work them out."""
        key = realm + _draw(self._secret, b"tail", applicant, realm, size=TAIL_BYTES)
        return key, self._vectors.draw(_draw(self._secret, b"vector", size=32), applicant, key)

    def issue(self, applicant: Name, realm: bytes, address: Address, public: bytes, now_us: int) -> Certificate:
        """The certificate of an applicant's place in a realm: a renewal if it holds one there. Or `Declined`."""
        held = self._places.setdefault(applicant, {})
        tried = self._tried.setdefault(applicant, set())
        if realm not in held and len(held) >= self._places_max:
            raise GrantDeclined(f"{applicant.hex()} holds {len(held)} places, which is all an applicant may")
        if realm not in tried and len(tried) >= TRIALS_MAX:
            raise GrantDeclined(f"{applicant.hex()} has tried {len(tried)} realms, which is all an applicant may")
        tried.add(realm)
        if len(self._revoked) > self._crowded:
            self._forget_expired(now_us)
        issued = self._certify(*self.place(applicant, realm), applicant, address, public, now_us)
        held[realm] = (*[each for each in held.get(realm, ()) if each.until_us > now_us], issued)
        return issued

    def _certify(
        self, key: bytes, vector: int, name: Name, address: Address, public: bytes, now_us: int
    ) -> Certificate:
        until_us = now_us + self._validity_us
        bare = Certificate(key, vector, name, address, public, self._next_number(), now_us, until_us, b"")
        return msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def held(self, applicant: Name) -> tuple[Certificate, ...]:
        """The newest certificate of each place that an applicant holds."""
        return tuple(each[-1] for each in self._places.get(applicant, {}).values())

    # --- what counts no more

    def release(self, applicant: Name, realm: bytes) -> bool:
        """The applicant gives a place up. All its certificates join the revoked, or the limit could be passed by and
        by. False if it held none there."""
        given_up = self._places.get(applicant, {}).pop(realm, ())
        return self._void(given_up)

    def vacate(self, applicant: Name, address: Address) -> bool:
        """The applicant is at this address no more: its certificates for it join the revoked. False if it had none."""
        places = self._places.get(applicant, {})
        return self._void([each for some in places.values() for each in some if each.address == address])

    def _void(self, certificates: Iterable[Certificate]) -> bool:
        fresh = {each.serial: each.until_us for each in certificates if each.serial not in self._revoked}
        self._revoked.update(fresh)
        if fresh:
            self._list = None
        return bool(fresh)

    def revoke(self, now_us: int, *certificates: Certificate) -> Revocation:
        """Declare certificates void; the list of all that are."""
        self._void(certificates)
        return self.revocation(now_us)

    def revocation(self, now_us: int) -> Revocation:
        """The signed list of what counts no more, under a new number if it has changed."""
        if self._list is None or now_us >= self._fresh_until_us:
            self._forget_expired(now_us)
            self._fresh_until_us = min(self._revoked.values(), default=FOR_EVER_US)
            bare = Revocation(self._next_number(), tuple(sorted(self._revoked)[-ITEMS_MAX:]), b"")
            self._list = msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))
        return self._list

    @property
    def has_revoked(self) -> bool:
        return bool(self._revoked)

    def count_on_from(self, newest: Certificate | Revocation, now_us: int) -> None:
        """An applicant shows what this authority has signed: it must not count from below that again."""
        number, revoked = (newest.number, newest.serials) if isinstance(newest, Revocation) else (newest.serial, ())
        if number <= self._number and not revoked:  # as a rule
            return
        if self._scheme.verify(self.public, newest.body(), newest.signature):
            self._number, self._list = max(self._number, number), None
            until_us = now_us + self._validity_us
            self._revoked = dict.fromkeys(revoked, until_us) | self._revoked

    def _forget_expired(self, now_us: int) -> None:
        """Whoever gives places up and asks for others adds to the revoked for ever, though nobody publishes a list."""
        self._revoked = {serial: until_us for serial, until_us in self._revoked.items() if until_us > now_us}
        self._crowded = max(REVOKED_LOOKED_AT, 2 * len(self._revoked))


class Trust:
    """One peer's view of the authority: its public key, what it revoked, and which certificates were checked already.

    `flaw` names what is wrong with a certificate, or None. Checked certificates are remembered, the first come go
    first: a table's entries are met again and again, and Ed25519 costs 118 us a time. Peers simulated together may
    share that memory (`checked`): whoever else meets the very same value would find the same.
    """

    __slots__ = ("_authority", "_checked", "_revocation", "_revoked", "_scheme", "_vectors")

    def __init__(
        self, scheme: Scheme, authority: bytes, vectors: Vectors, checked: Recent[bytes, Certificate] | None = None
    ) -> None:
        self._scheme, self._authority, self._vectors = scheme, authority, vectors
        self._checked = checked if checked is not None else Recent[bytes, Certificate](CHECKED_MAX)
        self._revoked: frozenset[int] = frozenset()
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
            self._checked.get(certificate.signature) is certificate
            and certificate.since_us - EARLY_US <= now_us < certificate.until_us
            and certificate.serial not in self._revoked
        )

    def unknown(self, certificates: Iterable[Certificate], now_us: int) -> list[Certificate]:
        """Those of several of which that cannot be said, without a call for each."""
        checked, revoked = self._checked, self._revoked
        return [
            each
            for each in certificates
            if checked.get(each.signature) is not each
            or each.serial in revoked
            or not each.since_us - EARLY_US <= now_us < each.until_us
        ]

    def flaw(self, certificate: Certificate, now_us: int) -> str | None:
        if not certificate.since_us - EARLY_US <= now_us < certificate.until_us:
            return "expired_certificate"
        if certificate.serial in self._revoked:
            return "revoked_certificate"
        return None if self._is_genuine(certificate) else "forged_certificate"

    def is_void(self, certificate: Certificate) -> bool:
        """Whether the authority gave this certificate and took it back."""
        return certificate.serial in self._revoked and self._is_genuine(certificate)

    def _is_genuine(self, certificate: Certificate) -> bool:
        known = self._checked.get(certificate.signature)
        if known is certificate or (known is not None and known == certificate):
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
        """Take a newer list of revoked certificates over. False for an old, a known or a forged one."""
        if self._revocation is not None and revocation.number <= self._revocation.number:
            return False
        if not self._scheme.verify(self._authority, revocation.body(), revocation.signature):
            return False
        self._revocation, self._revoked = revocation, frozenset(revocation.serials)
        return True


def _draw(secret: bytes, *names: bytes, size: int) -> bytes:
    state = blake2b(key=secret[:64], digest_size=size)
    for name in names:
        state.update(len(name).to_bytes(4, "big") + name)
    return state.digest()
