"""Journals of many runs read as one set of tables, each with the column `run`.

Three forms are read: a sweep's folder (`OUT/sends/experiment=NAME/run=RUN/sends.parquet`), a folder
of journals `run=RUN/sends.parquet`, as sweeps kept them before, and a single journal, as `implicast
simulate --journal` writes it. A journal that cannot be read is set aside with its reason; the rest
is measured.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.errors import TableError
from implicast.lab.folder import Folder, experiments_in
from implicast.lab.storage import Location
from implicast.world.faults import Faults
from implicast.world.journal import CHANGE_SCHEMAS, FORMER_NAMES, SCHEMAS

PREFIX = "run="
ALL_SCHEMAS = {**SCHEMAS, **CHANGE_SCHEMAS}


@dataclass(frozen=True, slots=True)
class JournalSource:
    """Where the journal of a run is: in a folder of its own, or in a sweep's folder."""

    run: str
    place: Location
    experiment: str = ""
    """Of a sweep's folder."""

    def table(self, name: str) -> Location:
        """The file of a table; under its former name where only that is there."""
        return self._file(self._stored_name(name))

    def _file(self, name: str) -> Location:
        if self.experiment:
            return Folder(self.place, self.experiment).journal(name, self.run)
        return self.place / f"{name}.parquet"

    def _stored_name(self, name: str) -> str:
        former = FORMER_NAMES.get(name)
        if former is None or self._file(name).is_file() or not self._file(former).is_file():
            return name
        return former

    def base(self, name: str) -> Location | None:
        """Where Spark finds `run=...` in the path; None for a journal alone."""
        if self.experiment:
            return self.place / self._stored_name(name)
        return (
            Location(self.place.url.rpartition("/")[0])
            if self.place.name.startswith(PREFIX)
            else None
        )

    def has_changed(self) -> bool:
        """May peers have come and gone? Such journals are measured by Spark itself, others by
        Python's workers.
        """
        return self.table("incarnations").is_file()

    def scenario(self) -> dict[str, Any]:
        """What was run, as far as it is known."""
        found: dict[str, Any] = {}
        if self.experiment:
            found = Folder(self.place, self.experiment).outcome(self.run).get("scenario", {})
        elif (self.place / "scenario.json").is_file():
            found = json.loads((self.place / "scenario.json").read())
        return found

    def read(self, name: str, columns: list[str] | None = None) -> pa.Table:
        with self.opened(name) as file:
            return file.read(columns)

    def opened(self, name: str) -> pq.ParquetFile:
        place = self.table(name)
        return pq.ParquetFile(place.store.open_input_file(place.path))


class Journals:
    """The tables of some runs, as DataFrames."""

    def __init__(self, spark: SparkSession, sources: Sequence[JournalSource]) -> None:
        if not sources:
            raise TableError("there is no journal to read")
        self.spark, self.sources = spark, list(sources)
        self._there = {each: _tables_of(each) for each in self.sources}

    def table(self, name: str) -> DataFrame:
        """One journal table of all runs that have it, with the column `run`."""
        having = [each for each in self.sources if name in self._there[each]]
        parts = [self._alone(each, name) for each in having if each.base(name) is None]
        together = [each for each in having if each.base(name) is not None]
        for base in sorted({str(each.base(name).url) for each in together}):  # type: ignore[union-attr]
            parts.append(
                self._together(
                    Location(base),
                    [each for each in together if each.base(name) == Location(base)],
                    name,
                )
            )
        return reduce(DataFrame.unionByName, parts)

    def among(self, sources: Sequence[JournalSource]) -> "Journals":
        """Only these."""
        return type(self)(self.spark, sources)

    def has(self, name: str) -> bool:
        """Whether any run has this table."""
        return any(name in there for there in self._there.values())

    def changed(self) -> list[str]:
        """Runs in which peers may come and go."""
        return [each.run for each in self.sources if "incarnations" in self._there[each]]

    def undisturbed(self) -> list[str]:
        """Runs of which it is known that the network did nothing to messages."""
        return [each.run for each in self.sources if _is_undisturbed(each.scenario())]

    def _together(self, base: Location, sources: list[JournalSource], name: str) -> DataFrame:
        """The folder's name gives `run` for a whole file at once; a function of the path would cost
        per row.
        """
        paths = [each.table(name).for_spark for each in sources]
        columns = tables.schema(ALL_SCHEMAS[name], ("run", pa.string()))
        rows = self.spark.read.schema(columns).option("basePath", base.for_spark).parquet(*paths)
        return rows.select(columns.names)

    def _alone(self, source: JournalSource, name: str) -> DataFrame:
        rows = self.spark.read.schema(tables.schema(ALL_SCHEMAS[name])).parquet(
            source.table(name).for_spark
        )
        return rows.select(F.lit(source.run).alias("run"), *ALL_SCHEMAS[name].names)


def _tables_of(source: JournalSource) -> set[str]:
    return {*SCHEMAS, *(name for name in CHANGE_SCHEMAS if source.table(name).is_file())}


def found(place: Location) -> list[JournalSource]:
    """The journals at a place: of a sweep's folder, of its `run=...` folders, or itself when it is
    one.
    """
    if (place / "sends.parquet").is_file():
        return [JournalSource(place.name.removeprefix(PREFIX), place)]
    if (place / "lab.json").is_file():
        return [
            JournalSource(run, place, name)
            for name in experiments_in(place)
            for run in _journals(Folder(place, name))
        ]
    base = place / "journals" if (place / "experiment.json").is_file() else place
    runs = [name for name in base.names() if name.startswith(PREFIX)]
    if not runs:
        raise TableError(
            f"{place} is not a journal and holds none: no sends.parquet and no {PREFIX}... folder"
        )
    return [JournalSource(name.removeprefix(PREFIX), base / name) for name in runs]


def _journals(folder: Folder) -> list[str]:
    """Runs of the folder that are finished and have a journal."""
    named = (folder.place / "sends" / f"experiment={folder.experiment}").names()
    there = {name.removeprefix(PREFIX) for name in named if name.startswith(PREFIX)}
    return sorted(there & folder.finished())


def objection(source: JournalSource) -> str | None:
    """Why a journal cannot be measured; None when every page of it can be read and has the declared
    columns.
    """
    for name, declared in ALL_SCHEMAS.items():
        place = source.table(name)
        if not place.is_file():
            if name in SCHEMAS:
                return f"it has no {name}.parquet"
            continue
        try:
            with source.opened(name) as file:
                tables.check_columns(name, file.schema_arrow, declared)
                for batch in file.iter_batches(batch_size=1 << 17):
                    batch.validate()
        except TableError as wrong:
            return str(wrong)
        except (pa.ArrowException, OSError, ValueError) as broken:
            return f"{name}.parquet cannot be read: {' '.join(str(broken).split())[:200]}"
    return None


def _is_undisturbed(scenario: dict[str, Any]) -> bool:
    faults = scenario.get("faults")
    return faults is not None and msgspec.convert(faults, Faults) == Faults()
