"""The peer facet (thesis, section 4.2.1): outgoing, incoming and storage load.

`out[p][x]` counts the messages that peer p sends for cast x on behalf of others: all but a publisher's own first one.
`in[p][x]` counts the messages for x that reach p, less the one that p expects when it is notified; never below zero.
Lost messages were sent but did not come in.

What each peer bore comes from one pass over the journal, in blocks of casts (`blocks.py`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab.measures.fairness import histogram, unevenness


def population(peers: DataFrame) -> DataFrame:
    """(run, population): everybody who takes part, server and brokers included."""
    return peers.groupBy("run").agg(F.count("*").alias("population"))


def facet(summed: DataFrame, everybody: DataFrame, direction: str) -> DataFrame:
    """(run, P.._M, T.._M, T.._G) for `OUT`, `IN` or `INK`, from (run, load, peak) and the number of all bearers."""
    peaks = summed.groupBy("run").agg(F.max("peak").alias(f"P{direction}_M"))
    spread = unevenness(histogram(summed, everybody), f"T{direction}_M", f"T{direction}_G")
    return spread.join(peaks, "run", "left").fillna(0, [f"P{direction}_M"])


def storage(peers: DataFrame) -> DataFrame:
    """(run, STOR_M, STOR_G)."""
    return unevenness(histogram(peers, population(peers), "storage_bytes"), "STOR_M", "STOR_G")


def by_capacity(summed: DataFrame, peers: DataFrame) -> DataFrame:
    """(run, TOUT_capacity_G): fairness relative to what each peer can bear (thesis, section 10.2.1)."""
    shares = peers.join(summed, ["run", "peer"], "left").select(
        "run", (F.coalesce("load", F.lit(0)) / F.col("capacity")).alias("load")
    )
    return unevenness(histogram(shares, population(peers)), "unused", "TOUT_capacity_G").drop("unused")
