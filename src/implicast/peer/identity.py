"""Who may be where: the authority, its certificates, and the view by which every peer checks them.

Follows the Byzantine-tolerant multicast paper, section 2.1: a central authority gives each admitted peer its place
(key and membership vector) and signs what binds place and public key; peers exchange and check these certificates.
So nobody chooses its neighbours (eclipse), and the number of places per applicant is limited (Sybil).

What an applicant may choose is its `realm`, the first part of a key (a tag it bears, a value it has). Where it stands
inside the realm and in which rings, the authority draws from its secret, the applicant's name and the realm: asking
again gives the same place, so there is nothing to try. Beyond the paper a certificate also binds the address, so
that a liar cannot send others to a wrong one, and a time of validity; certificates can be revoked.

Left out: how the authority knows that two applicants are two persons. That is its roster, kept by people.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from implicast.peer.contract import Address, Message
from implicast.peer.errors import LocalError
from implicast.peer.signatures import Scheme, Signer
from implicast.space.vector import Vectors

TAIL_BYTES = 8
"""The drawn part of a key: two applicants in one realm collide with a chance of n^2 / 2^65."""

PLACES_MAX = 64
"""Default bound on the places one applicant may hold."""

TRIALS_MAX = 1_024
"""Realms one applicant may ever ask for: each shows it one more place, and it might keep the best."""

REVOKED_LOOKED_AT = 1_024
"""Beyond so many, and beyond twice those that were left, the authority drops revoked certificates that have expired."""

FOUND_TIMES = 4
"""So many times as many certificates as each remembers do peers simulated together remember in common."""

VALIDITY_US = 365 * 86_400 * 1_000_000

_encode = msgspec.msgpack.Encoder().encode


class Certificate(Message):
    """The authority's word that this public key at this address holds this place."""

    key: bytes
    vector: int
    address: Address
    public: bytes
    serial: int
    since_us: int
    until_us: int
    signature: bytes

    def body(self) -> bytes:
        """What the authority signs."""
        bound = (self.key, self.vector, self.address, self.public, self.serial, self.since_us, self.until_us)
        return b"certificate" + _encode(bound)


class Revocation(Message):
    """The authority's list of certificates that count no more. A higher number replaces a lower one."""

    number: int
    serials: tuple[int, ...]
    signature: bytes

    def body(self) -> bytes:
        return b"revocation" + _encode((self.number, self.serials))


class Declined(LocalError):
    """The authority gives no certificate; the text says why."""


class Authority:
    """Gives places, at most `places_max` per applicant, and takes them back.

    With a `roster`, only the applicants named there are admitted.
    """

    def __init__(
        self,
        scheme: Scheme,
        secret: bytes,
        vectors: Vectors,
        places_max: int = PLACES_MAX,
        validity_us: int = VALIDITY_US,
        roster: frozenset[str] | None = None,
    ) -> None:
        self._signer: Signer = scheme.signer(_draw(secret, b"key", size=32))
        self._secret, self._vectors, self._roster = secret, vectors, roster
        self._places_max, self._validity_us = places_max, validity_us
        self._places: dict[str, dict[bytes, Certificate]] = {}
        self._tried: dict[str, set[bytes]] = {}
        self._revoked: dict[int, int] = {}  # serial -> until_us; what has expired need not be listed
        self._crowded = REVOKED_LOOKED_AT
        self._serial = 0
        self._revocations = 0

    @property
    def public(self) -> bytes:
        return self._signer.public

    def place(self, applicant: str, realm: bytes) -> tuple[bytes, int]:
        """Key and vector that belong to an applicant in a realm; nobody else can work them out."""
        name = applicant.encode()
        key = realm + _draw(self._secret, b"tail", name, realm, size=TAIL_BYTES)
        return key, self._vectors.draw(_draw(self._secret, b"vector", size=32), name, key)

    def issue(self, applicant: str, realm: bytes, address: Address, public: bytes, now_us: int) -> Certificate:
        """The certificate of an applicant's place in a realm: a renewal if it holds one there. Or `Declined`."""
        if self._roster is not None and applicant not in self._roster:
            raise Declined(f"{applicant} is not on the roster")
        held = self._places.setdefault(applicant, {})
        tried = self._tried.setdefault(applicant, set())
        if realm not in held and len(held) >= self._places_max:
            raise Declined(f"{applicant} holds {len(held)} places, which is all an applicant may")
        if realm not in tried and len(tried) >= TRIALS_MAX:
            raise Declined(f"{applicant} has tried {len(tried)} realms, which is all an applicant may")
        tried.add(realm)
        if len(self._revoked) > self._crowded:
            self._forget_expired(now_us)
        held[realm] = self._certify(*self.place(applicant, realm), address, public, now_us)
        return held[realm]

    def _certify(self, key: bytes, vector: int, address: Address, public: bytes, now_us: int) -> Certificate:
        self._serial += 1
        bare = Certificate(key, vector, address, public, self._serial, now_us, now_us + self._validity_us, b"")
        return msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))

    def release(self, applicant: str, realm: bytes) -> None:
        """The applicant gives a place up. Its certificate joins the revoked, or the limit could be passed by and by."""
        given_up = self._places.get(applicant, {}).pop(realm, None)
        if given_up is not None:
            self._revoked[given_up.serial] = given_up.until_us

    def held(self, applicant: str) -> tuple[Certificate, ...]:
        """The certificates an applicant holds."""
        return tuple(self._places.get(applicant, {}).values())

    def revoke(self, now_us: int, *certificates: Certificate) -> Revocation:
        """Declare certificates void and sign the list of all that are, numbered one higher."""
        self._revoked.update({each.serial: each.until_us for each in certificates})
        self._forget_expired(now_us)
        self._revocations += 1
        bare = Revocation(self._revocations, tuple(sorted(self._revoked)), b"")
        return msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))

    def _forget_expired(self, now_us: int) -> None:
        """Whoever gives places up and asks for others adds to the revoked for ever, though nobody publishes a list."""
        self._revoked = {serial: until_us for serial, until_us in self._revoked.items() if until_us > now_us}
        self._crowded = max(REVOKED_LOOKED_AT, 2 * len(self._revoked))


