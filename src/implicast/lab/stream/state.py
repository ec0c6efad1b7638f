"""What a stream has come to: counts by minute, kept on disk once for each batch.

The state after batch N is a function of the state after N - 1 and of the rows of batch N, nothing
else. Spark's checkpoint gives a batch that was interrupted the same rows again under the same
number; it then replaces what it had half written. So every row counts exactly once, however often
the stream is killed.

A row is late when its minute was over for longer than `delay_s` in the batches before. It counts
like any other, and is counted as late besides: nothing is dropped.
"""

import shutil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.errors import TableError

MINUTE_US = 60_000_000
RUN = ["design", "run"]
KEYS = [*RUN, "of", "minute_us", "phase", "peer", "cast", "value"]
SCHEMA = pa.schema(
    [
        ("design", pa.string()),
        ("run", pa.string()),
        ("of", pa.string()),
        ("minute_us", pa.int64()),
        ("phase", pa.string()),
        ("peer", pa.int32()),
        ("cast", pa.int32()),
        ("value", pa.int64()),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
"""`value`: of notices the latency, of receipts how long they took, in microseconds."""


class State:
    """The folder `OUT/state`: one folder for each of the last two batches."""

    def __init__(self, spark: SparkSession, folder: Path, delay_s: float) -> None:
        self._spark, self._folder, self._delay_us = spark, folder, int(delay_s * 1e6)

    def after(self, batch: int) -> DataFrame:
        """As it was after a batch; empty before the first."""
        columns = tables.schema(SCHEMA)
        if batch < 0:
            return self._spark.createDataFrame([], columns)
        path = self._path(batch)
        if not path.is_dir():
            raise TableError(
                f"{path} is missing, though the checkpoint says that batch {batch} was done: remove "
                f"{self._folder.parent} to begin anew"
            )
        return self._spark.read.schema(columns).parquet(str(path))

    def advance(self, batch: int, rows: DataFrame, casts: DataFrame) -> DataFrame:
        """Add the rows of a batch; the state after it."""
        before = self.after(batch - 1)
        found = counted(rows, casts).unionByName(self._late(before, rows)).unionByName(before)
        summed = found.groupBy(*KEYS).agg(
            F.sum("count").alias("count"), F.sum("bytes").alias("bytes")
        )
        summed.coalesce(1).write.mode("overwrite").parquet(str(self._path(batch)))
        shutil.rmtree(self._path(batch - 2), ignore_errors=True)
        return self.after(batch)

    def _late(self, before: DataFrame, rows: DataFrame) -> DataFrame:
        clock = before.where("of != 'late'").groupBy(*RUN).agg(F.max("minute_us").alias("clock_us"))
        past = F.col("minute_us") + MINUTE_US + self._delay_us <= F.col("clock_us")
        return _rows(
            rows.withColumn("minute_us", minute("time_us")).join(clock, RUN).where(past), "late"
        )

    def _path(self, batch: int) -> Path:
        return self._folder / f"batch={batch}"


def minute(column: str) -> Column:
    return F.col(column) - F.col(column) % MINUTE_US


def counted(rows: DataFrame, casts: DataFrame) -> DataFrame:
    """What rows of a batch come to."""
    placed = rows.withColumn("minute_us", minute("time_us"))
    plain = placed.where(F.col("of").isin("sends", "casts", "peers"))
    told = placed.where("of = 'notices'").drop("made_us").join(casts, [*RUN, "cast"], "left")
    waited = told.withColumn("value", F.col("time_us") - F.col("made_us"))
    ended = rows.where("of = 'receipts'").withColumn("minute_us", minute("made_us"))
    took = ended.withColumn("value", F.col("time_us") - F.col("made_us"))
    return _rows(plain).unionByName(_rows(waited)).unionByName(_rows(took))


def _rows(found: DataFrame, of: str = "") -> DataFrame:
    """In the columns of the state, one for each row; `of`: nothing but a count of this kind."""
    here = set(found.columns) - ({"phase", "peer", "cast", "value"} if of else set())
    kinds = {each.name: each.dataType for each in tables.schema(SCHEMA)}
    columns = [
        (F.col(name) if name in here else F.lit(None)).cast(kinds[name]).alias(name)
        for name in KEYS
        if name != "of"
    ]
    named = F.lit(of) if of else F.col("of")
    size = F.coalesce(F.col("bytes"), F.lit(0)) if not of else F.lit(0)
    return found.select(
        named.alias("of"),
        *columns,
        F.lit(1).cast("bigint").alias("count"),
        size.cast("bigint").alias("bytes"),
    )
