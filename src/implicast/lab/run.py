"""An experiment from its file to its report: plan, sweep, measures, summary; every stage kept, none half-written.

OUT/experiment.json     what was asked for, and where the results come from
OUT/journals/run=NAME   a finished run: its journal, and outcome.json with the world's own measures
OUT/failures/NAME.json  a run that failed, until it succeeds
OUT/runs, measures, contract, costs, lorenz, summary   Parquet tables (lab/tables.py); `change` where anything changed
OUT/report.html, figures/*.svg
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import case, tables
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import Experiment
from implicast.lab.journals import PREFIX, Journals
from implicast.lab.measures.all import measure
from implicast.lab.measures.summary import summary
from implicast.lab.plan import Planned, plan
from implicast.lab.provenance import provenance
from implicast.lab.sweep import Tally, finished, sweep
from implicast.world.journal import PHASES

Said = Callable[[str], None]
COSTS = tuple(f"{phase}_{what}" for phase in PHASES for what in ("messages", "bytes"))
"""Further measures of a run: messages and bytes of each phase, per peer."""


def run(
    spark: SparkSession, made: Experiment, out: Path, scale: str = "small", runs: int | None = None,
    data: Path | None = None, said: Said = lambda text: None,
) -> Tally:  # fmt: skip
    """Carry out an experiment, or what is left of it, up to its tables; `report.write` makes the report."""
    planned = plan(made, scale, runs)
    claim(out, made, scale, runs)
    workloads: Mapping[str, str] = {}
    if case.needed(planned):
        source = case.data_directory(data)
        said("preparing workloads from the corpus")
        workloads = case.prepare(spark, planned, out, source)
    said(f"{len(planned)} runs of {len({each.series for each in planned})} series")
    went = sweep(spark, planned, out, workloads)
    write_tables(spark, made, planned, out, said)
    return went


def claim(out: Path, made: Experiment, scale: str, runs: int | None) -> None:
    """The directory is ours, or it is new; `ExperimentError` when it holds another experiment."""
    asked = {"experiment": json.loads(msgspec.json.encode(made)), "scale": scale, "runs": runs}
    path = out / "experiment.json"
    if path.is_file():
        there = json.loads(path.read_text())
        if {name: there.get(name) for name in asked} != asked:
            raise ExperimentError(
                f"{out} holds the experiment {there['experiment']['name']!r} at scale {there['scale']} with other "
                f"settings; name another directory with --out, or remove it"
            )
    elif out.exists() and any(out.iterdir()):
        raise ExperimentError(f"{out} exists and is not a laboratory directory; name another one with --out")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**asked, "provenance": provenance()}, indent=2) + "\n")


def write_tables(spark: SparkSession, made: Experiment, planned: Sequence[Planned], out: Path, said: Said) -> None:
    """Runs, measures and summary of whatever is finished."""
    rows = [_row(each, out) for each in planned]
    tables.write(spark.createDataFrame(pa.Table.from_pylist(rows, tables.RUNS)), out / "runs", tables.RUNS)
    done = [each for each in planned if finished(out / "journals", each.run)]
    if not done:
        raise ExperimentError(f"no run was finished; see {out / 'failures'}")
    runs = tables.read(spark, out / "runs", tables.RUNS).where("error is null")
    if made.trial:
        names, measured = _trial_measures(spark, done, out)
    else:
        if not _measured(out, done):
            measure(Journals(spark, [out / "journals" / f"{PREFIX}{each.run}" for each in done]), out, said)
        names, measured = [*tables.MEASURES, *COSTS], _measures(spark, out)
        if (out / "change").is_dir():
            names += tables.CHANGE
            measured = measured.join(changes(spark, out), "run", "left")
    said("means and confidence intervals")
    tables.write(summary(runs, measured, names), out / "summary", tables.SUMMARY)


def _measured(out: Path, done: Sequence[Planned]) -> bool:
    """The measures of just these runs are there already."""
    path = out / "lorenz"
    if not path.is_dir() or not (out / "measures").is_dir():
        return False
    return set(pq.read_table(out / "measures", columns=["run"])["run"].to_pylist()) == {each.run for each in done}


def _measures(spark: SparkSession, out: Path) -> DataFrame:
    """(run, every measure, every cost): one row for each run."""
    measures = tables.read(spark, out / "measures", tables.RUN_MEASURES)
    costs = tables.read(spark, out / "costs", tables.RUN_COSTS)
    wide = costs.groupBy("run").agg(
        *(
            F.coalesce(F.max(F.when(F.col("phase") == phase, F.col(f"{what}_per_peer"))), F.lit(0.0)).alias(
                f"{phase}_{what}"
            )
            for phase in PHASES
            for what in ("messages", "bytes")
        )
    )
    return measures.join(wide, "run", "left").fillna(0.0)


def changes(spark: SparkSession, out: Path) -> DataFrame:
    """(run, every measure of change): repairs only of runs in which there was something to be repaired.

    Where few deeds are drawn, some seeds have joins and leaves alone: in the mean they would pass for quick repairs.
    """
    found = tables.read(spark, out / "change", tables.RUN_CHANGE)
    return found.withColumns({name: F.when(F.col("sudden") > 0, F.col(name)) for name in tables.REPAIRS})


def _trial_measures(spark: SparkSession, done: Sequence[Planned], out: Path) -> tuple[list[str], DataFrame]:
    rows = [{"run": each.run, **outcome(out, each.run)["measures"]} for each in done]
    names = sorted({name for row in rows for name in row} - {"run"})
    declared = pa.schema([("run", pa.string()), *((name, pa.float64()) for name in names)])
    return names, spark.createDataFrame(pa.Table.from_pylist(rows, declared))


def outcome(out: Path, run_name: str) -> dict[str, Any]:
    """What the worker noted of a finished run."""
    found: dict[str, Any] = json.loads((out / "journals" / f"{PREFIX}{run_name}" / "outcome.json").read_text())
    return found


def _row(planned: Planned, out: Path) -> dict[str, Any]:
    settings = json.loads(planned.settings)
    placed = {
        name: getattr(planned, name)
        for name in ("run", "experiment", "design", "series", "axis", "point", "position", "seed")
    }
    row = {
        **placed, "network": settings.get("network", "flat"), "workload": settings.get("workload", "zipf"),
        "peers": settings.get("peers"), "casts": settings.get("casts"), "scenario": planned.settings,
    }  # fmt: skip
    if finished(out / "journals", planned.run):
        noted = outcome(out, planned.run)
        messages = sum(noted["messages"].values())
        return row | {"command": noted["command"], "error": None, "seconds": noted["seconds"], "messages": messages}
    failure = out / "failures" / f"{planned.run}.json"
    error = json.loads(failure.read_text())["error"] if failure.is_file() else "not run"
    return row | {"command": planned.trial or planned.scenario().command(), "error": error}


def broken_runs(out: Path, runs: Collection[str]) -> list[str]:
    """Of these runs those in which a promise was broken. Where things changed: what may be promised then."""
    if not (out / "contract").is_dir():
        return []
    kept = {}
    if (out / "change").is_dir():
        kept = {row["run"]: row["kept"] for row in pq.read_table(out / "change", columns=["run", "kept"]).to_pylist()}
    judged = [row for row in pq.read_table(out / "contract").to_pylist() if row["run"] in runs]
    return [row["run"] for row in judged if not kept.get(row["run"], not any(row[name] for name in tables.BROKEN))]


def disagreements(out: Path) -> list[str]:
    """Runs where Spark's measures differ from those the world took itself: there should be none."""
    found = []
    for row in pq.read_table(out / "measures").to_pylist():
        found += _differing(row, outcome(out, row["run"])["measures"])
    if (out / "change").is_dir():
        for row in pq.read_table(out / "change").to_pylist():
            own = outcome(out, row["run"])["change"]
            taken = {name: value for name, value in own.items() if isinstance(value, float | int | None)}
            found += _differing(row, taken)
    return found


def _differing(row: Mapping[str, Any], own: Mapping[str, float | None]) -> list[str]:
    off = [name for name, value in own.items() if not _same(row[name], value)]
    return [f"{row['run']}: {name} is {row[name]} here and {own[name]} there" for name in off]


def _same(one: float | None, other: float | None) -> bool:
    """None is what was not measured."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
