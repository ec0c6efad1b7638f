"""The places of one peer, whom it believes, and what it signs for its places."""

from collections.abc import Callable

from implicast.overlay.skip_graph.belief import Belief
from implicast.overlay.skip_graph.messages import (
    ALL_GONE,
    GONE,
    PRESENT,
    Claim,
    Disown,
    Farewell,
    Leaving,
    claim,
    disowning,
)
from implicast.overlay.skip_graph.place import Place, StandingGraph
from implicast.peer.contract import Address, Host
from implicast.peer.identity import Certificate, Trust
from implicast.peer.memory import Recent
from implicast.peer.signatures import Signer
from implicast.space.vector import Vectors

CLAIM_US = 1_000_000
"""How long one signature serves; claims count for half a minute."""
CLAIMS_MAX = 256
"""Claims of our places that are kept; the first are forgotten first."""


class Places:
    """Our places by key; the first is our home."""

    __slots__ = ("_claims", "_signer", "address", "belief", "held", "host", "k", "vectors")

    def __init__(self, address: Address, host: Host, k: int, vectors: Vectors, trust: Trust, signer: Signer) -> None:
        self.address, self.host, self.k, self.vectors, self._signer = address, host, k, vectors, signer
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
        found = {
            node.key: node for place in self.held.values() for node in (*place.known.values(), place.certificate)
        }  # fmt: skip
        return list(found.values())

    def known(self, fits: Callable[[Certificate], bool]) -> dict[bytes, Certificate]:
        """All places that ours know and that are such, by key."""
        known = (node for place in self.held.values() for node in place.known.values())
        return {node.key: node for node in known if fits(node)}

    def contact_addresses(self) -> dict[Address, None]:
        """Where those are whom our places know."""
        found = dict[Address, None]()
        for place in self.held.values():
            found.update(dict.fromkeys([node.address for node in place.known.values()]))
        found.pop(self.address, None)
        return found

    # --- what is signed

    def claim(self, place: Place) -> Claim:
        """That a place of ours is there. Signed once a second at most: it says so to whomever it is said."""
        held, now_us = self._claims.get(place.key), self.host.now_us
        if held is None or held.certificate is not place.certificate or held.sent_us < now_us - CLAIM_US:
            held = self._claims[place.key] = claim(self._signer, PRESENT, place.certificate, now_us)
        return held

    def farewell(self, certificate: Certificate) -> Farewell:
        """That a place was left. Signed anew each time it is said: an old one proves nothing."""
        return Farewell(claim(self._signer, GONE, certificate, self.host.now_us))

    def leaving(self, home: Certificate) -> Leaving:
        """That all our places are left."""
        return Leaving(claim(self._signer, ALL_GONE, home, self.host.now_us))

    def disown(self, home: Certificate, places: tuple[bytes, ...]) -> Disown:
        """That places are none of ours."""
        return Disown(places, claim(self._signer, disowning(places), home, self.host.now_us))
