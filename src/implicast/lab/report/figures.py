"""Figures from the summary and Lorenz tables: measures over the axis with confidence bands, and who
bears the load.

Drawn with matplotlib as SVG with real text, so that they can be searched, read aloud and scaled. A
figure knows its own alternative text, and each of its points shows its value to a reader who points at
it. Series that are the same at every point are drawn as one, with both names.
"""

import io
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import count
from math import nan
from textwrap import fill
from typing import Any
from xml.sax.saxutils import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from implicast.lab.experiment import Axis, Figure
from implicast.lab.report import palette
from implicast.lab.tables import CHANGE, COSTS, MEASURES

Row = dict[str, Any]
SIZE_INCHES = (6.4, 4.0)
TITLE_LETTERS = 40
"""Letters in one line of a title above a square figure."""
SEEDS = 3
"""Fewer give no interval worth seeing: that of two is twelve times as wide as they lie apart."""
BANDS_MAX = 8
"""With more series their bands hide each other, and the tables tell the intervals."""
WIDE_TITLE_LETTERS = 58
LABEL_LETTERS = 24
"""Letters in one line of a legend."""
LEGEND_POINTS, LINE = 9.0, 1.25
"""The size of a legend's letters where there is room, and the height of a line in such sizes."""
TITLES = {
    "POUT_M": "The busiest peer of a cast: messages it sent for others",
    "TOUT_M": "The busiest peer: messages it sent for others in all",
    "TOUT_G": "How unevenly sending for others is spread",
    "TIN_M": "The busiest peer: messages it received for others",
    "TIN_G": "How unevenly receiving for others is spread",
    "STOR_M": "The fullest peer: bytes it keeps for others",
    "STOR_G": "How unevenly what is kept is spread",
    "RTH": "Messages of a cast, against one server",
    "RAH": "Hops to a member, against one server",
    "RMH": "Hops to the furthest member, against one server",
    "latency_ms_mean": "From cast to member, mean",
    "latency_ms_p99": "From cast to member, all but the slowest hundredth",
    "register_messages": "What registering costs",
    "repair_s_median": "From a failure until all is well again, median",
    "repair_s_max": "From a failure until all is well again, longest",
}
"""In words, for those who do not know the codes; others have their meanings for a title."""
BORNE = {"TOUT": "sending for others", "TIN": "receiving for others", "STOR": "storing"}
"""Loads of Lorenz curves, in words."""
DECADES = 50
"""Logarithmic axes that span less have marks at 2 and 5 too."""
WORDS_ABREAST = 30
"""Letters of labels that fit side by side below a figure."""
SAYS = "says: "
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "implicast",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.edgecolor": palette.INK,
    "axes.labelcolor": palette.INK,
    "text.color": palette.INK,
    "xtick.color": palette.INK,
    "ytick.color": palette.INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.6,
    "axes.titleweight": "bold",
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure: its name for a file, its caption, what it shows in words, and the SVG."""

    name: str
    caption: str
    alternative: str
    svg: str


def measure_figure(rows: Sequence[Row], asked: Figure, axis: Axis) -> Drawn | None:
    """One measure over the axis, a line with its 95 % band for each series; None when nothing was
    measured.
    """
    mine = [row for row in rows if row["measure"] == asked.measure]
    if not mine:
        return None
    apart = by_series(mine)
    series = merged(apart)
    looks = _looks(apart, series)
    points, formulas = _points(mine), [row for row in rows if row["measure"] == asked.formula]
    numeric = all(_is_number(point) for point in points)
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of()
        for name, of_series in series.items():
            _line(axes, name, of_series, points, numeric, looks)
        for of_series in by_series(formulas).values():
            _formula(axes, of_series, points, numeric)
        _scales(axes, asked, axis, points, numeric, [*mine, *formulas])
        meaning = (
            asked.title
            if not is_known(asked.measure) and asked.title
            else meaning_of(asked.measure)
        )
        entitle(axes, asked.title or TITLES.get(asked.measure, meaning), asked.measure)
        legend(axes)
        svg = svg_of(canvas)
    caption = f"{plainly(meaning)} ({asked.measure}). {_averaged(mine, len(series))}"
    caption += " Dotted: by formula." if asked.formula else ""
    return Drawn(asked.measure.lower(), caption, _alternative(asked.measure, series, axis), svg)


def _averaged(rows: Sequence[Row], series: int) -> str:
    """Over how many seeds, and where their spread is to be seen."""
    seeds = min(row["runs"] for row in rows)
    if seeds < SEEDS:
        return "One seed." if seeds == 1 else "Mean over seeds; two give no interval worth seeing."
    return f"Mean over seeds{', with its 95 % interval' if series <= BANDS_MAX else '; intervals are in the tables'}."


def lorenz_figure(curves: Sequence[Row], load: str, label: str) -> Drawn | None:
    """Lorenz curves of a load, one for each series, under the line of equality."""
    mine = [row for row in curves if row["load"] == load]
    if not mine:
        return None
    apart = by_series(mine)
    series = merged_curves(apart)
    looks = _looks(apart, series)
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of(square=True)
        axes.plot([0, 1], [0, 1], color=palette.INK, linewidth=0.8, linestyle="dotted")
        for name, of_series in series.items():
            look = looks[name]
            ordered = sorted(
                of_series, key=lambda row: (row["share_of_peers"], row["share_of_load"])
            )
            axes.plot(
                [row["share_of_peers"] for row in ordered],
                [row["share_of_load"] for row in ordered],
                label=name,
                color=look.colour,
                linestyle=look.dash,
                linewidth=1.8,
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="share of peers, least loaded first")
        axes.set_ylabel(f"share of {BORNE[load]}")
        axes.set_title(fill(f"Who bears {BORNE[load]}, {label}", TITLE_LETTERS))
        legend(axes)
        svg = svg_of(canvas)
    halves = "; ".join(
        f"{name}: the busiest tenth of peers bears {_busiest(rows):.0%}"
        for name, rows in series.items()
    )
    caption = f"Lorenz curves of {BORNE[load]} ({load}) at {label}: the further below the diagonal, the less fair."
    return Drawn(f"lorenz_{load.lower()}", caption, f"{caption} {halves}.", svg)


def _busiest(rows: Sequence[Row]) -> float:
    below = [row["share_of_load"] for row in rows if row["share_of_peers"] <= 0.9]
    return 1 - max(below, default=0.0)


def by_series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: palette.rank(row["series"], row["design"])):
        found[row["series"]].append(row)
    return dict(found)


def merged(series: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Those that are the same at every point, under one name."""
    return _merged(series, lambda row: (row["position"], row["mean"], row["low"], row["high"]))


