"""A node's time, and how far it is from its neighbours'.

The time is the wall clock's at the start, and from then on the monotonic clock's: a jump of the wall clock moves
nothing. Times of several nodes are compared (certificates, the age of casts), so each measures its offset to its
neighbours, says so from `WARN_S` on, and does not join from `REFUSE_S` on.
"""

import logging
import time
from collections.abc import Callable

from implicast.peer.contract import Name
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

WARN_S = 2.0
REFUSE_S = 60.0
NEIGHBOURS_MAX = 64
"""Neighbours whose clocks are remembered."""


class Clock:
    """Microseconds since 1970, never backwards."""

    def __init__(
        self, monotonic_s: Callable[[], float], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_s, self._wall_ns = monotonic_s, wall_ns
        self._epoch_us = wall_ns() // 1000 - int(monotonic_s() * 1e6)
        self._offsets_s: Recent[Name, float] = Recent(NEIGHBOURS_MAX)
        self._warned = False

    def now_us(self) -> int:
        return self._epoch_us + int(self._monotonic_s() * 1e6)

    def compare(self, name: Name, theirs_us: int, waited_us: int = 0) -> None:
        """A neighbour has told its time, in answer to a question that was asked `waited_us` ago."""
        self._offsets_s[name] = (theirs_us + waited_us / 2 - self.now_us()) / 1e6
        off_s = self.offset_s
        if abs(off_s) >= WARN_S and not self._warned:
            log.warning("%s", self.said(off_s))
        self._warned = abs(off_s) >= WARN_S

    @property
    def offset_s(self) -> float:
        """How far the neighbours' clocks are ahead of this one: the middle one by size, of two the smaller; 0 without
        any."""
        in_order = sorted(self._offsets_s.values(), key=abs)
        return in_order[(len(in_order) - 1) // 2] if in_order else 0.0

    @property
    def jumped_s(self) -> float:
        """How far the machine's clock has moved since the start beside the time that passed."""
        return (self._wall_ns() // 1000 - self.now_us()) / 1e6

    @staticmethod
    def said(off_s: float) -> str:
        return f"this node's clock is {abs(off_s):.1f} s {'behind' if off_s > 0 else 'ahead of'} its neighbours'"
