"""What one measure is bought with in terms of another: a curve for each series through its points
of the axis.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from implicast.lab.experiment import Figure
from implicast.lab.report import palette
from implicast.lab.report.figures import (
    SEEDS,
    STYLE,
    Drawn,
    by_series,
    canvas_of,
    legend,
    meaning_of,
    range_of,
    say,
    spread,
    svg_of,
    unit_of,
)

Row = dict[str, Any]
Points = list[tuple[str, Row, Row]]
"""Label, what lies along the horizontal axis, what along the vertical one; from left to right."""

RINGS = ("o", "s", "D", "^")
"""Around the marks of settings that have a name."""


def trade_figure(rows: Sequence[Row], asked: Figure) -> Drawn | None:
    """`asked.measure` over `asked.over`, both with their 95 % intervals; None when either was not
    measured.
    """
    curves = _curves(rows, asked)
    if not curves:
        return None
    looks = palette.looks((name, points[0][2]["design"]) for name, points in curves.items())
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of()
        for name, points in curves.items():
            _curve(axes, name, points, looks)
        _rings(axes, curves)
        _limits(axes, asked)
        _scales(axes, asked, curves)
        axes.set_title(asked.title or f"{asked.measure} over {asked.over}")
        legend(axes)
        svg = svg_of(canvas)
    caption = (
        f"{asked.measure} ({meaning_of(asked.measure)}) over {asked.over} ({meaning_of(asked.over)}): each curve joins "
        f"the settings of one design. Means over seeds, and 95 % confidence intervals where there are {SEEDS} or more."
    )
    return Drawn(
        f"{asked.measure.lower()}_over_{asked.over.lower()}",
        caption,
        f"{caption} {_told(curves)}",
        svg,
    )


def _curves(rows: Sequence[Row], asked: Figure) -> dict[str, Points]:
    found: dict[str, Points] = {}
    across = {
        (row["series"], row["point_label"]): row for row in rows if row["measure"] == asked.over
    }
    for name, mine in by_series([row for row in rows if row["measure"] == asked.measure]).items():
        pairs = [
            (row["point_label"], across[name, row["point_label"]], row)
            for row in mine
            if (name, row["point_label"]) in across
        ]
        if pairs:
            found[name] = sorted(pairs, key=lambda pair: pair[1]["mean"])
    return found


def _curve(axes: Axes, name: str, points: Points, looks: Mapping[str, palette.Look]) -> None:
    look = looks[name]
    x, y = [each["mean"] for _, each, _ in points], [each["mean"] for _, _, each in points]
    axes.errorbar(
        x,
        y,
        xerr=spread([each for _, each, _ in points], SEEDS),
        yerr=spread([each for _, _, each in points], SEEDS),
        label=name,
        color=look.colour,
        marker=look.mark,
        markersize=5,
        elinewidth=0.7,
        capsize=2,
        linestyle=look.dash,
        linewidth=1.6,
        markerfacecolor="none" if look.hollow else look.colour,
    )
    for label, across, up in points:
        say(
            axes,
            across["mean"],
            up["mean"],
            f"{name} at {label}: {up['mean']:.4g} for {across['mean']:.4g}",
        )


def _rings(axes: Axes, curves: Mapping[str, Points]) -> None:
    """Settings that have a name get a ring each, all of one name the same."""
    named = [each for points in curves.values() for each in points if not each[0].isdecimal()]
    names = list(dict.fromkeys(label for label, _, _ in named))[: len(RINGS)]
    for ring, name in zip(RINGS, names, strict=False):
        x, y = zip(
            *[(across["mean"], up["mean"]) for label, across, up in named if label == name],
            strict=True,
        )
        axes.scatter(
            x,
            y,
            s=90,
            marker=ring,
            facecolors="none",
            edgecolors=palette.INK,
            linewidths=0.9,
            zorder=5,
            label=name,
        )


def _limits(axes: Axes, asked: Figure) -> None:
    """What is aimed at, as thin lines: below the one and left of the other."""
    if asked.limit is not None:
        axes.axhline(asked.limit, color=palette.INK, linewidth=0.8, linestyle="dotted")
    if asked.over_limit is not None:
        axes.axvline(asked.over_limit, color=palette.INK, linewidth=0.8, linestyle="dotted")


def _scales(axes: Axes, asked: Figure, curves: Mapping[str, Points]) -> None:
    # The means set the range, as in other figures: with few seeds an interval may be wider than
    # everything else.
    across = [each["mean"] for points in curves.values() for _, each, _ in points]
    up = [each["mean"] for points in curves.values() for _, _, each in points] + (
        [asked.limit] if asked.limit else []
    )
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    if min(across) > 0:
        axes.set_xscale("log")
        axes.set_xlim(min(across) / 1.6, max([*across, asked.over_limit or 0]) * 1.6)
        axes.xaxis.set_major_formatter(plain)
        axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = range_of(asked.measure, up)
    axes.set_ylim(low - (high - low) / 40, high)  # so that marks at the edge are seen whole
    axes.set_xlabel(f"{asked.over}: {unit_of(asked.over)}")
    axes.set_ylabel(f"{asked.measure}: {unit_of(asked.measure)}")


def _told(curves: Mapping[str, Points]) -> str:
    ends = (
        f"{name} from {points[0][2]['mean']:.3g} at {points[0][1]['mean']:.3g} to {points[-1][2]['mean']:.3g} at "
        f"{points[-1][1]['mean']:.3g}"
        for name, points in curves.items()
    )
    return "; ".join(ends) + "."
