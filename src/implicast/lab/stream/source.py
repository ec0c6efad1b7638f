"""The steps of a lake as one streaming source of Spark: every row of every table in the same few
columns.

    spark.dataSource.register(LakeSource)
    spark.readStream.format("implicast_lake").option("lake", URL).load()

An offset is the last step of each run, and a step names its files (`lake.py`). So a batch that is
repeated has the same rows, all tables are read up to one moment, and what compaction wrote is never
read. Python's workers read the files through pyarrow: no connector is needed for any store.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from implicast.lab import tables
from implicast.lab.delta import LakeTable
from implicast.lab.errors import TableError
from implicast.lab.lake import STEPS, STREAMED
from implicast.lab.storage import Location

NAME = "implicast_lake"
STEPS_MAX = 100
"""Steps of one run that a batch reads; a step is a few megabytes."""
EVENTS = pa.schema(
    [
        ("run", pa.string()),
        ("of", pa.string()),
        ("time_us", pa.int64()),
        ("peer", pa.int32()),
        ("cast", pa.int32()),
        ("phase", pa.string()),
        ("bytes", pa.int64()),
        ("made_us", pa.int64()),
    ]
)
_FORMS: dict[str, dict[str, str]] = {
    "sends": {
        "time_us": "sent_us",
        "peer": "sender",
        "cast": "cast",
        "phase": "phase",
        "bytes": "bytes",
    },
    "notices": {"time_us": "time_us", "peer": "peer", "cast": "cast"},
    "casts": {"time_us": "time_us", "peer": "publisher", "cast": "cast"},
    "receipts": {"time_us": "settled_us", "cast": "cast", "made_us": "time_us"},
    "peers": {"time_us": "time_us", "peer": "peer"},
}
"""Which column of a table stands for which of an event."""
Offset = dict[str, int]
"""Run -> its last step."""


@dataclass(frozen=True)
class StepFile(InputPartition):  # type: ignore[misc, unused-ignore]
    """One file of one step."""

    run: str
    table: str
    place: str


class LakeSource(DataSource):  # type: ignore[misc, unused-ignore]
    """`lake`: where it is; `steps`: how many steps of a run a batch may read; `from_now`: a new
    stream leaves out what is there already.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return tables.schema(EVENTS)

    def streamReader(self, schema: StructType) -> "LakeReader":  # noqa: N802  the interface's name
        steps_max = int(self.options.get("steps", STEPS_MAX))
        from_now = self.options.get("from_now", "false") == "true"
        return LakeReader(Location.of(self.options["lake"]), steps_max, from_now)


class LakeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Reads what steps added."""

    def __init__(self, lake: Location, steps_max: int, from_now: bool) -> None:
        self._lake, self._steps_max, self._from_now = lake, steps_max, from_now
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._heads() if self._from_now else {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self._steps_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heads()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        heads = self._heads() if self._target is None else self._target
        if isinstance(limit, ReadAllAvailable) and self._target is None:
            return start | heads
        most = {run: start.get(run, 0) + self._steps_max for run in heads}
        return start | {run: max(start.get(run, 0), min(heads[run], most[run])) for run in heads}

    def partitions(self, start: Offset, end: Offset) -> Sequence[StepFile]:
        order = {name: number for number, name in enumerate(STREAMED)}
        found = []
        for run, last in sorted(end.items()):
            for record in self._records(run, start.get(run, 0), last):
                files = (each for each in record["files"] if each["table"] in order)
                for each in sorted(files, key=lambda each: order[each["table"]]):
                    place = self._lake / each["table"] / each["path"]
                    found.append(StepFile(run, each["table"], place.url))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StepFile), "partitions() plans no other"
        try:
            rows = pq.read_table(io.BytesIO(Location(partition.place).read()))
        except FileNotFoundError:
            raise TableError(
                f"{partition.place} was compacted away before this stream read it; `implicast lab "
                "measure` reads all of the lake. A new stream needs a new --out and --from-now"
            ) from None
        yield from _formed(rows, partition.run, partition.table).to_batches()

    def _heads(self) -> Offset:
        return heads(self._lake)

    def _records(self, run: str, after: int, last: int) -> list[Mapping[str, Any]]:
        """The records of the steps after one, up to another."""
        if last <= after:
            return []
        step = ds.field("step")
        mine = (ds.field("run") == run) & (step > after) & (step <= last)
        rows = LakeTable(self._lake, "steps", STEPS).dataset()
        found = rows.to_table(columns=["step", "record"], filter=mine).sort_by("step")
        return [json.loads(text) for text in found["record"].to_pylist()]


def heads(lake: Location) -> Offset:
    """Run -> its newest step."""
    rows = LakeTable(lake, "steps", STEPS).dataset().to_table(columns=["run", "step"])
    found = rows.group_by("run").aggregate([("step", "max")])
    return dict(zip(found["run"].to_pylist(), found["step_max"].to_pylist(), strict=True))


def _formed(rows: pa.Table, run: str, name: str) -> pa.Table:
    """In the columns of an event."""
    form, count = _FORMS[name], len(rows)
    fixed = {"run": pa.repeat(run, count), "of": pa.repeat(name, count)}
    columns = [
        fixed[each.name]
        if each.name in fixed
        else rows[form[each.name]].cast(each.type)
        if each.name in form
        else pa.nulls(count, each.type)
        for each in EVENTS
    ]
    return pa.table(columns, schema=EVENTS)
