"""Losses of peers that were mistaken, and the further probes that they call for. Sends no messages.

Where many messages are dropped, a probe of few attempts often fails although the other peer is
alive. Each false loss makes contacts probe too, so false losses cause further ones. A peer that was
mistaken lately therefore repeats a failed probe before it loses another.
"""

from implicast.peer.contract import Address
from implicast.peer.memory import Recent

FALSE_US = 20_000_000
"""A lost peer that sends a message within 20 s was lost by mistake. Later it may have been frozen
or cut off.
"""
CAREFUL_US = 60_000_000
"""For 60 s after a mistake failed probes are repeated."""
REPEATS_MAX = 2
"""A failed probe is repeated once after one mistake, twice after more."""
REPEATED_MAX = 256
"""Peers whose repeated probes are counted; the oldest is evicted first."""


class FalseLosses:
    """Mistakes of one observer."""

    __slots__ = ("_mistakes_us", "_repeated")

    def __init__(self) -> None:
        self._mistakes_us: tuple[int, ...] = ()
        # by peer: failed probes that were repeated, time of the last
        self._repeated: Recent[Address, tuple[int, int]] = Recent(REPEATED_MAX)

    def on_reinstated(self, lost_us: int, now_us: int) -> None:
        """A peer that was lost at a time has sent a message."""
        if now_us - lost_us <= FALSE_US:
            self._mistakes_us = (*self._mistakes_us, now_us)[-REPEATS_MAX:]

    def is_doubtful(self, who: Address, heard_us: int, now_us: int) -> bool:
        """Whether to repeat a failed probe of a peer, last heard at this time; counts it."""
        allowed = sum(each > now_us - CAREFUL_US for each in self._mistakes_us)
        count, probed_us = self._repeated.pop(who, (0, 0))
        if heard_us >= probed_us:
            count = 0
        if count >= allowed:
            return False
        self._repeated[who] = (count + 1, now_us)
        return True
