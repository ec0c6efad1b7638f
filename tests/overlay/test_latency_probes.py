"""Landmarks for newcomers: whom they ask, how they time, which extent they choose, and what it saves."""

from math import pi
from pathlib import Path
from statistics import fmean

import pytest

from implicast.casting.spice.spice import Spice
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.joining import Extent, ProbeRound, ProbeRoundDue
from implicast.overlay.ice.messages import JoinRequest, LatencyProbe, LatencyReply, OwnershipClaim
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.overlay.ice.state import SurfaceState
from implicast.overlay.ice.surface import IceSurface
from implicast.peer.ledger import Ledger
from implicast.space.angle import cosine_of
from implicast.space.morton import BITS
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

QUARTER = 1 << (BITS - 2)
OWNERS = {digit: 100 + digit for digit in range(4)}


class Nobody:
    """A store that keeps nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *given: ()


def newcomer(probe_digits: int = 2) -> tuple[IceSurface, Ledger]:
    ledger = Ledger(seed=3)
    return IceSurface(
        1, ledger, Nobody(), SurfaceSettings(2, cosine_of(pi / 3), probe_digits=probe_digits)
    ), ledger  # type: ignore[arg-type]


def asked(ledger: Ledger, kind: type) -> list[tuple[object, LatencyProbe]]:
    return [(to, message) for to, message in ledger.sent() if type(message) is kind]  # type: ignore[misc]


def answer_all(
    one: IceSurface, ledger: Ledger, trips_us: dict[int, int], bits: dict[int, int]
) -> None:
    """Owners say that a place is theirs; asked directly, each answers after its own time."""
    for _, sound in asked(ledger, LatencyProbe):
        owner = OWNERS[sound.digit]
        one.joining.on_latency_reply(
            owner, LatencyReply(sound.round, sound.digit, False, sound.way.tract[0], 9)
        )
    begun_us = ledger.now_us
    knocks = {sound.digit: sound for _, sound in asked(ledger, LatencyProbe)}
    for digit, round_trip_us in sorted(trips_us.items(), key=lambda pair: pair[1]):
        ledger.now_us = begun_us + round_trip_us
        one.joining.on_latency_reply(
            OWNERS[digit], LatencyReply(knocks[digit].round, digit, True, 0, bits.get(digit, 9))
        )


def test_a_newcomer_asks_in_every_extent_and_looks_on_inside_the_nearest() -> None:
    one, ledger = newcomer()
    one.join((7,))
    first = asked(ledger, LatencyProbe)
    assert [(to, sound.way.tract[0] // QUARTER) for to, sound in first] == [
        (7, digit) for digit in range(4)
    ]

    one, ledger = newcomer()
    one.join((7,))
    answer_all(one, ledger, {0: 90, 1: 30, 2: 20, 3: 50}, {})
    inside = [sound.way.tract[0] for _, sound in asked(ledger, LatencyProbe)]

    assert [code // (QUARTER // 4) for code in inside] == [8, 9, 10, 11], (
        "the four extents of extent 2"
    )


def test_it_asks_for_ground_inside_the_last_extent() -> None:
    one, ledger = newcomer(probe_digits=1)
    one.join((7,))
    answer_all(one, ledger, {0: 90, 1: 30, 2: 70, 3: 50}, {})
    entered = [(to, message) for to, message in ledger.sent() if isinstance(message, JoinRequest)]

    assert [(to, enter.way.tract[0] // QUARTER) for to, enter in entered] == [(7, 1)]


def test_silent_owners_are_passed_over_and_where_all_are_silent_any_place_will_do() -> None:
    one, ledger = newcomer(probe_digits=1)
    one.join((7,))
    answer_all(one, ledger, {3: 50}, {})
    one.joining.on_probe_round_due(ProbeRoundDue(0))
    assert [enter.way.tract[0] // QUARTER for _, enter in asked(ledger, JoinRequest)] == [3]

    one, ledger = newcomer()
    one.join((7,))
    one.joining.on_probe_round_due(ProbeRoundDue(0))
    assert len(asked(ledger, JoinRequest)) == 1


def test_an_extent_that_is_crowded_has_no_room() -> None:
    heard = {0: (10, 12), 1: (20, 9), 2: (30, 9), 3: (40, 8)}

    assert ProbeRound(Extent(), 0, heard=heard).nearest() == 1
    assert ProbeRound(Extent(), 0).nearest() is None


def test_what_strangers_make_up_is_not_heard() -> None:
    one, ledger = newcomer(probe_digits=1)
    one.joining.on_latency_reply(9, LatencyReply(0, 0, True, 0, 9))
    one.join((7,))
    ledger.take()

    one.joining.on_latency_reply(9, LatencyReply(0, 0, True, 0, 9))  # nobody knocked there
    one.joining.on_latency_reply(9, LatencyReply(5, 0, False, 0, 9))  # of no round

    assert not ledger.sent()


def test_the_owner_of_a_place_tells_how_much_ground_there_is() -> None:
    one, ledger = newcomer()
    claim, other = OwnershipClaim(0, 1, 0, 1), OwnershipClaim(2 * QUARTER, 1, 0, 2)
    one.restore(SurfaceState((claim,), (other,), (2,)))
    ledger.take()

    one.routing.on_routed(2, LatencyProbe(RouteHeader((5, 6), 4), 77, 3, 2, True))

    assert (77, LatencyReply(3, 2, True, 5, 1)) in ledger.sent()


def neighbours_ms(sounding: bool, seed: int, directory: Path) -> float:
    """How far neighbours on the surface are from each other on the network, once all have joined by messages."""
    scenario = Scenario(
        "spice",
        96,
        0,
        seed=seed,
        network="national",
        start="joined",
        parameters={"sounding": sounding},
    )
    run = Run(scenario, *scenario.settled(), directory)
    try:
        run.set_up(silent)
        return fmean(
            run.network.latency_us(peer.address, other) / 1000
            for peer in run.population
            if isinstance(peer, Spice)
            for other in peer.surface.ownership.neighbours()
            if isinstance(other, int) and isinstance(peer.address, int)
        )
    finally:
        run.journal.discard()
        run.world.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_those_who_join_by_landmarks_are_nearer_to_their_neighbours(
    seed: int, tmp_path: Path
) -> None:
    near, anywhere = (neighbours_ms(each, seed, tmp_path / str(each)) for each in (True, False))

    assert near < 0.9 * anywhere


def test_where_messages_get_lost_they_join_all_the_same() -> None:
    scenario = Scenario(
        "spice-unloaded",
        32,
        24,
        seed=2,
        network="national",
        faults=Faults(loss=0.05),
        parameters={"sounding": True},
        churn=Churn.parse("joins=6,crashes=2,over_s=20"),
    )
    outcome = simulate(scenario)

    assert outcome.contract_held, (outcome.contract, outcome.objections)
