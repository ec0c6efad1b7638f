"""The five laws of the contract at scale: what was notified against what had to be, and may be.

A version of a description is possibly in force from when it was asked for until a later one is complete. A peer *must*
be notified of a cast when a registration of it was complete at the time of the cast and every version possibly in force
during the cast's flight is selected; it *may* be when one of them is (`world/invariants.py` says the same in plain
Python, and tests hold the two equal). The selection itself is `lab/matching.py`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import matching, tables
from implicast.lab.groups import BLOCK_BITS
from implicast.world.invariants import FLIGHT_US, NEVER_US

INVITED = pa.schema(
    [("run", pa.string()), ("cast", pa.int32()), ("peer", pa.int32()), ("must", pa.bool_()), ("from_us", pa.int64())]
)
"""A peer that a cast may be notified to from a time on, and whether it must be."""


def verdicts(registrations: DataFrame, casts: DataFrame, notices: DataFrame) -> DataFrame:
    """(run, expected, notified, missing, repeated, uninvited, invented), a row for every run with casts."""
    real, invented = _sorted_out(notices, casts)
    allowed = invited(registrations, casts).select(
        "run", "cast", "peer", "must", "from_us", F.lit(None).cast("bigint").alias("time_us")
    )
    told = real.select(
        "run", "cast", "peer", F.lit(None).cast("boolean").alias("must"), F.lit(None).cast("bigint").alias("from_us"),
        "time_us",
    )  # fmt: skip
    # One pass over the union of both sides: a full outer join would shuffle and sort each of them.
    paired = allowed.unionByName(told).groupBy("run", "cast", "peer").agg(
        F.coalesce(F.max("must"), F.lit(False)).alias("must"), F.min("from_us").alias("from_us"),
        F.min("time_us").alias("time_us"), F.count("time_us").alias("told"),
    )  # fmt: skip
    return _counted(paired, casts, notices, invented)


def _counted(paired: DataFrame, casts: DataFrame, notices: DataFrame, invented: DataFrame) -> DataFrame:
    told, must = F.col("told") > 0, F.col("must")
    welcome = F.coalesce(F.col("from_us") <= F.col("time_us"), F.lit(False))
    counted = paired.groupBy("run").agg(
        F.count_if(must).alias("expected"), F.count_if(must & ~told).alias("missing"),
        F.sum(F.greatest(F.col("told") - 1, F.lit(0))).alias("repeated"), F.count_if(told & ~welcome).alias("uninvited"),
    )  # fmt: skip
    heard = notices.groupBy("run").agg(F.count("*").alias("notified"))
    runs = casts.select("run").distinct()
    return runs.join(counted, "run", "left").join(heard, "run", "left").join(invented, "run", "left").fillna(0)


def _sorted_out(notices: DataFrame, casts: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Notices of casts that were made before, and (run, invented): how many there are of the others."""
    made = F.broadcast(casts.select("run", "cast", F.col("time_us").alias("made_us")))
    judged = notices.join(made, ["run", "cast"], "left")
    real = F.coalesce(F.col("time_us") >= F.col("made_us"), F.lit(False))
    return judged.where(real), judged.where(~real).groupBy("run").agg(F.count("*").alias("invented"))


def invited(registrations: DataFrame, casts: DataFrame) -> DataFrame:
    """(run, cast, peer, must, from_us): whom each cast may reach, and whom it must."""
    block = F.shiftright("peer", BLOCK_BITS).alias("block")
    blocked = registrations.select("run", block, "peer", "version", "begun_us", "completed_us", "tags", "values")
    asked = casts.select("run", "cast", "time_us", "target").join(
        blocked.select("run", F.col("block").alias("there")).distinct(), "run"
    )
    return (
        blocked.groupBy("run", "block").cogroup(asked.groupBy("run", "there"))
        .applyInArrow(_invite, tables.schema(INVITED))
    )  # fmt: skip


def _invite(registrations: pa.Table, casts: pa.Table) -> pa.Table:
    if not len(registrations) or not len(casts):
        return INVITED.empty_table()
    run = casts["run"][0].as_py()
    versions = _Versions(registrations.sort_by([("peer", "ascending"), ("version", "ascending")]))
    casts = casts.sort_by("cast")
    parts = []
    times = matching.ints(casts, "time_us").tolist()
    for number, time_us, target in zip(matching.ints(casts, "cast").tolist(), times, matching.targets(casts), strict=True):
        peers, must, from_us = versions.invited(np.asarray(versions.block.selected(target).to_array(), np.int64), time_us)
        parts.append([[number] * len(peers), peers, must, from_us])
    columns = [np.concatenate([part[index] for part in parts]) for index in range(4)]
    return pa.table([pa.array([run] * len(columns[0]), pa.string()), *columns], schema=INVITED)


class _Versions:
    """All versions of the peers of one block, in order of peer and version."""

    def __init__(self, table: pa.Table) -> None:
        self.block = matching.Block(matching.column(table, "tags"), matching.column(table, "values"))
        self.peer = matching.ints(table, "peer")
        self.begun_us = matching.ints(table, "begun_us")
        completed = matching.column(table, "completed_us")
        self.completed_us = np.asarray(completed.fill_null(NEVER_US).to_numpy(zero_copy_only=False), np.int64)
        distinct, self.place = np.unique(self.peer, return_inverse=True)
        self.until_us = self._ends()
        self.first_us = np.full(len(distinct), NEVER_US)
        np.minimum.at(self.first_us, self.place, self.completed_us)
        self.several = len(distinct) < len(self.peer)

    def _ends(self) -> Any:
        """When some later version of the same peer is complete; never, for the last ones."""
        until_us = np.full(len(self.peer), NEVER_US)
        for index in range(len(self.peer) - 2, -1, -1):
            if self.peer[index] == self.peer[index + 1]:
                until_us[index] = min(until_us[index + 1], self.completed_us[index + 1])
        return until_us

    def invited(self, selected: Any, time_us: int) -> tuple[Any, Any, Any]:
        """Peers of the selected versions that a cast at this time may reach; must it; from when on."""
        selected = selected[time_us < self.until_us[selected]]
        place, first = np.unique(self.place[selected], return_index=True)
        if not len(selected):
            return self.peer[selected], np.empty(0, bool), np.empty(0, np.int64)
        from_us = np.minimum.reduceat(self.begun_us[selected], first)
        must = (self.first_us[place] <= time_us) & (from_us <= time_us + FLIGHT_US)
        if self.several:
            must &= self._unanimous(selected, place, time_us)
        return self.peer[selected[first]], must, from_us

    def _unanimous(self, selected: Any, place: Any, time_us: int) -> Any:
        """Whether every version of each peer that may be in force during the flight is selected."""
        within = (self.begun_us <= time_us + FLIGHT_US) & (time_us < self.until_us)
        chosen = np.zeros(len(self.peer), bool)
        chosen[selected] = True
        objecting = np.bincount(self.place[within & ~chosen], minlength=len(self.first_us))
        return objecting[place] == 0
