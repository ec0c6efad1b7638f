"""What a worker does with one run: make a world, run it, measure a small journal, put all in place,
say it is done.

The journal is written on the worker's own disk (or beside the results, where those are on a disk)
under a name that no other attempt has. When it is whole its tables are put in their places, and
last comes the outcome, which makes the run a finished one. A run that breaks down becomes a file
with its error.
"""

import gc
import json
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from implicast.lab.errors import LabError
from implicast.lab.folder import Folder, Noted
from implicast.lab.installed_code import CodeRule, OtherCode
from implicast.lab.journals import JournalSource
from implicast.lab.measures import small
from implicast.lab.plan import Planned
from implicast.lab.storage import Location
from implicast.world.simulate import simulate

ATTEMPT = pa.schema([("run", pa.string()), ("seconds", pa.float64()), ("error", pa.string())])
UNSEEN = "does not see"
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def carry_out(
    runs: Sequence[Planned],
    folder: Folder,
    workloads: Mapping[str, str],
    origin: Mapping[str, str],
    rule: CodeRule,
) -> Work:
    """What a worker does with the numbers of runs that it is given; `origin` is where the driver's
    code comes from, `rule` says which code a worker may run.
    """
    tasks = [json.dumps(asdict(each)) for each in runs]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _see(folder)
        # pyspark's workers collect garbage after every task: 0.12 s to walk through modules, for
        # nothing
        gc.freeze()
        for batch in batches:
            for number in batch["id"].to_pylist():
                planned = Planned(**json.loads(tasks[number]))
                begun = time.perf_counter()
                own = _own_code(folder, origin, rule)
                error = attempt(planned, folder, workloads.get(planned.run), own)
                yield pa.record_batch(
                    [[planned.run], [time.perf_counter() - begun], [error]], schema=ATTEMPT
                )

    return work


def _see(folder: Folder) -> None:
    """Driver and workers must mean the same place: a path of one machine is another folder on the
    next.
    """
    if not (folder.place / "lab.json").is_file():
        raise LabError(
            f"the worker on {socket.gethostname()} {UNSEEN} {folder.place}: name a place that all machines reach, "
            f"such as s3://bucket/name or a mounted folder"
        )


def _own_code(folder: Folder, origin: Mapping[str, str], rule: CodeRule) -> dict[str, Any]:
    """What the run says of the code that made it. A worker that may not take part says so in the
    folder, since Spark would only try another one.
    """
    try:
        mine = rule.check()
    except OtherCode as other:
        folder.refuse(socket.gethostname(), str(other))
        raise
    same = not mine.differs_from(rule.driver)
    return {**origin, "commit": origin.get("commit") if same else None} | {
        "host": mine.host,
        "code": mine.digest,
        "installed": asdict(mine),
    }


def attempt(
    planned: Planned, folder: Folder, workload: str | None, own: Mapping[str, Any]
) -> str | None:
    """Try one run; what went wrong, or None. A failure is noted, unless there is no room even for
    that.
    """
    mark = folder.begun / f"{planned.run}.json"
    scratch = folder.scratch(planned.run)
    try:
        mark.write(b"{}\n")
        _run(planned, folder, scratch, workload, own)
        return None
    except (
        Exception
    ) as error:  # a bug of a design, a full disk: it becomes a row, the sweep goes on
        reason = f"{type(error).__name__}: {error}"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            folder.fail(planned.run, reason)
        except OSError:
            return reason  # the driver knows it from this row
        return reason
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with suppress(OSError):  # what is left of it is swept up by the next sweep
            mark.remove()


def _run(
    planned: Planned, folder: Folder, scratch: Path, workload: str | None, own: Mapping[str, Any]
) -> None:
    begun, used = time.perf_counter(), time.process_time()
    journal = scratch / "journal"
    if planned.trial:
        with _fetched(workload) as stated:
            outcome = trial(planned, stated)
    else:
        scratch.mkdir(parents=True)
        with _fetched(workload) as stated:
            outcome = _simulated(planned, journal, stated)
        outcome["measured"] = _measured(journal, outcome["rows"])
        for table in sorted(journal.glob("*.parquet")):
            folder.journal(table.stem, planned.run).take(table)
    outcome |= {
        "planned": asdict(planned),
        **own,
        "finished_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - used,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    folder.note(planned.run, outcome)


@contextmanager
def _fetched(workload: str | None) -> Iterator[str | None]:
    """A run's workload on this machine's disk, where it has one of its own."""
    with tempfile.TemporaryDirectory(prefix="implicast-workload-") as copied:
        yield None if workload is None else str(Location.of(workload).fetch(Path(copied)))


def _simulated(planned: Planned, journal: Path, stated: str | None) -> Noted:
    scenario = planned.scenario(stated)
    outcome = simulate(scenario, journal)
    rows = sum(
        pq.read_metadata(journal / f"{name}.parquet").num_rows for name in ("sends", "notices")
    )
    ran = json.loads((journal / "scenario.json").read_text())
    return {**outcome.described(), "command": scenario.command(), "scenario": ran, "rows": rows}


def _measured(journal: Path, rows: int) -> Noted | None:
    """What was measured here and now; large journals are left to Spark."""
    source = JournalSource("", Location.of(journal))
    return small.measured(source.read, source.changed()) if small.is_small(rows) else None


def trial(planned: Planned, stated: str | None = None) -> Noted:
    """A trial of another kind: a function of settings by name, with its seed, that returns a row of
    numbers by name.

    `stated`: the directory of its workload, where that had to be made first.
    """
    module, _, name = planned.trial.partition(":")
    function = getattr(import_module(module), name)
    settings = json.loads(planned.settings) | ({} if stated is None else {"workload": stated})
    taken = {key: value for key, value in settings.items() if key in signature(function).parameters}
    row: Mapping[str, Any] = function(**taken)
    command = f"{name}({', '.join(f'{key}={value!r}' for key, value in taken.items())}) of {module}"
    return {
        "measures": _numbers(row, settings),
        "messages": {},
        "command": command,
        "rows": 0,
        "measured": None,
    }


def _numbers(row: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, float]:
    """What a row says beyond the settings it was made from."""
    said = {
        key: value
        for key, value in row.items()
        if key not in settings and not isinstance(value, bool)
    }
    return {key: float(value) for key, value in said.items() if isinstance(value, int | float)}
