"""Trials for the laboratory give the same numbers by name at every point."""

import pytest

from implicast.lab.trial_rows import attacks, condcast_age, condcast_traffic


def test_traffic_has_the_same_columns_at_every_width():
    rows = [condcast_traffic("bitmap", width, nodes=20, casts=10) for width in (10, 30)]

    assert rows[0].keys() == rows[1].keys()
    assert 0 < rows[0]["messages_per_node"] < rows[1]["messages_per_node"]


def test_nobody_is_missed_once_a_change_is_visible():
    row = condcast_age(nodes=10, flows=1, changes=2)

    assert row["missed_once_visible"] == row["bystanders_missed"] == 0
    assert row["age_mean_s"] > 0


@pytest.mark.long
def test_the_byzantine_design_bears_liars_that_others_do_not():
    rows = {name: attacks(name, 0.2, peers=48, casts=6) for name in ("bft", "condcast")}

    assert {key for key in rows["bft"] if not key.startswith("noticed_s_")} <= rows[
        "condcast"
    ].keys()
    assert "noticed_s_silent" in rows["bft"], "and how soon, where any is noticed"
    assert "noticed_s_silent" not in rows["condcast"], "no moment of what never came"
    assert rows["bft"]["expected"] == rows["condcast"]["expected"] > 50
    assert rows["bft"]["arrival_dropping"] > 0.98 > rows["condcast"]["arrival_dropping"]
    assert rows["bft"]["forged_forging"] == 0 < rows["condcast"]["forged_forging"]
