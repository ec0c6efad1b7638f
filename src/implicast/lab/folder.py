"""The folder of a sweep: a data set that grows, at any place that can be named by a URL.

    OUT/lab.json                                    says that this is one, and in which layout
    OUT/experiments/NAME.json                       what was asked for last: the experiment, its scale, its seeds
    OUT/outcomes/experiment=NAME/RUN.json           a finished run: where it came from, what it cost, what it measured
    OUT/failures/experiment=NAME/RUN.json           a run that failed, until it succeeds
    OUT/sends/experiment=NAME/run=RUN/sends.parquet and likewise notices, casts, ...: the journals
    OUT/measures/experiment=NAME/part-0.parquet     and likewise runs, contract, ...: one file for each table
    OUT/_lock.json, _begun/, _scratch/, _refused/   while a process works here

A run is finished when its outcome is there: one small file, written last and at once. Its journal
is put in place before, under names that follow from the run alone, so that an attempt that died
half-way is written over by the next one, with the same bytes. Whatever starts with an underscore is
hidden from Spark, DuckDB and pyarrow.
"""

import json
import os
import socket
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from implicast.lab.errors import ExperimentError, TableError
from implicast.lab.storage import Location

LAYOUT = 2
READERS = 16
"""Outcomes read at once: object stores answer slowly, and many at a time."""
Noted = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Folder:
    """One experiment's part of a folder; a plain value that travels to workers."""

    place: Location
    experiment: str

    @property
    def outcomes(self) -> Location:
        return self.place / "outcomes" / f"experiment={self.experiment}"

    @property
    def failures(self) -> Location:
        return self.place / "failures" / f"experiment={self.experiment}"

    @property
    def begun(self) -> Location:
        return self.place / "_begun" / self.experiment

    def journal(self, table: str, run: str) -> Location:
        return (
            self.place / table / f"experiment={self.experiment}" / f"run={run}" / f"{table}.parquet"
        )

    def scratch(self, run: str) -> Path:
        """A name for one attempt at a run: no other attempt, process or machine has it."""
        base = self.place.local
        name = f"{run}.{socket.gethostname()}.{os.getpid()}.{os.urandom(4).hex()}"
        if base is None:
            return Path(tempfile.gettempdir()) / f"implicast-{name}"
        return base / "_scratch" / name

    def finished(self) -> set[str]:
        return _runs(self.outcomes)

    def failed(self) -> set[str]:
        return _runs(self.failures)

    def under_way(self) -> set[str]:
        return _runs(self.begun)

    def note(self, run: str, outcome: Mapping[str, Any]) -> None:
        """The run is finished."""
        (self.outcomes / f"{run}.json").write((json.dumps(outcome, default=str) + "\n").encode())

    def fail(self, run: str, error: str) -> None:
        """A failure is kept with its error until the run succeeds."""
        (self.failures / f"{run}.json").write(
            (json.dumps({"run": run, "error": error}) + "\n").encode()
        )

    def refuse(self, host: str, reason: str) -> None:
        """A worker may not take part; the driver reads why."""
        (self.place / "_refused" / f"{host}.json").write(json.dumps({"reason": reason}).encode())

    def refusals(self) -> list[str]:
        """Why workers did not take part, by host."""
        place = self.place / "_refused"
        return [str(json.loads((place / name).read())["reason"]) for name in sorted(_json(place))]

    def error(self, run: str) -> str:
        place = self.failures / f"{run}.json"
        return str(json.loads(place.read())["error"]) if place.is_file() else "not run"

    def outcome(self, run: str) -> Noted:
        """What the worker noted of a finished run."""
        found: Noted = json.loads((self.outcomes / f"{run}.json").read())
        return found

    def read_outcomes(self, runs: Iterable[str]) -> dict[str, Noted]:
        names = sorted(runs)
        with ThreadPoolExecutor(READERS) as pool:
            return dict(zip(names, pool.map(self.outcome, names), strict=True))

    def sweep_up(self) -> None:
        """Remove what attempts left half-done; only the holder of the lock does."""
        for name in ("_begun", "_scratch", "_refused"):
            (self.place / name).remove()
        for each in (self.outcomes, self.failures, self.begun):
            each.make()


def _runs(place: Location) -> set[str]:
    return {name.removesuffix(".json") for name in _json(place)}


def _json(place: Location) -> list[str]:
    """Its files, without those that are being written."""
    return [name for name in place.names() if name.endswith(".json") and name[0] != "."]


def opened(place: Location, make: bool = True) -> None:
    """The folder is ours or new, and made ours; a sentence when it is anything else."""
    marker = place / "lab.json"
    if place.is_file():
        raise ExperimentError(
            f"{place} is a file, and is not a laboratory folder; name another place with --out"
        )
    if marker.is_file():
        layout = _layout(marker)
        if layout != LAYOUT:
            raise ExperimentError(
                f"{place} has layout {layout}, this version reads {LAYOUT}; name another folder with --out"
            )
        return
    if (place / "experiment.json").is_file():
        raise ExperimentError(
            f"{place} was made by a version before 0.2: `implicast lab measure {place}/journals` still reads its "
            f"journals, but sweeps go on in a new folder; name one with --out"
        )
    if [name for name in place.names() if not name.startswith("_")]:
        raise ExperimentError(
            f"{place} exists and is not a laboratory folder; name another one with --out"
        )
    if make:
        marker.write((json.dumps({"layout": LAYOUT}) + "\n").encode())


def refuse_unwritable(place: Location) -> None:
    """A sentence when nothing can be written here: on a disk that is said before Spark is started."""
    local = place.local
    if local is None:
        return
    try:
        local.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=local):
            pass
    except OSError as wrong:
        raise ExperimentError(
            f"nothing can be written in {place} ({wrong.strerror}); name another place with --out"
        ) from None


def _layout(marker: Location) -> object:
    try:
        return json.loads(marker.read())["layout"]
    except (ValueError, KeyError, TypeError):
        raise ExperimentError(
            f"{marker} is damaged: it does not say which layout the folder has"
        ) from None


def sole(place: Location, experiment: str | None = None) -> Folder:
    """The part of the experiment that is named, or of the only one there is."""
    there = experiments_in(place)
    if not there:
        raise TableError(f"{place} is not a laboratory folder: it holds no experiment")
    if experiment is None and len(there) > 1:
        raise TableError(f"{place} holds {', '.join(there)}; choose one with --experiment")
    if experiment is not None and experiment not in there:
        raise TableError(f"{place} holds no experiment {experiment!r}; it holds {', '.join(there)}")
    return Folder(place, experiment or there[0])


def experiments_in(place: Location) -> list[str]:
    return sorted(_runs(place / "experiments"))


def asked(folder: Folder) -> Noted:
    """What was asked for last."""
    found: Noted = json.loads((folder.place / "experiments" / f"{folder.experiment}.json").read())
    return found
