"""How a peer spares others when they do not answer: waits that grow, and a budget for repair.

Exponential back-off: each attempt at one peer waits longer than the one before. It bounds what one
silent peer costs, but not what many cost that fall silent at once. The budget bounds the sum: after
a power cut or a partition a peer has thousands of unanswered requests, and all of them are due.
"""

from implicast.language.parameters import Parameters

SECOND_US = 1_000_000
WAIT_US = 100_000
"""A message that the budget does not allow waits for so long."""
REPAIRS_PER_S_MAX = 1_000
"""Retries and upkeep requests that one peer sends in a second, with each of its request tables.
Further ones wait for their turn, the oldest first, and do not count as attempts meanwhile. The
parameter `repairs_per_s` sets it where casts are forwarded by requests of a design.
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
    """Messages for repair that one peer may send: `per_s` at once, and then `per_s` in a second. So
    it is at most twice the number in any second.
    """

    __slots__ = ("_cost_us", "_spent_until_us")

    def __init__(self, per_s: float = REPAIRS_PER_S_MAX) -> None:
        self._cost_us = int(SECOND_US / per_s)
        """Time in which the budget for one message grows again."""
        self._spent_until_us = 0
        """When the whole budget will be there again."""

    @staticmethod
    def of(parameters: Parameters) -> "RepairBudget":
        """The budget of a design's parameter `repairs_per_s`."""
        return RepairBudget(float(parameters.get("repairs_per_s", REPAIRS_PER_S_MAX)))

    def take(self, now_us: int) -> bool:
        """Whether one more message may be sent now; it counts as sent."""
        spent_until_us = max(self._spent_until_us, now_us) + self._cost_us
        if spent_until_us > now_us + SECOND_US:
            return False
        self._spent_until_us = spent_until_us
        return True

    def next_us(self, now_us: int) -> int:
        """When a message that is not allowed now should be tried again."""
        return now_us + WAIT_US
