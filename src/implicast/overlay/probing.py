"""What a failure detector (`detector.py`) says, how patient it is, and what it keeps of an open question."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from implicast.peer.contract import Message

Who = TypeVar("Who", bound=Hashable)
"""How an overlay names a peer: its address, or one life of it."""


class Ping(Message):
    """Are you there? For overlays that have no question of their own."""

    token: int


class Pong(Message):
    """Yes."""

    token: int


class Overdue(Message):
    """Rings when an attempt should have been answered by now."""

    upkeep = True

    token: int
    due_us: int
    """When it was meant to ring."""


DETECTOR_KINDS = (Ping, Pong)
"""What travels, for the codec of a design."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Patience: what repair costs in time, and what false suspicions cost in repairs."""

    rto_us: int = 250_000
    """The least wait for an answer, and the first one while round trips are unknown."""
    rto_cap_us: int = 2_000_000
    """Waits double up to this."""
    tries: int = 5
    """Attempts before the silent one is suspected."""
    health_max: int = 4
    """An observer in bad health waits up to 1 + this times as long; 0: its own health does not matter."""
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    jitter: float = 0.5
    """Every wait but the first is multiplied by 1 minus to 1 plus this, so that observers do not fall into step."""
    known_max: int = 1024
    """Peers about whom something is remembered; those heard longest ago are forgotten first."""
    gone_max: int = 256
    """Peers that said they left, remembered."""

    def patience_us(self) -> int:
        """From the first attempt to the suspicion, in good health."""
        return sum(min(self.rto_us << tried, self.rto_cap_us) for tried in range(self.tries))


@dataclass(slots=True)
class Probe(Generic[Who]):
    """A question that is open: the attempts made, and when each was sent."""

    who: Who
    ask: Message | None
    tried: int = 0
    late: int = 0
    sent_us: dict[int, int] = field(default_factory=dict)
    """By token; each attempt has its own."""


@dataclass(slots=True)
class RoundTrip:
    """Smoothed round trip and its mean deviation."""

    smoothed_us: int
    deviation_us: int

    def take(self, sample_us: int) -> None:
        self.deviation_us += (abs(sample_us - self.smoothed_us) - self.deviation_us) // 4
        self.smoothed_us += (sample_us - self.smoothed_us) // 8
