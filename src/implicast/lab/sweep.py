"""Runs on Spark, one per task: a worker makes a world, runs it, writes its journal; the sweep goes on whatever happens.

A run that breaks down is caught in its worker and becomes a file with its error. A worker that dies takes the whole
Spark job with it; the runs that were under way then are tried alone, one job each: the deadly one is found and noted,
the others are not lost, and the rest goes on together. (A job for each run from the start would be simpler and cost
0.2 s of processor time a run: more than many small runs take themselves.)

A journal is written aside and renamed when it is whole: a directory `journals/run=NAME` is a finished run, and a sweep
that is started again makes only the others. Journals leave the worker as Arrow columns straight into Parquet; driver
and workers share the output directory (any mounted file system on a cluster). Passing the rows through the JVM as well
would encode each of them twice.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
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
from implicast.world.simulate import simulate

ATTEMPT = pa.schema([("run", pa.string()), ("seconds", pa.float64())])
LOOK_S = 0.25
"""How often the driver looks what has been finished."""

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
    spark: SparkSession, planned: Sequence[Planned], out: Path, workloads: Mapping[str, str] | None = None
) -> Tally:
    """Make every run that is not there yet. `workloads`: run -> directory of a workload that was made for it."""
    floor = Floor(out.absolute(), workloads or {})
    floor.sweep_up()
    open_runs = [each for each in planned if not finished(floor.journals, each.run)]
    open_runs.sort(key=lambda each: (-each.effort, each.run))  # the longest first: none is left over at the end
    for each in open_runs:
        floor.failure(each.run).unlink(missing_ok=True)
    before = len(planned) - len(open_runs)
    shown = Progress(len(open_runs), sum(each.effort for each in open_runs), before)
    left = open_runs
    while left:
        broken = _together(spark, left, floor, shown)
        left = floor.unsettled(left)
        if broken is not None:
            _alone(spark, floor.under_way(left) or left[:1], floor, shown)
            left = floor.unsettled(left)
    failed = tuple(sorted(each.run for each in open_runs if floor.failure(each.run).is_file()))
    return Tally(len(open_runs) - len(failed), before, failed)


@dataclass(frozen=True, slots=True)
class Floor:
    """Where runs are made: the directories that driver and workers share."""

    out: Path
    workloads: Mapping[str, str]

    def __post_init__(self) -> None:
        self.journals.mkdir(parents=True, exist_ok=True)
        (self.out / "failures").mkdir(exist_ok=True)

    @property
    def journals(self) -> Path:
        return self.out / "journals"

    def failure(self, run: str) -> Path:
        return self.out / "failures" / f"{run}.json"

    def fail(self, run: str, error: str) -> None:
        """A failure is kept with its error until the run succeeds."""
        self.failure(run).write_text(json.dumps({"run": run, "error": error}) + "\n")

    def unsettled(self, runs: Sequence[Planned]) -> list[Planned]:
        """Those that have neither been finished nor failed; two listings, however many there are."""
        settled = {name.removeprefix(PREFIX) for name in os.listdir(self.journals) if name.startswith(PREFIX)}
        settled |= {name.removesuffix(".json") for name in os.listdir(self.out / "failures")}
        return [each for each in runs if each.run not in settled]

    def begun(self, run: str) -> Path:
        """The mark of a run that is under way."""
        return self.journals / f".{run}.begun"

    def under_way(self, runs: Sequence[Planned]) -> list[Planned]:
        return [each for each in runs if self.begun(each.run).is_file()]

    def sweep_up(self) -> None:
        """Remove what an interrupted sweep left half-done."""
        for each in self.journals.glob(".*"):
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)


def finished(journals: Path, run: str) -> bool:
    return (journals / f"{PREFIX}{run}").is_dir()


def _together(spark: SparkSession, runs: Sequence[Planned], floor: Floor, shown: Progress) -> BaseException | None:
    """One job, one task for each run; what broke the job, or None."""
    tasks = spark.range(0, len(runs), 1, len(runs)).mapInArrow(carry_out(runs, floor), tables.schema(ATTEMPT))
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(tasks.collect)
        left = list(runs)
        while left:
            done = bool(wait_for([job], LOOK_S).done)
            left = _show(left, floor, shown)
            if done:
                break
        return job.exception()


def _show(runs: Sequence[Planned], floor: Floor, shown: Progress) -> list[Planned]:
    """Count what has been settled since the last look; what is left."""
    left = floor.unsettled(runs)
    names = {each.run for each in left}
    for each in runs:
        if each.run not in names:
            shown.finished(each.effort, floor.failure(each.run).is_file())
    return left


def _alone(spark: SparkSession, runs: Sequence[Planned], floor: Floor, shown: Progress) -> None:
    """A job for each of these: whichever breaks its job is the one to blame."""
    for each in runs:
        try:
            spark.range(1).mapInArrow(carry_out([each], floor), tables.schema(ATTEMPT)).collect()
        except Exception as died:  # whatever Spark raises: the worker is gone, or the job was refused
            floor.fail(each.run, f"the worker died: {_telling_line(died)}")
        _show([each], floor, shown)


def _telling_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "exited unexpectedly" in line or "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[0][:300]


def carry_out(runs: Sequence[Planned], floor: Floor) -> Work:
    """What a worker does with the numbers of runs that it is given."""
    tasks = [json.dumps(asdict(each)) for each in runs]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                planned = Planned(**json.loads(tasks[number]))
                begun = time.perf_counter()
                floor.begun(planned.run).touch()
                error = _run(planned, floor.journals, floor.workloads.get(planned.run))
                if error is not None:
                    floor.fail(planned.run, error)
                floor.begun(planned.run).unlink(missing_ok=True)
                yield pa.record_batch([[planned.run], [time.perf_counter() - begun]], schema=ATTEMPT)

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
        if finished(journals, planned.run):  # another attempt at the same task was quicker
            shutil.rmtree(aside)
        else:
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
