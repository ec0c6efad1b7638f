"""Attributes that are made when they are first looked for, and objects that are done with it."""

import pytest

from implicast.casting.designs import designs
from implicast.peer.lazy_attributes import piecemeal, unmade
from implicast.world.run import Run
from implicast.world.scenario import Scenario


class Box:
    __slots__ = ("inside", "lid")

    def __init__(self):
        self.__class__ = unmade(Box, ("inside",), Box.fill)

    def fill(self):
        self.inside, self.__class__ = ["thing"], Box


class Kit:
    __slots__ = ("hammer", "saw")

    def __init__(self):
        self.__class__ = piecemeal(Kit, Kit.make)

    def make(self, name):
        if name not in Kit.__slots__:
            raise AttributeError(name)
        setattr(self, name, f"a {name}")
        return getattr(self, name)


def test_what_is_missing_is_made_once_and_then_the_object_is_of_the_plain_class():
    box = Box()
    assert type(box) is not Box
    inside = box.inside
    assert type(box) is Box
    assert box.inside is inside


def test_what_is_not_to_be_made_is_not_there():
    with pytest.raises(AttributeError, match="lid"):
        Box().lid  # noqa: B018


def test_parts_are_made_one_by_one():
    kit = Kit()
    assert kit.saw == "a saw"
    assert type(kit) is not Kit
    with pytest.raises(AttributeError, match="plane"):
        kit.plane  # noqa: B018


@pytest.mark.parametrize("name", ["spice", "spice-unloaded"])
def test_a_peer_with_receipts_has_nothing_that_is_looked_for_by_hand(name, tmp_path):
    """Every look at an attribute of an object that may have to make it costs ten times as much."""
    design = designs()[name]
    scenario = Scenario(name, peers=24, casts=4, workload="groups")
    run = Run(scenario, design, scenario.settled()[1], tmp_path / "journal")
    run.go(lambda *told: None)
    for peer in run.population:
        surface, registries = peer.surface, peer.registries
        parts = [getattr(peer, part) for part in peer.parts] + [
            getattr(surface, part) for part in surface.parts
        ]
        kept = [*registries.by_key.values(), surface.ownership.claim_map, surface.routing.table]
        for each in (peer, registries, *parts, *kept):
            assert not hasattr(type(each), "__getattr__"), f"{type(each)} of {peer.address}"
