"""Runs the stream: batch by batch from the lake to `OUT/minutes`, `OUT/totals` and
`OUT/index.html`.

    OUT/checkpoint   position in the lake, written by Spark
    OUT/state        totals after each batch
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from implicast.lab.storage import Location
from implicast.lab.stream import tables
from implicast.lab.stream.events import events, made
from implicast.lab.stream.page import page
from implicast.lab.stream.state import State


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a lake is watched."""

    lake: Path
    out: Path
    every_s: float = 10.0
    delay_s: float = 120.0
    """A row that comes later than this after its minute is late."""
    open_s: float = 30.0
    """A receipt that is not there so long after its cast is open too long."""
    once: bool = False
    """Stop when all that is in the lake now has been read."""


Told = Callable[[int, pa.Table], None]


def start(
    spark: SparkSession, wishes: Wishes, told: Told = lambda batch, totals: None
) -> StreamingQuery:
    """The running query; `told` of every batch, with the totals after it."""
    state = State(spark, wishes.out / "state", wishes.delay_s)

    def step(rows: DataFrame, batch: int) -> None:
        after = state.advance(batch, rows, made(spark, wishes.lake)).persist()
        try:
            told(batch, write(after, wishes))
        finally:
            after.unpersist()

    writer = (
        events(spark, wishes.lake).writeStream.foreachBatch(step).queryName("implicast lab stream")
    )
    writer = writer.option("checkpointLocation", str((wishes.out / "checkpoint").absolute()))
    pace = (
        {"availableNow": True} if wishes.once else {"processingTime": f"{wishes.every_s} seconds"}
    )
    return writer.trigger(**pace).start()


def write(state: DataFrame, wishes: Wishes) -> pa.Table:
    """The tables and the page of a state; the totals."""
    minutes = tables.minutes(state, wishes.open_s)
    totals = tables.totals(state, minutes)
    for name, table in (("minutes", minutes), ("totals", totals)):
        held = io.BytesIO()
        pq.write_table(table, held, compression="zstd")
        Location.of(wishes.out / name / "part-0.parquet").write(held.getvalue())
    Location.of(wishes.out / "index.html").write(
        page(minutes, totals, wishes.every_s, wishes.open_s).encode()
    )
    return totals
