"""A newcomer is owed its place, unless all whom it knew went before it could speak with any of them."""

import pytest

from implicast.overlay.links.membership import Membership
from implicast.space.digest import stream
from implicast.world.churn import Churn
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

SEED, PEERS = 5, 10
KNOWN = "+".join(map(str, stream(SEED, "introducers of newcomers").sample(range(PEERS), 3)))
"""Whom the newcomer will know."""


def complaints(*events: str) -> list[str]:
    churn = ",".join(["guests=1", *(f"event={each}" for each in (f"2:join:{PEERS}", *events))])
    outcome = simulate(Scenario("dht", PEERS, 60, SEED, {}, "groups", churn=Churn.parse(churn)))
    assert outcome.change is not None
    return outcome.change.complaints


def test_one_whose_acquaintances_all_went_while_it_was_cut_off_is_excused():
    assert complaints(f"1..30:split:{PEERS}", f"5:crash:{KNOWN}") == []


@pytest.mark.parametrize("events", [(f"5:crash:{KNOWN}",), (f"1..10:split:{PEERS}",)])
def test_one_that_could_have_spoken_with_one_of_them_is_not(events, monkeypatch):
    monkeypatch.setattr(Membership, "lookup_place", lambda self: None)

    assert complaints(*events) == [f"{PEERS} never joined"]