def merged_curves(series: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return _merged(series, lambda row: (row["share_of_peers"], row["share_of_load"]))


def _merged(series: dict[str, list[Row]], value: Callable[[Row], Any]) -> dict[str, list[Row]]:
    same: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name, rows in series.items():
        same[tuple(sorted(map(value, rows)))].append(name)
    return {_together(names): series[names[0]] for names in same.values()}


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {', '.join(names[1:])})"


def looks_of(series: dict[str, list[Row]]) -> dict[str, palette.Look]:
    return palette.looks((name, rows[0]["design"]) for name, rows in series.items())


def _looks(apart: dict[str, list[Row]], series: dict[str, list[Row]]) -> dict[str, palette.Look]:
    """A series looks the same in every figure, whichever others are drawn as one with it there."""
    looks = looks_of(apart)
    return {name: looks[rows[0]["series"]] for name, rows in series.items()}


def entitle(axes: Axes, meaning: str, code: str) -> None:
    """What is shown, in words; its code below the axis, small."""
    axes.set_title(fill(plainly(meaning), WIDE_TITLE_LETTERS))
    below: Any = axes.xaxis.label
    axes.annotate(
        code, (0.5, -0.1), xycoords=below, ha="center", va="top", fontsize=7.5, color=palette.INK
    )


def plainly(meaning: str) -> str:
    return meaning[:1].upper() + meaning[1:]


def say(axes: Axes, x: float, y: float, what: str) -> None:
    """The text of a point for a reader who points at it, without any script: a title in the picture."""
    axes.plot(
        [x],
        [y],
        marker="o",
        markersize=11,
        alpha=0.004,
        color=palette.INK,
        gid=f"{SAYS}{what}",
        zorder=6,
    )


def _points(rows: Sequence[Row]) -> list[str]:
    return [point for _, point in sorted({(row["position"], row["point_label"]) for row in rows})]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def canvas_of(square: bool = False) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=SIZE_INCHES, layout="constrained")
    return canvas, canvas.add_subplot(box_aspect=1 if square else None)


def _line(
    axes: Axes,
    name: str,
    rows: Sequence[Row],
    points: Sequence[str],
    numeric: bool,
    looks: dict[str, palette.Look],
) -> None:
    ordered = sorted(rows, key=lambda row: row["position"])
    if not numeric:
        _marks(axes, name, ordered, points, looks)
        return
    x = [float(row["point_label"]) for row in ordered]
    look = looks[name]
    axes.plot(
        x,
        [row["mean"] for row in ordered],
        label=name,
        color=look.colour,
        marker=look.mark,
        markersize=5,
        linestyle=look.dash,
        linewidth=1.6,
        markerfacecolor="none" if look.hollow else look.colour,
    )
    for at, row in zip(x, ordered, strict=True):
        say(axes, at, row["mean"], f"{name} at {row['point_label']}: {row['mean']:.4g}")
    if len(looks) <= BANDS_MAX and all(row["runs"] >= max(2, SEEDS) for row in ordered):
        low, high = [row["low"] for row in ordered], [row["high"] for row in ordered]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.13, linewidth=0)


