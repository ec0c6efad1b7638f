"""Journals of many runs read as one set of tables, each with the column `run`.

A sweep keeps them as `journals/run=NAME/sends.parquet` and so on; a single journal, as `implicast simulate --journal`
writes it, is read too, under the name of its directory.
"""

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.errors import TableError
from implicast.world.faults import Faults
from implicast.world.journal import CHANGE_SCHEMAS, SCHEMAS

PREFIX = "run="
ALL_SCHEMAS = {**SCHEMAS, **CHANGE_SCHEMAS}


class Journals:
    """The tables of some runs, as DataFrames."""

    def __init__(self, spark: SparkSession, directories: Sequence[Path]) -> None:
        if not directories:
            raise TableError("there is no journal to read")
        self.spark = spark
        self.directories = [path.absolute() for path in directories]
        for directory in self.directories:
            _check(directory)

    def table(self, name: str) -> DataFrame:
        """One journal table of all runs that have it, with the column `run`."""
        having = [each for each in self.directories if name in SCHEMAS or (each / f"{name}.parquet").is_file()]
        inside = [each for each in having if each.name.startswith(PREFIX)]
        alone = [each for each in having if not each.name.startswith(PREFIX)]
        parts = [self._alone(each, name) for each in alone]
        for parent in sorted({each.parent for each in inside}):
            parts.append(self._together(parent, [each for each in inside if each.parent == parent], name))
        return reduce(DataFrame.unionByName, parts)

    def has(self, name: str) -> bool:
        """Whether any run has this table."""
        return any((each / f"{name}.parquet").is_file() for each in self.directories)

    def changed(self) -> list[str]:
        """Runs in which peers may come and go."""
        return [run_name(each) for each in self.directories if (each / "lives.parquet").is_file()]

    def undisturbed(self) -> list[str]:
        """Runs of which it is known that the network did nothing to messages."""
        return [run_name(each) for each in self.directories if _is_undisturbed(each / "scenario.json")]

    def _together(self, parent: Path, runs: list[Path], name: str) -> DataFrame:
        """The directory's name gives `run` for a whole file at once; a function of the path would cost per row."""
        paths = [str(each / f"{name}.parquet") for each in runs]
        columns = tables.schema(ALL_SCHEMAS[name], ("run", pa.string()))
        return self.spark.read.schema(columns).option("basePath", str(parent)).parquet(*paths).select(columns.names)

    def _alone(self, directory: Path, name: str) -> DataFrame:
        rows = self.spark.read.schema(tables.schema(ALL_SCHEMAS[name])).parquet(str(directory / f"{name}.parquet"))
        return rows.select(F.lit(directory.name).alias("run"), *ALL_SCHEMAS[name].names)


def found(path: Path) -> list[Path]:
    """The journals in a directory: its `run=...` directories, or itself when it is one."""
    if (path / "sends.parquet").is_file():
        return [path]
    runs = sorted(each for each in path.glob(f"{PREFIX}*") if each.is_dir())
    if not runs:
        raise TableError(f"{path} is not a journal and holds none: no sends.parquet and no {PREFIX}... directory")
    return runs


def run_name(directory: Path) -> str:
    return directory.name.removeprefix(PREFIX)


def _check(directory: Path) -> None:
    for name, declared in SCHEMAS.items():
        path = directory / f"{name}.parquet"
        if not path.is_file():
            raise TableError(f"{directory} is not a whole journal: it has no {name}.parquet")
        tables.check(path, declared)


def _is_undisturbed(scenario: Path) -> bool:
    faults = json.loads(scenario.read_text()).get("faults") if scenario.is_file() else None
    return faults is not None and msgspec.convert(faults, Faults) == Faults()
