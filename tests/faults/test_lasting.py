"""Campaigns of lasting hardship: partitions, cuts and freezes that outlast every patience that designs have."""

from dataclasses import replace

import pytest
from drawn import as_found

from implicast.casting.designs import design, designs
from implicast.trials.campaign import (
    CUT_S,
    FREEZE_S,
    SPLIT_S,
    CampaignOptions,
    campaign,
    check,
    scenario_of,
)

ALIVE = [name for name, each in designs().items() if each.survives]
LONG = 200
FOUND = {
    (
        "dht-naive",
        3,
        6,
    ): "the entries of one cut off for minutes were lost on both sides, and nobody asked it any more",
    ("bft", 3, 11): "after minutes apart two sides knew each other's home places only",
    (
        "spice",
        4,
        59,
    ): "an heir that was cut off took over with an old copy and gave the ground to one with a newer",
    ("spice-unloaded", 3, 11): "those cut off did not hear that their records were lost",
    (
        "spice-unloaded",
        28001,
        88,
    ): "heirs had been told that a part is open, which then was given away in half",
}


def test_lasting_scenarios_are_the_others_with_longer_hardship():
    for number in range(20):
        plain = scenario_of(design("dht"), 1, number)
        lasting = scenario_of(design("dht"), 1, number, lasting=True)

        assert replace(lasting, churn=plain.churn, casts=plain.casts) == plain
        assert lasting.casts >= plain.casts
        for drawn, among in ((lasting.churn.split_s, SPLIT_S), (lasting.churn.cut_s, CUT_S)):
            assert among[0] * 0.7 <= drawn[0] <= drawn[1] <= among[1] + 0.1


def test_partitions_are_drawn_from_half_a_minute_to_minutes():
    longest = sorted(
        scenario_of(design("bft"), 1, number, lasting=True).churn.split_s[1] for number in range(60)
    )

    assert longest[15] < 70
    assert longest[45] > 120
    assert any(
        scenario_of(design("bft"), 1, number, lasting=True).churn.freeze_s[1] > 100
        for number in range(60)
    )
    assert FREEZE_S[1] > 100


@pytest.mark.parametrize(
    ("name", "seed", "number"),
    [
        pytest.param(*each, marks=[pytest.mark.long] if each[0] == "spice-unloaded" else [])
        for each in FOUND
    ],
)
def test_a_lasting_scenario_in_which_a_fault_was_found_is_clean(name, seed, number):
    found = check(as_found(scenario_of(design(name), seed, number, lasting=True)))

    assert not found.reasons, (FOUND[name, seed, number], found.reasons, found.scenario.command())


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ALIVE)
def test_a_design_keeps_its_promises_through_lasting_hardship(name):
    failed = campaign(design(name), LONG, seed=7, options=CampaignOptions(lasting=True))

    assert not failed, "\n".join(
        f"{one.reasons[:3]} replay: {one.scenario.command()}" for one in failed
    )
