"""Zave's invariant of rings: the count against brute force, and rings under gentle change at every second."""

from dataclasses import dataclass, field
from random import Random

import pytest

from implicast.overlay.links.refs import Ref
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN
from implicast.world.churn import Churn
from implicast.world.fault_injector import FaultInjector
from implicast.world.populations.links import members
from implicast.world.populations.zave import principals, zave_objections
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


@dataclass
class Listed:
    """A node as the check sees it."""

    me: Ref
    lefts: tuple[Ref, ...]
    settings: LinkSettings = field(default_factory=lambda: LinkSettings(lefts=3))
    state: str = IN
    detector: object = "stand-in"
    """A ring without a detector has no upkeep."""

    @property
    def address(self) -> int:
        return self.me.address


def ring(keys, listed):
    refs = {key: Ref(key, number, 1) for number, key in enumerate(keys)}
    return [Listed(refs[key], tuple(refs[left] for left in listed(key))) for key in sorted(keys)]


def passes_over(after, before, key):
    """Whether a key lies strictly between two keys, counter-clockwise from the first."""
    if before < after:
        return before < key < after
    return before > after and (key > before or key < after)


@pytest.mark.parametrize("seed", range(20))
def test_principals_are_those_that_no_list_passes_over(seed):
    chance = Random(seed)
    keys = chance.sample(range(1000), chance.randrange(2, 30))
    lists = {key: chance.sample(keys, min(len(keys) - 1, 3)) for key in keys}
    nodes = ring(keys, lists.__getitem__)
    expected = [
        key
        for key in keys
        if not any(
            passes_over(after, before, key)
            for own in keys
            for after, before in zip([own, *lists[own]], lists[own], strict=False)
        )
    ]

    assert principals(nodes) == len(expected)


def test_a_member_without_a_live_node_on_its_left_is_found():
    nodes = ring(range(8), lambda key: [(key - step) % 8 for step in (1, 2, 3)])
    dead = Ref(99, 99, 1)
    nodes[5].lefts = (dead,)

    assert zave_objections(nodes) == [f"{nodes[5].address} lists no live node on its left"]


def test_two_rings_through_each_other_have_too_few_principals():
    """Each node lists those of its own ring only: the others lie between them."""
    nodes = ring(range(16), lambda key: [(key - step) % 16 for step in (2, 4, 6)])

    assert zave_objections(nodes) == ["0 of 16 members are principals; 4 are needed"]


@pytest.mark.parametrize("design", ["dht", "condcast"])
@pytest.mark.parametrize("change", ["joins=12,leaves=12", "crashes=6"])
def test_the_invariant_holds_at_every_second_while_members_come_and_go(design, change, monkeypatch):
    seen = []
    real = FaultInjector.violations

    def watched(self):
        rings = [peer.links for peer in self.present() if hasattr(peer, "links")]
        seen.extend(zave_objections(members(rings)))
        seen.append("looked")
        return real(self)

    monkeypatch.setattr(FaultInjector, "violations", watched)
    churn = Churn.parse(f"{change},over_s=60")
    simulate(Scenario(design, peers=48, casts=70, seed=3, workload="groups", churn=churn))

    assert seen.count("looked") > 30
    assert set(seen) == {"looked"}
