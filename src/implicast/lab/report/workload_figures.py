"""Figures of a workload: rank against frequency, and how large the groups are (thesis, Figures 4.2,
4.3, 9.3).
"""

from typing import Any

import matplotlib as mpl
import numpy as np

from implicast.lab import far_tables
from implicast.lab.describe import fit
from implicast.lab.report import palette
from implicast.lab.report.figures import STYLE, Drawn, canvas_of, svg_of
from implicast.lab.storage import Location

Row = dict[str, Any]


def workload_figures(directory: Location) -> list[Drawn]:
    """Rank-frequency plots of registrations and casts, and the distribution of group sizes."""
    ranked = far_tables.load(directory / "ranks").to_pylist()
    sizes = far_tables.load(directory / "sizes").to_pylist()
    drawn = [
        _rank_figure([row for row in ranked if row["of"] == of], of)
        for of in ("registrations", "casts")
    ]
    groups = sorted((row["size"], row["casts"]) for row in sizes if row["of"] == "group")
    return drawn + ([_group_figure(groups)] if groups else [])


def _rank_figure(rows: list[Row], of: str) -> Drawn:
    listed = [row["frequency"] for row in sorted(rows, key=lambda row: row["rank"])]
    fitted = fit(listed)
    ranks = np.arange(1, len(listed) + 1)
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of()
        axes.loglog(ranks, listed, ".", color=palette.COLOURS["opchord-pubsub"], markersize=3)
        weights = ranks**-fitted.likelihood
        label = f"Zipf, exponent {fitted.likelihood:.2f}"
        axes.loglog(
            ranks,
            weights / weights.sum() * sum(listed),
            color=palette.COLOURS["condcast"],
            linewidth=1.2,
            label=label,
        )
        axes.set(
            xlabel="rank",
            ylabel="peers that register it" if of == "registrations" else "casts to it",
        )
        axes.set_title(
            f"{'Tags of registrations' if of == 'registrations' else 'Targets of casts'} by rank"
        )
        axes.legend()
        svg = svg_of(canvas)
    law = f"exponent {fitted.likelihood:.2f}, slope {fitted.slope:.2f}"
    caption = f"Rank and frequency of {of}, with the likeliest Zipf law ({law})."
    return Drawn(f"ranks_{of}", caption, caption, svg)


def _group_figure(counted: list[tuple[int, int]]) -> Drawn:
    sizes = np.sort(np.repeat([size for size, _ in counted], [times for _, times in counted]))[::-1]
    with mpl.rc_context(STYLE):
        canvas, axes = canvas_of()
        axes.plot(np.arange(1, len(sizes) + 1), sizes, color=palette.COLOURS["spice-unloaded"])
        axes.set_yscale("symlog", linthresh=1)
        axes.set(xlabel="casts, largest group first", ylabel="peers in the group")
        axes.set_title("Sizes of implicit groups")
        svg = svg_of(canvas)
    middle, empty = int(np.median(sizes)), float(np.mean(sizes == 0))
    caption = f"Group sizes of {len(sizes)} casts: largest {sizes[0]:,}, median {middle:,}, empty {empty:.0%}."
    return Drawn("group_sizes", caption, caption, svg)
