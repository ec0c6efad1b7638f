"""The places of one peer, whom it believes, and what it signs for its places.

A word of another can only add, and only what bears a sound certificate. What takes away is the authority's revocation,
the holder's own farewell, or its silence towards this peer (`absentees.py`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

from implicast.overlay.skip_graph.messages import PRESENT, Claim, Disown, claim, claim_body
from implicast.overlay.skip_graph.place import ByKey, Place, StandingGraph
from implicast.overlay.skip_graph.table import twin
from implicast.peer.contract import Address, Host, Name
from implicast.peer.identity import Certificate, Trust
from implicast.peer.memory import Recent
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

PUBLIC = attrgetter("public")
CLAIM_US = 1_000_000
"""How long one signature serves; claims count for half a minute."""
CLAIMS_MAX = 256
"""Claims of our places that are kept; the first are forgotten first."""
CLAIM_WINDOW_US = 30_000_000
"""A claim older than this proves nothing about the present."""
GONE_MAX = 1_024
"""Farewells remembered, so that a recorded claim cannot bring the departed back within the window."""


class Belief:
    """What one peer holds for true about the certificates it meets. `refusals` counts what it did not, by name."""

    __slots__ = ("_host", "gone", "gone_holders", "refusals", "trust")

    def __init__(self, host: Host, trust: Trust) -> None:
        self._host, self.trust = host, trust
        self.gone: Recent[int, int] = Recent(
            GONE_MAX
        )  # serial of a certificate -> when its holder said farewell
        self.gone_holders: Recent[bytes, int] = Recent(GONE_MAX)
        """Public key of who left with all places, also those that we have yet to hear of -> when it said so."""
        self.refusals: Counter[str] = Counter()

    def sound(self, certificate: Certificate) -> bool:
        """Whether a certificate may be listed."""
        now_us, serial = self._host.now_us, certificate.serial
        suspect = serial in self.gone or certificate.public in self.gone_holders
        if not suspect and self.trust.is_known(certificate, now_us):  # most were met before
            return True
        flaw = self.trust.flaw(certificate, now_us)
        if flaw is None and suspect and self.has_left(certificate):
            flaw = "departed"
        return self._passes(flaw)

    def _passes(self, flaw: str | None) -> bool:
        if flaw is not None:
            self.refusals[flaw] += 1
        return flaw is None

    def doubtful(self, certificates: Collection[Certificate]) -> list[Certificate]:
        """Those that have to be looked at one by one; the others were found sound before, and still are."""
        gone, holders = self.gone, self.gone_holders
        found = self.trust.unknown(certificates, self._host.now_us)
        if gone or holders:
            found += [
                each for each in certificates if each.serial in gone or each.public in holders
            ]
        return found

    def credible(self, verb: bytes, said: Claim) -> bool:
        """Whether the holder of a sound certificate said this itself, just now."""
        return self.sound(said.certificate) and self._passes(self._claim_flaw(verb, said))

    def credible_from_the_departed(self, verb: bytes, said: Claim) -> bool:
        """The same of one who may have left that place before: who leaves with all of them still has to be heard."""
        return self._passes(
            self.trust.flaw(said.certificate, self._host.now_us) or self._claim_flaw(verb, said)
        )

    def has_left(self, certificate: Certificate) -> bool:
        """Whether its holder said farewell."""
        return certificate.serial in self.gone or self.has_left_with_all(certificate)

    def has_left_with_all(self, certificate: Certificate) -> bool:
        """Whether its holder said farewell for all its places, not only for this one."""
        return self.gone_holders.get(certificate.public, -1) >= certificate.since_us

    def disowns(self, certificate: Certificate, said: Disown) -> bool:
        """Whether whoever is at the address of a certificate has said, just now, that the place is none of its.

        It says so by a certificate of its own for that address: the same key, or one that was admitted there later.
        """
        other = said.claim.certificate
        if other.address != certificate.address or certificate.since_us > said.claim.sent_us:
            return False
        return other.public == certificate.public or other.serial > certificate.serial

    def _claim_flaw(self, verb: bytes, said: Claim) -> str | None:
        if abs(self._host.now_us - said.sent_us) > CLAIM_WINDOW_US:
            return "stale_claim"
        body = claim_body(verb, said.certificate, said.sent_us)
        return None if self.trust.signed(said.certificate, body, said.signature) else "forged_claim"


class Places:
    """Our places by key; the first is our home."""

    __slots__ = ("_claims", "_signer", "address", "belief", "held", "host", "k", "vectors")

    def __init__(
        self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer
    ) -> None:
        self.address, self.host, self.k, self.vectors, self._signer = (
            address,
            host,
            k,
            vectors,
            signer,
        )
        self.belief = Belief(host, trust)
        self.held: dict[bytes, Place] = {}
        self._claims: Recent[bytes, Claim] = Recent(CLAIMS_MAX)

    def add(self, certificate: Certificate, standing: StandingGraph | None = None) -> Place:
        """Hold a place; in an assembled world it stands among the others already."""
        place = self.held[certificate.key] = Place(certificate, self.k, self.vectors, standing)
        return place

    def stored_bytes(self, wide: bool) -> int | None:
        """Bytes of all whom our places list but these, as they would be encoded; None if one is not at rest."""
        standing = self.home.standing if self.home is not None and self.are_at_rest else None
        return standing.stored_bytes(self.held, wide) if standing is not None else None

    @property
    def are_at_rest(self) -> bool:
        """Whether none has been touched since the world was assembled."""
        for place in self.held.values():  # noqa: SIM110 - no generator at each cast
            if place.standing is None:
                return False
        return True

    @property
    def home(self) -> Place | None:
        return next(iter(self.held.values()), None)

    def enter(self, certificate: Certificate) -> None:
        """Into the lists of all our places where it fits."""
        for place in self.held.values():
            place.enter(certificate)

    def near(self) -> list[Certificate]:
        """Our places, and all whom they know."""
        nodes = (
            node
            for place in self.held.values()
            for node in (*place.known.values(), place.certificate)
        )
        return list({node.key: node for node in nodes}.values())

    def contact_addresses(self) -> dict[Address, None]:
        """Where those are whom our places know."""
        found = dict[Address, None]()
        for place in self.held.values():
            found |= place.addresses
        found.pop(self.address, None)
        return found

    # --- what is signed

    def claim(self, place: Place) -> Claim:
        """That a place of ours is there. Signed once a second at most: it says so to whomever it is said."""
        held, now_us = self._claims.get(place.key), self.host.now_us
        if (
            held is None
            or held.certificate is not place.certificate
            or held.sent_us < now_us - CLAIM_US
        ):
            held = self._claims[place.key] = self.sign(PRESENT, place.certificate)
        return held

    def sign(self, verb: bytes, certificate: Certificate) -> Claim:
        """Anew each time it is said: an old one proves nothing."""
        return claim(self._signer, verb, certificate, self.host.now_us)


@twin
def having(
    held: Iterable[Place], what: Callable[[Certificate], object], value: object
) -> dict[bytes, Certificate]:
    """Of all that places know, those of whom this is so, by key."""
    return {key: node for place in held for key, node in place.known.items() if what(node) == value}


@twin
def struck(known: ByKey, revoked: Collection[int], expelled: Collection[Name]) -> list[bytes]:
    """Of those known, whose certificates count no more."""
    return [key for key, node in known.items() if node.serial in revoked or node.name in expelled]
