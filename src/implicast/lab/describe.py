"""What a workload looks like: how common its tags, how long its casts, how large its groups.

These are the thesis's Figures 4.2, 4.3 and 9.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from scipy.optimize import brentq

from implicast.lab import far_tables, groups, tables
from implicast.lab.storage import Location

EXPONENT_MAX = 10.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """Zipf exponents of a rank-frequency curve."""

    likelihood: float
    """The exponent under which these frequencies are likeliest."""
    slope: float
    """Minus the slope of the straight line through the log-log plot, ranks spread evenly over
    decades.
    """


def ranks(counted: DataFrame, of: str) -> DataFrame:
    """(of, rank, frequency) from (what, frequency): the commonest has rank 1."""
    order = Window.orderBy(F.desc("frequency"), "what")
    return counted.select(
        F.lit(of).alias("of"), F.row_number().over(order).cast("bigint").alias("rank"), "frequency"
    )


def tag_frequencies(registrations: DataFrame) -> DataFrame:
    """(what, frequency): how many peers register each tag."""
    return (
        registrations.select(F.explode("tags").alias("what"))
        .groupBy("what")
        .agg(F.count("*").alias("frequency"))
    )


def cast_frequencies(casts: DataFrame) -> DataFrame:
    """(what, frequency): how often each target is cast to."""
    return casts.groupBy(F.col("target").alias("what")).agg(F.count("*").alias("frequency"))


def size_counts(sized: DataFrame, of: str) -> DataFrame:
    """(of, size, casts) from (cast, size)."""
    return (
        sized.groupBy("size")
        .agg(F.count("*").alias("casts"))
        .select(F.lit(of).alias("of"), "size", "casts")
    )


def describe(spark: SparkSession, directory: Location) -> None:
    """Write the tables `ranks` and `sizes` beside a workload; group sizes when its groups were
    resolved.
    """
    registrations = tables.read(
        spark, directory / "registrations", tables.WORKLOAD["registrations"]
    )
    casts = tables.read(spark, directory / "casts", tables.WORKLOAD["casts"])
    ranked = ranks(tag_frequencies(registrations), "registrations").unionByName(
        ranks(cast_frequencies(casts), "casts")
    )
    if (
        directory / "queries"
    ).names():  # the whole log says more of its exponent than the casts drawn from it
        asked = (
            tables.read(spark, directory / "queries", tables.QUERIES)
            .groupBy("tags")
            .agg(F.sum("asked").alias("frequency"))
        )
        ranked = ranked.unionByName(ranks(asked.withColumnRenamed("tags", "what"), "queries"))
    tables.write(ranked, directory / "ranks", tables.DESCRIPTION["ranks"])
    words = casts.select("cast", F.size(F.split("target", r"[&|]")).cast("bigint").alias("size"))
    sizes = size_counts(words, "tags")
    if (directory / "groups").names():
        resolved = tables.read(spark, directory / "groups", tables.GROUPS)
        sizes = sizes.unionByName(size_counts(groups.sizes(resolved, casts), "group"))
    tables.write(sizes, directory / "sizes", tables.DESCRIPTION["sizes"])


def fit(frequencies: Sequence[int]) -> Fit:
    """Exponents of frequencies given from the commonest down."""
    counts: Floats = np.asarray(frequencies, np.float64)
    if len(counts) < 2:
        return Fit(0.0, 0.0)
    logs = np.log(np.arange(1, len(counts) + 1))
    wanted = float((counts * logs).sum() / counts.sum())

    def excess(exponent: float) -> float:
        weights = np.exp(-exponent * logs)
        return float((weights * logs).sum() / weights.sum()) - wanted

    likelihood = (
        0.0
        if excess(0.0) <= 0
        else float(brentq(excess, 0.0, EXPONENT_MAX))
        if excess(EXPONENT_MAX) < 0
        else EXPONENT_MAX
    )
    places = np.unique(np.geomspace(1, len(counts), 60).round().astype(int)) - 1
    slope = -float(np.polyfit(logs[places], np.log(counts[places]), 1)[0])
    return Fit(likelihood, slope)


def described(directory: Location) -> dict[str, Any]:
    """The figures of a described workload: counts, exponents, mean tags and group sizes."""
    ranked = far_tables.load(directory / "ranks").to_pylist()
    sizes = far_tables.load(directory / "sizes").to_pylist()
    found: dict[str, Any] = {}
    of_log = [("queries", "queries")] * any(row["of"] == "queries" for row in ranked)
    for of, what in (("registrations", "tags"), ("casts", "targets"), *of_log):
        listed = [
            row["frequency"]
            for row in sorted(
                (row for row in ranked if row["of"] == of), key=lambda row: row["rank"]
            )
        ]
        fitted = fit(listed)
        found[f"distinct_{what}"] = len(listed)
        found[f"commonest_of_{what}"] = listed[0] if listed else 0
        found[f"{of}_exponent"] = round(fitted.likelihood, 3)
        found[f"{of}_slope"] = round(fitted.slope, 3)
    for of in ("tags", "group"):
        mine = sorted((row["size"], row["casts"]) for row in sizes if row["of"] == of)
        if mine:
            found[f"{of}_sizes"] = _spread(mine)
    return found


def _spread(counted: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Mean, median, 90th percentile and largest of (size, how often)."""
    sizes = np.repeat([size for size, _ in counted], [times for _, times in counted])
    return {
        "mean": round(float(sizes.mean()), 2),
        "median": float(np.median(sizes)),
        "p90": float(np.percentile(sizes, 90)),
        "largest": float(sizes.max()),
        "none": float((sizes == 0).mean().round(4)),
    }
