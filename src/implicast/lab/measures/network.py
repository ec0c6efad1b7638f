"""The network facet (thesis, section 4.2.2): packets on directed physical links, access links included.

Every message crosses its sender's access link, the links of the path between the two routers, and its receiver's
access link. Lost messages are counted on the whole way: where a packet was lost is not recorded.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def link_population(links: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, population): all directed links, two for each participant's access."""
    routers = links.groupBy("run").agg(F.count("*").alias("routers"))
    return everybody.join(routers, "run", "left").select(
        "run", (2 * F.col("population") + F.coalesce("routers", F.lit(0))).alias("population")
    )
