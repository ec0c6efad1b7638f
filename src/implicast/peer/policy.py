"""What one peer lets others do: off unless it is set, on a network as in the world."""

from implicast.language.parameters import Parameters
from implicast.peer.bucket import Buckets
from implicast.peer.contract import CastId, Name


class Policy:
    """What one peer lets others do: casts per publisher and second, and members of an audience."""

    __slots__ = ("_casts", "audience_max")

    def __init__(self, parameters: Parameters) -> None:
        rate, burst = (
            float(parameters.get("casts_per_s", 0.0)),
            float(parameters.get("casts_burst", 1)),
        )
        self._casts: Buckets[Name] = Buckets(rate, burst)
        self.audience_max = int(parameters.get("audience_max", 0))

    def admits(self, cast: CastId, now_us: int) -> bool:
        """Whether one more cast of its publisher is taken now."""
        return self._casts.take(cast.publisher, now_us)

    def bears(self, audience: int) -> bool:
        """Whether a cast may select so many."""
        return not self.audience_max or audience <= self.audience_max


FREE = Policy({})
"""No limits; shared by all who have none, and never changed."""


def policy_of(parameters: Parameters) -> Policy:
    limited = parameters.get("casts_per_s") or parameters.get("audience_max")
    return Policy(parameters) if limited else FREE
