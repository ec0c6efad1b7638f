"""Receipts under change: complete only if every member that was owed the cast was notified or is counted."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from implicast.casting.designs import design
from implicast.net.commands.cli import receipt_text
from implicast.trials.campaign import CampaignOptions, scenario_of
from implicast.world.churn import Churn
from implicast.world.scenario import MESSAGES, Scenario
from implicast.world.scripted_events import ScriptedEvent

sys.path.insert(0, str(Path(__file__).parent))
from receipt_audit import Audit, audit, scenarios

PEERS = 24
QUIET = (
    "centralised",
    "broker",
    "dht",
    "dht-naive",
    "chord-pubsub",
    "condcast",
    "spice",
    "spice-unloaded",
    "bft",
)


def frozen_half(name: str, casts: int = 70) -> Scenario:
    """Every second peer is frozen for 40 s, while the others cast once a second."""
    frozen = tuple(
        ScriptedEvent(2.0, 42.0, "freeze", (peer,), 0.0, "") for peer in range(0, PEERS, 2)
    )
    return Scenario(
        name,
        peers=PEERS,
        casts=casts,
        seed=991,
        workload="groups",
        register=MESSAGES,
        churn=Churn(events=frozen),
    )


def incomplete(found: Audit) -> int:
    return found.settled - found.complete


def test_receipts_of_a_half_frozen_ring_do_not_look_complete() -> None:
    found = audit(frozen_half("condcast"))
    assert found.mistakes == []
    assert incomplete(found) > 10, "half of the ring was silent for 40 s"


@pytest.mark.parametrize("name", QUIET)
def test_without_trouble_every_receipt_is_complete(name: str) -> None:
    quiet = Scenario(name, peers=PEERS, casts=20, seed=991, workload="groups", register=MESSAGES)
    found = audit(quiet)
    assert (found.settled, found.complete, found.mistakes) == (20, 20, [])


@pytest.mark.parametrize(("name", "number"), [("broker", 0), ("broker", 18), ("condcast", 0)])
def test_scenarios_whose_receipts_hid_a_loss(name: str, number: int) -> None:
    (scenario,) = scenarios(name, 4100, 1, False, number)
    assert audit(scenario).mistakes == []


@pytest.mark.parametrize(("name", "number"), [("dht", 5), ("dht", 8), ("chord-pubsub", 5)])
def test_partitions_in_which_lists_were_lost(name: str, number: int) -> None:
    (scenario,) = scenarios(name, 4100, 1, True, number)
    assert audit(scenario).mistakes == []


def test_receipts_of_condcast_are_complete_again_after_the_members_return() -> None:
    """The gaps end when their members have answered and all tables include them again."""
    found = audit(replace(frozen_half("condcast"), casts=200))
    last = found.complete_at[-20:]
    assert all(last), last


@pytest.mark.parametrize("name", ["condcast", "dht", "chord-pubsub", "broker"])
def test_unreachable_counts_members(name: str) -> None:
    """No receipt counts more unreachable members than there are members."""
    found = audit(replace(frozen_half(name), peers=PEERS))
    assert max(found.unreachable) <= PEERS
    assert found.overcounted == []


def test_no_text_says_that_no_member_matched_while_regions_are_not_known() -> None:
    counts = dict.fromkeys(("expected", "notified", "declined", "unreachable", "open"), 0)
    shown = receipt_text({**counts, "uncertain": 2, "complete": False, "silent": []})
    assert "no member matched" not in shown
    assert "2 regions" in shown


@pytest.mark.long
@pytest.mark.parametrize("name", ["condcast", "broker", "dht", "spice-unloaded", "bft"])
@pytest.mark.parametrize("partitions", [False, True])
def test_campaigns_have_no_false_receipt(name: str, partitions: bool) -> None:
    for scenario in scenarios(name, 7300, 20, partitions):
        assert audit(scenario).mistakes == [], scenario.command()


@pytest.mark.long
def test_lasting_partitions_of_condcast() -> None:
    for number in range(10):
        scenario = scenario_of(design("condcast"), 7301, number, CampaignOptions(lasting=True))
        assert audit(scenario).mistakes == [], scenario.command()
