"""Signed words in every design: what is said honestly is believed, in quiet and in change."""

import pytest

from implicast.casting.designs import designs
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate

KNOBS = {"tags": 30, "tags_per_peer": 4}
SIGNED = {"signed": True, "signatures": "stand-in"}


def run(name: str, **more) -> SimulationOutcome:
    given = {"peers": 24, "casts": 12, "workload_parameters": KNOBS, "parameters": SIGNED, **more}
    return simulate(Scenario(design=name, **given))


@pytest.mark.parametrize("name", designs())
def test_signed_casts_reach_those_who_have_signed_what_they_are(name):
    outcome = run(name, register="messages")

    assert outcome.contract.expected >= 20
    assert outcome.contract.notified == outcome.contract.expected
    assert outcome.contract_held, outcome.described()
    assert not outcome.objections


@pytest.mark.parametrize(
    "name", ["centralised", "broker", "dht", "spice", "condcast", "chord-pubsub"]
)
def test_members_that_begin_again_go_on_above_their_own_signed_words(name):
    churn = Churn(joins=2, crashes=1, returns=3, disk="any", over_s=20.0)
    outcome = run(name, peers=16, churn=churn, faults=Faults(loss=0.02))

    assert outcome.contract_held, outcome.described()
