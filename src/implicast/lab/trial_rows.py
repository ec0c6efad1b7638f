"""Trials of overlays as single rows of numbers, for experiments that name one of them in `trial`."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from implicast.trials.attacks import table_row
from implicast.trials.condcast import ages_and_calls, traffic_by_width
from implicast.trials.condcast_flows import ages

Row = dict[str, float]


def condcast_traffic(
    kind: str, width: int, by_key: bool = False, nodes: int = 100, casts: int = 200, seed: int = 1
) -> Row:
    """Messages of casts to a range of values, in all and per node."""
    row = _numbers(traffic_by_width(nodes, casts, seed, (width,), (kind,), by_key)[0])
    return {key: row[key] for key in ("messages", "messages_per_node")}


def condcast_age(nodes: int, flows: int, changes: int = 10, seed: int = 1) -> Row:
    """How long until a change is in every table, beside the estimate E, and what was missed until
    then.
    """
    rows = ages(nodes, flows, changes, seed)
    return {
        "age_mean_s": fmean(row["age_s"] for row in rows),
        "age_max_s": max(row["age_s"] for row in rows),
        "age_formula_s": rows[0]["age_formula_s"],
        "missed_while_stale": sum(row["missed"] for row in rows),
        "missed_once_visible": sum(row["missed_after"] for row in rows),
        "bystanders_missed": sum(row["bystanders_missed"] for row in rows),
    }


def condcast_formulas(nodes: int, period_s: float, hold_s: float = 2.0, alpha: float = 0.2) -> Row:
    """With as many flows as are needed: the age E of aggregates and getEnt calls until a change is
    everywhere.
    """
    return _numbers(ages_and_calls([nodes], period_s, hold_s, alpha)[0])


def attacks(name: str, f: float, peers: int = 128, casts: int = 8, seed: int = 1) -> Row:
    """What a design loses to a share of liars, under every strategy; how soon they are noticed,
    where any is.
    """
    row = table_row(name, f, peers, casts, seed)
    never = {
        key.replace("share", "s")
        for key, value in row.items()
        if key.startswith("noticed_share") and not value
    }
    return {key: value for key, value in row.items() if key not in never}


def _numbers(row: Mapping[str, Any]) -> Row:
    """Of a row the numbers alone; truths are not numbers."""
    return {
        key: value
        for key, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
