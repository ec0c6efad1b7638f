"""After a power cut no peer repeats more messages in a second than its budget allows, and all promises hold."""

from collections import Counter

import pytest

from implicast.casting.designs import design
from implicast.world.churn import Churn
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

BUDGET = 20
"""Small, so that 64 peers exceed it."""
POWER_CUT = "outages=1,outage_share=0.5..0.5,away_s=30..30,over_s=10"
KINDS = {"centralised": {"Notify", "EventNotify"}, "broker": {"Notify", "ForwardToBroker"}}


def most_repeats(folder, name, per_s):
    """The largest number of messages that one front end repeated in one second, and the outcome. A
    repeat is a message of one cast that was sent to the same peer before: counted in the journal.
    """
    scenario = Scenario(
        name,
        peers=64,
        casts=60,
        seed=3,
        parameters={**design(name).trial, "repairs_per_s": per_s},
        workload="groups",
        network="national",
        interval_ms=300,
        register="messages",
        churn=Churn.parse(POWER_CUT),
    )
    outcome = simulate(scenario, folder)
    sends = read(folder, "sends").select(["sent_us", "sender", "receiver", "kind", "cast"])
    known, repeats = set(), Counter()
    for sent_us, sender, receiver, kind, cast in zip(
        *[column.to_pylist() for column in sends.columns], strict=True
    ):
        if kind in KINDS[name]:
            this = sender, receiver, kind, cast
            repeats[sender, sent_us // 1_000_000] += this in known
            known.add(this)
    return max(repeats.values()), outcome


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_power_cut_causes_no_flood_of_repeats(tmp_path, name):
    flood, _ = most_repeats(tmp_path / "flood", name, 100_000)
    most, outcome = most_repeats(tmp_path / "budget", name, BUDGET)

    assert flood > 2 * BUDGET, "else this shows nothing"
    assert most <= 2 * BUDGET
    assert outcome.contract.missing == outcome.contract.repeated == 0
    assert outcome.contract.uninvited == outcome.contract.misreported == 0
