"""Counts the casts of a node, their outcomes, and the time until their receipts are final."""

import time
from bisect import bisect_left
from collections import Counter
from typing import Any

from implicast.peer.contract import CastId, Message
from implicast.peer.events import Settled
from implicast.peer.memory import Recent

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the latency histogram, in seconds."""
RUNNING_MAX = 4_096
"""Casts whose latency is measured at once. Older ones are counted without latency."""
OUTCOMES = ("complete", "unreachable", "uncertain")


class CastMeter:
    """The counts of one node since it started."""

    def __init__(self) -> None:
        self._begun: Recent[CastId, float] = Recent(RUNNING_MAX)
        self._made = 0
        self._outcomes: Counter[str] = Counter()
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def begin(self, cast: CastId) -> None:
        """The node accepted a cast of its application."""
        self._made += 1
        self._begun[cast] = time.monotonic()

    def on_event(self, event: Message) -> None:
        if not isinstance(event, Settled) or event.open or event.cast not in self._begun:
            return
        latency_s = time.monotonic() - self._begun.pop(event.cast)
        self._outcomes[_outcome(event)] += 1
        self._counts[bisect_left(BUCKETS_S, latency_s)] += 1
        self._sum_s += latency_s

    def status(self) -> dict[str, Any]:
        """Casts made, final receipts by outcome, and the latency histogram: the number of casts up
        to each bound, and their sum in seconds.
        """
        total, up_to = 0, []
        for count in self._counts:
            total += count
            up_to.append(total)
        return {
            "made": self._made,
            "outcomes": {each: self._outcomes[each] for each in OUTCOMES},
            "latency_s": {"bounds": list(BUCKETS_S), "up_to": up_to, "sum": self._sum_s},
        }


def _outcome(settled: Settled) -> str:
    if settled.uncertain:
        return "uncertain"
    return "unreachable" if settled.unreachable else "complete"
