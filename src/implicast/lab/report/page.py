"""Puts a report together: contract first, figures, fairness, published against measured, tables,
provenance last.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from implicast.lab import dataset, tables
from implicast.lab.experiment import Experiment, Figure
from implicast.lab.folder import Folder, asked, experiments_in, sole
from implicast.lab.report import palette
from implicast.lab.report.claims import claims
from implicast.lab.report.conclusions import conclusions
from implicast.lab.report.figures import Drawn, lorenz_figure, meaning_of, measure_figure
from implicast.lab.report.overview import cell, overview
from implicast.lab.report.pictures import pictures
from implicast.lab.report.trade import trade_figure
from implicast.lab.report.verdict import verdict
from implicast.lab.storage import Location

Row = dict[str, Any]
DEFAULT_FIGURES = tuple(
    Figure(name, log)
    for name, log in (("POUT_M", True), ("TOUT_M", True), ("TOUT_G", False), ("RTH", True))
)
LOADS = ("TOUT", "TIN", "STOR")


def write(out: Path | str | Location, experiment: str | None = None) -> Location:
    """Write the report of an experiment of a laboratory folder, and its figures; the place of the
    report.

    Its name is `report.html`, or `report-NAME.html` where the folder holds several experiments.
    """
    folder = sole(Location.of(out), experiment)
    marked = f"-{folder.experiment}" * (len(experiments_in(folder.place)) > 1)
    told = asked(folder)
    made = msgspec.convert(told["experiment"], Experiment)
    rows: list[Row] = dataset.required(folder, "summary").to_pylist()
    runs: list[Row] = [
        row for row in dataset.required(folder, "runs").to_pylist() if row["planned"]
    ]
    shown = [
        drawn
        for figure in made.figures or DEFAULT_FIGURES
        if (drawn := _figure(rows, figure, made))
    ]
    curves = _curves(folder, runs)
    seen = pictures(made, folder.place)
    _write_figures(folder.place / f"figures{marked}", [*shown, *curves, *seen])
    judged = verdict(folder, runs)
    filled = _template().render(
        title=made.title,
        about=made.about,
        source=made.source,
        scale=told["scale"],
        style=Markup(_text("style.css")),
        figures=[_inline(each) for each in shown],
        curves=[_inline(each) for each in curves],
        pictures=[_inline(each) for each in seen],
        claims=claims(made, folder, runs, told["scale"]),
        overview=overview(rows, made.columns),
        tables=_tables(rows, made),
        provenance=_provenance(told, runs),
        conclusions=conclusions(rows, judged["contract"]),
        **judged,
    )
    place = folder.place / f"report{marked}.html"
    place.write(filled.encode("utf-8"))
    return place


def _figure(rows: Sequence[Row], asked: Figure, made: Experiment) -> Drawn | None:
    return trade_figure(rows, asked) if asked.over else measure_figure(rows, asked, made.axis)


def _text(name: str) -> str:
    return (files("implicast.lab.report") / name).read_text("utf-8")


def _template() -> jinja2.Template:
    return jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    ).from_string(_text("page.html"))


def _curves(folder: Folder, runs: Sequence[Row]) -> list[Drawn]:
    """Lorenz curves at the last point of the axis, of the first seed."""
    done = [row for row in runs if row["error"] is None]
    last = max((row["position"] for row in done), default=0)
    seed = min((row["seed"] for row in done), default=0)
    chosen = {row["run"]: row for row in done if row["position"] == last and row["seed"] == seed}
    points = [
        {
            **point,
            "series": chosen[point["run"]]["series"],
            "design": chosen[point["run"]]["design"],
        }
        for point in dataset.load(folder, "lorenz").to_pylist()
        if point["run"] in chosen
    ]
    several = len({row["position"] for row in done}) > 1
    label = next(
        (
            f"{row['axis']} {row['point_label']}, " * several + f"seed {seed}"
            for row in chosen.values()
        ),
        "",
    )
    return [each for load in LOADS if (each := lorenz_figure(points, load, label))]


def _tables(rows: Sequence[Row], made: Experiment) -> list[Row]:
    """One table for each measure: series down, points across."""
    by_measure: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_measure[row["measure"]].append(row)
    known = [
        name
        for name in (*tables.CHANGE, *tables.MEASURES, *sorted(by_measure))
        if name in by_measure
    ]
    return [
        _table(name, by_measure[name])
        for name in dict.fromkeys(known)
        if any(row["mean"] for row in by_measure[name])
    ]


def _table(name: str, rows: Sequence[Row]) -> Row:
    points = [point for _, point in sorted({(row["position"], row["point_label"]) for row in rows})]
    series = sorted(
        {(row["series"], row["design"]) for row in rows}, key=lambda each: palette.rank(*each)
    )
    cells, looks = (
        {(row["series"], row["point_label"]): cell(row) for row in rows},
        palette.looks(series),
    )
    body = [
        {
            "series": one,
            "colour": looks[one].colour,
            "cells": [cells.get((one, point), "") for point in points],
        }
        for one, _ in series
    ]
    return {"measure": name, "meaning": meaning_of(name), "points": points, "rows": body}


def _provenance(told: Row, runs: Sequence[Row]) -> Row:
    seeds = sorted({row["seed"] for row in runs})
    seconds = sum(row["seconds"] or 0.0 for row in runs)
    processor_s = sum(row["cpu_s"] or 0.0 for row in runs)
    commits = sorted({row["commit"] for row in runs if row["commit"]})
    messages = sum(row["messages"] or 0 for row in runs)
    again = f"implicast lab run {told['experiment']['name']} --scale {told['scale']}"
    again += f" --runs {told['runs']}" if told["runs"] else ""
    return {
        **told["provenance"],
        "commits of the runs": ", ".join(commits),
        "code of the runs": ", ".join(sorted({row["code"] for row in runs if row["code"]})),
        "seeds": ", ".join(map(str, seeds)),
        "simulation": f"{seconds:.0f} s, {processor_s:.0f} s of processor time, {messages:,} messages",
        "again": again,
        "a single run": next((row["command"] for row in runs if row["error"] is None), ""),
    }


def _write_figures(place: Location, drawn: Sequence[Drawn]) -> None:
    for each in drawn:
        (place / f"{each.name}.svg").write(_on_paper(each.svg).encode("utf-8"))


def _on_paper(svg: str) -> str:
    """A file stands alone, perhaps on a dark page: it brings its own white paper."""
    return re.sub(
        r"(<svg [^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1
    )


def _inline(drawn: Drawn) -> Row:
    """The SVG for the page: its ink is the page's, its names are its own, and it says what it
    shows.
    """
    svg = drawn.svg[drawn.svg.index("<svg ") :]
    svg = svg.replace(palette.INK, "currentColor").replace(palette.GRID, "var(--grid)")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{drawn.name}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{drawn.name}-", svg)
    label = Markup.escape(drawn.alternative)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return {"svg": Markup(svg), "caption": drawn.caption}
