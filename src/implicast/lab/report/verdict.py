"""Was the contract kept? In a sentence, and in counts for each series."""

from collections.abc import Sequence
from typing import Any

from implicast.lab import dataset, tables
from implicast.lab.folder import Folder
from implicast.lab.report import palette
from implicast.lab.run import broken_runs, disagreements

Row = dict[str, Any]


def verdict(folder: Folder, runs: Sequence[Row]) -> Row:
    """All that the page says of the contract."""
    failures = [row for row in runs if row["error"] is not None]
    done = {row["run"]: row for row in runs if row["error"] is None}
    judged = [row for row in dataset.load(folder, "contract").to_pylist() if row["run"] in done]
    changed = [row for row in dataset.load(folder, "change").to_pylist() if row["run"] in done]
    by_series: dict[str, Row] = {}
    for row in judged:
        _add(by_series, done[row["run"]], row)
    broken = broken_runs(folder, list(done))
    in_order = sorted(
        by_series.values(), key=lambda row: palette.rank(row["series"], row["design"])
    )
    looks = palette.looks((row["series"], row["design"]) for row in in_order)
    in_order = [{**row, "colour": looks[row["series"]].colour} for row in in_order]
    return {
        "contract": in_order,
        "contract_names": list(tables.CONTRACT),
        "contract_meanings": tables.CONTRACT,
        "broken": tuple(name for name in tables.BROKEN if name != "missing")
        if changed
        else tables.BROKEN,
        "kept": not broken and not failures,
        "changed": bool(changed),
        "verdict": _sentence(len(judged), len(changed), len(broken), len(failures)),
        "failures": failures,
        "finished": len(done),
        "planned": len(runs),
        "seeds": len({row["seed"] for row in runs}),
        "agreement": _agreement(folder) if judged else "",
    }


def _add(by_series: dict[str, Row], run: Row, judged: Row) -> None:
    series = by_series.setdefault(
        run["series"],
        {
            "series": run["series"],
            "design": run["design"],
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
            f"Kept in all {judged} finished runs: no member was notified twice, "
            "uninvited or of an invented cast, at any time; everything repaired in time, and no "
            "member was missed afterwards."
        )
        return kept + failures
    return f"Kept in all {judged} finished runs: no member missed, none notified twice, none uninvited.{failures}"


def _agreement(folder: Folder) -> str:
    off = disagreements(folder)
    if off:
        return f"Measures taken from the journals and by the world itself differ in {len(off)} runs, first: {off[0]}."
    return "Every measure was taken twice, from the journals and by the world itself; all agree."
