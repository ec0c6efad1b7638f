"""The network facet (thesis, section 4.2.2): packets on directed physical links, access links included.

Every message crosses its sender's access link, the links of the path between the two routers, and its receiver's
access link. Lost messages are counted on the whole way: where a packet was lost is not recorded.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab.measures.fairness import histogram, unevenness


def link_population(links: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, population): all directed links, two for each participant's access."""
    return everybody.join(_between(links), "run", "left").select(
        "run", (2 * F.col("population") + F.coalesce("routers", F.lit(0))).alias("population")
    )


def used(carried: DataFrame) -> DataFrame:
    """(run, TINK_used_G) from (run, load) of all links that carried anything."""
    count = carried.groupBy("run").agg(F.count("*").alias("population"))
    return unevenness(histogram(carried, count), "unused", "TINK_used_G").drop("unused")


def between_routers(carried: DataFrame, links: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, TINK_router_G) from (run, load) of the links between routers."""
    count = everybody.join(_between(links), "run", "left").select(
        "run", F.coalesce("routers", F.lit(0)).alias("population")
    )
    return unevenness(histogram(carried, count), "unused", "TINK_router_G").drop("unused")


def _between(links: DataFrame) -> DataFrame:
    return links.groupBy("run").agg(F.count("*").alias("routers"))
