"""One table of several measures: a row for each series, or for each series at each point of the
axis.
"""

from collections.abc import Sequence
from typing import Any

from implicast.lab.report.figures import by_series, looks_of, meaning_of

Row = dict[str, Any]
UNKNOWN = "-"
"""Where a measure was not taken: of upkeep at rest, because rest was too short."""

NOISE = 1e-9
"""A smaller share of the mean is what adding up in floating point leaves of values that are all the
same.
"""


def overview(rows: Sequence[Row], columns: Sequence[str]) -> Row | None:
    """The table of these measures; None when there are none."""
    mine = [row for row in rows if row["measure"] in columns]
    if not mine:
        return None
    points = sorted({(row["position"], row["point_label"]) for row in mine})
    cells = {(row["series"], row["point_label"], row["measure"]): cell(row) for row in mine}
    looks = looks_of(by_series(mine))
    body = [
        {
            "series": series,
            "colour": looks[series].colour,
            "point": point,
            "cells": [cells.get((series, point, name), UNKNOWN) for name in columns],
        }
        for series in by_series(mine)
        for _, point in points
        if any((series, point, name) in cells for name in columns)
    ]
    meanings = {name: meaning_of(name) for name in columns}
    return {"columns": meanings, "axis": mine[0]["axis"] if len(points) > 1 else "", "rows": body}


def cell(row: Row) -> str:
    """Mean, and half of its 95 % interval where there is one."""
    mean = row["mean"]
    half = 0.0 if row["high"] is None else row["high"] - mean
    half = half if half > NOISE * abs(mean) else 0.0
    text = f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.4g}"
    return text + (f" ± {half:,.0f}" if half >= 10 else f" ± {half:.2g}" if half else "")
