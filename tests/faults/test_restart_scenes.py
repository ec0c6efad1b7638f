"""A member that crashes and comes back at its address: nothing owed is missed, nothing is told falsely or twice."""

import pytest
from returning import DISKS, JAZZ, SAMBA, Returning

from implicast.casting.designs import DESIGN_MODULES, design
from implicast.world.populations import population

SERVED = ["centralised", "broker"]
WITHIN_S = {"quick": 15, "default": 40}
"""In again and registered."""


def _given(name: str, setting: str) -> dict:
    """The scene has quick settings; these are the default ones in their place."""
    found = design(name)
    defaults = {each.name: each.default for each in found.parameters if each.name in found.quick}
    return {} if setting == "quick" else defaults


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("setting", ["quick", "default"])
@pytest.mark.parametrize("name", sorted(DESIGN_MODULES))
def test_a_member_that_comes_back_casts_and_is_cast_to_as_before(name, setting, loss, disk):
    within_s = WITHIN_S[setting]
    scene = Returning(name, loss=loss, **_given(name, setting))
    scene.cast(3, times=3)
    scene.go(1 if disk == "kept" else 10)  # of what is under way, a copy of the disk knows nothing
    scene.fall(3)
    scene.go(5)
    scene.rise(3, disk)
    took_s = scene.until(lambda: 3 in scene.joined_us, within_s)
    if 3 not in scene.registered_us:
        scene.register(3, JAZZ)
    if disk == "kept":
        scene.carry_on(3)
    assert took_s + scene.until(lambda: 3 in scene.registered_us, within_s) < within_s
    scene.cast(3, times=3)
    scene.cast(5, times=3)
    scene.go(20)
    scene.register(3, SAMBA)
    assert scene.until(lambda: 3 in scene.registered_us, within_s) < within_s
    scene.cast(6, "samba", times=2)
    scene.go(80)  # who is out of reach is told for 69 s, and the last answer may get lost too

    assert not scene.wrong()
    assert all(3 in owed for owed in list(scene.owed.values())[3:]), (
        "it is owed all that was cast since"
    )
    assert not population(scene.design).objections(list(scene.world.peers.values()))


@pytest.mark.parametrize("name", SERVED)
def test_an_old_copy_of_a_disk_is_outlived(name):
    """The member came back twice with its disk, so that the station knows a later life than the copy does."""
    scene = Returning(name)
    for _ in range(3):
        scene.fall(3)
        scene.go(1)
        scene.rise(3, "kept")
        scene.until(lambda: 3 in scene.registered_us, WITHIN_S["quick"])
        scene.carry_on(3)
        scene.cast(3)
    scene.go(3)
    scene.fall(3)
    scene.go(1)
    scene.rise(3, "old")
    assert scene.until(lambda: 3 in scene.registered_us, WITHIN_S["quick"]) < WITHIN_S["quick"]
    scene.register(3, SAMBA)
    assert scene.until(lambda: 3 in scene.registered_us, WITHIN_S["quick"]) < WITHIN_S["quick"]
    scene.cast(3, "samba")
    scene.cast(5, "samba")
    scene.go(60)

    assert scene.outlived or name == "broker", "another broker than before may not know of it"
    assert not scene.wrong()


@pytest.mark.parametrize("name", sorted(DESIGN_MODULES))
def test_a_cast_whose_publisher_fell_at_once_is_carried_when_it_is_back(name):
    scene = Returning(name)
    scene.world.at(scene.world.now_us, 0, lambda: (scene._cast(3, "jazz"), scene.fall(3)))
    scene.go(5)
    scene.rise(3, "kept")
    scene.until(lambda: 3 in scene.joined_us, WITHIN_S["quick"])
    scene.carry_on(3)
    scene.go(60)

    assert not scene.wrong()
    assert len(scene.owed) == 1
