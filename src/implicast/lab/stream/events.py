"""The parts of a lake as one stream: every row of every table in the same few columns.

One stream and not five: then one checkpoint says how far all tables were read, and a restart goes
on from one moment.
"""

from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.lake import STREAMED

KEYS = (("design", pa.string()), ("run", pa.string()))
FILES_MAX = 200
"""Files of one table that are read at a time."""

_NONE = {"peer": "int", "cast": "int", "phase": "string", "bytes": "bigint", "made_us": "bigint"}
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


def events(spark: SparkSession, lake: Path) -> DataFrame:
    """(of, design, run, time_us, peer, cast, phase, bytes, made_us): what is in the lake, and what
    will be.
    """
    return reduce(
        DataFrame.unionByName, (_formed(_stream(spark, lake, name), name) for name in _FORMS)
    )


def made(spark: SparkSession, lake: Path) -> DataFrame:
    """(design, run, cast, made_us): all casts that are in the lake by now. Those of a notice are
    there before it.
    """
    folder = _folder(lake, "casts")
    rows = (
        spark.read.schema(tables.schema(STREAMED["casts"], *KEYS))
        .option("basePath", folder)
        .parquet(folder)
    )
    return rows.select("design", "run", "cast", F.col("time_us").alias("made_us"))


def _stream(spark: SparkSession, lake: Path, name: str) -> DataFrame:
    rows = spark.readStream.schema(tables.schema(STREAMED[name], *KEYS)).option(
        "maxFilesPerTrigger", FILES_MAX
    )
    return rows.parquet(_folder(lake, name))


def _folder(lake: Path, name: str) -> str:
    folder = lake / "stream" / name
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder.absolute())


def _formed(rows: DataFrame, name: str) -> DataFrame:
    form = _FORMS[name]
    columns = [
        F.col(form[each]).cast(kind).alias(each)
        if each in form
        else F.lit(None).cast(kind).alias(each)
        for each, kind in {"time_us": "bigint", **_NONE}.items()
    ]
    return rows.select(F.lit(name).alias("of"), "design", "run", *columns)
