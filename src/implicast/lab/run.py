"""An experiment from its file to its tables: plan, sweep, measures, summary. `folder.py` says what
lies where.

A folder grows: more seeds, more points, more designs, a changed caption or another experiment are
all taken up; what is finished is neither made nor measured again, and keeps the commit that made
it. The summary is of the runs that were asked for last.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import case, dataset, tables
from implicast.lab.collect import collect
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import Experiment
from implicast.lab.folder import Folder, opened
from implicast.lab.lock import held
from implicast.lab.measures.all import arrow
from implicast.lab.measures.summary import summary
from implicast.lab.plan import Planned, plan
from implicast.lab.provenance import provenance
from implicast.lab.session import described
from implicast.lab.storage import Location
from implicast.lab.sweep import SweepTally, sweep
from implicast.world.journal import PHASES

Said = Callable[[str], None]


def run(
    spark: SparkSession,
    made: Experiment,
    out: Path | str | Location,
    scale: str = "small",
    runs: int | None = None,
    data: Path | None = None,
    said: Said = lambda text: None,
    wait: bool = False,
    mixed_code: bool = False,
) -> SweepTally:
    """Carry out an experiment, or what is left of it, up to its tables; `report.write` makes the
    report.
    """
    planned, place = plan(made, scale, runs), Location.of(out)
    opened(place)
    with held(place, wait, said):
        folder = claim(place, made, scale, runs)
        workloads: Mapping[str, str] = {}
        if case.needed(planned):
            said("preparing workloads from the corpus")
            workloads = case.prepare(spark, planned, place, case.data_directory(data))
        said(f"{len(planned)} runs of {len({each.series for each in planned})} series")
        went = sweep(spark, planned, folder, workloads, mixed_code)
        write_tables(spark, made, planned, folder, said, mixed_code)
    return went


def claim(place: Location, made: Experiment, scale: str, runs: int | None) -> Folder:
    """Note what is asked for; `ExperimentError` when the place is something else than a laboratory
    folder.
    """
    opened(place)
    asked = {"experiment": json.loads(msgspec.json.encode(made)), "scale": scale, "runs": runs}
    text = json.dumps({**asked, "provenance": provenance()}, indent=2) + "\n"
    (place / "experiments" / f"{made.name}.json").write(text.encode())
    return Folder(place, made.name)


def write_tables(
    spark: SparkSession,
    made: Experiment,
    planned: Sequence[Planned],
    folder: Folder,
    said: Said,
    mixed_code: bool = False,
) -> None:
    """Measures of whatever is new, and the summary of what was asked for."""
    collect(spark, planned, folder, said, mixed_code)
    done = folder.finished()
    names = [each.run for each in planned if each.run in done]
    if not names:
        raise ExperimentError(f"no run was finished; see {folder.failures}")
    said("means and confidence intervals")
    with described(spark, "implicast: means and confidence intervals"):
        measures, measured = _trials(spark, folder) if made.trial else _measures(spark, folder)
        placed = _frame(spark, folder, "runs").where(F.col("planned") & F.col("error").isNull())
        dataset.store(folder, "summary", arrow(summary(placed, measured, measures), tables.SUMMARY))


def _frame(spark: SparkSession, folder: Folder, name: str) -> DataFrame:
    """A table of the folder as Spark has it: a row for each run, read here and handed over as
    Arrow.
    """
    return spark.createDataFrame(dataset.load(folder, name))


def _measures(spark: SparkSession, folder: Folder) -> tuple[list[str], DataFrame]:
    """(run, every measure, every cost): one row for each run; with the measures of change where
    there are any.
    """
    costs = _frame(spark, folder, "costs")
    wide = costs.groupBy("run").agg(
        *(
            F.coalesce(
                F.max(F.when(F.col("phase") == phase, F.col(f"{what}_per_peer"))), F.lit(0.0)
            ).alias(f"{phase}_{what}")
            for phase in PHASES
            for what in ("messages", "bytes")
        )
    )
    names, measured = (
        [*tables.MEASURES, *tables.COSTS],
        _frame(spark, folder, "measures").join(wide, "run", "left").fillna(0.0),
    )
    if dataset.has(folder, "change"):
        names, measured = (
            [*names, *tables.CHANGE],
            measured.join(changes(_frame(spark, folder, "change")), "run", "left"),
        )
    return names, measured


def changes(found: DataFrame) -> DataFrame:
    """(run, every measure of change): repairs only of runs in which there was something to be
    repaired.

    Where few events are drawn, some seeds have joins and leaves alone: in the mean they would pass
    for quick repairs.
    """
    return found.withColumns(
        {name: F.when(F.col("sudden") > 0, F.col(name)) for name in tables.REPAIRS}
    )


def _trials(spark: SparkSession, folder: Folder) -> tuple[list[str], DataFrame]:
    """(run, every measure of the trial)."""
    found = dataset.load(folder, "trials")
    names = sorted(set(found["measure"].to_pylist()))
    wide = (
        _frame(spark, folder, "trials").groupBy("run").pivot("measure", names).agg(F.first("value"))
    )
    return names, wide


def broken_runs(folder: Folder, runs: Sequence[str]) -> list[str]:
    """Of these runs those in which a promise was broken. Where things changed: what may be promised
    then.
    """
    kept = {
        row["run"]: row["kept"]
        for row in dataset.load(folder, "change").select(["run", "kept"]).to_pylist()
    }
    asked = set(runs)
    judged = [row for row in dataset.load(folder, "contract").to_pylist() if row["run"] in asked]
    return [
        row["run"]
        for row in judged
        if not kept.get(row["run"], not any(row[name] for name in tables.BROKEN))
    ]


def disagreements(folder: Folder) -> list[str]:
    """Runs where measures differ from those the world took itself: there should be none."""
    found: list[dict[str, Any]] = dataset.load(folder, "runs").to_pylist()
    return [f"{row['run']}: {row['differs']}" for row in found if row["differs"] and row["planned"]]
