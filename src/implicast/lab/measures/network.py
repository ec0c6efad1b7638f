"""The network facet (thesis, section 4.2.2): packets on directed physical links, access links included.

Every message crosses its sender's access link, the links of the path between the two routers, and its receiver's
access link. Lost messages are counted on the whole way: where a packet was lost is not recorded.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROUTE = ("run", "source_router", "target_router")


def routed(sends: DataFrame, peers: DataFrame) -> DataFrame:
    """(run, cast, source_router, target_router, packets): messages of a cast that go the same way, together.

    Adding them up before the join with paths is what makes the facet affordable: on a network of 447 routers
    a cast to two thousand members is at most a few hundred rows.
    """
    source = peers.select("run", F.col("peer").alias("sender"), F.col("router").alias("source_router"))
    target = peers.select("run", F.col("peer").alias("receiver"), F.col("router").alias("target_router"))
    of_casts = sends.where("cast is not null").select("run", "cast", "sender", "receiver")
    placed = of_casts.join(F.broadcast(source), ["run", "sender"]).join(F.broadcast(target), ["run", "receiver"])
    apart = placed.where("source_router <> target_router")
    return apart.groupBy("run", "cast", "source_router", "target_router").agg(F.count("*").alias("packets"))


def crossings(travelled: DataFrame, paths: DataFrame) -> DataFrame:
    """(run, cast, link, load): packets of a cast on each link between routers."""
    ways = paths.groupBy(*ROUTE).agg(F.collect_list("link").alias("links"))
    spread = travelled.join(ways, list(ROUTE)).select("run", "cast", "packets", F.explode("links").alias("link"))
    return spread.groupBy("run", "cast", "link").agg(F.sum("packets").alias("load"))


def link_totals(crossed: DataFrame, borne: DataFrame) -> DataFrame:
    """(run, link, load, peak): what each link carried in all casts, and in the one that loaded it most.

    Access links, from `peer.bearings`, have numbers below zero: -1 - 2p towards the network and -2 - 2p from it.
    """
    between = crossed.groupBy("run", "link").agg(F.sum("load").alias("load"), F.max("load").alias("peak"))
    ends = borne.selectExpr(
        "run", "stack(2, -1 - 2 * peer, up, up_peak, -2 - 2 * peer, down, down_peak) as (link, load, peak)"
    )
    return between.unionByName(ends.where("load > 0"))


def link_population(links: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, population): all directed links, two for each participant's access."""
    routers = links.groupBy("run").agg(F.count("*").alias("routers"))
    return everybody.join(routers, "run", "left").select(
        "run", (2 * F.col("population") + F.coalesce("routers", F.lit(0))).alias("population")
    )
