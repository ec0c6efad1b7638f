"""Joins, leaves and new descriptions in a network that loses nothing: then nobody at all may be missed, at any time."""

import pytest

from implicast.casting.bft import step_delivery
from implicast.casting.designs import design, designs
from implicast.trials.campaign import FEW_TAGS
from implicast.world.churn import Churn
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

PEACEABLE = [name for name, each in designs().items() if "joins" in each.survives]


def missed(name: str, seed: int, peers: int = 48) -> str:
    """What was wrong, and how to see it again; empty if all was well."""
    scenario = Scenario(
        name,
        peers=peers,
        casts=80,
        seed=seed,
        workload="zipf",
        workload_parameters=dict(FEW_TAGS),
        parameters=dict(design(name).trial),
        changes=40,
        churn=Churn(joins=12, leaves=8, over_s=40.0),
    )
    outcome = simulate(scenario)
    assert outcome.contract.expected > 100
    return "" if outcome.contract.clean else f"{outcome.contract}; replay: {scenario.command()}"


@pytest.mark.parametrize("name", PEACEABLE)
def test_in_peace_nobody_is_missed(name):
    """With this seed a peer of `bft` cast from a place that it was just taking, and that knew nobody yet."""
    assert not missed(name, 4)


def test_a_publisher_whose_lists_are_behind_casts_anew(monkeypatch):
    """All its places had just lost a neighbour; the ring it began at seemed to be all there is."""
    assert not missed("bft", 137, 41)
    monkeypatch.setattr(step_delivery, "RECASTS_MAX", 0)
    assert "missing=0" not in missed("bft", 137, 41)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", PEACEABLE)
def test_in_peace_nobody_is_missed_in_fifty_worlds(name):
    wrong = [missed(name, seed, 24 + seed % 60) for seed in range(100, 150)]

    assert not any(wrong), "\n".join(filter(None, wrong))
