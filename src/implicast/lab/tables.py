"""Every table of the laboratory, column by column, with units: what is read is checked, what is
written has it.

Journal tables are declared and written by the world (`world/journal.py`), one directory per run;
read together they gain the column `run`. The others are stages of the laboratory. What each column
means is in `dictionary.py`.
"""

import os
import shutil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from implicast.lab import far_tables
from implicast.lab.dictionary import CHANGE as CHANGE
from implicast.lab.dictionary import CONTRACT as CONTRACT
from implicast.lab.dictionary import MEASURES as MEASURES
from implicast.lab.dictionary import columns_of
from implicast.lab.errors import TableError
from implicast.lab.storage import Location
from implicast.world.columns import with_meaning
from implicast.world.journal import PHASES

BROKEN = ("missing", "repeated", "uninvited", "invented", "altered", "misreported")
"""Counts of the contract that are zero in a clean run."""

COSTS = tuple(f"{phase}_{what}" for phase in PHASES for what in ("messages", "bytes"))
"""Further measures of a run: messages and bytes of each phase, per peer."""

TAGS = pa.list_(pa.string())

WORKLOAD: dict[str, pa.Schema] = {
    # a peer's registration: its tags, commonest first where the source ranks them
    "registrations": pa.schema([("peer", pa.int32()), ("tags", TAGS)]),
    # a cast: number in order of time, its publisher, its target as text
    "casts": pa.schema([("cast", pa.int32()), ("publisher", pa.int32()), ("target", pa.string())]),
}

ENTRIES = pa.schema(
    [
        ("bibliography", pa.string()),
        ("number", pa.int32()),
        ("line", pa.int32()),
        ("key", pa.string()),
        ("kind", pa.string()),
        ("words", TAGS),
        ("reason", pa.string()),
        ("text", pa.string()),
    ]
)
"""An entry of a bibliography: `number` counts from 0 and `line` from 1 within the file, `words` are
those of its descriptive fields in order. `reason` says why it is not used and `text` how it begins;
null when it is used.
"""

QUERIES = pa.schema([("source", pa.string()), ("tags", TAGS), ("asked", pa.int64())])
"""A query or key phrase: its distinct words without stop words, and how often it was asked."""

GROUPS = pa.schema(
    [("cast", pa.int32()), ("block", pa.int32()), ("size", pa.int64()), ("members", pa.binary())]
)
"""The members of a cast among the 65,536 peers of a block, from `block << 16` on: a Roaring bitmap
of their numbers.
"""

DESCRIPTION: dict[str, pa.Schema] = {
    # how many registrations (of = registrations) or casts (of = casts) hold the tag of this rank
    "ranks": pa.schema([("of", pa.string()), ("rank", pa.int64()), ("frequency", pa.int64())]),
    # how many casts select groups of this many peers, or have this many tags
    "sizes": pa.schema([("of", pa.string()), ("size", pa.int64()), ("casts", pa.int64())]),
}

RUNS = pa.schema(
    [
        ("run", pa.string()),
        ("design", pa.string()),
        ("series", pa.string()),
        ("axis", pa.string()),
        ("point", pa.float64()),
        ("point_label", pa.string()),
        ("position", pa.int32()),
        ("seed", pa.int64()),
        ("network", pa.string()),
        ("workload", pa.string()),
        ("peers", pa.int64()),
        ("casts", pa.int64()),
        ("scenario", pa.string()),
        ("command", pa.string()),
        ("planned", pa.bool_()),
        ("error", pa.string()),
        ("commit", pa.string()),
        ("version", pa.string()),
        ("code", pa.string()),
        ("host", pa.string()),
        ("finished_utc", pa.string()),
        ("seconds", pa.float64()),
        ("cpu_s", pa.float64()),
        ("peak_mb", pa.float64()),
        ("messages", pa.int64()),
        ("rows", pa.int64()),
        ("measured_by", pa.string()),
        ("differs", pa.string()),
    ]
)
"""A run of a sweep: where it stands on the axis, its whole scenario as JSON, how to replay it,
where it came from, what it cost. `error` is null when the run was finished; `planned` is false for
runs that were asked for once and are not any more: they stay, with the commit that made them, and
no summary counts them.
"""

RUN_TRIALS = pa.schema([("run", pa.string()), ("measure", pa.string()), ("value", pa.float64())])
"""What a trial that is no simulation of casts measured."""

REJECTED = pa.schema([("run", pa.string()), ("reason", pa.string())])
"""A journal that could not be measured, and why."""

