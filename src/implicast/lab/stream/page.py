"""The page of a stream: one figure and one table for each run, read again by the browser as they
change.
"""

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import jinja2
import pyarrow as pa

from implicast.lab.report.palette import COLOURS, OTHER_COLOUR

SHOWN = 60
"""Minutes of a run that are shown, the newest."""
WIDTH, HEIGHT = 720, 120
LINES = (
    ("deliveries", "deliveries a minute"),
    ("latency_ms_p99", "p99 latency, ms"),
    ("out_G", "unevenness (Gini)"),
)


def page(minutes: pa.Table, totals: pa.Table, every_s: float, open_s: float) -> str:
    """The whole page, with nothing from outside."""
    rows = minutes.to_pylist()
    runs = []
    for total in totals.to_pylist():
        mine = [
            row for row in rows if (row["design"], row["run"]) == (total["design"], total["run"])
        ][-SHOWN:]
        figures = [
            _figure(mine, name, label, COLOURS.get(total["design"], OTHER_COLOUR))
            for name, label in LINES
        ]
        runs.append(
            {"total": total, "minutes": [_shown(row) for row in reversed(mine)], "figures": figures}
        )
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = files("implicast.lab.stream").joinpath("page.html").read_text()
    style = files("implicast.lab.report").joinpath("style.css").read_text()
    return environment.from_string(text).render(
        runs=runs, every_s=max(5, int(every_s)), open_s=open_s, style=style
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    when = datetime.fromtimestamp(row["minute_us"] / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    return {**row, "when": when}


def _figure(rows: list[dict[str, Any]], name: str, label: str, stroke: str) -> dict[str, Any]:
    """A line through the minutes, as points of a drawing."""
    values = [float(row[name] or 0) for row in rows]
    top = max(values, default=0.0) or 1.0
    step = WIDTH / max(1, len(values) - 1)
    points = " ".join(
        f"{place * step:.1f},{HEIGHT * (1 - value / top):.1f}" for place, value in enumerate(values)
    )
    return {
        "label": label,
        "points": points,
        "top": f"{top:,.4g}",
        "stroke": stroke,
        "alone": len(values) == 1,
    }
