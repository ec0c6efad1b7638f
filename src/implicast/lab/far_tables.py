"""Tables in an object store, written and read by Python's workers through pyarrow: Spark needs no
connector. And what a cluster needs of a folder: that its workers see the same one.
"""

import io
import os
import socket
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from implicast.lab.errors import LabError
from implicast.lab.session import cores
from implicast.lab.storage import Location

WRITTEN = pa.schema([("name", pa.string())])
MARKER = "_seen-{}"


def write(rows: DataFrame, place: Location, declared: pa.Schema) -> None:
    """A file for each partition, in the place of what was there. A file of an attempt that died is
    removed with what was there before.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if len(batch)), None)
        if first is None:
            return
        name = f"part-{os.urandom(8).hex()}.parquet"
        with (
            (place / name).written() as file,
            pq.ParquetWriter(file, declared, compression="zstd") as writer,
        ):
            writer.write_batch(first.cast(declared))
            for batch in batches:
                writer.write_batch(batch.cast(declared))
        yield pa.record_batch([[name]], schema=WRITTEN)

    before = place.names()
    written = rows.mapInArrow(work, from_arrow_schema(WRITTEN)).toArrow()["name"].to_pylist()
    if not written:
        held = io.BytesIO()
        pq.write_table(declared.empty_table(), held)
        (place / "part-none.parquet").write(held.getvalue())
        written = ["part-none.parquet"]
    for name in {*before, *place.names()} - set(written):
        (place / name).remove()


def read(spark: SparkSession, place: Location, declared: pa.Schema) -> DataFrame:
    """All rows of a table, a task for each file."""
    names = files(place)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _table(place / names[number], declared).to_batches()

    asked = spark.range(0, len(names), 1, len(names))
    return asked.mapInArrow(work, from_arrow_schema(declared))


def load(place: Location) -> pa.Table:
    """All rows of a small table, here."""
    return pa.concat_tables(
        [pq.read_table(io.BytesIO((place / name).read())) for name in files(place)]
    )


def rows_in(place: Location) -> int:
    """How many rows a table has, from the ends of its files."""
    return sum(_metadata(place / name).num_rows for name in files(place))


def first_schema(place: Location) -> pa.Schema:
    """The schema of the table's first file."""
    return _metadata(place / files(place)[0]).schema.to_arrow_schema()


def files(place: Location) -> list[str]:
    return [name for name in place.names() if name.endswith(".parquet") and name[0] not in "._"]


def _metadata(place: Location) -> pq.FileMetaData:
    with pq.ParquetFile(place.store.open_input_file(place.path)) as file:
        return file.metadata


def _table(place: Location, declared: pa.Schema) -> pa.Table:
    found = pq.read_table(io.BytesIO(place.read()), columns=declared.names)
    return found.cast(declared)


def require_shared(spark: SparkSession, *places: Location) -> None:
    """`LabError` unless workers see these folders and files as the driver does. A place in a store
    is the same for all, and so is every folder where Spark is embedded.
    """
    if is_embedded(spark):
        return
    for place in places:
        if place.local is not None:
            _require_shared(spark, place)


def is_embedded(spark: SparkSession) -> bool:
    """Do tasks run in this machine's own Spark?"""
    try:
        return str(spark.sparkContext.master).startswith("local")
    except Exception:  # a Connect session has no SparkContext and says so in its own words
        return False


def _require_shared(spark: SparkSession, place: Location) -> None:
    """By a new file in the folder; a file is looked for itself."""
    is_file = place.is_file()
    mark = place if is_file else place / MARKER.format(os.urandom(8).hex())
    if not is_file:
        mark.write(b"seen")

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            if not mark.is_file():
                yield pa.record_batch([[socket.gethostname()]], schema=WRITTEN)

    tasks = 2 * cores(spark)
    try:
        asked = spark.range(0, tasks, 1, tasks).mapInArrow(look, from_arrow_schema(WRITTEN))
        blind = asked.toArrow()["name"].to_pylist()
    finally:
        if not is_file:
            mark.remove()
    if blind:
        raise LabError(
            f"the worker on {min(blind)} does not see {place}: name a place that all machines "
            "reach, such as s3://bucket/name or a mounted folder"
        )
