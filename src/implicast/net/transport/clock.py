"""A node's clock, and its offset to the clocks of its neighbours.

The time is the wall clock at startup, advanced by the monotonic clock: a jump of the wall clock has
no effect. Certificates and the age of casts compare the clocks of several nodes. So each node
measures its offset to its neighbours, logs a warning from `WARN_S` on, and does not join from
`REFUSE_S` on.
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
"""Neighbours whose offsets are kept."""


class Clock:
    """Microseconds since 1970; never goes backwards."""

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
        """Store the offset to a neighbour, from its clock and the round-trip time `waited_us`."""
        self._offsets_s[name] = (theirs_us + waited_us / 2 - self.now_us()) / 1e6
        off_s = self.offset_s
        if abs(off_s) >= WARN_S and not self._warned:
            log.warning("%s", self.describe_offset(off_s))
        self._warned = abs(off_s) >= WARN_S

    @property
    def offset_s(self) -> float:
        """Seconds by which the neighbours' clocks are ahead of this one: the median of the offsets
        ordered by absolute value, the lower one if their number is even; 0 without neighbours.
        """
        in_order = sorted(self._offsets_s.values(), key=abs)
        return in_order[(len(in_order) - 1) // 2] if in_order else 0.0

    @property
    def jumped_s(self) -> float:
        """Seconds by which the wall clock has jumped since startup."""
        return (self._wall_ns() // 1000 - self.now_us()) / 1e6

    @staticmethod
    def describe_offset(off_s: float) -> str:
        side = "behind" if off_s > 0 else "ahead of"
        return f"this node's clock is {abs(off_s):.1f} s {side} its neighbours'"
