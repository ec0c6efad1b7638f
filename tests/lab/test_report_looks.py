"""What a reader sees: colours that can be told apart, also by those who lack a receptor; conclusions that follow."""

from itertools import combinations

import numpy as np
import pytest

from implicast.lab.experiment import Axis, Figure
from implicast.lab.report import palette
from implicast.lab.report.conclusions import conclusions
from implicast.lab.report.figures import measure_figure, merged
from implicast.lab.report.overview import cell

DIFFERENCE = 10
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
"""Machado, Oliveira and Fernandes 2009, in linear RGB."""
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(
    "seen",
    [np.eye(3), np.array(DEUTERANOPIA), np.array(PROTANOPIA)],
    ids=["all", "deutan", "protan"],
)
def test_any_two_designs_can_be_told_apart(seen):
    for one, other in combinations(palette.COLOURS.values(), 2):
        assert np.linalg.norm(lab(seen @ linear(one)) - lab(seen @ linear(other))) > DIFFERENCE, (
            one,
            other,
        )


@pytest.mark.parametrize("paper", ["#ffffff", "#14171a"])
def test_every_colour_stands_out_from_light_and_dark_paper(paper):
    ground = XYZ[1] @ linear(paper)
    for colour in palette.COLOURS.values():
        light, dark = sorted((XYZ[1] @ linear(colour), ground), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_series_of_one_design_differ_in_colour_and_mark():
    """As k = 2 to k = 6 of one overlay do."""
    looks = palette.looks((f"k = {k}", "bft") for k in range(2, 10))

    assert (
        len({look.colour for look in looks.values()})
        == len({look.mark for look in looks.values()})
        == 8
    )


def test_series_of_several_designs_keep_their_colours_and_differ_in_lines():
    looks = palette.looks([("dht", "dht"), ("dht receipts", "dht"), ("spice", "spice")])

    assert looks["dht"].colour == looks["dht receipts"].colour == palette.COLOURS["dht"]
    assert looks["dht"].dash != looks["dht receipts"].dash


def row(series, measure, mean, half=0.0, runs=3, position=1):
    interval = {"mean": mean, "low": mean - half, "high": mean + half, "runs": runs}
    at = {"position": position, "point_label": str(64 * 2**position), "axis": "peers"}
    return {"series": series, "design": series, "measure": measure, **interval, **at}


def test_a_report_concludes_from_its_last_point():
    rows = [
        row("dht", "TOUT_G", 0.3),
        row("centralised", "TOUT_G", 0.99),
        row("dht", "TOUT_G", 0.9, position=0),
    ]
    contract = [
        {"series": "dht", "expected": 10, "missing": 0},
        {"series": "centralised", "expected": 10, "missing": 2},
    ]
    told = dict(conclusions(rows, contract))

    assert (
        told["Who delivers?"] == "1 of 2 series delivered everything; centralised missed 2 of 10."
    )
    load = told["Who bears the load?"]
    assert (
        load
        == "At peers 128, sending is spread best by dht (Gini 0.30), least by centralised (0.99)."
    )
    assert "How fast?" not in told


@pytest.mark.parametrize(("mean", "named"), [(4.001, "dht and spice"), (4.2, "dht"), (8.0, "dht")])
def test_series_are_named_together_when_one_figure_is_true_of_all(mean, named):
    """However wide an interval is over three seeds: a figure is not said of a series that has another."""
    rows = [
        row("dht", "RTH", 4.0, 9.0, 3),
        row("spice", "RTH", mean, 9.0, 3),
        row("bft", "RTH", 40.0, 0.3, 3),
    ]

    assert f"there are 4 by {named}, 40 by bft" in dict(conclusions(rows, []))["At what price?"]


def test_series_that_are_the_same_are_drawn_as_one():
    series = {
        name: [row(name, "RTH", 4.0), row(name, "RTH", 5.0, position=2)]
        for name in ("dht-naive", "chord-pubsub")
    }
    series["bft"] = [row("bft", "RTH", 40.0)]

    assert list(merged(series)) == ["dht-naive (and chord-pubsub)", "bft"]


def test_series_of_a_trial_that_knows_no_designs_look_different():
    looks = palette.looks((name, name) for name in ("k = 2, half", "k = 4, half", "k = 6, half"))

    assert len({look.colour for look in looks.values()}) == 3
    assert len({look.mark for look in looks.values()}) == 3


def test_what_differs_by_less_than_is_told_is_called_alike():
    rows = [
        {
            "series": name,
            "measure": "TOUT_G",
            "position": 0,
            "axis": "peers",
            "point_label": "8",
            "mean": mean,
            "runs": 1,
            "low": mean,
            "high": mean,
        }
        for name, mean in (("a", 0.996), ("b", 0.998))
    ]

    assert ("Who bears the load?", "Sending is spread alike by all (Gini 1.00).") in conclusions(
        rows, []
    )


def test_a_series_has_one_colour_in_all_figures_whichever_are_drawn_as_one():
    axis, names = Axis(of="peers"), ("level 1", "level 2", "level 3")
    apart = [
        row(name, "TOUT_M", mean) | {"design": "spice"}
        for name, mean in zip(names, (1, 2, 3), strict=True)
    ]
    alike = [
        row(name, "TIN_M", mean) | {"design": "spice"}
        for name, mean in zip(names, (1, 1, 3), strict=True)
    ]

    drawn = [
        measure_figure([*apart, *alike], Figure(measure), axis) for measure in ("TOUT_M", "TIN_M")
    ]

    last = palette.looks((name, "spice") for name in names)["level 3"].colour
    middle = palette.looks((name, "spice") for name in names)["level 2"].colour
    assert all(last in each.svg for each in drawn)
    assert middle in drawn[0].svg
    assert middle not in drawn[1].svg, (
        "level 2 is drawn as level 1 there, and level 3 does not take its colour"
    )


def test_what_adding_up_leaves_of_equal_values_is_not_told_as_an_interval():
    assert cell(row("a", "RTH", 6.644, 2.7e-15)) == "6.644"
    assert cell(row("a", "RTH", 6.644, 0.02)) == "6.644 ± 0.02"
