"""Keys of simulated peers.

On a network each node generates its own key, and only the authority has its key (`net/`). The
laboratory derives all keys from the seed, so that peers have the same names in every run.
"""

from collections.abc import Sequence
from functools import lru_cache

from implicast.language.parameters import Parameters
from implicast.language.target import Description
from implicast.peer.contract import Host, Name
from implicast.peer.name import name_of_public
from implicast.peer.signatures import Signer, scheme
from implicast.peer.signing import FOR_EVER_US, UNSIGNED, KeyedSigning, Signing
from implicast.peer.trust_policy import Right, TrustPolicy, admission
from implicast.space.digest import digest

SEED_BYTES = 32


class KeyRing:
    """All keys of one simulated network."""

    def __init__(self, seed: int, network: bytes, signatures: str, protected: str) -> None:
        self._seed, self._network = seed, network
        self.scheme = scheme(signatures, digest("notary", seed))
        self._authority = self.scheme.signer(_secret("rights", seed))
        self.trust_policy = TrustPolicy.of(self._authority.public, protected.split(","))

    def signer(self, address: int, again: int) -> Signer:
        return self.scheme.signer(_secret("own key", self._seed, address, again))

    def right(
        self, name: Name, attribute: str, value: str | int, until_us: int = FOR_EVER_US
    ) -> Right:
        """The authority's right for a name to register a protected attribute."""
        bare = Right(attribute, value, until_us, b"")
        return Right(attribute, value, until_us, self._authority.sign(bare.text(name)))

    def signing(
        self, host: Host, address: int, again: int, description: Description | None
    ) -> KeyedSigning:
        """The signing of the peer at an address, with rights to its description's protected
        attributes.
        """
        signer = self.signer(address, again)
        name, wanted = (
            name_of_public(signer.public),
            self.trust_policy.protected(description) if description is not None else [],
        )
        rights = tuple(self.right(name, attribute, value) for attribute, value in wanted)
        member = admission(self._authority, name, FOR_EVER_US)
        return KeyedSigning(
            host, address, self._network, self.scheme, signer, self.trust_policy, member, rights
        )


def _secret(*parts: object) -> bytes:
    return (digest(*parts) + digest("more", *parts))[:SEED_BYTES]


key_ring = lru_cache(maxsize=4)(KeyRing)


def laboratory_signing(
    parameters: Parameters,
    seed: int,
    network: bytes,
    host: Host,
    address: int,
    again: int,
    descriptions: Sequence[Description],
) -> Signing:
    """The signing of the peer at an address, with rights to the description that the workload gives
    it; unsigned if signing is switched off.
    """
    if not parameters.get("signed"):
        return UNSIGNED
    ring = key_ring(
        seed, network, str(parameters["signatures"]), str(parameters.get("protected", ""))
    )
    return ring.signing(
        host, address, again, descriptions[address] if address < len(descriptions) else None
    )
