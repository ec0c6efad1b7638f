"""Load of one replica root: casts counted in windows."""

from collections import deque
from dataclasses import dataclass

IDLE_WINDOWS = 4
"""Number of successive idle windows after which a root counts as idle."""


@dataclass(slots=True)
class RootLoad:
    """Casts at one root. Busy is decided at each cast, idle at the end of windows.

    A root is busy when more casts than the limit allows in a window arrive within one window. It is
    idle when its rate stays below the lower limit for `IDLE_WINDOWS` windows. The two limits differ
    by a factor of 2^(d + 1), so that a raised level does not fall at once.
    """

    _count: int = 0
    _idle: int = 0
    _times_us: deque[int] | None = None
    """Times of the last casts, as many as decide. None while empty, since most roots of a deep
    level receive no cast.
    """
    per_s: float = 0.0
    """Exponential average over windows with weight 1/2."""
    finding: bool | None = None
    """The last finding: busy (True), idle (False), or None after it was reported."""

    def is_busy(self, now_us: int, window_us: int, most: int) -> bool:
        """Count a cast. Returns whether the window has more casts than allowed, and then starts
        anew.
        """
        self._count += 1
        times_us = self._times_us = self._times_us or deque()
        times_us.append(now_us)
        if len(times_us) <= most or now_us - times_us.popleft() > window_us:
            return False
        self._times_us, self.finding = None, True
        return True

    def is_idle(self, window_us: int, limit: float) -> bool:
        """End a window. Returns whether the rate has been below the limit for `IDLE_WINDOWS`
        windows.
        """
        if not self._count:
            self._times_us = None  # all casts are older than a window
        self.per_s = (self.per_s + self._count * 1e6 / window_us) / 2
        self._count = 0
        self._idle = self._idle + 1 if self.per_s < limit else 0
        if self._idle < IDLE_WINDOWS:
            return False
        self._idle, self.finding = 0, False
        return True

    def take_finding(self) -> bool | None:
        """Return the finding and clear it."""
        finding, self.finding = self.finding, None
        return finding
