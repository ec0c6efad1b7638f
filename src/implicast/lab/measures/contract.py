"""The five laws of the contract at scale: what was notified against what had to be, and may be.

A version of a description is possibly in force from when it was asked for until a later one is complete. A peer *must*
be notified of a cast when a registration of it was complete at the time of the cast and every version possibly in force
during the cast's flight is selected; it *may* be when one of them is (`world/invariants.py` says the same in plain
Python, and tests hold the two equal). The selection itself is `lab/matching.py`.

Where peers come and go, whoever crashed within a cast's flight need not be notified, and what a cast owes is excused
when its publisher was gone before it knew how the cast ended.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import matching, tables
from implicast.lab.groups import BLOCK_BITS
from implicast.world.invariants import FLIGHT_US, LATE_US, NEVER_US

INVITED = pa.schema(
    [("run", pa.string()), ("cast", pa.int32()), ("peer", pa.int32()), ("must", pa.bool_()), ("excused", pa.bool_()),
     ("from_us", pa.int64())]
)  # fmt: skip
"""A peer that may be told of a cast from a time on; whether it must be; whether the cast is excused if it is not."""


def verdicts(
    registrations: DataFrame, casts: DataFrame, notices: DataFrame, gone: DataFrame | None = None
) -> DataFrame:
    """(run, expected, notified, missing, ...), a row for every run with casts. `gone`: (run, peer, gone_us)."""
    real, invented = _sorted_out(notices, casts)
    allowed = invited(registrations, casts, gone).withColumns(
        {"time_us": F.lit(None).cast("bigint"), "wait_us": F.lit(None).cast("bigint")}
    )
    nothing = {
        name: F.lit(None).cast(kind)
        for name, kind in (("must", "boolean"), ("excused", "boolean"), ("from_us", "bigint"))
    }
    told = real.select(
        "run", "cast", "peer", "time_us", (F.col("time_us") - F.col("made_us")).alias("wait_us")
    ).withColumns(nothing)
    # One pass over the union of both sides: a full outer join would shuffle and sort each of them.
    paired = allowed.unionByName(told).groupBy("run", "cast", "peer").agg(
        F.coalesce(F.max("must"), F.lit(False)).alias("must"),
        F.coalesce(F.max("excused"), F.lit(False)).alias("excused"),
        F.min("from_us").alias("from_us"), F.min("time_us").alias("time_us"), F.min("wait_us").alias("wait_us"),
        F.count("time_us").alias("told"),
    )  # fmt: skip
    return _counted(paired, casts, notices, invented)


def _counted(paired: DataFrame, casts: DataFrame, notices: DataFrame, invented: DataFrame) -> DataFrame:
    told, must, excused = F.col("told") > 0, F.col("must"), F.col("excused")
    welcome = F.coalesce(F.col("from_us") <= F.col("time_us"), F.lit(False))
    absent = must & ~told
    counted = paired.groupBy("run").agg(
        F.count_if(must & ~(absent & excused)).alias("expected"), F.count_if(absent & ~excused).alias("missing"),
        F.count_if(absent & excused).alias("excused"), F.sum(F.greatest(F.col("told") - 1, F.lit(0))).alias("repeated"),
        F.count_if(told & ~welcome).alias("uninvited"), F.count_if(F.col("wait_us") > LATE_US).alias("late"),
    )  # fmt: skip
    heard = notices.groupBy("run").agg(F.count("*").alias("notified"))
    runs = casts.select("run").distinct()
    return runs.join(counted, "run", "left").join(heard, "run", "left").join(invented, "run", "left").fillna(0)


def departures(lives: DataFrame, registrations: DataFrame) -> DataFrame:
    """(run, peer, gone_us): who crashed, and when; who left, and when it began to withdraw."""
    crashed = lives.where("end = 'crashed'").select("run", "peer", F.col("to_us").alias("gone_us"))
    farewell = registrations.where("withdrawn").groupBy("run", "peer").agg(F.max("begun_us").alias("gone_us"))
    left = lives.where("end = 'left'").select("run", "peer").join(farewell, ["run", "peer"])
    return crashed.unionByName(left)


def _sorted_out(notices: DataFrame, casts: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Notices of casts that were made before, and (run, invented): how many there are of the others."""
    made = F.broadcast(casts.select("run", "cast", F.col("time_us").alias("made_us")))
    judged = notices.join(made, ["run", "cast"], "left")
    real = F.coalesce(F.col("time_us") >= F.col("made_us"), F.lit(False))
    return judged.where(real), judged.where(~real).groupBy("run").agg(F.count("*").alias("invented"))


def invited(registrations: DataFrame, casts: DataFrame, gone: DataFrame | None = None) -> DataFrame:
    """(run, cast, peer, must, excused, from_us): whom each cast may reach, and whom it must."""
    block = F.shiftright("peer", BLOCK_BITS).alias("block")
    if gone is None:
        timed, asked = (
            registrations.withColumn("gone_us", F.lit(NEVER_US)),
            casts.withColumn("gone_us", F.lit(NEVER_US)),
        )
    else:
        timed = registrations.join(gone, ["run", "peer"], "left").fillna(NEVER_US, ["gone_us"])
        leaver = gone.select("run", F.col("peer").alias("publisher"), "gone_us")
        asked = casts.join(leaver, ["run", "publisher"], "left").fillna(NEVER_US, ["gone_us"])
    excused = F.col("gone_us") < F.coalesce("settled_us", F.col("time_us") + FLIGHT_US)
    blocked = timed.select("run", block, "peer", "version", "begun_us", "completed_us", "gone_us", "tags", "values")
    put = asked.select("run", "cast", "time_us", "target", excused.alias("excused")).join(
        blocked.select("run", F.col("block").alias("there")).distinct(), "run"
    )
    return (
        blocked.groupBy("run", "block").cogroup(put.groupBy("run", "there"))
        .applyInArrow(_invite, tables.schema(INVITED))
    )  # fmt: skip


def _invite(registrations: pa.Table, casts: pa.Table) -> pa.Table:
    if not len(registrations) or not len(casts):
        return INVITED.empty_table()
    casts = casts.sort_by("cast")
    versions = _Versions(registrations.sort_by([("peer", "ascending"), ("version", "ascending")]))
    parts, lengths = [], []
    for time_us, target in zip(matching.ints(casts, "time_us").tolist(), matching.targets(casts), strict=True):
        selected = np.asarray(versions.block.selected(target).to_array(), np.int64)
        parts.append(versions.invited(selected, time_us))
        lengths.append(len(parts[-1][0]))
    peers, must, from_us = (np.concatenate([part[index] for part in parts]) for index in range(3))
    spread = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    of_cast = {name: matching.column(casts, name).take(spread) for name in ("run", "cast", "excused")}
    columns = [of_cast["run"], of_cast["cast"], pa.array(peers, pa.int32()), must, of_cast["excused"], from_us]
    return pa.table([pa.array(column) for column in columns], schema=INVITED)


class _Versions:
    """All versions of the peers of one block, in order of peer and version."""

    def __init__(self, table: pa.Table) -> None:
        self.block = matching.Block(matching.column(table, "tags"), matching.column(table, "values"))
        self.peer = matching.ints(table, "peer")
        self.begun_us = matching.ints(table, "begun_us")
        completed = matching.column(table, "completed_us")
        self.completed_us = np.asarray(completed.fill_null(NEVER_US).to_numpy(zero_copy_only=False), np.int64)
        self.gone_us = matching.ints(table, "gone_us")
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
        must &= self.gone_us[selected[first]] > time_us + FLIGHT_US
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
