"""Token buckets: a rate per second and a burst, for one sender or for each of many."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from implicast.peer.memory import Recent

Who = TypeVar("Who", bound=Hashable)
BUCKETS_MAX = 4_096
"""Senders whose buckets are remembered. The oldest is forgotten; that sender starts with a full
bucket again.
"""


class Bucket:
    """Token bucket of one sender. A rate of 0 sets no limit."""

    __slots__ = ("_left", "_refilled_s", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float, now_s: float) -> None:
        self.rate_per_s, self.burst = rate_per_s, burst
        self._left, self._refilled_s = burst, now_s

    def take(self, now_s: float) -> bool:
        """Take one token; False if there is none."""
        if not self.rate_per_s:
            return True
        self._left = min(self.burst, self._left + (now_s - self._refilled_s) * self.rate_per_s)
        self._refilled_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Buckets(Generic[Who]):
    """A token bucket for each sender."""

    __slots__ = ("_buckets", "_burst", "_rate_per_s")

    def __init__(self, rate_per_s: float, burst: float) -> None:
        self._rate_per_s, self._burst = rate_per_s, burst
        self._buckets: Recent[Who, Bucket] | None = None

    def take(self, who: Who, now_us: int) -> bool:
        """Take one token of a sender; False if it has none. A rate of 0 sets no limit."""
        if not self._rate_per_s:
            return True
        if self._buckets is None:
            self._buckets = Recent(BUCKETS_MAX)
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = Bucket(self._rate_per_s, self._burst, now_us / 1e6)
        return bucket.take(now_us / 1e6)
