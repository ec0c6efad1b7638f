"""A member of bft that crashes and comes back at its address; an authority that falls and rises."""

import pytest
from returning import DISKS, JAZZ, SAMBA, Returning

from implicast.world.populations import population

WITHIN_S = 15


def back(scene: Returning, disk: str, away_s: float = 5) -> float:
    """One falls and comes back; how long it takes to be registered again."""
    scene.fall(3)
    scene.go(away_s)
    scene.rise(3, disk)
    start_us = scene.world.now_us
    if disk == "empty":
        scene.until(lambda: 3 in scene.joined_us, 40)
        scene.register(3, JAZZ)
    scene.until(lambda: 3 in scene.registered_us, 40)
    if disk == "kept":
        scene.carry_on(3)
    return (scene.world.now_us - start_us) / 1e6


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("away_s", [1, 20])
def test_a_member_that_comes_back_casts_and_is_cast_to_as_before(
    loss: float, disk: str, away_s: float
) -> None:
    scene = Returning("bft", loss=loss)
    scene.cast(3, times=3)
    scene.go(1 if disk == "kept" else 10)
    assert back(scene, disk, away_s) < WITHIN_S
    scene.cast(3, times=3)
    scene.cast(5, times=3)
    scene.go(20)
    scene.register(3, SAMBA)
    assert scene.until(lambda: 3 in scene.registered_us, WITHIN_S) < WITHIN_S
    scene.cast(6, "samba", times=2)
    scene.go(60)

    assert not scene.wrong()
    assert all(3 in owed for owed in list(scene.owed.values())[3:]), (
        "it is owed all that was cast since"
    )
    if not loss:  # where messages are lost, somebody may be suspected at any time, for a moment
        assert not population(scene.design).objections(list(scene.world.peers.values()))


def test_an_old_copy_that_knows_other_places_than_the_last_life_had() -> None:
    scene = Returning("bft")
    scene.register(3, SAMBA)
    scene.until(lambda: 3 in scene.registered_us, WITHIN_S)
    scene.go(10)

    assert back(scene, "old") < WITHIN_S
    scene.said[3] = JAZZ
    scene.cast(5, times=2)
    scene.cast(3, times=2)
    scene.go(60)

    assert not scene.wrong()
    assert not population(scene.design).objections(list(scene.world.peers.values()))


@pytest.mark.parametrize("disk", ["kept", "old", "empty"])
def test_an_authority_that_falls_and_rises_is_hardly_missed(disk: str) -> None:
    scene = Returning("bft")
    office = scene.plan.peers
    old = scene.world.peers[office].durable_state()
    scene.register(5, SAMBA)
    scene.until(lambda: 5 in scene.registered_us, WITHIN_S)
    kept = {"kept": scene.world.peers[office].durable_state(), "old": old, "empty": None}[disk]
    scene.world.crash(office)
    scene.go(3)
    scene.fall(3)
    scene.go(2)
    scene.rise(3, "kept")
    assert scene.until(lambda: 3 in scene.registered_us, WITHIN_S) < WITHIN_S, (
        "its old certificates will do"
    )
    scene.world.place(
        office, scene.plan.new_fixture(scene.design, office, kept.incarnation if kept else 0, kept)
    )

    scene.register(6, SAMBA)
    assert scene.until(lambda: 6 in scene.registered_us, WITHIN_S) < WITHIN_S
    scene.go(30)
    scene.cast(3, "samba", times=2)
    scene.cast(5, times=2)
    scene.go(60)

    assert not scene.wrong()
    assert not population(scene.design).objections(
        [peer for peer in scene.world.peers.values() if peer.address != office]
    )


@pytest.mark.parametrize("seed", [5, 6])
def test_who_comes_back_does_not_count_again_whom_its_last_life_counted(seed: int) -> None:
    """Two are away while a cast is made; four who served others fall when they have reported. All come back, and those
    who were away serve the four once more."""
    scene = Returning("bft", peers=24, seed=seed)
    away, served = (1, 2), (3, 4, 5, 6)
    for address in away:
        scene.fall(address)
    scene.cast(0)
    scene.go(0.5)
    for address in served:
        scene.fall(address)
    scene.go(0.5)
    for address in (*served, *away):
        scene.rise(address, "kept")
    scene.go(60)

    (settled,) = scene.settled.values()
    assert len(scene.told) == 24, "everybody is told in the end"
    assert 24 - len(served) <= settled.notified <= 24, (
        "nobody counts twice; those below who fell may not count"
    )


@pytest.mark.parametrize("silent", [1, 3, 7, 8])
def test_a_neighbour_whose_answers_were_lost_gets_the_cast_from_its_publisher_all_the_same(
    silent: int,
) -> None:
    """Nobody else would send it: both are of the ring at which the cast begins."""
    scene = Returning("bft")
    scene.member(5).graph.lose_peer(silent)
    scene.cast(5)
    scene.go(1)

    (settled,) = scene.settled.values()
    assert len(scene.told) == settled.notified == 12, (
        "before anybody could have told them by an echo"
    )


def test_a_publisher_does_not_wait_long_for_one_that_fell_silent_just_now() -> None:
    """The receipt is final in 7 s. A lost peer may be alive, so it is not counted as unreachable:
    the region where it was is uncertain.
    """
    scene = Returning("bft")
    scene.fall(7)
    for address in range(12):
        if address != 7:
            scene.member(address).graph.lose_peer(7)
    scene.cast(5)
    scene.go(7)

    (settled,) = scene.settled.values()
    assert (settled.notified, settled.unreachable) == (11, 0)
    assert settled.uncertain > 0
