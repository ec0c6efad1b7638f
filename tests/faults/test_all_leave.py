"""A whole system is shut down: everybody leaves at one moment, and everybody gets away within two minutes."""

import pytest

from implicast.casting.designs import design, designs
from implicast.world.churn import Churn
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

LEAVING = [name for name, each in designs().items() if "leaves" in each.survives]
PEERS = 12


@pytest.mark.parametrize("name", LEAVING)
def test_all_may_leave_at_once(name):
    everybody = "+".join(map(str, range(PEERS)))
    churn = Churn.parse(f"event=5:leave:{everybody}")
    scenario = Scenario(
        name,
        peers=PEERS,
        casts=120,
        workload="groups",
        parameters=dict(design(name).trial),
        churn=churn,
    )

    outcome = simulate(scenario)

    assert not outcome.change.complaints
    assert not outcome.contract.repeated
