"""The peer facet (thesis, section 4.2.1): outgoing, incoming and storage load.

`out[p][x]` counts the messages that peer p sends for cast x on behalf of others: all but a publisher's own first one.
`in[p][x]` counts the messages for x that reach p, less the one that p expects when it is notified; never below zero.
Lost messages were sent but did not come in.

Everything starts from one load matrix, made in one pass over the journal: a row for each peer and cast that had to do
with one another.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab.measures.fairness import histogram, unevenness

PAIR = ("run", "cast", "peer")
COUNTS = ("sent", "due", "came", "told")


def load_matrix(sends: DataFrame, notices: DataFrame) -> DataFrame:
    """(run, cast, peer, sent, due, came, told): messages that p sent for x, sent to p, that came; notifications."""
    handled = sends.where("cast is not null").selectExpr(
        "run", "cast",
        "stack(2, sender, 1L, 0L, 0L, 0L, receiver, 0L, 1L, if(arrived_us is null, 0L, 1L), 0L) "
        "as (peer, sent, due, came, told)",
    )  # fmt: skip
    told = notices.selectExpr(*PAIR, "0L as sent", "0L as due", "0L as came", "1L as told")
    return handled.unionByName(told).groupBy(*PAIR).agg(*(F.sum(name).alias(name) for name in COUNTS))


def pair_loads(matrix: DataFrame, casts: DataFrame) -> DataFrame:
    """(run, cast, peer, out, in, up, down): the thesis's loads, and packets on the peer's access link either way."""
    published = casts.select("run", "cast", F.col("publisher").alias("peer"), F.lit(1).alias("own"))
    joined = matrix.join(F.broadcast(published), list(PAIR), "left")
    own = F.when(F.col("sent") > 0, F.coalesce("own", F.lit(0))).otherwise(0)
    expected = F.when(F.col("told") > 0, 1).otherwise(0)
    return joined.select(
        *PAIR, (F.col("sent") - own).alias("out"), F.greatest(F.col("came") - expected, F.lit(0)).alias("in"),
        F.col("sent").alias("up"), F.col("due").alias("down"),
    )  # fmt: skip


def bearings(loads: DataFrame) -> DataFrame:
    """(run, peer, out, out_peak, in, in_peak, ...): what each peer bore in all casts and in its worst, in one pass."""
    kinds = [name for name in loads.columns if name not in PAIR]
    sums = [F.sum(name).alias(name) for name in kinds] + [F.max(name).alias(f"{name}_peak") for name in kinds]
    return loads.groupBy("run", "peer").agg(*sums)


def of_kind(borne: DataFrame, kind: str) -> DataFrame:
    """(run, peer, load, peak): one kind of load out of `bearings`."""
    return borne.select("run", "peer", F.col(kind).alias("load"), F.col(f"{kind}_peak").alias("peak"))


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
