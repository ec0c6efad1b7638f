"""The tables of a stream: `minutes`, for each run and minute, and `totals`, for each run since it
began.

Totals have the names and the definitions of `lab measure`, and are equal to what it finds in the
whole journal, to the last bit: what is added in floating point is added in the same order.
"""

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab.measures.blocks import gini
from implicast.lab.measures.fairness import histogram, unevenness
from implicast.lab.stream.state import MINUTE_US, RUN

MINUTES = pa.schema(
    [
        ("design", pa.string()),
        ("run", pa.string()),
        ("minute_us", pa.int64()),
        ("casts", pa.int64()),
        ("deliveries", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("upkeep_messages", pa.int64()),
        ("all_messages", pa.int64()),
        ("all_bytes", pa.int64()),
        ("latency_ms_median", pa.float64()),
        ("latency_ms_p99", pa.float64()),
        ("latency_ms_max", pa.float64()),
        ("out_G", pa.float64()),
        ("out_M", pa.int64()),
        ("receipts", pa.int64()),
        ("open_too_long", pa.int64()),
        ("late", pa.int64()),
    ]
)
TOTALS = pa.schema(
    [
        ("design", pa.string()),
        ("run", pa.string()),
        ("peers", pa.int64()),
        ("casts", pa.int64()),
        ("notified", pa.int64()),
        ("messages", pa.int64()),
        ("messages_cast", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_cast", pa.int64()),
        ("receipts", pa.int64()),
        ("open_too_long", pa.int64()),
        ("late", pa.int64()),
        ("POUT_M", pa.float64()),
        ("TOUT_M", pa.float64()),
        ("TOUT_G", pa.float64()),
        ("RTH", pa.float64()),
        ("latency_ms_mean", pa.float64()),
        ("latency_ms_median", pa.float64()),
        ("latency_ms_p99", pa.float64()),
        ("latency_ms_max", pa.float64()),
    ]
)


def minutes(state: DataFrame, open_s: float) -> pa.Table:
    """(MINUTES), oldest first. A receipt is open too long when it was not there `open_s` after its
    cast.
    """
    at = [*RUN, "minute_us"]
    clock = (
        state.where("of != 'late'")
        .groupBy(*RUN)
        .agg((F.max("minute_us") + MINUTE_US).alias("clock_us"))
    )
    plain = state.groupBy(*at).agg(
        _of("casts", "count").alias("casts"),
        _of("notices", "count").alias("deliveries"),
        F.sum(F.when(_for_casts(), F.col("count")).otherwise(0)).alias("messages"),
        F.sum(F.when(_for_casts(), F.col("bytes")).otherwise(0)).alias("bytes"),
        F.sum(
            F.when(
                (F.col("of") == "sends") & (F.col("phase") == "upkeep"), F.col("count")
            ).otherwise(0)
        ).alias("upkeep_messages"),
        _of("sends", "count").alias("all_messages"),
        _of("sends", "bytes").alias("all_bytes"),
        _of("receipts", "count").alias("receipts"),
        _of("late", "count").alias("late"),
        F.sum(
            F.when(
                (F.col("of") == "receipts") & (F.col("value") <= open_s * 1e6), F.col("count")
            ).otherwise(0)
        ).alias("in_time"),
    )
    past = F.col("minute_us") + MINUTE_US + int(open_s * 1e6) <= F.col("clock_us")
    overdue = F.when(past, F.greatest(F.col("casts") - F.col("in_time"), F.lit(0))).otherwise(0)
    found = (
        plain.join(clock, RUN).withColumn("open_too_long", overdue).join(_waits(state), at, "left")
    )
    rows = found.join(_spread(state), at, "left").select(*MINUTES.names)
    return rows.toArrow().cast(MINUTES).sort_by([(name, "ascending") for name in at])


def _of(what: str, column: str) -> Any:
    return F.sum(F.when(F.col("of") == what, F.col(column)).otherwise(0))


def _for_casts() -> Any:
    return (F.col("of") == "sends") & F.col("cast").isNotNull()


def _waits(state: DataFrame) -> DataFrame:
    """Exact percentiles of the latencies of a minute."""
    at = F.percentile("value", F.array(F.lit(0.5), F.lit(0.99), F.lit(1.0)), F.col("count"))
    found = (
        state.where("of = 'notices' and value is not null")
        .groupBy(*RUN, "minute_us")
        .agg(at.alias("at"))
    )
    names = ("median", "p99", "max")
    columns = [
        (F.col("at")[place] / 1000).alias(f"latency_ms_{name}") for place, name in enumerate(names)
    ]
    return found.select(*RUN, "minute_us", *columns)


def loads(state: DataFrame, *per: str) -> DataFrame:
    """(run, per..., peer, cast, load): what each peer sent for each cast for others: all but a
    publisher's first.
    """
    sent = (
        state.where(_for_casts())
        .groupBy(*RUN, *per, "peer", "cast")
        .agg(F.sum("count").alias("sent"))
    )
    own = state.where("of = 'casts'").select(*RUN, *per, "peer", "cast", F.lit(1).alias("own"))
    load = F.col("sent") - F.coalesce("own", F.lit(0))
    return sent.join(own, [*RUN, *per, "peer", "cast"], "left").select(
        *RUN, *per, "peer", "cast", load.alias("load")
    )


def _spread(state: DataFrame) -> DataFrame:
    """How unevenly the load of a minute was borne by all peers there are, the idle included."""
    at = [*RUN, "minute_us"]
    peers = state.where("of = 'peers'").groupBy(*RUN).agg(F.count("*").alias("population"))
    key = F.to_json(F.struct(*at)).alias("run")
    summed = loads(state, "minute_us").groupBy(*at, "peer").agg(F.sum("load").alias("load"))
    places = state.where("of != 'late'").select(*at).distinct()
    named = places.select(*at, key.alias("key"))
    population = places.join(peers, RUN).select(key, "population")
    uneven = unevenness(histogram(summed.select(key, "load"), population), "out_M", "out_G")
    return named.join(uneven.withColumnRenamed("run", "key"), "key").drop("key")


def totals(state: DataFrame, made: pa.Table) -> pa.Table:
    """(TOTALS), by run; `made` are its minutes."""
    parts = _parts(state).toArrow()
    rows = []
    for design, run in sorted(
        {(row["design"], row["run"]) for row in made.select(RUN).to_pylist()}
    ):
        mine, sums = _only(parts, design, run), _only(made, design, run)
        part = {
            name: mine.filter(pc.field("part") == name)
            for name in ("peer", "cast", "wait", "there")
        }
        added = {name: sum(sums[column].to_pylist()) for name, column in _ADDED.items()}
        found = {
            **_borne(part["peer"], len(part["there"])),
            **_hops(part["cast"]),
            **_latency(part["wait"]),
        }
        rows.append({"design": design, "run": run, "peers": len(part["there"]), **added, **found})
    return pa.Table.from_pylist(rows, TOTALS)


_ADDED = {
    "casts": "casts",
    "notified": "deliveries",
    "messages": "all_messages",
    "messages_cast": "messages",
    "bytes": "all_bytes",
    "bytes_cast": "bytes",
    "receipts": "receipts",
    "open_too_long": "open_too_long",
    "late": "late",
}
"""Totals that are sums of minutes."""


def _parts(state: DataFrame) -> DataFrame:
    """What totals need, in one table and so in one job: (run, part, key, and up to three counts)."""
    peers = (
        loads(state)
        .groupBy(*RUN, "peer")
        .agg(F.sum("load").alias("load"), F.max("load").alias("peak"))
    )
    casts = (
        state.where("cast is not null")
        .groupBy(*RUN, "cast")
        .agg(
            _of("casts", "count").alias("made"),
            F.sum(F.when(_for_casts(), F.col("count")).otherwise(0)).alias("messages"),
            _of("notices", "count").alias("members"),
        )
    )
    told = state.where("of = 'notices' and value is not null")
    waits = told.groupBy(*RUN, "value").agg(F.sum("count").alias("count"))
    there = state.where("of = 'peers'").select(*RUN, "peer").distinct()
    forms = (
        (peers, "peer", ("peer", "load", "peak")),
        (casts, "cast", ("cast", "made", "messages", "members")),
        (waits, "wait", ("value", "count")),
        (there, "there", ("peer",)),
    )
    return reduce(
        DataFrame.unionByName, (_part(rows, name, columns) for rows, name, columns in forms)
    )


def _part(rows: DataFrame, name: str, columns: tuple[str, ...]) -> DataFrame:
    values = [F.col(each) for each in columns] + [F.lit(0)] * (4 - len(columns))
    named = [
        value.cast("bigint").alias(each)
        for value, each in zip(values, ("key", "a", "b", "c"), strict=True)
    ]
    return rows.select(*RUN, F.lit(name).alias("part"), *named)


def _only(table: pa.Table, design: str, run: str) -> pa.Table:
    return table.filter((pc.field("design") == design) & (pc.field("run") == run))


def _ints(table: pa.Table, name: str) -> Any:
    return np.asarray(table[name].to_numpy(), np.int64)


def _borne(peers: pa.Table, population: int) -> dict[str, float]:
    load = np.zeros(max(population, len(peers)), np.int64)
    load[: len(peers)] = _ints(peers, "a")
    return {
        "POUT_M": float(_ints(peers, "b").max(initial=0)),
        "TOUT_M": float(load.max(initial=0)),
        "TOUT_G": gini(load),
    }


def _hops(casts: pa.Table) -> dict[str, float]:
    known = casts.filter(pc.field("a") > 0).sort_by("key")
    ratio = _ints(known, "b") / (1 + _ints(known, "c"))
    return {"RTH": float(ratio.mean()) if len(ratio) else 0.0}


def _latency(waits: pa.Table) -> dict[str, float]:
    names = ("mean", "median", "p99", "max")
    if not len(waits):
        return {f"latency_ms_{name}": 0.0 for name in names}
    ordered = waits.sort_by("key")
    wait_us = np.repeat(_ints(ordered, "key"), _ints(ordered, "a"))
    median, p99 = np.percentile(wait_us, [50, 99])
    values = (wait_us.sum() / len(wait_us), median, p99, wait_us.max())
    return {
        f"latency_ms_{name}": float(value / 1000) for name, value in zip(names, values, strict=True)
    }
