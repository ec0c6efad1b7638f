"""A peer's limits on the casts of others. Off by default."""

from implicast.language.parameters import Parameters
from implicast.peer.bucket import Buckets
from implicast.peer.contract import CastId, Name


class Policy:
    """Limits on casts per publisher and second, and on the size of an audience."""

    __slots__ = ("_casts", "audience_max")

    def __init__(self, parameters: Parameters) -> None:
        rate, burst = (
            float(parameters.get("casts_per_s", 0.0)),
            float(parameters.get("casts_burst", 1)),
        )
        self._casts: Buckets[Name] = Buckets(rate, burst)
        self.audience_max = int(parameters.get("audience_max", 0))

    def admits(self, cast: CastId, now_us: int) -> bool:
        """Take one token of the cast's publisher; False if the publisher exceeds its rate."""
        return self._casts.take(cast.publisher, now_us)

    def allows_audience(self, audience: int) -> bool:
        """Whether a cast may select this number of members."""
        return not self.audience_max or audience <= self.audience_max


UNLIMITED = Policy({})
"""No limits. Shared by all peers without limits; it has no state."""


def policy_of(parameters: Parameters) -> Policy:
    limited = parameters.get("casts_per_s") or parameters.get("audience_max")
    return Policy(parameters) if limited else UNLIMITED
