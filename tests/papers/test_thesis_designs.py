"""What the thesis says of CENTRALISED and BROKER (chapters 5 and 6), at its sizes where that is quick."""

import pytest

from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate


def run(design: str, parameters=None, **options) -> SimulationOutcome:
    outcome = simulate(
        Scenario(design, seed=1, parameters={"assurance": "none", **(parameters or {})}, **options)
    )
    assert outcome.contract.clean, outcome.scenario.command()
    return outcome


@pytest.fixture(scope="module")
def server() -> SimulationOutcome:
    return run("centralised", peers=4096, casts=1024)


def test_centralised_is_one_by_definition(server):
    assert [server.measures[name] for name in ("RTH", "RAH", "RMH", "PIN_M")] == [1, 1, 1, 1]


def test_centralised_puts_all_load_on_one_machine(server):
    assert server.measures["TOUT_G"] > 0.99
    assert server.measures["TOUT_M"] == server.contract.notified


def test_the_largest_group_of_centralised_is_near_half_of_all_peers(server):
    """Figure 5.1: POUT_M of CENTRALISED near n/2 at skew 1."""
    assert 0.4 * 4096 < server.measures["POUT_M"] < 0.6 * 4096


def test_at_skew_two_the_server_must_reach_everybody():
    measures = run("centralised", peers=512, casts=64, workload_parameters={"skew": 2.0}).measures

    assert measures["POUT_M"] == pytest.approx(512, rel=0.01)


@pytest.mark.long
def test_at_skew_two_the_server_sends_three_and_a_half_million():
    measures = run("centralised", workload_parameters={"skew": 2.0}).measures

    assert measures["POUT_M"] == pytest.approx(4096, rel=0.01)
    assert measures["TOUT_M"] > 3_000_000


LABORATORY = {"peers": 1024, "casts": 128, "network": "laboratory"}


@pytest.fixture(scope="module")
def laboratory_server() -> SimulationOutcome:
    return run("centralised", **LABORATORY)


@pytest.fixture(scope="module")
def brokers() -> dict[int, SimulationOutcome]:
    return {count: run("broker", parameters={"brokers": count}, **LABORATORY) for count in (10, 40)}


def test_brokers_relieve_the_server(laboratory_server, brokers):
    for measure in ("POUT_M", "TOUT_M"):
        assert brokers[10].measures[measure] < 0.3 * laboratory_server.measures[measure]


def test_a_broker_hears_of_a_cast_once(brokers):
    assert brokers[10].measures["PIN_M"] == brokers[40].measures["PIN_M"] == 1


def test_brokers_cost_little_time(laboratory_server, brokers):
    assert (
        brokers[10].measures["latency_ms_mean"]
        < 1.3 * laboratory_server.measures["latency_ms_mean"]
    )


def test_more_brokers_carry_less_each_over_more_hops(brokers):
    few, many = brokers[10].measures, brokers[40].measures

    assert many["POUT_M"] < few["POUT_M"]
    assert many["TOUT_M"] < few["TOUT_M"]
    assert many["RAH"] > few["RAH"]


def test_a_larger_routing_error_saves_storage_and_costs_messages():
    exact, loose = (
        run(
            "broker", parameters={"brokers": 20, "routing_error": error}, peers=1024, casts=256
        ).measures
        for error in (0.01, 0.5)
    )

    assert loose["STOR_M"] < exact["STOR_M"]
    assert loose["TIN_M"] > exact["TIN_M"]
    assert loose["RTH"] > exact["RTH"]
