"""The keys of simulated peers.

On a network each node makes its own key and the authority's key is the authority's alone (`net/`). The laboratory
derives all of them from the seed, so that the same peers have the same names in every run.
"""

from collections.abc import Sequence
from functools import lru_cache

from implicast.language.parameters import Parameters
from implicast.language.target import Description
from implicast.peer.contract import Host, Name
from implicast.peer.name import name_of_public
from implicast.peer.signatures import Signer, scheme
from implicast.peer.words import (
    BELIEVED,
    FOR_EVER_US,
    Charter,
    Right,
    SignedWords,
    Words,
    admission,
)
from implicast.space.digest import digest

SEED_BYTES = 32


class KeyRing:
    """All keys of one simulated network."""

    def __init__(self, seed: int, network: bytes, signatures: str, protected: str) -> None:
        self._seed, self._network = seed, network
        self.scheme = scheme(signatures, digest("notary", seed))
        self._authority = self.scheme.signer(_secret("rights", seed))
        self.charter = Charter.of(self._authority.public, protected.split(","))

    def signer(self, address: int, again: int) -> Signer:
        return self.scheme.signer(_secret("own key", self._seed, address, again))

    def right(
        self, name: Name, attribute: str, value: str | int, until_us: int = FOR_EVER_US
    ) -> Right:
        """The authority lets a name say this of itself."""
        bare = Right(attribute, value, until_us, b"")
        return Right(attribute, value, until_us, self._authority.sign(bare.text(name)))

    def words(self, host: Host, address: int, again: int, said: Description | None) -> SignedWords:
        """Of the peer at an address, which has the right to what it is to say."""
        signer = self.signer(address, again)
        name, wanted = (
            name_of_public(signer.public),
            self.charter.protected(said) if said is not None else [],
        )
        rights = tuple(self.right(name, attribute, value) for attribute, value in wanted)
        member = admission(self._authority, name, FOR_EVER_US)
        return SignedWords(
            host, address, self._network, self.scheme, signer, self.charter, member, rights
        )


def _secret(*parts: object) -> bytes:
    return (digest(*parts) + digest("more", *parts))[:SEED_BYTES]


key_ring = lru_cache(maxsize=4)(KeyRing)


def laboratory_words(
    parameters: Parameters,
    seed: int,
    network: bytes,
    host: Host,
    address: int,
    again: int,
    descriptions: Sequence[Description],
) -> Words:
    """How the peer at an address speaks in the world. It has the right to what the workload lets it say."""
    if not parameters.get("signed"):
        return BELIEVED
    ring = key_ring(
        seed, network, str(parameters["signatures"]), str(parameters.get("protected", ""))
    )
    return ring.words(
        host, address, again, descriptions[address] if address < len(descriptions) else None
    )