class Trust:
    """One peer's view of the authority: its public key, what it revoked, and which certificates were checked already.

    `flaw` names what is wrong with a certificate, or None. Checked certificates are remembered (`checked_max`, the
    first come go first): a table's entries are met again and again, and Ed25519 costs 118 us a time. Peers simulated
    together may share what one of them `found` to be signed by the authority: whoever else meets the very same value
    would find the same.
    """

    __slots__ = ("_authority", "_checked", "_checked_max", "_found", "_revocation", "_revoked", "_scheme", "_vectors")

    def __init__(
        self, scheme: Scheme, authority: bytes, vectors: Vectors, checked_max: int = 65_536,
        found: OrderedDict[bytes, Certificate] | None = None,
    ) -> None:  # fmt: skip
        self._scheme, self._authority, self._vectors, self._checked_max = scheme, authority, vectors, checked_max
        self._checked: OrderedDict[bytes, Certificate] = OrderedDict()
        self._found = found
        self._revoked: frozenset[int] = frozenset()
        self._revocation = 0

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    def is_known(self, certificate: Certificate, now_us: int) -> bool:
        """Whether this very certificate was found sound before, and still is. False says nothing."""
        return (
            self._checked.get(certificate.signature) is certificate
            and certificate.since_us <= now_us < certificate.until_us
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
            or not each.since_us <= now_us < each.until_us
        ]

    def flaw(self, certificate: Certificate, now_us: int) -> str | None:
        if not certificate.since_us <= now_us < certificate.until_us:
            return "expired_certificate"
        if certificate.serial in self._revoked:
            return "revoked_certificate"
        known = self._checked.get(certificate.signature)
        if known is certificate or (known is not None and known == certificate):
            return None
        return self._first_look(certificate)

    def _first_look(self, certificate: Certificate) -> str | None:
        signature, found = certificate.signature, self._found
        if found is None or found.get(signature) is not certificate:
            if not self._vectors.valid(certificate.vector):
                return "forged_certificate"
            if not self._scheme.verify(self._authority, certificate.body(), signature):
                return "forged_certificate"
            if found is not None:
                _remember(found, certificate, FOUND_TIMES * self._checked_max)
        _remember(self._checked, certificate, self._checked_max)
        return None

    def signed(self, certificate: Certificate, data: bytes, signature: bytes) -> bool:
        """Whether the holder of this certificate signed the data."""
        return self._scheme.verify(certificate.public, data, signature)

    def learn(self, revocation: Revocation) -> bool:
        """Take a newer list of revoked certificates over. False for an old, a known or a forged one."""
        if revocation.number <= self._revocation:
            return False
        if not self._scheme.verify(self._authority, revocation.body(), revocation.signature):
            return False
        self._revocation, self._revoked = revocation.number, frozenset(revocation.serials)
        return True


def _remember(table: OrderedDict[bytes, Certificate], certificate: Certificate, bound: int) -> None:
    table[certificate.signature] = certificate
    if len(table) > bound:
        table.popitem(last=False)


def _draw(secret: bytes, *names: bytes, size: int) -> bytes:
    state = blake2b(key=secret[:64], digest_size=size)
    for name in names:
        state.update(len(name).to_bytes(4, "big") + name)
    return state.digest()
