"""How eagerly a living skip graph is watched, and what is kept of those it lost."""

from dataclasses import dataclass, field

from implicast.peer.identity import Certificate
from implicast.peer.liveness import DetectorSettings


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How eagerly one watches: what repair costs in time, and what it saves in messages."""

    watch_us: int = 7_000_000
    turn_us: int = 12_000_000
    look_us: int = 5_000_000
    """How often lists that changed are compared: by then most neighbours have found out for themselves who is gone."""
    asks: int = 6
    """Questions and farewells, a second apart, before the other is taken for silent."""
    detector: DetectorSettings = field(default_factory=DetectorSettings)


@dataclass(slots=True)
class Lost:
    """Somebody silent: its certificates, since when, when it is called next, and when it was called last."""

    since_us: int
    call_us: int
    wait_us: int
    called_us: int = 0
    nodes: dict[bytes, Certificate] = field(default_factory=dict)

    def call(self, now_us: int, wait_us: int) -> None:
        """It is called now, and again after a while."""
        self.called_us, self.wait_us, self.call_us = now_us, wait_us, now_us + wait_us
