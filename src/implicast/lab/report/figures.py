"""Figures from the summary and Lorenz tables: measures over the axis with confidence bands, and who bears the load.

Drawn with matplotlib as SVG with real text, so that they can be searched, read aloud and scaled. A figure knows its
own alternative text.
"""

import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullFormatter

from implicast.lab.experiment import Axis, Figure
from implicast.lab.report import palette
from implicast.lab.tables import CHANGE, MEASURES

Row = dict[str, Any]
SIZE_INCHES = (6.4, 4.0)
TITLE_LETTERS = 40
"""Letters in one line of a title above a square figure."""
WORDS_ABREAST = 30
"""Letters of labels that fit side by side below a figure."""
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "implicast", "font.family": "sans-serif", "font.size": 10.5,
    "axes.edgecolor": palette.INK, "axes.labelcolor": palette.INK, "text.color": palette.INK,
    "xtick.color": palette.INK, "ytick.color": palette.INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": palette.GRID, "grid.linewidth": 0.6, "axes.titleweight": "bold",
    "axes.titlesize": 11.5, "axes.titlelocation": "left", "legend.frameon": False, "legend.fontsize": 9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure: its name for a file, its caption, what it shows in words, and the SVG."""

    name: str
    caption: str
    alternative: str
    svg: str


def measure_figure(rows: Sequence[Row], asked: Figure, axis: Axis) -> Drawn | None:
    """One measure over the axis, a line with its 95 % band for each series; None when nothing was measured."""
    mine = [row for row in rows if row["measure"] == asked.measure]
    if not mine:
        return None
    series = by_series(mine)
    points = _points(mine)
    numeric = all(_is_number(point) for point in points)
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of()
        for name, of_series in series.items():
            _line(axes, name, of_series, points, numeric, list(series))
        for of_series in by_series([row for row in rows if row["measure"] == asked.formula]).values():
            _formula(axes, of_series, points, numeric)
        _scales(axes, asked, axis, points, numeric, mine)
        meaning = asked.title or meaning_of(asked.measure)
        axes.set_title(asked.measure)
        legend(axes, len(series))
        svg = svg_of(canvas)
    caption = f"{asked.measure}: {meaning}. Mean and 95 % confidence interval over seeds."
    caption += f" Dotted: {asked.formula}, by formula." if asked.formula else ""
    return Drawn(asked.measure.lower(), caption, _alternative(asked.measure, series, axis), svg)


def lorenz_figure(curves: Sequence[Row], load: str, label: str) -> Drawn | None:
    """Lorenz curves of a load, one for each series, under the line of equality."""
    mine = [row for row in curves if row["load"] == load]
    if not mine:
        return None
    series = by_series(mine)
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of(square=True)
        axes.plot([0, 1], [0, 1], color=palette.INK, linewidth=0.8, linestyle="dotted")
        for name, of_series in series.items():
            design = of_series[0]["design"]
            ordered = sorted(of_series, key=lambda row: (row["share_of_peers"], row["share_of_load"]))
            axes.plot(
                [row["share_of_peers"] for row in ordered], [row["share_of_load"] for row in ordered], label=name,
                color=palette.colour(design), linestyle=palette.dash(name, design, list(series)), linewidth=1.8,
            )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of peers, least loaded first", ylabel=f"share of {load}")
        axes.set_title(fill(f"{load} over peers, {label}", TITLE_LETTERS))
        legend(axes, len(series))
        svg = svg_of(canvas)
    halves = "; ".join(
        f"{name}: the busiest tenth of peers bears {_busiest(rows):.0%}" for name, rows in series.items()
    )
    caption = f"Lorenz curves of {load} at {label}: the further below the diagonal, the less fair."
    return Drawn(f"lorenz_{load.lower()}", caption, f"{caption} {halves}.", svg)


def _busiest(rows: Sequence[Row]) -> float:
    below = [row["share_of_load"] for row in rows if row["share_of_peers"] <= 0.9]
    return 1 - max(below, default=0.0)


def by_series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: palette.rank(row["series"], row["design"])):
        found[row["series"]].append(row)
    return dict(found)


def _points(rows: Sequence[Row]) -> list[str]:
    return [point for _, point in sorted({(row["position"], row["point"]) for row in rows})]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def canvas_of(square: bool = False) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=(4.6, 4.6) if square else SIZE_INCHES, layout="constrained")
    return canvas, canvas.add_subplot()


def _line(
    axes: Axes, name: str, rows: Sequence[Row], points: Sequence[str], numeric: bool, everyone: list[str]
) -> None:
    ordered = sorted(rows, key=lambda row: row["position"])
    if not numeric:
        _marks(axes, name, ordered, points, everyone)
        return
    x = [float(row["point"]) for row in ordered]
    design = ordered[0]["design"]
    shade = palette.colour(design)
    axes.plot(
        x, [row["mean"] for row in ordered], label=name, color=shade, marker=palette.mark(design), markersize=5,
        linestyle=palette.dash(name, design, everyone), linewidth=1.6,
    )  # fmt: skip
    axes.fill_between(
        x, [row["low"] for row in ordered], [row["high"] for row in ordered], color=shade, alpha=0.13, linewidth=0
    )


def _marks(axes: Axes, name: str, rows: Sequence[Row], points: Sequence[str], everyone: list[str]) -> None:
    """Words have no order to draw a line along: marks side by side, with their intervals."""
    design, means = rows[0]["design"], [row["mean"] for row in rows]
    aside = 0.7 * ((everyone.index(name) + 0.5) / len(everyone) - 0.5)
    axes.errorbar(
        [points.index(row["point"]) + aside for row in rows], means, yerr=spread(rows), label=name, linestyle="none",
        color=palette.colour(design), marker=palette.mark(design), markersize=5, elinewidth=0.9, capsize=2,
    )  # fmt: skip


def spread(rows: Sequence[Row], seeds: int = 0) -> list[list[float]]:
    """How far intervals reach below and above the means; not a number, so that nothing is drawn, with fewer seeds."""
    below = [row["mean"] - row["low"] if row["runs"] >= seeds else nan for row in rows]
    above = [row["high"] - row["mean"] if row["runs"] >= seeds else nan for row in rows]
    return [below, above]


def _formula(axes: Axes, rows: Sequence[Row], points: Sequence[str], numeric: bool) -> None:
    ordered = sorted(rows, key=lambda row: row["position"])
    x = [float(row["point"]) if numeric else points.index(row["point"]) for row in ordered]
    y = [row["mean"] for row in ordered]
    axes.plot(x, y, color=palette.colour(ordered[0]["design"]), linestyle="dotted", linewidth=1.4)


def _scales(axes: Axes, asked: Figure, axis: Axis, points: Sequence[str], numeric: bool, rows: Sequence[Row]) -> None:
    # The means set the range: with few seeds a band may be wider than everything else, and is then cut off.
    means = [row["mean"] for row in rows]
    positive = [mean for mean in means if mean > 0]
    if asked.log and positive:
        axes.set_yscale("log")
        axes.set_ylim(min(positive) / 1.6, max(positive) * 1.6)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(*range_of(asked.measure, means))
    if axis.log and numeric and all(float(point) > 0 for point in points):
        axes.set_xscale("log")
    places = [float(point) for point in points] if numeric else list(range(len(points)))
    crowded = not numeric and sum(map(len, points)) > WORDS_ABREAST
    axes.set_xticks(places, points, rotation=25 if crowded else 0, ha="right" if crowded else "center")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set_xlabel(axis.title)
    axes.set_ylabel(unit_of(asked.measure))


def range_of(measure: str, means: Sequence[float]) -> tuple[float, float]:
    """From zero; but of ratios that are nearly one only the end is worth looking at."""
    if measure.startswith("delivery_ratio"):
        lost = max(0.01, (1 - min(means)) * 1.15)
        return max(0.0, 1 - lost), 1 + lost / 25
    return 0.0, 1.02 if measure.endswith("_G") else max(means) * 1.15 or 1.0


def unit_of(measure: str) -> str:
    """What is written along an axis of this measure."""
    if measure.endswith("_G"):
        return "Gini coefficient (0 fair, 1 unfair)"
    if measure in CHANGE:
        return _CHANGE_UNITS.get(measure, "count")
    units = {
        "latency": "milliseconds",
        "STOR": "bytes",
        "PINK": "packets",
        "TINK": "packets",
        "R": "ratio to one server",
    }
    if measure.endswith(("_messages", "_bytes")):
        return f"{measure.rpartition('_')[2]} per peer"
    return next(
        (unit for start, unit in units.items() if measure.startswith(start)),
        "messages" if measure.isupper() else measure,
    )


_CHANGE_UNITS = {
    "delivery_ratio": "share of what was due", "delivery_ratio_after": "share of what was due",
    "wrong": "notifications", "late": "notifications", "late_share": "share of notifications",
    "repair_s_median": "seconds", "repair_s_max": "seconds", "settle_s_max": "seconds", "unrepaired": "deeds",
    "upkeep_per_peer_minute": "messages per peer and minute", "upkeep_at_rest": "messages per peer and minute",
    "storm": "busiest second / mean second",
}  # fmt: skip


def meaning_of(measure: str) -> str:
    """What a measure means, in words."""
    known = MEASURES.get(measure) or CHANGE.get(measure)
    return known or _cost_meaning(measure)


def _cost_meaning(measure: str) -> str:
    phase, _, what = measure.rpartition("_")
    return f"{what} that the phase {phase} costs, per peer" if what in ("messages", "bytes") else measure


def legend(axes: Axes, series: int) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), ncols=1 if series <= 16 else 2)


def _alternative(measure: str, series: dict[str, list[Row]], axis: Axis) -> str:
    """What the figure shows, in words."""
    told = []
    for name, rows in series.items():
        ordered = sorted(rows, key=lambda row: row["position"])
        first, last = ordered[0], ordered[-1]
        told.append(f"{name} from {first['mean']:.3g} at {first['point']} to {last['mean']:.3g} at {last['point']}")
    return f"{measure} by {axis.title}. " + "; ".join(told) + "."


def svg_of(canvas: Canvas) -> str:
    written = io.StringIO()
    canvas.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return written.getvalue()
