"""How unevenly a load is borne (thesis, section 4.1.1), on Spark: Gini coefficients over all who
could bear it.

They start from a histogram - how many bear each load, the idle included - so that a run of a
million peers is a handful of rows, and are folded in ascending order of load, so that the result is
the same for any partitioning.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def histogram(totals: DataFrame, population: DataFrame, load: str = "load") -> DataFrame:
    """(run, load, bearers) from the loads of those who bear any and the number of all (run,
    population).
    """
    borne = totals.groupBy("run", F.col(load).alias("load")).agg(F.count("*").alias("bearers"))
    named = borne.groupBy("run").agg(F.sum("bearers").alias("named"))
    idle = population.join(named, "run", "left").select(
        "run",
        F.lit(0).cast(borne.schema["load"].dataType).alias("load"),
        (F.col("population") - F.coalesce("named", F.lit(0))).alias("bearers"),
    )
    return borne.unionByName(idle).groupBy("run", "load").agg(F.sum("bearers").alias("bearers"))


def unevenness(counted: DataFrame, largest: str, gini: str) -> DataFrame:
    """(run, largest load, Gini coefficient) of a histogram.

    Equation 4.1: sum over ascending x_i of (2i - n - 1) x_i, by n times the total. Of m equal loads
    x that follow c smaller ones, the sum is x m (2c + m - n).
    """
    steps = F.array_sort(
        F.collect_list(F.struct(F.col("load").cast("double").alias("load"), "bearers"))
    )
    folded = counted.groupBy("run").agg(
        F.max("load").alias(largest), F.sum("bearers").alias("population"), steps.alias("steps")
    )
    start = F.struct(
        F.lit(0).cast("bigint").alias("before"),
        F.lit(0.0).alias("weighted"),
        F.lit(0.0).alias("total"),
    )
    sums = folded.select(
        "run",
        largest,
        "population",
        F.aggregate("steps", start, _add(F.col("population"))).alias("sums"),
    )
    ratio = F.col("sums.weighted") / (F.col("population") * F.col("sums.total"))
    return sums.select(
        "run", largest, F.when(F.col("sums.total") > 0, ratio).otherwise(0.0).alias(gini)
    )


def _add(population: Column) -> Callable[[Column, Column], Column]:
    def step(so_far: Column, each: Column) -> Column:
        before, bearers, load = so_far["before"], each["bearers"], each["load"]
        weight = (2 * before + bearers - population).cast("double") * bearers
        return F.struct(
            (before + bearers).alias("before"),
            (so_far["weighted"] + load * weight).alias("weighted"),
            (so_far["total"] + load * bearers).alias("total"),
        )

    return step


def sorted_mean(values: str | Column) -> Column:
    """The mean of doubles added in ascending order: the same to the last bit for any partitioning;
    null for none.
    """
    listed = F.array_sort(F.collect_list(values))
    return F.aggregate(listed, F.lit(0.0), lambda total, each: total + each) / F.when(
        F.size(listed) > 0, F.size(listed)
    )
