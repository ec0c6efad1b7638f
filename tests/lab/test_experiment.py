"""Experiments as data: what they plan, and what they refuse."""

import json
from pathlib import Path

import pytest

from implicast.casting.designs import designs
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import experiment, experiments, read
from implicast.lab.plan import plan, scenario_of
from implicast.peer.errors import LocalError

TINY = """
title = "Tiny"
about = "A trial."
source = "nowhere"
designs = ["centralised", "broker"]
[axis]
of = "peers"
[scenario]
casts = 3
[small]
values = [8, 16]
runs = 2
[paper]
values = [32]
"""


def test_every_design_variant_point_and_seed_is_one_run_with_a_name_of_its_own() -> None:
    planned = plan(read("tiny", TINY), "small")

    assert len(planned) == 2 * 2 * 2
    assert len({each.run for each in planned}) == 8
    assert [each.run for each in planned] == [
        each.run for each in plan(read("tiny", TINY), "small")
    ]
    assert scenario_of(json.loads(planned[0].settings)).casts == 3


def test_the_name_of_a_run_follows_from_its_scenario_alone() -> None:
    names = {
        (each.design, each.point, each.seed): each.run for each in plan(read("tiny", TINY), "small")
    }

    more = plan(read("other", TINY.replace("[8, 16]", "[16, 64]")), "small", runs=3)

    again = {(each.design, each.point, each.seed): each.run for each in more}
    common = names.keys() & again.keys()
    assert len(common) == 4
    assert all(names[key] == again[key] for key in common)


def test_the_experiments_of_the_papers_can_all_be_planned_at_both_scales() -> None:
    for name, made in experiments().items():
        for scale in ("small", "paper"):
            assert plan(made, scale), name


def test_designs_join_by_language_and_by_knowing_what_the_axis_varies() -> None:
    assert experiment("peers").chosen() == [
        name for name, each in designs().items() if "tags" in each.languages
    ]
    text = TINY.replace('["centralised", "broker"]', '"tags"').replace(
        'of = "peers"', 'of = "design.routing_error"'
    )
    chosen = read("errors", text.replace("[8, 16]", "[0.1, 0.2]").replace("[32]", "[0.1]")).chosen()
    assert chosen == [
        name
        for name, each in designs().items()
        if any(one.name == "routing_error" for one in each.parameters)
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('of = "peers"', 'of = "pears"'), "no setting 'pears'"),
        (("runs = 2", 'runs = "two"'), "Expected `int`"),
        (('title = "Tiny"', 'title = "Tiny"\ncolour = "red"'), "unknown field `colour`"),
        (("[scenario]", "[[figures]]\nmeasure = 'TOUT_X'\n[scenario]"), "no measure 'TOUT_X'"),
        (("[8, 16]", "[[8, 16]]"), "varies 1 settings together"),
        (("title =", "title"), "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(change: tuple[str, str], says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        read("tiny", TINY.replace(*change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('["centralised", "broker"]', '["nobody"]'), "none of its designs exists"),
        (("casts = 3", "casts = -3"), "casts=-3 is out of range"),
        (("casts = 3", '"design.colour" = 3'), "no parameter 'colour'"),
        (("casts = 3", '"workload.skew" = 7.0'), "skew=7.0 is out of range"),
    ],
)
def test_a_wrong_scenario_is_refused_before_anything_runs(
    change: tuple[str, str], says: str
) -> None:
    with pytest.raises(LocalError, match=says):
        plan(read("tiny", TINY.replace(*change)), "small")


def test_an_unknown_experiment_or_scale_names_what_there_is() -> None:
    with pytest.raises(ExperimentError, match="choose one of attacks, backbone, bft-arrival, "):
        experiment("nothing")
    with pytest.raises(ExperimentError, match="small, medium or paper"):
        plan(experiment("peers"), "huge")


def test_the_demonstration_shows_what_registering_costs_and_so_registers_by_messages() -> None:
    planned = plan(experiment("demo"), "small", runs=1)

    assert {each.scenario().registers for each in planned} == {"messages"}


def test_an_experiment_that_says_nothing_registers_at_once_and_a_wrong_word_is_refused() -> None:
    assert {each.scenario().registers for each in plan(read("tiny", TINY), "small")} == {
        "assembled"
    }
    with pytest.raises(LocalError, match="register='later'; it takes assembled or messages"):
        plan(read("tiny", TINY.replace("casts = 3", 'casts = 3\nregister = "later"')), "small")


@pytest.mark.parametrize(
    ("change", "says"),
    [(("[8, 16]", "[]"), "no runs at scale small"), (("[8, 16]", "[8, 8]"), "asked for twice")],
)
def test_a_plan_of_nothing_or_of_the_same_run_twice_is_refused(
    change: tuple[str, str], says: str
) -> None:
    with pytest.raises(ExperimentError, match=says):
        plan(read("tiny", TINY.replace(*change)), "small")


def test_the_page_of_experiments_names_every_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "experiments.md").read_text("utf-8")

    assert [name for name in experiments() if f"`{name}`" not in page] == []
