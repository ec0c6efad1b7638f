"""Experiments of change as data, and how their results are drawn: points of patience, trade-off curves, one table."""

import json

import pytest

from implicast.casting.designs import design, designs
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import Figure, experiment, patience_settings, read
from implicast.lab.plan import plan, scenario_of
from implicast.lab.report.overview import overview
from implicast.lab.report.trade import trade_figure
from implicast.world.change import REST_US
from implicast.world.invariants import FLIGHT_US

ALIVE = {name for name, each in designs().items() if each.survives}


def row(series, point, measure, mean, half=0.5):
    return {
        "series": series,
        "design": series,
        "axis": "setting",
        "point_label": point,
        "position": 0,
        "measure": measure,
        "runs": 3,
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
    }


ROWS = [
    *(
        row("broker", point, "upkeep_at_rest", mean)
        for point, mean in (("default", 15), ("quick", 80), ("1", 5))
    ),
    *(
        row("broker", point, "repair_s_max", mean)
        for point, mean in (("default", 20), ("quick", 6), ("1", 30))
    ),
    row("centralised", "default", "upkeep_at_rest", 4),
    row("centralised", "default", "repair_s_max", 0),
]


@pytest.mark.parametrize("name", ["churn", "upkeep", "hour"])
@pytest.mark.parametrize("scale", ["small", "medium", "paper"])
def test_every_surviving_design_takes_part_as_it_survives(name, scale):
    planned = plan(experiment(name), scale)

    assert {each.design for each in planned} == ALIVE
    for each in planned:
        given = json.loads(each.settings)["parameters"]
        assert given.keys() >= design(each.design).trial.keys()
        assert given.get("assurance", "receipts") == "receipts"


def test_servers_and_brokers_go_down_where_there_are_any_and_elsewhere_the_words_are_left_out():
    planned = plan(experiment("hour"), "paper") + plan(experiment("upkeep"), "small")
    for each in planned:
        survives, churn = design(each.design).survives, scenario_of(json.loads(each.settings)).churn
        assert bool(churn.fails) == ("fails" in survives), each.run
        assert churn.crashes or churn.events, "what happens to peers is the same for all"
    hour = {
        each.design: scenario_of(json.loads(each.settings)).churn
        for each in planned
        if each.experiment == "hour"
    }
    assert {name for name, churn in hour.items() if churn.restarts} == {
        "bft",
        "broker",
        "centralised",
    }
    assert {(churn.joins, churn.leaves, churn.crashes) for churn in hour.values()} == {(64, 32, 32)}


@pytest.mark.parametrize("name", ["churn", "upkeep", "hour"])
@pytest.mark.parametrize("scale", ["small", "medium", "paper"])
def test_there_is_a_minute_of_rest_after_the_last_change_and_its_repair(name, scale):
    for each in plan(experiment(name), scale, runs=3):
        scenario, of = scenario_of(json.loads(each.settings)), design(each.design)
        infrastructure = of.infrastructure(scenario.peers, of.settle(scenario.parameters))
        script = scenario.churn.script(scenario.seed, scenario.peers, infrastructure)
        last_us = int(max(event.to_s for event in script) * 1e6)
        end_us = scenario.casts * scenario.interval_ms * 1000 + FLIGHT_US
        assert end_us - last_us - of.repair_us >= REST_US, each.run


def test_a_value_becomes_a_setting_by_its_form_and_stays_the_point():
    planned = [each for each in plan(experiment("churn"), "small") if each.design == "centralised"]

    assert [each.point for each in planned[::2]] == ["1", "4", "16"]
    assert scenario_of(json.loads(planned[-1].settings)).churn.turnover == 16


def test_points_of_patience_are_those_that_a_design_names():
    broker = design("broker")

    assert patience_settings(broker, "default") == {}
    assert patience_settings(broker, "quick") == {
        f"design.{name}": value for name, value in broker.quick.items()
    }
    assert patience_settings(broker, str(len(broker.upkeep_points) + 1)) is None
    points = {each.point for each in plan(experiment("upkeep"), "small") if each.design == "broker"}
    assert points == {
        "default",
        "quick",
        *(str(number + 1) for number in range(len(broker.upkeep_points))),
    }


@pytest.mark.parametrize("name", sorted(ALIVE))
def test_the_settings_that_a_design_names_are_known_to_it(name):
    each = design(name)

    assert each.quick, "every design that survives change has a quick setting"
    for settings in (each.quick, *each.upkeep_points):
        each.settle({**each.trial, **settings})


def test_a_measure_that_nobody_takes_is_refused():
    text = 'title="t"\nabout="a"\nsource="s"\ndesigns="surviving"\ncolumns=["mood"]\n[axis]\nof="peers"\n'
    with pytest.raises(ExperimentError, match="no measure 'mood'"):
        read("t", text + "[small]\nvalues=[8]\n[paper]\nvalues=[8]\n")


def test_a_trade_off_is_a_curve_through_the_points_from_left_to_right():
    drawn = trade_figure(
        ROWS, Figure("repair_s_max", over="upkeep_at_rest", limit=60, over_limit=60)
    )

    assert drawn is not None
    assert drawn.name == "repair_s_max_over_upkeep_at_rest"
    assert "broker from 30 at 5 to 6 at 80" in drawn.alternative
    for word in (
        "broker",
        "centralised",
        "quick",
        "default",
        "seconds",
        "messages per peer and minute",
    ):
        assert word in drawn.svg, word


def test_a_trade_off_that_was_not_measured_is_not_drawn():
    assert trade_figure(ROWS, Figure("repair_s_max", over="storm")) is None


def test_the_overview_has_a_row_for_each_series_and_point():
    table = overview(ROWS, ["repair_s_max", "upkeep_at_rest"])

    assert [(each["series"], each["point"]) for each in table["rows"]].count(
        ("broker", "quick")
    ) == 1
    assert len(table["rows"]) == 4
    assert next(each for each in table["rows"] if each["point"] == "quick")["cells"] == [
        "6 ± 0.5",
        "80 ± 0.5",
    ]
    assert overview(ROWS, []) is None


def test_what_was_not_measured_is_a_dash_in_the_overview():
    table = overview(
        [*ROWS, row("spice", "default", "repair_s_max", 23)], ["repair_s_max", "upkeep_at_rest"]
    )

    assert next(each for each in table["rows"] if each["series"] == "spice")["cells"] == [
        "23 ± 0.5",
        "-",
    ]
