"""How far a sweep has come: counts, failures, time left. One line rewritten on a terminal, a few
lines elsewhere.

The time left is what the runs that are left will take, shared by as many workers as there are. A
run takes as long as the finished ones of its design did, by its size; before one is finished, as
long as its design is known to take. The first runs are the longest, and they find workers that have
to start and to compile first: while only a few are finished nothing is said of the time.
"""

import sys
import time
from collections import defaultdict
from typing import TextIO

from implicast.lab.plan import Planned

LINES = 10
"""Lines written in all where there is no terminal."""


class Progress:
    """Tell it of every finished run; it knows the rest from the runs that are left."""

    def __init__(
        self,
        runs: list[Planned],
        workers: int = 1,
        already: int = 0,
        to: TextIO | None = None,
        now: float | None = None,
    ) -> None:
        self.runs, self.workers, self.already = (
            len(runs),
            max(1, min(workers, len(runs) or 1)),
            already,
        )
        self._left = {each.run: each for each in runs}
        self._spent: dict[str, list[float]] = defaultdict(
            lambda: [0.0, 0.0]
        )  # design -> seconds, effort
        self.done = self.failed = 0
        self._to = to or sys.stderr
        self._begun = time.monotonic() if now is None else now
        self._said = -1

    def finished(self, run: Planned, seconds: float | None) -> None:
        """One more is done; seconds are unknown of one that failed."""
        self.done += 1
        self.failed += seconds is None
        self._left.pop(run.run, None)
        if seconds is not None:
            self._spent[run.design][0] += seconds
            self._spent[run.design][1] += run.effort
        self._say()

    def left_s(self) -> float | None:
        """Seconds left, if the rest goes as what was done so far; None while too little was done."""
        if self.done < self.workers + 1 or not self._spent:
            return None
        expected = [self._expected_s(each) for each in self._left.values()]
        # The longest may have to be awaited alone; and what runs now is half done, on average.
        running = sum(sorted(expected, reverse=True)[: self.workers]) / 2
        return max([*expected[:1], (sum(expected) - running) / self.workers])

    def _expected_s(self, run: Planned) -> float:
        seconds, effort = self._spent.get(run.design, (0.0, 0.0))
        if not effort:
            seconds, effort = (sum(each) for each in zip(*self._spent.values(), strict=True))
        return seconds / max(1.0, effort) * run.effort

    def text(self) -> str:
        parts = [f"{self.already + self.done} of {self.already + self.runs} runs"]
        parts += [f"{self.already} of them from before"] * bool(self.already)
        parts += [f"{self.failed} failed"] * bool(self.failed)
        left = self.left_s() if self.done < self.runs else None
        parts += [f"about {duration(left)} left"] * (left is not None)
        return ", ".join(parts)

    def _say(self) -> None:
        if self._to.isatty():
            self._to.write(f"\r\x1b[K{self.text()}" + "\n" * (self.done == self.runs))
        elif self.done * LINES // self.runs > self._said or self.done == self.runs:
            self._said = self.done * LINES // self.runs
            self._to.write(f"{self.text()}\n")
        self._to.flush()


def duration(seconds: float | None) -> str:
    """In words: 40 s, 12 min, 3 h."""
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
