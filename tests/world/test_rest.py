"""Where nothing changes upkeep rests: what casts cost and whom they reach is what it would be if it went on."""

from dataclasses import replace

import pytest

from implicast.casting.designs import DESIGN_MODULES
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

FEW = {"tags": 30, "tags_per_peer": 6}
HARDLY = Faults(loss=1e-12)
"""The laboratory cannot promise that nothing happens; nothing does."""


def quiet(design, **given):
    parameters = {"signatures": "stand-in"} if design == "bft" else {}
    return Scenario(design, 48, 40, 3, parameters, workload_parameters=FEW, **given)


@pytest.mark.parametrize("design", sorted(DESIGN_MODULES))
def test_casts_cost_what_they_cost_where_upkeep_goes_on(design):
    scenario = quiet(design, interval_ms=5000)

    rests, goes_on = simulate(scenario), simulate(replace(scenario, faults=HARDLY))

    assert rests.contract == goes_on.contract
    assert not rests.contract.missing
    assert not rests.objections
    assert goes_on.messages["upkeep"], "there is upkeep that can rest"
    if design != "spice-unloaded":  # levels are raised by those who measure the casts
        assert not rests.messages.get("upkeep")
    assert rests.messages["cast"] == pytest.approx(goes_on.messages["cast"], rel=0.03)
    assert rests.measures["latency_ms_mean"] == pytest.approx(
        goes_on.measures["latency_ms_mean"], rel=0.03
    )


@pytest.mark.parametrize("design", sorted(DESIGN_MODULES))
def test_a_network_at_rest_takes_registrations_by_message(design):
    run = simulate(quiet(design, register="messages", strict=True))

    assert run.contract.expected
    assert not run.contract.missing
    assert not run.objections


@pytest.mark.parametrize("design", ["dht", "spice", "condcast"])
def test_a_network_that_grows_is_kept_up(design):
    run = simulate(replace(quiet(design, interval_ms=5000), peers=16, start="joined"))

    assert run.messages["upkeep"]
    assert not run.contract.missing
    assert not run.objections
