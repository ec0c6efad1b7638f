"""The keys of the network's nodes. On a network each node makes its own; the laboratory derives them from the seed.

A member has its own key, its enrolment and the authority's public key. The authority's secret is in the authority's
hands alone.
"""

from dataclasses import dataclass
from functools import lru_cache

from implicast.casting.designs import Plan
from implicast.peer.authority import Authority
from implicast.peer.contract import Name
from implicast.peer.identity import Certificate, Enrolment
from implicast.peer.memory import Recent
from implicast.peer.signatures import Scheme, Signer, scheme
from implicast.space.digest import digest
from implicast.space.vector import Vectors

SHARED_MAX = 65_536
"""Certificates that peers simulated together remember in common to have checked."""


@dataclass(frozen=True, slots=True)
class MemberKeys:
    """What a member needs to sign, and to check what others signed."""

    scheme: Scheme
    signer: Signer
    authority: bytes
    """The authority's public key."""
    enrolment: Enrolment
    checked: Recent[bytes, Certificate] | None = None
    """Certificates found sound, where simulated peers share that memory."""


@dataclass(frozen=True, slots=True)
class AuthorityKeys:
    """What nobody but the authority has."""

    scheme: Scheme
    secret: bytes


class Laboratory:
    """Stands for enrolment in one simulated network."""

    def __init__(self, seed: int, signatures: str) -> None:
        self._seed = seed
        self.scheme = scheme(signatures, digest("notary", seed))
        self._secret = digest("authority", seed)
        self._authority = Authority(self.scheme, self._secret, Vectors(2))
        # Who signs in earnest checks in earnest; where signatures are stood in for, so is checking the same again.
        self._checked = Recent[bytes, Certificate](SHARED_MAX) if self.scheme.name == "stand-in" else None

    def member(self, name: Name) -> MemberKeys:
        """The keys of a member that was enrolled under its name."""
        seed = digest("peer", self._seed, name) + digest("key", self._seed, name)
        signer = self.scheme.signer(seed[:32])
        enrolment = self._authority.enrol(name, signer.public)
        return MemberKeys(self.scheme, signer, self._authority.public, enrolment, self._checked)

    def authority(self) -> AuthorityKeys:
        return AuthorityKeys(self.scheme, self._secret)


_laboratory = lru_cache(maxsize=2)(Laboratory)


def credentials(plan: Plan, name: Name, role: str) -> MemberKeys | AuthorityKeys:
    """What a simulated node is given when it begins."""
    laboratory = _laboratory(plan.seed, str(plan.parameters["signatures"]))
    return laboratory.authority() if role == "authority" else laboratory.member(name)
