"""The claims of an experiment, judged by the runs in its folder."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from implicast.lab import dataset, tables
from implicast.lab.experiment import Experiment
from implicast.lab.folder import Folder
from implicast.lab.published import Evidence, Judged, judge

Row = dict[str, Any]


def claims(made: Experiment, folder: Folder, runs: Sequence[Row], scale: str) -> list[Judged]:
    """One row for each claim whose series took part."""
    evidence = _evidence(folder, runs, scale)
    shown = {series for series, _, _ in evidence.values}
    return [judge(claim, evidence) for claim in made.published if claim.design in shown]


def _evidence(folder: Folder, runs: Sequence[Row], scale: str) -> Evidence:
    placed = {row["run"]: row for row in runs if row["error"] is None}
    values: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for run, measure, value in _measured(folder):
        if run in placed and value is not None:
            row = placed[run]
            values[row["series"], row["point_label"], measure][row["seed"]] = value
    points = dict.fromkeys(
        row["point_label"] for row in sorted(placed.values(), key=lambda row: int(row["position"]))
    )
    return Evidence(values, list(points), scale)


def _measured(folder: Folder) -> list[tuple[str, str, float | None]]:
    found = [
        (row["run"], row["measure"], row["value"])
        for row in dataset.load(folder, "trials").to_pylist()
    ]
    for name, measures in (("measures", tuple(tables.MEASURES)), ("change", tuple(tables.CHANGE))):
        for row in dataset.load(folder, name).to_pylist():
            found += [(row["run"], measure, row[measure]) for measure in measures]
    for row in dataset.load(folder, "costs").to_pylist():
        found.append((row["run"], f"{row['phase']}_messages", row["messages_per_peer"]))
        found.append((row["run"], f"{row['phase']}_bytes", row["bytes_per_peer"]))
    return found