_DOUBLES = [(name, pa.float64()) for name in MEASURES]
RUN_MEASURES = pa.schema([("run", pa.string()), *_DOUBLES])
RUN_CONTRACT = pa.schema([("run", pa.string()), *((name, pa.int64()) for name in CONTRACT)])
_PERIODS = [(f"{period}_{name}", pa.int64()) for period in ("during", "after") for name in CONTRACT]
RUN_CHANGE = pa.schema(
    [
        ("run", pa.string()),
        *_PERIODS,
        *((name, pa.float64()) for name in CHANGE),
        ("calm_s", pa.float64()),
        ("allowed_s", pa.float64()),
        ("sudden", pa.int64()),
        ("kept", pa.bool_()),
    ]
)
"""The contract during change and after it, and the measures of change. `calm_s` is from the end of
the last event to the first check without a violation (infinite: none did), `allowed_s` what the
design allows itself for that, `sudden` how many events came without notice: where it is zero, the
repairs are those of joins and leaves. `upkeep_at_rest` is null where rest was too short.
"""
REPAIRS = ("repair_s_median", "repair_s_max")
"""Means over seeds are of runs in which something came without a word."""
RUN_COSTS = pa.schema(
    [
        ("run", pa.string()),
        ("phase", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("messages_per_peer", pa.float64()),
        ("bytes_per_peer", pa.float64()),
    ]
)
"""What each phase (join, register, withdraw, leave, upkeep, cast) sent."""

RUN_LORENZ = pa.schema(
    [
        ("run", pa.string()),
        ("load", pa.string()),
        ("position", pa.int32()),
        ("share_of_peers", pa.float64()),
        ("share_of_load", pa.float64()),
    ]
)
"""A point of a Lorenz curve: the least loaded `share_of_peers` bear `share_of_load` (of TOUT, TIN
or STOR).
"""

SUMMARY = pa.schema(
    [
        ("series", pa.string()),
        ("design", pa.string()),
        ("axis", pa.string()),
        ("point", pa.float64()),
        ("point_label", pa.string()),
        ("position", pa.int32()),
        ("measure", pa.string()),
        ("runs", pa.int32()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""Mean over seeds with its 95 % confidence interval; a single run has none: `low` and `high` are
null.
"""


def schema(declared: pa.Schema, *more: tuple[str, pa.DataType]) -> StructType:
    """The declared columns as Spark knows them, with more columns in front."""
    keys = [pa.field(name, kind) for name, kind in more]
    return from_arrow_schema(pa.schema([*keys, *plain(declared)]))


def plain(declared: pa.Schema) -> pa.Schema:
    """The declared columns without dictionaries, as most formats have them."""
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in declared])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def read(spark: SparkSession, place: Location, declared: pa.Schema) -> DataFrame:
    """A table of the laboratory; `TableError` when it is missing or has other columns."""
    check(place, declared)
    if place.local is None:
        return far_tables.read(spark, place, plain(declared))
    return spark.read.schema(schema(declared)).parquet(str(place.local))


def write(rows: DataFrame, place: Location, declared: pa.Schema) -> None:
    """On a disk aside, then renamed: a directory of this name is whole. Columns are put in the
    declared order.

    Each column takes its unit and meaning along, into the metadata of the files.
    """
    path, wanted = place.local or Path(place.name), schema(declared)
    absent = [each.name for each in wanted if each.name not in rows.columns]
    if absent:
        raise TableError(
            f"{path.name} lacks the column {absent[0]!r}; it has {', '.join(rows.columns)}"
        )
    if place.local is None:
        meanings = columns_of(path.name)
        named = pa.schema(
            [with_meaning(each, *meanings.get(each.name, ("", ""))) for each in plain(declared)]
        )
        far_tables.write(_in_order(rows, wanted), place, named)
        return
    aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.aside")
    known = {
        name: {"unit": unit, "comment": meaning}
        for name, (unit, meaning) in columns_of(path.name).items()
    }
    columns = [
        rows[each.name].cast(each.dataType).alias(each.name, metadata=known.get(each.name, {}))
        for each in wanted
    ]
    try:
        rows.select(*columns).write.mode("overwrite").parquet(str(aside))
        replace(aside, path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _in_order(rows: DataFrame, wanted: StructType) -> DataFrame:
    return rows.select(*(rows[each.name].cast(each.dataType).alias(each.name) for each in wanted))


def replace(aside: Path, path: Path) -> None:
    """Put the finished directory in the place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.with_name(f".{path.name}.{os.urandom(4).hex()}.old")
    if path.exists():
        path.rename(old)
    aside.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def check(place: Location, declared: pa.Schema) -> None:
    """`TableError` unless the first Parquet file in the folder has the declared columns and types."""
    if not place.exists():
        raise TableError(f"there is no table {place.name} in {str(place).rpartition('/')[0]}")
    if not far_tables.files(place):
        raise TableError(f"{place} holds no Parquet file")
    try:
        found = far_tables.first_schema(place)
    except (pa.ArrowException, OSError) as broken:
        first = place / far_tables.files(place)[0]
        raise TableError(f"{first} is not a Parquet file: {broken}") from None
    check_columns(place.name, found, declared)


def check_columns(name: str, found: pa.Schema, declared: pa.Schema) -> None:
    """`TableError` unless the declared columns are there, with their types."""
    for each in declared:
        index = found.get_field_index(each.name)
        if index < 0:
            raise TableError(
                f"{name} lacks the column {each.name!r}; it has {', '.join(found.names)}"
            )
        kind, wanted = _plain(found.field(index).type), _plain(each.type)
        if _shape(kind) != _shape(wanted):
            raise TableError(f"{name}: the column {each.name!r} is {kind}, where {wanted} is due")


def _shape(kind: pa.DataType) -> str:
    """The type without the names that different writers give to the items of lists."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_shape(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{each.name}:{_shape(each.type)}' for each in kind)}>"
    return str(kind).removeprefix("large_")
