"""Settings of the Byzantine-tolerant design, converted to the units of its parts, and the keys of
its peers.

On a network each node makes its own keys; the laboratory derives them from the seed
(`world/populations/keys.py`).
"""

from dataclasses import dataclass

from implicast.casting.bft.multicast import Halves
from implicast.language.parameters import Parameters
from implicast.overlay.skip_graph.members import GraphSettings
from implicast.peer.detector import DetectorSettings
from implicast.peer.identity import Certificate, Enrolment
from implicast.peer.memory import Recent
from implicast.peer.signatures import Scheme, Signer
from implicast.space.vector import Vectors

HEALTH_MAX = 1
"""Bad own health at most doubles a peer's timeouts. All peers that list a crashed one send requests
to all its places; more weight would make them all distrust themselves.
"""


@dataclass(frozen=True, slots=True)
class BftSettings:
    """How a member multicasts and maintains its lists."""

    k: int
    vectors: Vectors
    halves: Halves
    graph: GraphSettings
    through: bool
    sparse: bool
    window_us: int

    @classmethod
    def of(cls, parameters: Parameters) -> "BftSettings":
        k = int(parameters["k"])
        graph = GraphSettings(
            _micros(parameters, "watch_s"),
            _micros(parameters, "turn_s"),
            _micros(parameters, "look_s"),
            int(parameters["asks"]),
            DetectorSettings(tries=int(parameters["tries"]), health_max=HEALTH_MAX),
        )
        through, sparse = parameters["reach"] == "through", parameters["choose"] == "sparse"
        vectors = Vectors(int(parameters["alpha"]))
        return cls(
            k, vectors, Halves.of(k), graph, through, sparse, _micros(parameters, "window_s")
        )


def _micros(parameters: Parameters, name: str) -> int:
    return int(float(parameters[name]) * 1e6)


@dataclass(frozen=True, slots=True)
class MemberKeys:
    """Keys with which a member signs, and verifies what others signed."""

    scheme: Scheme
    signer: Signer
    authority: bytes
    """The authority's public key."""
    enrolment: Enrolment
    checked: Recent[bytes, Certificate] | None = None
    """Verified certificates, where simulated peers share the cache."""


@dataclass(frozen=True, slots=True)
class AuthorityKeys:
    """The authority's secret key and signature scheme."""

    scheme: Scheme
    secret: bytes
