"""The places of one peer, the certificates it accepts, and the claims it signs.

Another peer's message can add an entry only with a valid certificate. An entry is removed only by a
revocation of the authority, by a leave message or denial that is signed, or when its holder fails
this peer's own probes (`members.py`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

from implicast.overlay.skip_graph.messages import PRESENT, Claim, DenyPlaces, claim, claim_body
from implicast.overlay.skip_graph.place import ByKey, Place, WholeGraph
from implicast.overlay.skip_graph.table import twin
from implicast.peer.contract import Address, Host, Name
from implicast.peer.identity import SKEW_US, Certificate, Trust
from implicast.peer.memory import Recent
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

PUBLIC = attrgetter("public")
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

    def is_valid(self, certificate: Certificate) -> bool:
        """Whether a certificate may be listed: valid now, and its holder has not left."""
        now_us, serial = self._host.now_us, certificate.serial
        suspect = serial in self.gone or certificate.public in self.gone_holders
        if not suspect and self.trust.is_known(certificate, now_us):  # most were verified before
            return True
        flaw = self.trust.flaw(certificate, now_us)
        if flaw is None and suspect and self.has_left(certificate):
            flaw = "departed"
        return self._passes(flaw)

    def _passes(self, flaw: str | None) -> bool:
        if flaw is not None:
            self.refusals[flaw] += 1
        return flaw is None

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
        return self.is_valid(signed.certificate) and self._passes(self._claim_flaw(verb, signed))

    def verifies_departed(self, verb: bytes, signed: Claim) -> bool:
        """Like `verifies`, but accepts a place that was left: its certificate must still be able to
        sign the leave of all places.
        """
        return self._passes(
            self.trust.flaw(signed.certificate, self._host.now_us) or self._claim_flaw(verb, signed)
        )

    def has_left(self, certificate: Certificate) -> bool:
        """Whether the holder of a certificate left this place or all places."""
        return certificate.serial in self.gone or self.has_left_with_all(certificate)

    def has_left_with_all(self, certificate: Certificate) -> bool:
        """Whether the holder left with all its places after this certificate was issued."""
        return self.gone_holders.get(certificate.public, -1) >= certificate.since_us

    def denies(self, certificate: Certificate, signed: DenyPlaces) -> bool:
        """Whether a denial removes a place: it is later than the place's certificate and comes from
        the present holder of the address.

        The denial is signed with a certificate for the same address: of the same public key, or
        issued later.
        """
        other = signed.claim.certificate
        if other.address != certificate.address or certificate.since_us > signed.claim.sent_us:
            return False
        return other.public == certificate.public or other.serial > certificate.serial

    def _claim_flaw(self, verb: bytes, signed: Claim) -> str | None:
        if abs(self._host.now_us - signed.sent_us) > CLAIM_WINDOW_US:
            return "stale_claim"
        body = claim_body(verb, signed.certificate, signed.sent_us)
        return (
            None
            if self.trust.signed(signed.certificate, body, signed.signature)
            else "forged_claim"
        )


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
        self.address, self.host, self.k, self.vectors, self.signer = (
            address,
            host,
            k,
            vectors,
            signer,
        )
        self.certificate_store = CertificateStore(host, trust)
        self.held: dict[bytes, Place] = {}
        self._claims: Recent[bytes, Claim] = Recent(CLAIMS_MAX)

    def add(self, certificate: Certificate, assembled: WholeGraph | None = None) -> Place:
        """Hold a place. In an assembled world it reads its lists from the whole graph until it
        changes.
        """
        place = self.held[certificate.key] = Place(certificate, self.k, self.vectors, assembled)
        return place

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
        return next(iter(self.held.values()), None)

    def certificates(self) -> list[Certificate]:
        """Certificates of own places."""
        return [place.certificate for place in self.held.values()]

    def insert(self, certificate: Certificate) -> None:
        """Insert a node into the lists of all own places where it fits."""
        for place in self.held.values():
            place.insert(certificate)

    def near(self) -> list[Certificate]:
        """Own places and all nodes they know."""
        nodes = (
            node
            for place in self.held.values()
            for node in (*place.known.values(), place.certificate)
        )
        return list({node.key: node for node in nodes}.values())

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
        held, now_us = self._claims.get(place.key), self.host.now_us
        if (
            held is None
            or held.certificate is not place.certificate
            or held.sent_us < now_us - CLAIM_US
        ):
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
