"""Runs on Spark, one per task, the longest first; the sweep goes on whatever happens to one of
them.

A worker that dies takes the whole Spark job with it; the runs that were under way then are tried
alone, one job each: the deadly one is found and noted, the others are not lost, and the rest goes
on together. (A job for each run from the start would be simpler and cost 0.2 s of processor time a
run: more than many small runs take themselves.)

A sweep that is started again makes only what is not finished (`folder.py` says what that is).
Journals leave the worker as Arrow columns straight into Parquet; passing the rows through the JVM
as well would encode each of them twice.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from implicast.lab import tables
from implicast.lab.errors import LabError
from implicast.lab.folder import Folder
from implicast.lab.installed_code import CodeRule, OtherCode
from implicast.lab.plan import Planned
from implicast.lab.progress import Progress
from implicast.lab.provenance import origin
from implicast.lab.session import cores, described
from implicast.lab.task import ATTEMPT, UNSEEN, carry_out

LOOK_S = 0.25
"""How often the driver looks what has been finished on a disk."""
LOOK_FAR_S = 3.0
"""The same where every look is a request that is paid for."""


@dataclass(frozen=True, slots=True)
class SweepTally:
    """How a sweep went."""

    finished: int
    """Runs made now."""
    before: int
    """Runs that were there already."""
    failed: tuple[str, ...]
    """Names of the runs that failed now."""


@dataclass(slots=True)
class Course:
    """A sweep under way: what is left, and what failed without leaving a trace in the folder."""

    spark: SparkSession
    folder: Folder
    workloads: Mapping[str, str]
    shown: Progress
    origin: dict[str, str]
    rule: CodeRule
    errors: dict[str, str] = field(default_factory=dict)

    def unsettled(self, runs: Sequence[Planned]) -> list[Planned]:
        """Those that have neither been finished nor failed; two listings, however many there are."""
        settled = self.folder.finished() | self.folder.failed() | set(self.errors)
        return [each for each in runs if each.run not in settled]

    def fail(self, run: str, error: str) -> None:
        self.errors[run] = error
        with suppress(OSError):  # no room: it is known here, and the next sweep tries it again
            self.folder.fail(run, error)

    def show(self, runs: Sequence[Planned]) -> list[Planned]:
        """Count what has been settled since the last look; what is left."""
        left = self.unsettled(runs)
        names, finished = {each.run for each in left}, self.folder.finished()
        for each in runs:
            if each.run not in names:
                seconds = (
                    float(self.folder.outcome(each.run)["seconds"])
                    if each.run in finished
                    else None
                )
                self.shown.finished(each, seconds)
        return left


def sweep(
    spark: SparkSession,
    planned: Sequence[Planned],
    folder: Folder,
    workloads: Mapping[str, str] | None = None,
    mixed_code: bool = False,
) -> SweepTally:
    """Make every run that is not there yet. `workloads`: run -> place of a workload that was made
    for it; `mixed_code`: workers may run other code than the driver, which the rows then say.

    The caller holds the folder's lock.
    """
    folder.sweep_up()
    done = folder.finished()
    open_runs = [each for each in planned if each.run not in done]
    open_runs.sort(
        key=lambda each: (-each.effort, each.run)
    )  # the longest first: none is left over at the end
    for each in open_runs:
        (folder.failures / f"{each.run}.json").remove()
    before = len(planned) - len(open_runs)
    shown, rule = Progress(open_runs, cores(spark), before), CodeRule.here(mixed_code)
    course = Course(spark, folder, workloads or {}, shown, origin(), rule)
    _carry_on(course, open_runs)
    _refuse_other_code(folder)
    failed = {each.run for each in open_runs} & (folder.failed() | set(course.errors))
    return SweepTally(len(open_runs) - len(failed), before, tuple(sorted(failed)))


def _carry_on(course: Course, left: list[Planned]) -> None:
    while left:
        broken = _together(course, left)
        left = course.unsettled(left)
        if broken is not None and left:
            _refuse_other_code(course.folder)
            if UNSEEN in str(broken):
                raise LabError(_telling_line(broken, UNSEEN))
            names = course.folder.under_way()
            _alone(course, [each for each in left if each.run in names] or left[:1])
            left = course.unsettled(left)
        elif left:
            for each in left:
                course.fail(each.run, "its task ended without a word")
            left = []


def _refuse_other_code(folder: Folder) -> None:
    """One worker with other code refuses the sweep, also where Spark found another worker for its
    run. Runs that workers with the driver's code finished are kept.
    """
    refused = folder.refusals()
    if refused:
        raise OtherCode(refused[0])


def _together(course: Course, runs: Sequence[Planned]) -> BaseException | None:
    """One job, one task for each run; what broke the job, or None."""
    work = carry_out(runs, course.folder, course.workloads, course.origin, course.rule)
    tasks = course.spark.range(0, len(runs), 1, len(runs)).mapInArrow(work, tables.schema(ATTEMPT))

    def collected() -> None:
        with described(course.spark, f"implicast: {len(runs)} runs of {course.folder.experiment}"):
            course.errors.update(
                {row["run"]: row["error"] for row in tasks.collect() if row["error"] is not None}
            )

    look_s = LOOK_S if course.folder.place.local is not None else LOOK_FAR_S
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(collected)
        left = list(runs)
        while left:
            done = bool(wait_for([job], look_s).done)
            left = course.show(left)
            if done:
                break
        return job.exception()


def _alone(course: Course, runs: Sequence[Planned]) -> None:
    """A job for each of these: whichever breaks its job is the one to blame."""
    for each in runs:
        work = carry_out([each], course.folder, course.workloads, course.origin, course.rule)
        try:
            rows = course.spark.range(1).mapInArrow(work, tables.schema(ATTEMPT)).collect()
            course.errors.update(
                {row["run"]: row["error"] for row in rows if row["error"] is not None}
            )
        except (
            Exception
        ) as died:  # whatever Spark raises: the worker is gone, or the job was refused
            course.fail(each.run, f"the worker died: {_telling_line(died)}")
        course.show([each])


def _telling_line(error: BaseException, *words: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    marks = words or ("exited unexpectedly", "Error", "Exception")
    telling = [line for line in lines if any(mark in line for mark in marks)]
    line = (telling or lines or [type(error).__name__])[0]
    return line.rpartition("LabError: ")[2][:400]
