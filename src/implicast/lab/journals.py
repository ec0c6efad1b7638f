"""Journals of many runs read as one set of tables, each with the column `run`.

A sweep keeps them as `journals/run=NAME/sends.parquet` and so on; a single journal, as `implicast simulate --journal`
writes it, is read too, under the name of its directory.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.errors import TableError
from implicast.world.journal import SCHEMAS

PREFIX = "run="


class Journals:
    """The tables of some runs. `sends`, `notices`, ... are DataFrames, made when first asked for."""

    def __init__(self, spark: SparkSession, directories: Sequence[Path]) -> None:
        if not directories:
            raise TableError("there is no journal to read")
        self.spark = spark
        self.directories = [path.absolute() for path in directories]
        for directory in self.directories:
            _check(directory)

    def table(self, name: str) -> DataFrame:
        """One journal table of all runs, with the column `run`."""
        paths = [str(directory / f"{name}.parquet") for directory in self.directories]
        rows = self.spark.read.schema(tables.schema(SCHEMAS[name])).parquet(*paths)
        directory = F.regexp_extract(F.col("_metadata.file_path"), rf"/(?:{PREFIX})?([^/]+)/[^/]+$", 1)
        return rows.select(F.url_decode(directory).alias("run"), *SCHEMAS[name].names)


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