def _marks(
    axes: Axes,
    name: str,
    rows: Sequence[Row],
    points: Sequence[str],
    looks: dict[str, palette.Look],
) -> None:
    """Words have no order to draw a line along: marks side by side, with their intervals."""
    look, means = looks[name], [row["mean"] for row in rows]
    aside = 0.7 * ((list(looks).index(name) + 0.5) / len(looks) - 0.5)
    x = [points.index(row["point_label"]) + aside for row in rows]
    axes.errorbar(
        x,
        means,
        yerr=spread(rows, SEEDS),
        label=name,
        linestyle="none",
        color=look.colour,
        marker=look.mark,
        markersize=5,
        elinewidth=0.9,
        capsize=2,
        markerfacecolor="none" if look.hollow else look.colour,
    )
    for at, row in zip(x, rows, strict=True):
        say(axes, at, row["mean"], f"{name} at {row['point_label']}: {row['mean']:.4g}")


def spread(rows: Sequence[Row], seeds: int = 0) -> list[list[float]]:
    """How far intervals reach below and above the means; not a number, so that nothing is drawn,
    with fewer seeds or a single one.
    """
    least = max(2, seeds)
    below = [row["mean"] - row["low"] if row["runs"] >= least else nan for row in rows]
    above = [row["high"] - row["mean"] if row["runs"] >= least else nan for row in rows]
    return [below, above]


def _formula(axes: Axes, rows: Sequence[Row], points: Sequence[str], numeric: bool) -> None:
    ordered = sorted(rows, key=lambda row: row["position"])
    x = [
        float(row["point_label"]) if numeric else points.index(row["point_label"])
        for row in ordered
    ]
    y = [row["mean"] for row in ordered]
    axes.plot(x, y, color=palette.INK, linestyle="dotted", linewidth=1.4)


def _scales(
    axes: Axes, asked: Figure, axis: Axis, points: Sequence[str], numeric: bool, rows: Sequence[Row]
) -> None:
    # The means set the range: with few seeds a band may be wider than everything else, and is then
    # cut off.
    means = [row["mean"] for row in rows]
    positive = [mean for mean in means if mean > 0]
    if asked.log and positive:
        axes.set_yscale("log")
        axes.set_ylim(min(positive) / 1.6, max(positive) * 1.6)
        if max(positive) < DECADES * min(
            positive
        ):  # between powers of ten alone too little would be told
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(*range_of(asked.measure, means))
    if axis.log and numeric and all(float(point) > 0 for point in points):
        axes.set_xscale("log")
    places = [float(point) for point in points] if numeric else list(range(len(points)))
    told = [
        point.replace(",", ",\n") for point in points
    ]  # what consists of several words stands in several lines
    crowded = (
        not numeric and sum(max(map(len, point.split("\n"))) for point in told) > WORDS_ABREAST
    )
    axes.set_xticks(
        places, told, rotation=25 if crowded else 0, ha="right" if crowded else "center"
    )
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
        "latency_us": "microseconds",
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
        "messages" if measure.isupper() else measure.replace("_", " "),
    )


_CHANGE_UNITS = {
    "delivery_ratio": "share of what was due",
    "delivery_ratio_after": "share of what was due",
    "wrong": "notifications",
    "late": "notifications",
    "late_share": "share of notifications",
    "repair_s_median": "seconds",
    "repair_s_max": "seconds",
    "settle_s_max": "seconds",
    "unrepaired": "events",
    "upkeep_per_peer_minute": "messages per peer and minute",
    "upkeep_at_rest": "messages per peer and minute",
    "storm": "busiest second / mean second",
}


def meaning_of(measure: str) -> str:
    """What a measure means, in words."""
    known = MEASURES.get(measure) or CHANGE.get(measure)
    return known or _cost_meaning(measure)


def is_known(measure: str) -> bool:
    """Has it a meaning here? The measures of trials have their names alone."""
    return measure in MEASURES or measure in CHANGE or measure in COSTS


def _cost_meaning(measure: str) -> str:
    phase, _, what = measure.rpartition("_")
    return (
        f"{what} that the phase {phase} costs, per peer"
        if measure in COSTS
        else measure.replace("_", " ")
    )


def legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    told = [fill(label, LABEL_LETTERS) for label in labels]
    lines = sum(1 + label.count("\n") for label in told)
    size = min(
        LEGEND_POINTS, (72 * SIZE_INCHES[1] - LEGEND_POINTS) / (LINE * lines + 0.35 * len(told))
    )
    axes.legend(
        handles,
        told,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        fontsize=size,
        labelspacing=0.35,
    )


def _alternative(measure: str, series: dict[str, list[Row]], axis: Axis) -> str:
    """What the figure shows, in words."""
    told = []
    for name, rows in series.items():
        ordered = sorted(rows, key=lambda row: row["position"])
        first, last = ordered[0], ordered[-1]
        told.append(
            f"{name} from {first['mean']:.3g} at {first['point_label']} to {last['mean']:.3g} at {last['point_label']}"
        )
    return f"{measure} by {axis.title}. " + "; ".join(told) + "."


def svg_of(canvas: Canvas) -> str:
    written = io.StringIO()
    canvas.savefig(
        written, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
    )
    numbers = count()
    return re.sub(
        rf'<g id="{SAYS}([^"]*)">',
        lambda found: f'<g id="point{next(numbers)}"><title>{escape(unescape(found[1]))}</title>',
        written.getvalue(),
    )
