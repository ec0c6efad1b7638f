"""From finished runs to the tables of their folder: what is new is measured or taken from outcomes,
once.

Most runs were measured by the task that made them, and their rows are in their outcomes. The
others, large ones, are measured together on Spark. Each run's
measures are compared with those that the world took itself, in other code; where they differ is
noted with the run.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from implicast.lab import dataset, tables
from implicast.lab.errors import TableError
from implicast.lab.folder import Folder, Noted
from implicast.lab.installed_code import CodeRule
from implicast.lab.journals import JournalSource
from implicast.lab.measures.all import measured
from implicast.lab.plan import Planned

Said = Callable[[str], None]
Rows = dict[str, list[dict[str, Any]]]
PLACED = ("design", "series", "axis", "position", "seed")
"""Columns of a run that follow from the plan, and change with it; besides them its point."""


def collect(
    spark: SparkSession,
    planned: Sequence[Planned],
    folder: Folder,
    said: Said,
    mixed_code: bool = False,
) -> None:
    """Bring the folder's tables up to date with its finished runs. `mixed_code`: workers may run
    other code than the driver.
    """
    known = {row["run"]: row for row in dataset.load(folder, "runs").to_pylist()}
    there = {run for run, row in known.items() if row["error"] is None}
    fresh = folder.read_outcomes(folder.finished() - there)
    found = _of_outcomes(fresh)
    left = [
        run
        for run, each in fresh.items()
        if not each["planned"]["trial"] and each["measured"] is None
    ]
    if left:
        said(f"measuring {len(left)} runs on Spark")
        sources = [JournalSource(run, folder.place, folder.experiment) for run in left]
        more = measured(spark, sources, said, CodeRule.here(mixed_code))
        for row in more["rejected"].to_pylist():
            raise TableError(f"the journal of {row['run']} cannot be measured: {row['reason']}")
        found = _together(found, more)
    for name, table in found.items():
        if len(table):
            dataset.extend(folder, name, table)
    differing = _differing(found, fresh)
    rows = _rows(planned, folder, known, fresh, differing)
    dataset.store(folder, "runs", pa.Table.from_pylist(rows, tables.RUNS).sort_by("run"))


def _of_outcomes(fresh: Mapping[str, Noted]) -> dict[str, pa.Table]:
    """The rows that workers noted, by table."""
    rows: Rows = {name: [] for name in dataset.MEASURED}
    for run, noted in fresh.items():
        if noted["planned"]["trial"]:
            rows["trials"] += [
                {"run": run, "measure": each, "value": value}
                for each, value in noted["measures"].items()
            ]
        for name, mine in (noted["measured"] or {}).items():
            rows[name] += [{"run": run, **row} for row in mine]
    return {name: pa.Table.from_pylist(mine, dataset.SCHEMAS[name]) for name, mine in rows.items()}


def _together(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {
        name: pa.concat_tables([table, other[name]]) if name in other else table
        for name, table in one.items()
    }


def _rows(
    planned: Sequence[Planned],
    folder: Folder,
    known: Mapping[str, dict[str, Any]],
    fresh: Mapping[str, Noted],
    differing: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The table of runs: what is planned as the plan has it, and what is there besides as it was."""
    asked = {each.run: each for each in planned}
    rows = {
        run: row | {"planned": False}
        for run, row in known.items()
        if run not in asked and row["error"] is None
    }
    for run, noted in fresh.items():
        rows[run] = _finished(Planned(**noted["planned"]), noted) | {
            "differs": differing.get(run),
            "planned": False,
        }
    for run, each in asked.items():
        there = rows.get(run) or known.get(run)
        if there is None or there["error"] is not None:
            there = _described(each) | {"error": folder.error(run), "command": _command(each)}
        rows[run] = there | _placed(each) | {"planned": True}
    return list(rows.values())


def _placed(planned: Planned) -> dict[str, Any]:
    return {
        **{name: getattr(planned, name) for name in PLACED},
        "point": dataset.number(planned.point),
        "point_label": planned.point,
    }


def _described(planned: Planned) -> dict[str, Any]:
    settings = json.loads(planned.settings)
    return {
        "run": planned.run,
        **_placed(planned),
        "network": settings.get("network", "flat"),
        "workload": settings.get("workload", "zipf"),
        "peers": settings.get("peers"),
        "casts": settings.get("casts"),
        "scenario": planned.settings,
    }


def _finished(planned: Planned, noted: Noted) -> dict[str, Any]:
    carried = {
        name: noted.get(name)
        for name in (
            "command",
            "commit",
            "version",
            "code",
            "host",
            "finished_utc",
            "seconds",
            "cpu_s",
            "peak_mb",
            "rows",
        )
    }
    by = None if planned.trial else "spark" if noted["measured"] is None else "task"
    return (
        _described(planned)
        | carried
        | {"error": None, "messages": sum(noted["messages"].values()), "measured_by": by}
    )


def _command(planned: Planned) -> str:
    return planned.trial or planned.scenario().command()


def _differing(found: Mapping[str, pa.Table], fresh: Mapping[str, Noted]) -> dict[str, str]:
    """Run -> where its measures are not those that the world took itself."""
    differing: dict[str, str] = {}
    for name, own in (("measures", "measures"), ("change", "change")):
        for row in found[name].to_pylist():
            taken = fresh[row["run"]].get(own) or {}
            off = [
                each
                for each, value in taken.items()
                if each in row and _number(value) and not _same(row[each], value)
            ]
            if off:
                differing[row["run"]] = f"{off[0]} is {row[off[0]]} here and {taken[off[0]]} there"
    return differing


def _number(value: object) -> bool:
    return value is None or (isinstance(value, float | int) and not isinstance(value, bool))


def _same(one: float | None, other: float | None) -> bool:
    """None is what was not measured."""
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
