"""The cast facet (thesis, section 4.2.3): hops and latency of casts, relative to a server that knows everybody.

RTH(x) is all messages sent for x, the publisher's own included, over 1 + group size; RAH(x) and RMH(x) are the mean and
the largest hops to a member, over 2. RTH averages over all casts, RAH and RMH over those with a member.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab.measures.fairness import sorted_mean

LATENCIES = ("latency_ms_mean", "latency_ms_median", "latency_ms_p99", "latency_ms_max")


def hops(counted: DataFrame) -> DataFrame:
    """(run, RTH, RAH, RMH) from (run, cast, messages, members, hops, deepest); zero for a run without members."""
    some = F.col("members") > 0
    ratios = counted.select(
        "run", (F.col("messages") / (1 + F.col("members"))).alias("rth"),
        F.when(some, F.col("hops") / F.col("members") / 2).alias("rah"),
        F.when(some, F.col("deepest") / 2).alias("rmh"),
    )  # fmt: skip
    means = ratios.groupBy("run").agg(
        sorted_mean("rth").alias("RTH"), sorted_mean("rah").alias("RAH"), sorted_mean("rmh").alias("RMH")
    )
    return means.fillna(0.0)


def latency(notices: DataFrame, casts: DataFrame) -> DataFrame:
    """(run, latency_ms_mean, _median, _p99, _max) from cast to notification, over all notifications of a run.

    Notifications of casts that nobody made have no latency; the contract counts them.
    """
    began = F.broadcast(casts.select("run", "cast", F.col("time_us").alias("began_us")))
    waits = notices.join(began, ["run", "cast"]).select("run", (F.col("time_us") - F.col("began_us")).alias("wait_us"))
    # Counted first: many waits are equal, and the exact percentiles have less to sort.
    counted = waits.groupBy("run", "wait_us").agg(F.count("*").alias("times"))
    wait, times = F.col("wait_us"), F.col("times")
    return counted.groupBy("run").agg(
        (F.sum(wait * times) / F.sum(times) / 1000).alias("latency_ms_mean"),
        (F.percentile(wait, 0.5, times) / 1000).alias("latency_ms_median"),
        (F.percentile(wait, 0.99, times) / 1000).alias("latency_ms_p99"),
        (F.max(wait) / 1000).alias("latency_ms_max"),
    )
