"""What runs are made of that does not come with the laboratory: bibliographies with key phrases,
and real maps.

Both are found in one directory (`--data`, or `IMPLICAST_DATA`). A corpus becomes workloads once, on
Spark, and they are kept; maps are read where they lie, in the current folder first.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from implicast.lab import case
from implicast.lab.options import started
from implicast.lab.plan import Planned
from implicast.lab.storage import Location
from implicast.world.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Material:
    """Where corpora and maps are, and which run has which workload."""

    data: Path | None = None
    workloads: Mapping[str, str] = field(default_factory=dict)

    def scenario(self, planned: Planned) -> Scenario:
        """The scenario of a run, with its own workload and the map where it lies."""
        made = planned.scenario(self.workloads.get(planned.run))
        found = _map(made.network, self.data)
        return made if found is None else replace(made, network=str(found))


def directory(given: Path | None) -> Path | None:
    """Where the data are, as the option or the environment says; None when neither does."""
    return given or (Path(os.environ[case.DATA]) if case.DATA in os.environ else None)


def lacking(planned: Sequence[Planned], data: Path | None) -> str:
    """What these runs need and is not there, as a sentence; nothing when all is there."""
    if case.needed(planned) and data is None:
        return (
            f"needs bibliographies and key phrases: name their directory with --data or {case.DATA}"
        )
    missing = [name for name in case.maps_lacking(planned) if _map(name, data) is None]
    if missing:
        return f"needs the map {missing[0]}: name the directory that holds it with --data or {case.DATA}"
    return ""


def prepared(planned: Sequence[Planned], data: Path | None, keep: Path) -> Material:
    """The material of these runs; workloads that are not in `keep` yet are made, and only then is
    Spark started.
    """
    if not case.needed(planned):
        return Material(data)
    made = case.made(planned, keep)
    if made is None:
        with started(None, ()) as spark:
            made = case.prepare(spark, planned, Location.of(str(keep)), case.data_directory(data))
    return Material(data, made)


def _map(name: str, data: Path | None) -> Path | None:
    """The map that a run names by a path, in this folder or among the data."""
    if "/" not in name:
        return None
    places = [Path(name)] if data is None else [Path(name), data / name]
    return next((each for each in places if each.exists()), None)
