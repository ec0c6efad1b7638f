"""Percentiles of latencies from counts in buckets of one relative width (DDSketch: Masson, Rim and
Lee, VLDB 2019, section 2).

Bucket i holds values from GAMMA^(i-1) to GAMMA^i, GAMMA = (1 + ERROR) / (1 - ERROR), and stands for
one value that is within ERROR of all of them. From a microsecond to a day there are 2,520 buckets,
however many values there are; counts of two sketches add up.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

ERROR = 0.005
"""Relative error of a percentile."""
GAMMA = (1 + ERROR) / (1 - ERROR)
_LOG = math.log(GAMMA)
Sketch = dict[int, int]
"""Bucket -> how many values."""


def add(sketch: Sketch, values: npt.NDArray[np.int64]) -> None:
    """Count these values, which are at least 0; those below 1 count as 1."""
    buckets = np.ceil(np.log(np.maximum(values, 1)) / _LOG).astype(np.int64)
    for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):
        sketch[int(bucket)] = sketch.get(int(bucket), 0) + int(count)


def percentile(sketch: Mapping[int, int], share: float) -> float | None:
    """The value of this rank, within `ERROR`; None without values."""
    total = sum(sketch.values())
    if not total:
        return None
    rank, seen = math.ceil(share * total), 0
    for bucket in sorted(sketch):
        seen += sketch[bucket]
        if seen >= rank:
            return 2 * GAMMA**bucket / (GAMMA + 1)
    raise AssertionError("ranks end at the number of values")


class Waits(msgspec.Struct):
    """Latencies."""

    sketch: Sketch = {}
    count: int = 0
    sum_us: int = 0
    max_us: int = 0

    def add(self, wait_us: Any) -> None:
        add(self.sketch, wait_us)
        self.count += len(wait_us)
        self.sum_us += int(wait_us.sum())
        self.max_us = max(self.max_us, int(wait_us.max(initial=0)))

    def in_ms(self) -> dict[str, float | None]:
        """Median, 99th percentile and largest in milliseconds; None without a latency. The largest
        is exact.
        """
        at = {"median": percentile(self.sketch, 0.5), "p99": percentile(self.sketch, 0.99)}
        found = {f"latency_ms_{name}": _ms(value, self.max_us) for name, value in at.items()}
        return found | {"latency_ms_max": self.max_us / 1000 if self.count else None}


def _ms(value: float | None, max_us: int) -> float | None:
    return None if value is None else min(value, max_us) / 1000
