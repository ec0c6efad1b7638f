"""Means over seeds with 95 % confidence intervals (Student's t), and ratios to a baseline."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from scipy.stats import t

from implicast.lab.measures.fairness import sorted_mean

CONFIDENCE = 0.95
PLACE = ["series", "design", "axis", "point", "point_label", "position"]
"""Where a run stands."""
RUNS_MAX = 64
"""Beyond this many runs the normal quantile is as good."""


def summary(runs: DataFrame, measured: DataFrame, names: Sequence[str]) -> DataFrame:
    """(series, design, axis, point, point_label, position, measure, runs, mean, low, high) over the
    seeds of each point.

    `runs` places each run on the axis; `measured` has a row for each run and a column for each
    name; null is a run that did not take the measure, and there is no row where none did. A single
    run has no interval.
    """
    placed = runs.select("run", *PLACE).join(measured, "run")
    long = placed.unpivot([*PLACE], list(names), "measure", "value")
    grouped = long.groupBy(*PLACE, "measure").agg(
        F.count("value").alias("runs"),
        sorted_mean("value").alias("mean"),
        F.array_sort(F.collect_list("value")).alias("values"),
    )
    grouped = grouped.where("runs > 0")
    spread = F.aggregate(
        "values",
        F.lit(0.0),
        lambda total, each: total + (each - F.col("mean")) * (each - F.col("mean")),
    )
    error = F.sqrt(spread / (F.col("runs") - 1) / F.col("runs"))
    half = F.when(F.col("runs") > 1, error * quantile(F.col("runs")))
    return grouped.select(
        "*", (F.col("mean") - half).alias("low"), (F.col("mean") + half).alias("high")
    ).drop("values")


def quantile(runs: Column) -> Column:
    """How many standard errors half of the interval is, for a mean of this many runs."""
    listed = [0.0, 0.0] + [
        float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) for count in range(2, RUNS_MAX + 1)
    ]
    return F.get(
        F.array(*(F.lit(each) for each in listed)), F.least(runs, F.lit(RUNS_MAX)).cast("int")
    )
