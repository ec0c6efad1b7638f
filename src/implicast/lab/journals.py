"""Journals of runs, at any place.

Three forms are read: a sweep's folder (`OUT/sends/experiment=NAME/run=RUN/sends.parquet`), a folder
of journals `run=RUN/sends.parquet`, as sweeps kept them before, and a single journal, as `implicast
simulate --journal` writes it. A journal that cannot be read is set aside with its reason; the rest
is measured.
"""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from implicast.lab import tables
from implicast.lab.errors import TableError
from implicast.lab.folder import Folder, experiments_in
from implicast.lab.measures.change import ChangeTables
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

    def has_changed(self) -> bool:
        """May peers have come and gone?"""
        return self.table("incarnations").is_file()

    def changed(self) -> ChangeTables | None:
        """The tables of change; None where nothing changed."""
        if not self.has_changed():
            return None
        found = {
            name: self.read(name)
            if self.table(name).is_file()
            else CHANGE_SCHEMAS[name].empty_table()
            for name in ("incarnations", "scripted_events", "health", "timeline")
        }
        timeline = next(iter(found["timeline"].to_pylist()), None)
        return ChangeTables(
            found["incarnations"],
            found["scripted_events"],
            found["health"],
            timeline,
            _is_undisturbed(self.scenario()),
        )

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
