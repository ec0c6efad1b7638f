"""Keys of a simulated bft network, derived from its seed in place of enrolment at the authority."""

from functools import lru_cache

from implicast.casting.bft.settings import AuthorityKeys, MemberKeys
from implicast.peer.authority import Authority
from implicast.peer.contract import Name
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.signatures import scheme
from implicast.space.digest import digest
from implicast.space.vector import Vectors
from implicast.world.plan import Plan

SHARED_MAX = 65_536
"""Checked certificates that all simulated peers share."""


class Laboratory:
    """Enrolment in one simulated network."""

    def __init__(self, seed: int, signatures: str) -> None:
        self._seed = seed
        self.scheme = scheme(signatures, digest("notary", seed))
        self._secret = digest("authority", seed)
        self._authority = Authority(self.scheme, self._secret, Vectors(2))
        # With real signatures every peer checks every certificate itself. With stand-in signatures
        # peers share the results.
        self._checked = (
            Recent[bytes, Certificate](SHARED_MAX) if self.scheme.name == "stand-in" else None
        )

    def member(self, name: Name) -> MemberKeys:
        """The keys of a member enrolled under its name."""
        seed = digest("peer", self._seed, name) + digest("key", self._seed, name)
        signer = self.scheme.signer(seed[:32])
        enrolment = self._authority.enrol(name, signer.public)
        return MemberKeys(self.scheme, signer, self._authority.public, enrolment, self._checked)

    def authority(self) -> AuthorityKeys:
        return AuthorityKeys(self.scheme, self._secret)


_laboratory = lru_cache(maxsize=2)(Laboratory)


def credentials(plan: Plan, name: Name, role: str) -> MemberKeys | AuthorityKeys:
    """The credentials of a simulated node."""
    laboratory = _laboratory(plan.seed, str(plan.parameters["signatures"]))
    return laboratory.authority() if role == "authority" else laboratory.member(name)
