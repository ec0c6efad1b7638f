"""A member that is frozen while casts go to it is counted as unreachable, in every design that notifies by peers."""

from importlib import import_module

import pyarrow.compute as pc
import pytest
from mistake import without_unreachable

from implicast.casting.designs import design
from implicast.world.churn import Churn
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

PUBLISHERS = {
    "dht": "implicast.casting.replicated_lists.member",
    "spice": "implicast.casting.spice.casts",
    "bft": "implicast.casting.bft.coverage",
}
"""By design, the module that makes the receipts of its casts."""


def most_unreachable(name, folder, until_s):
    """The largest number of unreachable members in the receipt of a cast, where all are selected and one is frozen."""
    scenario = Scenario(
        name,
        peers=12,
        casts=until_s + 10,
        seed=1,
        parameters={**design(name).trial, "assurance": "receipts"},
        workload="zipf",
        workload_parameters={"tags": 1, "tags_per_peer": 1, "tags_per_cast": 1},
        interval_ms=1000,
        register="messages",
        churn=Churn.parse(f"event=5..{until_s}:freeze:3"),
    )
    simulate(scenario, folder)
    return pc.max(read(folder, "casts")["unreachable"]).as_py()


@pytest.mark.parametrize(("name", "until_s"), [("dht", 60), ("spice", 150), ("bft", 60)])
def test_a_frozen_member_is_counted_as_unreachable_and_no_other(
    name, until_s, tmp_path, monkeypatch
):
    assert most_unreachable(name, tmp_path / "true", until_s) == 1

    monkeypatch.setattr(import_module(PUBLISHERS[name]), "Settled", without_unreachable)
    assert most_unreachable(name, tmp_path / "false", until_s) == 0, "the receipt is made here"
