"""What changed between two sweeps: the same measures of the same series at the same points, with
their intervals.

Runs with the same name had the same scenario and seed: they differ by nothing but the code that
made them. Where both sweeps have them, their differences are what is judged, seed by seed
(Student's t on pairs). Where seeds differ, the two means are judged by their intervals (Welch). A
difference counts when it is larger than the tolerance and its 95 % interval is away from zero; a
single seed on both sides has no interval, and counts by its size alone.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t

from implicast.lab import dataset, tables
from implicast.lab.folder import Folder

TOLERANCE = 0.01
"""Relative differences up to this are of no interest."""
CONFIDENCE = 0.95
Values = dict[tuple[str, str, str], dict[str, float]]
"""(series, point, measure) -> run -> value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure of a series at a point that is not what it was."""

    series: str
    point: str
    measure: str
    before: float
    after: float
    low: float
    high: float
    """Of the difference, 95 %."""
    runs: int

    @property
    def relative(self) -> float:
        return (
            (self.after - self.before) / abs(self.before)
            if self.before
            else math.copysign(math.inf, self.after)
        )

    def __str__(self) -> str:
        share = f"{self.relative:+.1%}" if math.isfinite(self.relative) else "from nothing"
        interval = f"{self.low:+.4g} to {self.high:+.4g}" if self.runs > 1 else "one seed"
        return (
            f"{self.series} at {self.point}: {self.measure} {self.before:.6g} -> {self.after:.6g} "
            f"({share}; difference {interval}, {self.runs} seeds)"
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """Two sweeps side by side."""

    differences: list[Difference]
    compared: int
    only: tuple[list[str], list[str]]
    """Series and points that one of them has alone."""


def compare(
    before: Folder, after: Folder, tolerance: float = TOLERANCE, measures: Sequence[str] = ()
) -> Compared:
    """What changed from one sweep to the other; of some measures or all."""
    one, other = values(before, measures), values(after, measures)
    common = sorted(one.keys() & other.keys())
    found = [
        each
        for key in common
        if (each := _difference(key, one[key], other[key], tolerance)) is not None
    ]
    return Compared(found, len(common), (_alone(one, other), _alone(other, one)))


def values(folder: Folder, measures: Sequence[str] = ()) -> Values:
    """Every measure of every planned run, where it stands."""
    runs = {
        row["run"]: row
        for row in dataset.required(folder, "runs").to_pylist()
        if row["planned"] and not row["error"]
    }
    found: Values = defaultdict(dict)
    for run, measure, value in _long(folder):
        if run in runs and value is not None and (not measures or measure in measures):
            found[runs[run]["series"], runs[run]["point_label"], measure][run] = float(value)
    return found


def _long(folder: Folder) -> list[tuple[str, str, Any]]:
    rows: list[tuple[str, str, Any]] = []
    for table, names in (
        ("measures", tables.MEASURES),
        ("contract", tables.CONTRACT),
        ("change", tables.CHANGE),
    ):
        for row in dataset.load(folder, table).to_pylist():
            rows += [(row["run"], name, row[name]) for name in names]
    for row in dataset.load(folder, "costs").to_pylist():
        rows += [
            (row["run"], f"{row['phase']}_{what}", row[f"{what}_per_peer"])
            for what in ("messages", "bytes")
        ]
    return rows + [
        (row["run"], row["measure"], row["value"])
        for row in dataset.load(folder, "trials").to_pylist()
    ]


def _difference(
    key: tuple[str, str, str],
    one: Mapping[str, float],
    other: Mapping[str, float],
    tolerance: float,
) -> Difference | None:
    shared = sorted(one.keys() & other.keys())
    if shared:
        pairs = np.array([(one[run], other[run]) for run in shared])
        low, high = _paired(pairs[:, 1] - pairs[:, 0])
        before, after, runs = float(pairs[:, 0].mean()), float(pairs[:, 1].mean()), len(shared)
    else:
        first, second = (np.array(list(each.values())) for each in (one, other))
        low, high = _welch(first, second)
        before, after, runs = (
            float(first.mean()),
            float(second.mean()),
            min(len(first), len(second)),
        )
    found = Difference(*key, before, after, low, high, runs)
    away = low > 0 or high < 0 or (low == high and low != 0)
    return found if away and abs(found.relative) > tolerance else None


def _paired(differences: Any) -> tuple[float, float]:
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return mean, mean
    half = float(
        t.ppf((1 + CONFIDENCE) / 2, count - 1) * differences.std(ddof=1) / math.sqrt(count)
    )
    return mean - half, mean + half


def _welch(first: Any, second: Any) -> tuple[float, float]:
    mean = float(second.mean() - first.mean())
    if min(len(first), len(second)) < 2:
        return mean, mean
    parts = [each.var(ddof=1) / len(each) for each in (first, second)]
    error = math.sqrt(sum(parts))
    if not error:
        return mean, mean
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(each) - 1) for part, each in zip(parts, (first, second), strict=True)
    )
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return mean - half, mean + half


def _alone(one: Values, other: Values) -> list[str]:
    there = {(series, point) for series, point, _ in other}
    return sorted(
        {f"{series} at {point}" for series, point, _ in one if (series, point) not in there}
    )
