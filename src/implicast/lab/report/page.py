"""Puts a report together: contract first, figures, fairness, published against measured, tables, provenance last."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pyarrow.parquet as pq
from markupsafe import Markup

from implicast.lab import tables
from implicast.lab.errors import TableError
from implicast.lab.experiment import Experiment, Figure
from implicast.lab.report import palette
from implicast.lab.report.claims import compare
from implicast.lab.report.figures import Drawn, lorenz_figure, meaning_of, measure_figure
from implicast.lab.report.overview import cell, overview
from implicast.lab.report.pictures import pictures
from implicast.lab.report.trade import trade_figure
from implicast.lab.report.verdict import verdict

Row = dict[str, Any]
DEFAULT_FIGURES = tuple(
    Figure(name, log) for name, log in (("POUT_M", True), ("TOUT_M", True), ("TOUT_G", False), ("RTH", True))
)
LOADS = ("TOUT", "TIN", "STOR")


def write(out: Path) -> Path:
    """Write `report.html` and `figures/*.svg` of a laboratory directory; the path of the report."""
    asked = _asked(out)
    made = msgspec.convert(asked["experiment"], Experiment)
    rows = _rows(out, "summary")
    runs = _rows(out, "runs")
    shown = [drawn for figure in made.figures or DEFAULT_FIGURES if (drawn := _figure(rows, figure, made))]
    curves = _curves(out, runs)
    seen = pictures(made, out)
    _write_figures(out / "figures", [*shown, *curves, *seen])
    filled = _template().render(
        title=made.title, about=made.about, source=made.source, scale=asked["scale"], style=_text("style.css"),
        figures=[_inline(each) for each in shown], curves=[_inline(each) for each in curves],
        pictures=[_inline(each) for each in seen],
        claims=[each for claim in made.published if (each := compare(claim, rows))],
        overview=overview(rows, made.columns), tables=_tables(rows, made), provenance=_provenance(asked, runs),
        **verdict(out, runs),
    )  # fmt: skip
    path = out / "report.html"
    aside = out / ".report.html"
    aside.write_text(filled, "utf-8")
    aside.rename(path)
    return path


def _figure(rows: Sequence[Row], asked: Figure, made: Experiment) -> Drawn | None:
    return trade_figure(rows, asked) if asked.over else measure_figure(rows, asked, made.axis)


def _asked(out: Path) -> Row:
    path = out / "experiment.json"
    if not path.is_file():
        raise TableError(f"{out} is not a laboratory directory: it has no experiment.json")
    found: Row = json.loads(path.read_text())
    return found


def _rows(out: Path, name: str) -> list[Row]:
    if not (out / name).is_dir():
        raise TableError(f"{out} has no table {name}; run the experiment first")
    rows: list[Row] = pq.read_table(out / name).to_pylist()
    return rows


def _text(name: str) -> str:
    return (files("implicast.lab.report") / name).read_text("utf-8")


def _template() -> jinja2.Template:
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True).from_string(
        _text("page.html")
    )


def _curves(out: Path, runs: Sequence[Row]) -> list[Drawn]:
    """Lorenz curves at the last point of the axis, of the first seed."""
    if not (out / "lorenz").is_dir():
        return []
    done = [row for row in runs if row["error"] is None]
    last = max((row["position"] for row in done), default=0)
    seed = min((row["seed"] for row in done), default=0)
    chosen = {row["run"]: row for row in done if row["position"] == last and row["seed"] == seed}
    points = [
        {**point, "series": chosen[point["run"]]["series"], "design": chosen[point["run"]]["design"]}
        for point in _rows(out, "lorenz") if point["run"] in chosen
    ]  # fmt: skip
    label = next((f"{row['axis']} {row['point']}, seed {seed}" for row in chosen.values()), "")
    return [each for load in LOADS if (each := lorenz_figure(points, load, label))]


def _tables(rows: Sequence[Row], made: Experiment) -> list[Row]:
    """One table for each measure: series down, points across."""
    by_measure: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_measure[row["measure"]].append(row)
    known = [name for name in (*tables.CHANGE, *tables.MEASURES, *sorted(by_measure)) if name in by_measure]
    return [
        _table(name, by_measure[name]) for name in dict.fromkeys(known) if any(row["mean"] for row in by_measure[name])
    ]


def _table(name: str, rows: Sequence[Row]) -> Row:
    points = [point for _, point in sorted({(row["position"], row["point"]) for row in rows})]
    series = sorted({(row["series"], row["design"]) for row in rows}, key=lambda each: palette.rank(*each))
    cells = {(row["series"], row["point"]): cell(row) for row in rows}
    body = [
        {"series": one, "colour": palette.colour(design), "cells": [cells.get((one, point), "") for point in points]}
        for one, design in series
    ]
    return {"measure": name, "meaning": meaning_of(name), "points": points, "rows": body}


def _provenance(asked: Row, runs: Sequence[Row]) -> Row:
    seeds = sorted({row["seed"] for row in runs})
    seconds = sum(row["seconds"] or 0.0 for row in runs)
    messages = sum(row["messages"] or 0 for row in runs)
    again = f"implicast lab run {asked['experiment']['name']} --scale {asked['scale']}"
    again += f" --runs {asked['runs']}" if asked["runs"] else ""
    return {
        **asked["provenance"], "seeds": ", ".join(map(str, seeds)),
        "simulation": f"{seconds:.0f} s, {messages:,} messages",
        "again": again, "a single run": next((row["command"] for row in runs if row["error"] is None), ""),
    }  # fmt: skip


def _write_figures(directory: Path, drawn: Sequence[Drawn]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for each in drawn:
        (directory / f"{each.name}.svg").write_text(_on_paper(each.svg), "utf-8")


def _on_paper(svg: str) -> str:
    """A file stands alone, perhaps on a dark page: it brings its own white paper."""
    return re.sub(r"(<svg [^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)


def _inline(drawn: Drawn) -> Row:
    """The SVG for the page: its ink is the page's, its names are its own, and it says what it shows."""
    svg = drawn.svg[drawn.svg.index("<svg ") :]
    svg = svg.replace(palette.INK, "currentColor").replace(palette.GRID, "var(--grid)")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{drawn.name}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{drawn.name}-", svg)
    label = Markup.escape(drawn.alternative)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return {"svg": Markup(svg), "caption": drawn.caption}
