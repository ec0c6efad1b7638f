"""Runs the stream: batch by batch from the lake to `OUT/minutes`, `OUT/totals` and
`OUT/index.html`.

    OUT/checkpoint     position in the lake, written by Spark
    OUT/state          state of every run after each of the last two batches
    OUT/minutes        Delta table: a row for each minute that is closed, added once
    OUT/minutes_open   minutes that may still get rows; replaced in each batch

The state after batch N is a function of the state after N - 1 and of the rows of batch N. Spark's
checkpoint gives a batch that was interrupted the same rows again under the same number; its results
then replace what was half written, and the transaction of `minutes` with its number happens once.
So every row counts exactly once, however often the stream is killed.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from implicast.lab import tables
from implicast.lab.delta import LakeTable
from implicast.lab.errors import TableError
from implicast.lab.lake import runs_in
from implicast.lab.storage import Location
from implicast.lab.stream.page import page
from implicast.lab.stream.source import NAME, STEPS_MAX, LakeSource
from implicast.lab.stream.state import Fold, RunState
from implicast.lab.stream.tables import MINUTES, TOTALS, open_minutes, totals

STATES = pa.schema([("run", pa.string()), ("state", pa.binary())])
FOLDED = pa.schema([*STATES, ("told", pa.string())])
"""The state of a run after a batch; and as JSON its totals, and its closed, open and recent minutes."""
WRITER = "stream"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a lake is watched."""

    lake: Location
    out: Location
    every_s: float = 10.0
    delay_s: float = 120.0
    """A minute and a cast are closed when the run is so much further."""
    open_s: float = 30.0
    """A receipt that is not there so long after its cast is open too long."""
    once: bool = False
    """Stop when all that is in the lake now has been read."""
    from_now: bool = False
    """Leave out what is in the lake when the stream begins for the first time."""
    steps_max: int = STEPS_MAX


Told = Callable[[int, pa.Table], None]


def start(
    spark: SparkSession, wishes: Wishes, told: Told = lambda batch, totals: None
) -> StreamingQuery:
    """The running query; `told` of every batch, with the totals after it."""
    spark.dataSource.register(LakeSource)
    source = spark.readStream.format(NAME).option("lake", wishes.lake.url)
    source = source.option("steps", str(wishes.steps_max))
    rows = source.option("from_now", str(wishes.from_now).lower()).load()

    def step(batch_rows: DataFrame, batch: int) -> None:
        folded = fold(spark, batch_rows, state_after(wishes, batch - 1), wishes)
        told(batch, write(folded, batch, wishes))

    writer = rows.writeStream.foreachBatch(step).queryName("implicast lab stream")
    writer = writer.option("checkpointLocation", (wishes.out / "checkpoint").for_spark)
    pace = (
        {"availableNow": True} if wishes.once else {"processingTime": f"{wishes.every_s} seconds"}
    )
    return writer.trigger(**pace).start()


def state_after(wishes: Wishes, batch: int) -> pa.Table:
    """The states of all runs after a batch; empty before the first."""
    if batch < 0:
        return STATES.empty_table()
    place = _state(wishes, batch)
    if not place.is_file():
        raise TableError(
            f"{place} is missing, though the checkpoint says that batch {batch} was done: remove "
            f"{wishes.out} to begin anew"
        )
    return pq.read_table(io.BytesIO(place.read())).cast(STATES)


def fold(spark: SparkSession, rows: DataFrame, before: pa.Table, wishes: Wishes) -> pa.Table:
    """Add the rows of a batch to the states, one task for each run (`FOLDED`)."""
    delay_us, open_us = int(wishes.delay_s * 1e6), int(wishes.open_s * 1e6)

    def work(key: tuple[pa.Scalar, ...], events: pa.Table, states: pa.Table) -> pa.Table:
        known = states["state"][0].as_py() if len(states) else None
        state = msgspec.msgpack.decode(known, type=RunState) if known else RunState()
        if not len(events):
            return _folded(key[0].as_py(), state, [], open_us)
        folding = Fold(state, delay_us, open_us)
        folding.add(events)
        return _folded(key[0].as_py(), state, folding.close(), open_us)

    kept = spark.createDataFrame(before, tables.schema(STATES))
    paired = rows.groupBy("run").cogroup(kept.groupBy("run"))
    return paired.applyInArrow(work, tables.schema(FOLDED)).toArrow().sort_by("run")


def _folded(run: str, state: RunState, closed: list[dict[str, Any]], open_us: int) -> pa.Table:
    told = {
        "totals": totals(state, open_us),
        "closed": closed,
        "open": open_minutes(state, open_us),
        "recent": state.recent,
    }
    row = [[run], [msgspec.msgpack.encode(state)], [json.dumps(told)]]
    return pa.table(row, schema=FOLDED)


def write(folded: pa.Table, batch: int, wishes: Wishes) -> pa.Table:
    """The state, the tables and the page after a batch; the totals."""
    _put(_state(wishes, batch), folded.select(STATES.names).cast(STATES))
    designs = runs_in(wishes.lake)
    told = {
        run: json.loads(text)
        for run, text in zip(folded["run"].to_pylist(), folded["told"].to_pylist(), strict=True)
    }
    keys = {run: {"design": designs.get(run, ""), "run": run} for run in told}

    def rows(*names: str) -> pa.Table:
        found = [{**keys[run], **row} for run in told for name in names for row in told[run][name]]
        return pa.Table.from_pylist(found, MINUTES)

    _add_minutes(wishes, rows("closed"), batch)
    _put(wishes.out / "minutes_open" / "part-0.parquet", rows("open"))
    summed = pa.Table.from_pylist([{**keys[run], **told[run]["totals"]} for run in told], TOTALS)
    _put(wishes.out / "totals" / "part-0.parquet", summed)
    shown = page(rows("recent", "open"), summed, wishes.every_s, wishes.open_s)
    (wishes.out / "index.html").write(shown.encode())
    _state(wishes, batch - 2).remove()
    return summed


def _add_minutes(wishes: Wishes, closed: pa.Table, batch: int) -> None:
    """Closed minutes go into their table with the number of the batch."""
    body = pa.schema([each for each in MINUTES if each.name != "run"])
    table = LakeTable(wishes.out, "minutes", body)
    if table.committed(WRITER) > batch or not len(closed):
        return
    files = []
    for run in sorted(set(closed["run"].to_pylist())):
        mine = pa.Table.from_pylist([r for r in closed.to_pylist() if r["run"] == run], MINUTES)
        files.append(table.stage("live", run, f"batch-{batch:08d}", mine.drop_columns(["run"])))
    table.commit(files, WRITER, batch + 1)


def _state(wishes: Wishes, batch: int) -> Location:
    return wishes.out / "state" / f"batch-{batch}.parquet"


def _put(place: Location, table: pa.Table) -> None:
    held = io.BytesIO()
    pq.write_table(table, held, compression="zstd")
    place.write(held.getvalue())
