"""Every design is one program: the parameter `assurance` says whether steps are confirmed, and nothing else chooses."""

import pytest

from implicast.casting.designs import designs
from implicast.language.parameters import ParameterError
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


@pytest.mark.parametrize("name", list(designs()))
def test_a_design_has_assurance_and_no_second_form(name):
    one = designs()[name]
    (assurance,) = (each for each in one.parameters if each.name == "assurance")

    assert (assurance.default, assurance.choices) == ("receipts", ("none", "receipts"))
    with pytest.raises(ParameterError, match="alive"):
        one.settle({"alive": True})


@pytest.mark.parametrize("name", list(designs()))
def test_settings_that_designs_themselves_name_are_taken(name):
    one = designs()[name]
    for settings in ({}, one.quick, *one.upkeep_points):
        assert one.settle({**one.trial, **settings})["assurance"] == "receipts"


@pytest.mark.parametrize("name", list(designs()))
def test_receipts_cost_at_most_twice_the_messages_and_no_time(name):
    """At equal replication; the price that is allowed is 2.1 times and one more."""
    found = {}
    equal = {"replication": "beforehand"} if name == "spice-unloaded" else {}
    signatures = {"signatures": "stand-in"} if name == "bft" else {}
    for assurance in ("none", "receipts"):
        parameters = {"assurance": assurance, **equal, **signatures}
        outcome = simulate(
            Scenario(name, 128, 32, parameters=parameters, workload_parameters={"tags_per_peer": 6})
        )
        assert outcome.contract.clean
        found[assurance] = outcome.measures
    none, receipts = found["none"], found["receipts"]

    assert none["RTH"] < receipts["RTH"] <= 2.1 * none["RTH"] + 1
    assert receipts["latency_ms_mean"] <= 1.05 * none["latency_ms_mean"]
