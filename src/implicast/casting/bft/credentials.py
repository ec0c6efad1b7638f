"""The keys of the network's nodes. On a network each node makes its own; the laboratory derives them from the seed
(`world/populations/keys.py`).

A member has its own key, its enrolment and the authority's public key. The authority's secret is in the authority's
hands alone.
"""

from dataclasses import dataclass

from implicast.peer.identity import Certificate, Enrolment
from implicast.peer.memory import Recent
from implicast.peer.signatures import Scheme, Signer


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
