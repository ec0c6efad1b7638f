"""Runs on Spark, one per task: a worker makes a world, runs it, writes its journal; the sweep goes on whatever happens.

Every run is a Spark job of one task of its own, as many at once as there are cores. So a run that breaks down, or a
worker that dies, is one row with an error and the command that replays it, and the next run starts as if nothing had
happened. A journal is written aside and renamed when it is whole: a directory `journals/run=NAME` is a finished run,
and a sweep that is started again makes only the others.

Journals leave the worker as Arrow columns straight into Parquet; driver and workers share the output directory (any
mounted file system on a cluster). Passing the rows through the JVM as well would encode each of them twice.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from implicast.lab import tables
from implicast.lab.journals import PREFIX
from implicast.lab.plan import Planned
from implicast.lab.progress import Progress
from implicast.lab.session import cores
from implicast.world.simulate import simulate

ATTEMPT = pa.schema([("run", pa.string()), ("error", pa.string()), ("seconds", pa.float64())])
_TASK = pa.schema([("planned", pa.string()), ("workload", pa.string())])


@dataclass(frozen=True, slots=True)
class Tally:
    """How a sweep went."""

    finished: int
    """Runs made now."""
    before: int
    """Runs that were there already."""
    failed: tuple[str, ...]
    """Names of the runs that failed now."""


def sweep(
    spark: SparkSession, planned: Sequence[Planned], out: Path, workloads: Mapping[str, str] | None = None,
    slots: int | None = None,
) -> Tally:  # fmt: skip
    """Make every run that is not there yet. `workloads`: run -> directory of a workload that was made for it."""
    journals = out.absolute() / "journals"
    journals.mkdir(parents=True, exist_ok=True)
    open_runs = [each for each in planned if not finished(journals, each.run)]
    open_runs.sort(key=lambda each: (-each.effort, each.run))  # the longest first: none is left over at the end
    before = len(planned) - len(open_runs)
    shown = Progress(len(open_runs), sum(each.effort for each in open_runs), before)
    failed: list[str] = []
    with ThreadPoolExecutor(slots or cores(spark)) as pool:
        jobs: dict[Future[str | None], Planned] = {
            pool.submit(_attempt, spark, each, journals, (workloads or {}).get(each.run, "")): each
            for each in open_runs
        }
        try:
            for job in as_completed(jobs):
                _note(out, jobs[job], job.result(), failed)
                shown.finished(jobs[job].effort, bool(job.result()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Tally(len(open_runs) - len(failed), before, tuple(sorted(failed)))


def finished(journals: Path, run: str) -> bool:
    return (journals / f"{PREFIX}{run}").is_dir()


def _attempt(spark: SparkSession, planned: Planned, journals: Path, workload: str) -> str | None:
    """One job, one task, one run; what went wrong, or None."""
    row = pa.table([[json.dumps(asdict(planned))], [workload]], schema=_TASK)
    try:
        job = spark.createDataFrame(row).coalesce(1).mapInArrow(carry_out(str(journals)), tables.schema(ATTEMPT))
        error: str | None = job.collect()[0]["error"]
        return error
    except Exception as died:  # whatever Spark raises: the worker is gone, or the job was refused
        return f"the worker died: {_last_line(died)}"


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "exited unexpectedly" in line or "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[0][:300]


def _note(out: Path, planned: Planned, error: str | None, failed: list[str]) -> None:
    """A failure is kept with its error until the run succeeds."""
    path = out / "failures" / f"{planned.run}.json"
    if error is None:
        path.unlink(missing_ok=True)
        return
    failed.append(planned.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": planned.run, "error": error}) + "\n")


def carry_out(journals: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker does with the runs it is given."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text, workload in zip(batch["planned"].to_pylist(), batch["workload"].to_pylist(), strict=True):
                planned = Planned(**json.loads(text))
                begun = time.perf_counter()
                error = _run(planned, Path(journals), workload or None)
                took = time.perf_counter() - begun
                yield pa.record_batch([[planned.run], [error], [took]], schema=ATTEMPT)

    return work


def _run(planned: Planned, journals: Path, workload: str | None) -> str | None:
    """Run aside, rename when all is there; what went wrong, or None."""
    aside = journals / f".{planned.run}.{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        begun = time.perf_counter()
        described = _trial(planned, aside) if planned.trial else _simulated(planned, aside, workload)
        described["seconds"] = time.perf_counter() - begun
        (aside / "outcome.json").write_text(json.dumps(described, default=str) + "\n")
        aside.rename(journals / f"{PREFIX}{planned.run}")
        return None
    except Exception as error:  # a bug of a design, a full disk: it becomes a row, the sweep goes on
        shutil.rmtree(aside, ignore_errors=True)
        return f"{type(error).__name__}: {error}"


def _simulated(planned: Planned, aside: Path, workload: str | None) -> dict[str, Any]:
    scenario = planned.scenario(workload)
    outcome = simulate(scenario, aside)
    return {**outcome.described(), "command": scenario.command()}


def _trial(planned: Planned, aside: Path) -> dict[str, Any]:
    """A trial of another kind: a function of settings by name, with its seed, that returns a row of numbers by name."""
    module, _, name = planned.trial.partition(":")
    function = getattr(import_module(module), name)
    settings = json.loads(planned.settings)
    taken = {key: value for key, value in settings.items() if key in signature(function).parameters}
    row: Mapping[str, Any] = function(**taken)
    aside.mkdir(parents=True)
    command = f"{name}({', '.join(f'{key}={value!r}' for key, value in taken.items())}) of {module}"
    return {"measures": _measures(row, settings), "messages": {}, "command": command}


def _measures(row: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, float]:
    """What a row says beyond the settings it was made from."""
    said = {key: value for key, value in row.items() if key not in settings and not isinstance(value, bool)}
    return {key: float(value) for key, value in said.items() if isinstance(value, int | float)}
