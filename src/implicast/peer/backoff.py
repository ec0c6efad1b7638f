"""How a peer spares others when they do not answer: waits that grow, and a budget for repair.

Exponential back-off: each attempt at one peer waits longer than the one before. It bounds what one
silent peer costs, but not what many cost that fall silent at once. The budget bounds the sum: after
a power cut or a partition a peer has thousands of unanswered requests, and all of them are due.
"""

WINDOWS = 10
"""Windows of the budget in a second. In any second at most `1 + 1 / WINDOWS` times the budget is
sent.
"""
WINDOW_US = 1_000_000 // WINDOWS
REPAIRS_PER_S_MAX = 1_000
"""Retries and upkeep requests that one peer sends in a second, with each of its request tables.
Further ones wait for their turn, the oldest first, and do not count as attempts meanwhile. The
parameter `repairs_per_s` of every design sets it.
"""
DOUBLINGS_MAX = 32
"""Doublings of a wait; every wait has reached its upper bound by then."""


def backed_off_us(first_us: int, retries: int, most_us: int, factor: float = 2.0) -> int:
    """The wait after so many retries: `first_us`, then each `factor` times the one before, at most
    `most_us`.
    """
    if factor == 2.0:
        return min(first_us << min(retries, DOUBLINGS_MAX), most_us)
    return min(int(first_us * factor**retries), most_us)


class RepairBudget:
    """Messages for repair that one peer may send, in windows of 100 ms."""

    __slots__ = ("_left", "_per_window", "_window")

    def __init__(self, per_s: float = REPAIRS_PER_S_MAX) -> None:
        self._per_window = max(1, int(per_s) // WINDOWS)
        self._left, self._window = self._per_window, 0

    def take(self, now_us: int) -> bool:
        """Whether one more message may be sent now; it counts as sent."""
        window = now_us // WINDOW_US
        if window != self._window:
            self._window, self._left = window, self._per_window
        if not self._left:
            return False
        self._left -= 1
        return True

    def next_us(self, now_us: int) -> int:
        """When the next window begins."""
        return (now_us // WINDOW_US + 1) * WINDOW_US
