"""A token bucket: so many a second, over a burst."""


class Bucket:
    """What one sender may still do. A rate of 0 sets no limit."""

    __slots__ = ("_left", "_refilled_s", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float, now_s: float) -> None:
        self.rate_per_s, self.burst = rate_per_s, burst
        self._left, self._refilled_s = burst, now_s

    def take(self, now_s: float) -> bool:
        """Take one token; False when there is none."""
        if not self.rate_per_s:
            return True
        self._left = min(self.burst, self._left + (now_s - self._refilled_s) * self.rate_per_s)
        self._refilled_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
