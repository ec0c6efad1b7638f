"""A network that is assembled at once knows what one that registered by messages has found out."""

from implicast.world.run import Run
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

LIMIT = 6
"""Records at one peer under one tag: some registries of so small a network are closed."""


def registered(monkeypatch, how):
    """When everybody is registered, by peer: who confirmed what went up, and what all roots are known to have."""
    ways, pushes = {}, {}

    def look(run, progress):
        ways.update(
            {
                each.address: dict(each.stores.holders_above)
                for each in run.population
                if each.stores.holders_above
            }
        )
        pushes.update(
            {
                each.address: dict(each.pushes.copied)
                for each in run.population
                if each.pushes.copied
            }
        )

    monkeypatch.setattr(Run, "cast", look)
    parameters = {"storage_limit": LIMIT}
    simulate(
        Scenario(
            "spice-unloaded",
            peers=60,
            casts=1,
            workload="groups",
            register=how,
            parameters=parameters,
        )
    )
    return ways, pushes


def test_renewals_know_their_way_up_and_what_all_roots_have_as_after_registering_by_messages(
    monkeypatch,
):
    ways, pushes = registered(monkeypatch, "assembled")

    assert ways
    assert pushes
    assert (ways, pushes) == registered(monkeypatch, "messages")
