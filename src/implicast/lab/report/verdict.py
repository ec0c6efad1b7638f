"""Was the contract kept? In a sentence, and in counts for each series."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from implicast.lab import tables
from implicast.lab.report import palette
from implicast.lab.run import broken_runs, disagreements

Row = dict[str, Any]


def verdict(out: Path, runs: Sequence[Row]) -> Row:
    """All that the page says of the contract."""
    failures = [row for row in runs if row["error"] is not None]
    done = {row["run"]: row for row in runs if row["error"] is None}
    judged = [row for row in _rows(out, "contract") if row["run"] in done]
    changed = [row for row in _rows(out, "change") if row["run"] in done]
    by_series: dict[str, Row] = {}
    for row in judged:
        _add(by_series, done[row["run"]], row)
    broken = broken_runs(out, done)
    in_order = sorted(by_series.values(), key=lambda row: palette.rank(row["series"], row["design"]))
    return {
        "contract": in_order, "contract_names": list(tables.CONTRACT), "contract_meanings": tables.CONTRACT,
        "broken": tuple(name for name in tables.BROKEN if name != "missing") if changed else tables.BROKEN,
        "kept": not broken and not failures, "changed": bool(changed),
        "verdict": _sentence(len(judged), len(changed), len(broken), len(failures)),
        "failures": failures, "finished": len(done), "planned": len(runs), "seeds": len({row["seed"] for row in runs}),
        "agreement": _agreement(out) if judged else "",
    }  # fmt: skip


def _rows(out: Path, name: str) -> list[Row]:
    rows: list[Row] = pq.read_table(out / name).to_pylist() if (out / name).is_dir() else []
    return rows


def _add(by_series: dict[str, Row], run: Row, judged: Row) -> None:
    series = by_series.setdefault(
        run["series"],
        {
            "series": run["series"],
            "design": run["design"],
            "colour": palette.colour(run["design"]),
            "runs": 0,
            **dict.fromkeys(tables.CONTRACT, 0),
        },
    )
    series["runs"] += 1
    for name in tables.CONTRACT:
        series[name] += judged[name]


def _sentence(judged: int, changed: int, broken: int, failed: int) -> str:
    failures = f" {failed} runs failed; they are listed below." if failed else ""
    if not judged:
        return f"This experiment tries a part of the system alone; there are no casts to judge.{failures}"
    if broken:
        return f"Broken in {broken} of {judged} runs.{failures}"
    if changed:
        kept = (
            f"Kept in all {judged} finished runs: nobody told twice, uninvited or of what nobody cast, at any time; "
            "everything repaired in time, and nobody missed once it was."
        )
        return kept + failures
    return f"Kept in all {judged} finished runs: nobody missed, nobody told twice, nobody told uninvited.{failures}"


def _agreement(out: Path) -> str:
    off = disagreements(out)
    if off:
        return f"Measures taken by Spark and by the world itself differ in {len(off)} places, first: {off[0]}."
    return "Every measure was taken twice, by Spark from the journals and by the world itself; all agree."
