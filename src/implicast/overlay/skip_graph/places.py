"""The places of one peer, the certificates it accepts, and the claims it signs.

Another peer's message can add an entry only with a valid certificate. An entry is removed only by a
revocation of the authority, by a leave message or denial that is signed, or when its holder fails
this peer's own probes (`members.py`).

A claim about a place is signed by the claimant with the time and a verb. No peer can announce a
place for an absent third party, or leave for another; a recorded claim is worthless after 30 s.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

import msgspec

from implicast.overlay.skip_graph.place import ByKey, Place, WholeGraph
from implicast.overlay.skip_graph.table import twin
from implicast.peer.contract import Address, Host, Message, Name
from implicast.peer.fields import Micros
from implicast.peer.identity import SKEW_US, Certificate, Signature, Trust
from implicast.peer.memory import Recent
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

PUBLIC = attrgetter("public")
PRESENT = b"present"
"""Verb of a claim that the place is held."""
CLAIM_US = 1_000_000
"""A signed claim is reused for 1 s."""
CLAIMS_MAX = 256
"""Signed claims of own places kept for reuse; the oldest is evicted first."""
CLAIM_WINDOW_US = 30_000_000 + SKEW_US
"""Receivers reject claims that are further than this from their clock: a claim travels for up to
30 s.
"""
GONE_MAX = 1_024
"""Leave messages remembered. While one is, a recorded claim cannot bring the place back."""

_encode = msgspec.msgpack.Encoder().encode


class Claim(Message):
    """A statement of a place about itself at a time, signed. The verb is signed but not sent: it
    follows from the message.
    """

    certificate: Certificate
    sent_us: Micros
    signature: Signature


def claim_body(verb: bytes, certificate: Certificate, sent_us: int) -> bytes:
    """The bytes that a claimant signs."""
    return verb + _encode((certificate.key, certificate.serial, sent_us))


def claim(signer: Signer, verb: bytes, certificate: Certificate, now_us: int) -> Claim:
    """A signed claim. The signature covers the verb, so that a request cannot be turned into a
    leave message.
    """
    return Claim(certificate, now_us, signer.sign(claim_body(verb, certificate, now_us)))


class CertificateStore:
    """Decides which certificates and claims one peer accepts. `refusals` counts the rejected ones
    by reason.
    """

    __slots__ = ("_host", "gone", "gone_holders", "refusals", "trust")

    def __init__(self, host: Host, trust: Trust) -> None:
        self._host, self.trust = host, trust
        # serial of a certificate -> time of the leave message
        self.gone: Recent[int, int] = Recent(GONE_MAX)
        self.gone_holders: Recent[bytes, int] = Recent(GONE_MAX)
        """Public key -> time at which its holder left with all places, including places not yet
        known here.
        """
        self.refusals: Counter[str] = Counter()

    def refuse(self, flaw: str | None) -> bool:
        """Count a flaw; False if there is none."""
        if flaw is not None:
            self.refusals[flaw] += 1
        return flaw is not None

    def is_valid(self, certificate: Certificate) -> bool:
        """Whether a certificate may be listed: valid now, and its holder has not left."""
        now_us = self._host.now_us
        suspect = certificate.serial in self.gone or certificate.public in self.gone_holders
        if not suspect and self.trust.is_known(certificate, now_us):  # most were verified before
            return True
        flaw = self.trust.flaw(certificate, now_us)
        if flaw is None and suspect and self.has_left(certificate):
            flaw = "departed"
        return not self.refuse(flaw)

    def unverified(self, certificates: Collection[Certificate]) -> list[Certificate]:
        """The certificates that need a check by `is_valid`; all others were verified before and are
        still valid.
        """
        gone, holders = self.gone, self.gone_holders
        found = self.trust.unknown(certificates, self._host.now_us)
        if gone or holders:
            found += [
                each for each in certificates if each.serial in gone or each.public in holders
            ]
        return found

    def verifies(self, verb: bytes, signed: Claim) -> bool:
        """Whether the holder of a valid certificate signed a claim within the time window."""
        return self.is_valid(signed.certificate) and not self.refuse(self._claim_flaw(verb, signed))

    def verifies_departed(self, verb: bytes, signed: Claim) -> bool:
        """Like `verifies`, but accepts a place that was left: its certificate must still be able to
        sign the leave of all places.
        """
        flaw = self.trust.flaw(signed.certificate, self._host.now_us)
        return not self.refuse(flaw or self._claim_flaw(verb, signed))

    def _claim_flaw(self, verb: bytes, signed: Claim) -> str | None:
        if abs(self._host.now_us - signed.sent_us) > CLAIM_WINDOW_US:
            return "stale_claim"
        body = claim_body(verb, signed.certificate, signed.sent_us)
        is_signed = self.trust.signed(signed.certificate, body, signed.signature)
        return None if is_signed else "forged_claim"

    # --- places left

    def record_left(self, certificate: Certificate, left_us: int) -> None:
        """The holder of a certificate left this place."""
        self.gone.put(certificate.serial, left_us)

    def record_left_with_all(self, certificate: Certificate, left_us: int) -> None:
        """The holder of a certificate left with all its places."""
        self.gone_holders.put(certificate.public, left_us)

    def has_left(self, certificate: Certificate) -> bool:
        """Whether the holder of a certificate left this place or all places."""
        return certificate.serial in self.gone or self.has_left_with_all(certificate)

    def has_left_with_all(self, certificate: Certificate) -> bool:
        """Whether the holder left with all its places after this certificate was issued."""
        return self.gone_holders.get(certificate.public, -1) >= certificate.since_us


class Places:
    """Places held by this peer, by key. The first is the home place."""

    __slots__ = (
        "_claims",
        "address",
        "certificate_store",
        "held",
        "host",
        "k",
        "signer",
        "vectors",
    )

    def __init__(
        self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer
    ) -> None:
        self.address, self.host, self.k, self.vectors = address, host, k, vectors
        self.signer, self.certificate_store = signer, CertificateStore(host, trust)
        self.held: dict[bytes, Place] = {}
        self._claims: Recent[bytes, Claim] = Recent(CLAIMS_MAX)

    def add(self, certificate: Certificate, assembled: WholeGraph | None = None) -> Place:
        """Hold a place. In an assembled world it reads its lists from the whole graph until it
        changes.
        """
        place = self.held[certificate.key] = Place(certificate, self.k, self.vectors, assembled)
        return place

    def remove(self, key: bytes) -> Place:
        """Hold a place no longer."""
        return self.held.pop(key)

    def stored_bytes(self, wide: bool) -> int | None:
        """Encoded size of all listed nodes except own places; None if a place has changed since the
        world was assembled.
        """
        assembled = self.home.assembled if self.home is not None and self.are_untouched else None
        return assembled.stored_bytes(self.held, wide) if assembled is not None else None

    @property
    def are_untouched(self) -> bool:
        """Whether no place has changed since the world was assembled."""
        for place in self.held.values():  # noqa: SIM110 - no generator at each cast
            if place.assembled is None:
                return False
        return True

    @property
    def home(self) -> Place | None:
        """The home place."""
        return next(iter(self.held.values()), None)

    def certificates(self) -> list[Certificate]:
        """Certificates of own places."""
        return [place.certificate for place in self.held.values()]

    def insert(self, certificate: Certificate) -> None:
        """Insert a node into the lists of all own places where it fits."""
        for place in self.held.values():
            place.insert(certificate)

    def near(self) -> Collection[Certificate]:
        """Own places and all nodes they know."""
        found = dict[bytes, Certificate]()
        for place in self.held.values():
            found |= place.known
            found[place.key] = place.certificate
        return found.values()

    def contact_addresses(self) -> dict[Address, None]:
        """Addresses of all nodes that own places know, without this peer's."""
        found = dict[Address, None]()
        for place in self.held.values():
            found |= place.addresses
        found.pop(self.address, None)
        return found

    # --- signing

    def claim(self, place: Place) -> Claim:
        """A signed claim that a place is held; the same one for all receivers within `CLAIM_US`."""
        held = self._claims.get(place.key)
        is_current = held is not None and held.certificate is place.certificate
        if held is None or not is_current or held.sent_us < self.host.now_us - CLAIM_US:
            held = self._claims[place.key] = self.sign(PRESENT, place.certificate)
        return held

    def sign(self, verb: bytes, certificate: Certificate) -> Claim:
        """Sign a claim with the present time."""
        return claim(self.signer, verb, certificate, self.host.now_us)


@twin
def nodes_with(
    held: Iterable[Place], what: Callable[[Certificate], object], value: object
) -> dict[bytes, Certificate]:
    """All known nodes of these places whose attribute has this value, by key."""
    return {key: node for place in held for key, node in place.known.items() if what(node) == value}


@twin
def revoked_keys(known: ByKey, revoked: Collection[int], expelled: Collection[Name]) -> list[bytes]:
    """Keys of known nodes whose certificate is revoked or whose name is expelled."""
    return [key for key, node in known.items() if node.serial in revoked or node.name in expelled]
