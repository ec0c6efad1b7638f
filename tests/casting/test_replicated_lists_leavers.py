"""Who leaves sees its own casts off first."""

import pytest

from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

RINGS = ["dht", "dht-naive", "chord-pubsub", "opchord-pubsub"]


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("seed", [2133078204, 1, 2, 3])
def test_a_cast_made_just_before_leaving_arrives_though_messages_get_lost(name, seed):
    scenario = Scenario(
        name,
        peers=24,
        casts=8,
        seed=seed,
        workload="groups",
        network="national",
        faults=Faults(loss=0.05),
        churn=Churn.parse("event=5.01:leave:3"),
    )
    outcome = simulate(scenario)

    assert outcome.contract.missing == outcome.contract.excused == 0, outcome.contract
    assert outcome.change is not None
    assert not outcome.change.complaints, "and it has left"
