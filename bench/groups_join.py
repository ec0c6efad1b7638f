"""Groups by bitmaps, as the laboratory resolves them, against a join on the rarest tag of each
term.

    python bench/groups_join.py [PEERS CASTS [WAY]]

WAY is bitmaps or join, both when none is named. Another version is measured by
PYTHONPATH=OTHER/src.

The join takes the rarest tag of each cast, joins on it, and checks the rest on every candidate
pair; it is what one would write first. Both are exact; the sizes are compared.
"""

import sys
import time

import psutil
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import groups, workloads
from implicast.lab.session import session
from implicast.lab.workloads import Recipe


def by_join(registrations: DataFrame, casts: DataFrame) -> DataFrame:
    """(cast, size) for conjunctive casts."""
    held = registrations.select("peer", F.explode("tags").alias("tag"))
    common = held.groupBy("tag").agg(F.count("*").alias("holders"))
    asked = casts.select("cast", F.split("target", " & ").alias("all")).select(
        "cast", "all", F.explode("all").alias("tag")
    )
    ranked = asked.join(F.broadcast(common), "tag", "left").fillna(0, ["holders"])
    rarest = ranked.groupBy("cast", "all").agg(
        F.min(F.struct("holders", "tag"))["tag"].alias("tag")
    )
    candidates = F.broadcast(rarest).join(held, "tag").select("cast", "peer", "all")
    checked = candidates.join(registrations, "peer").where(
        F.size(F.array_except("all", "tags")) == 0
    )
    return checked.groupBy("cast").agg(F.count("*").alias("size"))


def processor_s() -> float:
    everyone = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in everyone)


def main(peers: int = 200_000, casts: int = 2_000, only: str = "") -> None:
    spark = session()
    recipe = Recipe("zipf", 1, peers, casts)
    registrations, asked = (
        workloads.registrations(spark, recipe).cache(),
        workloads.casts(spark, recipe).cache(),
    )
    print(f"{registrations.count():,} peers, {asked.count():,} casts")
    ways = {
        "bitmaps": lambda: groups.sizes(groups.groups(registrations, asked), asked),
        "join": lambda: by_join(registrations, asked),
    }
    for name, way in ways.items():
        if only not in ("", name):
            continue
        began, begun = processor_s(), time.perf_counter()
        total = way().agg(F.sum("size")).collect()[0][0]
        took, spent = time.perf_counter() - begun, processor_s() - began
        print(f"{name:8} {took:6.1f} s, {spent:6.1f} s of processor, {total:,} members", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
