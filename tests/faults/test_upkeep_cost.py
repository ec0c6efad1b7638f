"""Cost of upkeep: the defaults cost at most sixty messages of upkeep per peer and minute and repair within a
minute; the quick setting repairs within ten seconds. Where one message in a hundred is lost and two die at once."""

import pytest

from implicast.casting.designs import designs
from implicast.world.change import Change
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

SURVIVING = [design.name for design in designs().values() if design.survives]
FEW_TAGS = {"tags": 24, "tags_per_peer": 6}


def change_where_two_die(name: str, quick: bool, seed: int, peers: int) -> Change:
    """A broker where there are brokers, then two peers, and later two more."""
    design = designs()[name]
    parameters = {**design.trial, **(design.quick if quick else {})}
    churn = Churn.parse("fails=1,over_s=1,event=50:crash:3+7,event=100:crash:11+19")
    outcome = simulate(
        Scenario(
            name,
            peers,
            casts=160,
            seed=seed,
            parameters=parameters,
            workload_parameters=FEW_TAGS,
            network="national",
            faults=Faults(loss=0.01),
            churn=churn,
        )
    )
    assert outcome.change is not None
    return outcome.change


def is_worth_its_price(change: Change) -> bool:
    return change.contract_held and change.upkeep_at_rest <= 60 and change.repair_s_max <= 60


def is_quick(change: Change) -> bool:
    return change.contract_held and change.repair_s_max <= 10


@pytest.mark.parametrize("name", SURVIVING)
def test_by_default_sixty_messages_a_minute_buy_repair_within_a_minute(name):
    change = change_where_two_die(name, quick=False, seed=1, peers=32)

    assert is_worth_its_price(change), change


@pytest.mark.parametrize("name", SURVIVING)
def test_the_quick_setting_repairs_within_ten_seconds(name):
    change = change_where_two_die(name, quick=True, seed=1, peers=32)

    assert is_quick(change), change


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", SURVIVING)
def test_both_hold_again_and_again(name, seed):
    default, quick = (change_where_two_die(name, each, seed, peers=48) for each in (False, True))

    assert is_worth_its_price(default), default
    assert is_quick(quick), quick
