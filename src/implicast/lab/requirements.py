"""Thresholds of a sweep: `lab run peers --require "missing == 0"` holds for every run, and decides
the exit code.
"""

from collections.abc import Sequence

from implicast.lab import dataset
from implicast.lab.experiment import Experiment
from implicast.lab.folder import Folder
from implicast.lab.tables import CHANGE, CONTRACT, MEASURES
from implicast.world.requirement import Requirement, broken, read


def requirements(texts: Sequence[str], chosen: Sequence[Experiment]) -> list[Requirement]:
    """The thresholds; of a figure that no run has, it is said before the sweep. A trial's own are
    known after it.
    """
    trials = any(each.trial for each in chosen)
    return read(texts, () if trials else (*MEASURES, *CONTRACT, *CHANGE))


def unmet(folder: Folder, runs: Sequence[str], wanted: Sequence[Requirement]) -> list[str]:
    """What is not met, a sentence for each run and threshold."""
    if not wanted:
        return []
    found = _figures(folder)
    return [
        f"{run}: {sentence}"
        for run in runs
        if run in found
        for sentence in broken(wanted, found[run])
    ]


def _figures(folder: Folder) -> dict[str, dict[str, float]]:
    """run -> name -> value, of whatever the sweep's tables hold."""
    found: dict[str, dict[str, float]] = {}
    for table in ("measures", "contract", "change"):
        for row in dataset.load(folder, table).to_pylist():
            run = found.setdefault(row["run"], {})
            run.update(
                (name, value) for name, value in row.items() if isinstance(value, int | float)
            )
    for row in dataset.load(folder, "trials").to_pylist():
        found.setdefault(row["run"], {})[row["measure"]] = row["value"]
    return found
