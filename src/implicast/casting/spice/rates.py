"""How often casts come to a root: too often as soon as the last few came within one window, too seldom after several.

A root is busy when more casts than the limit allows in a whole window have come within one; so it takes a window's
worth of casts, and a short run of a few is not taken for a busy time. It is idle when it has had hardly any for four
windows: between the two limits lies a factor of 2^(d + 1), so that a level that was raised does not fall at once.
"""

from collections import deque

IDLE_WINDOWS = 4
"""A lowering is proposed after so many idle windows in a row."""


class Rate:
    """Casts at one root."""

    __slots__ = ("_count", "_idle", "_times_us", "per_s", "word")

    def __init__(self) -> None:
        self._count = self._idle = 0
        self._times_us: deque[int] | None = None
        """Of the last casts, as many as decide. Most roots of a deep level never meet one, and an empty deque weighs
        more than all else here."""
        self.per_s = 0.0
        """Averaged over windows, the last one counting as much as all before it."""
        self.word: bool | None = None
        """What was last found out: busy (True), idle (False), or nothing since another root was told so."""

    def is_busy(self, now_us: int, window_us: int, most: int) -> bool:
        """Count a cast: are these more than there may be in one window? If so, counting begins anew."""
        self._count += 1
        times_us = self._times_us
        if times_us is None:
            times_us = self._times_us = deque()
        times_us.append(now_us)
        if len(times_us) <= most:
            return False
        if now_us - times_us.popleft() > window_us:
            return False
        self._times_us, self.word = None, True
        return True

    def is_idle(self, window_us: int, limit: float) -> bool:
        """The end of a window: has it been below this limit for long?"""
        if not self._count:
            self._times_us = None  # all are past
        self.per_s = (self.per_s + self._count * 1e6 / window_us) / 2
        self._count = 0
        self._idle = self._idle + 1 if self.per_s < limit else 0
        if self._idle < IDLE_WINDOWS:
            return False
        self._idle, self.word = 0, False
        return True

    def take_word(self) -> bool | None:
        """What is to be said of it, once."""
        word, self.word = self.word, None
        return word
