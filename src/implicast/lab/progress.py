"""How far a sweep has come: counts, failures, time left. One line rewritten on a terminal, a few lines elsewhere."""

import sys
import time
from typing import TextIO

LINES = 10
"""Lines written in all where there is no terminal."""


class Progress:
    """Tell it of every finished run; it knows the rest from the effort that is left."""

    def __init__(self, runs: int, effort: int, already: int = 0, to: TextIO | None = None) -> None:
        self.runs, self.effort, self.already = runs, max(1, effort), already
        self.done = self.failed = self.spent = 0
        self._to = to or sys.stderr
        self._begun = time.monotonic()
        self._said = -1

    def finished(self, effort: int, failed: bool) -> None:
        self.done += 1
        self.failed += failed
        self.spent += effort
        self._say()

    def left_s(self) -> float:
        """Seconds left, if the rest goes as what was done so far."""
        passed = time.monotonic() - self._begun
        return passed * (self.effort - self.spent) / max(1, self.spent)

    def text(self) -> str:
        parts = [f"{self.already + self.done} of {self.already + self.runs} runs"]
        parts += [f"{self.already} of them from before"] * bool(self.already)
        parts += [f"{self.failed} failed"] * bool(self.failed)
        parts += [f"about {duration(self.left_s())} left"] * (self.done < self.runs)
        return ", ".join(parts)

    def _say(self) -> None:
        if self._to.isatty():
            self._to.write(f"\r\x1b[K{self.text()}" + "\n" * (self.done == self.runs))
        elif self.done * LINES // self.runs > self._said or self.done == self.runs:
            self._said = self.done * LINES // self.runs
            self._to.write(f"{self.text()}\n")
        self._to.flush()


def duration(seconds: float) -> str:
    """In words: 40 s, 12 min, 3 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
