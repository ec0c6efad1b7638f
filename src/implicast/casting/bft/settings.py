"""What members of the Byzantine-tolerant design are given: settings, in the units of their parts, and keys.

On a network each node makes its own keys; the laboratory derives them from the seed (`world/populations/keys.py`).
"""

from dataclasses import dataclass

from implicast.casting.bft.multicast import Halves
from implicast.language.parameters import Parameters
from implicast.overlay.skip_graph.absentees import Upkeep
from implicast.peer.identity import Certificate, Enrolment
from implicast.peer.liveness import DetectorSettings
from implicast.peer.memory import Recent
from implicast.peer.signatures import Scheme, Signer
from implicast.space.vector import Vectors

HEALTH_MAX = 1
"""Bad health makes a peer twice as patient, not more: whoever crashes is asked for all its places by all who list it,
and would make all of them doubt themselves."""


@dataclass(frozen=True, slots=True)
class BftSettings:
    """How a member multicasts, and how eagerly it watches."""

    k: int
    vectors: Vectors
    halves: Halves
    upkeep: Upkeep
    through: bool
    sparse: bool
    window_us: int

    @classmethod
    def of(cls, parameters: Parameters) -> "BftSettings":
        k = int(parameters["k"])
        upkeep = Upkeep(
            _micros(parameters, "watch_s"),
            _micros(parameters, "turn_s"),
            _micros(parameters, "look_s"),
            int(parameters["asks"]),
            DetectorSettings(tries=int(parameters["tries"]), health_max=HEALTH_MAX),
        )
        through, sparse = parameters["reach"] == "through", parameters["choose"] == "sparse"
        vectors = Vectors(int(parameters["alpha"]))
        return cls(
            k, vectors, Halves.of(k), upkeep, through, sparse, _micros(parameters, "window_s")
        )


def _micros(parameters: Parameters, name: str) -> int:
    return int(float(parameters[name]) * 1e6)


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
