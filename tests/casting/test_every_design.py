"""What every design that speaks tags must do: keep the contract, whatever is asked of it in a kind world.

All runs are strict: every message is encoded on sending and compared on arrival.
"""

import pytest

from implicast.casting.designs import designs
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate

TAGS = [name for name, design in designs().items() if "tags" in design.languages]


def run(name: str, **options) -> SimulationOutcome:
    return simulate(
        Scenario(name, strict=True, **{"peers": 96, "casts": 48, "seed": 11, **options})
    )


def assert_kept(outcome: SimulationOutcome) -> None:
    assert outcome.contract.clean, f"{outcome.contract}\nreplay: {outcome.scenario.command()}"
    assert outcome.contract.expected > 0, "a run in which nobody is expected proves nothing"
    assert outcome.objections == []


@pytest.mark.parametrize("name", TAGS)
def test_everyone_selected_is_notified_once_and_nobody_else(name):
    assert_kept(run(name))


@pytest.mark.parametrize("name", TAGS)
def test_expressions_with_several_terms_and_negation(name):
    # Few tags, so that terms overlap and the same peer is selected several times over.
    assert_kept(
        run(name, workload_parameters={"terms": 3, "negated": 1, "tags": 60, "tags_per_peer": 6})
    )


@pytest.mark.parametrize("name", TAGS)
def test_one_tag_that_a_quarter_of_all_peers_hold(name):
    outcome = run(name, workload="extreme")

    assert_kept(outcome)
    assert outcome.contract.expected == 48 * 24


@pytest.mark.parametrize("name", TAGS)
def test_descriptions_that_change_while_casts_are_under_way(name):
    more = {"peers": 24, "changes": 16} if name == "bft" else {"changes": 40}
    assert_kept(run(name, **more, workload_parameters={"tags": 60, "tags_per_peer": 6}))


@pytest.mark.parametrize("name", TAGS)
def test_grown_by_joining_through_messages(name):
    assert_kept(
        run(
            name,
            peers=24 if name == "bft" else 40,
            casts=24,
            start="joined",
            workload_parameters={"tags": 60, "tags_per_peer": 6},
        )
    )


@pytest.mark.parametrize("name", TAGS)
@pytest.mark.parametrize("peers", [1, 2, 3])
def test_very_small_populations(name, peers):
    outcome = run(name, peers=peers, casts=16, workload_parameters={"tags": 6, "tags_per_peer": 4})

    assert_kept(outcome)


@pytest.mark.parametrize("name", TAGS)
def test_nobody_fits(name):
    outcome = run(
        name,
        peers=24,
        casts=12,
        workload_parameters={"tags": 37000, "tags_per_peer": 1, "skew": 0.0},
    )

    assert outcome.contract.clean
    assert outcome.contract.notified == 0
