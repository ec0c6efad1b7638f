"""SPICE with receipts through the scenes in which earlier versions of its rules failed, each judged from outside."""

from dataclasses import replace

import pytest
from spice_scenes import Spite, cut_links, draws, nothing, play, scenario, twins

from implicast.casting.designs import design
from implicast.trials.campaign import check, scenario_of

SCENES = {
    "calm": ("drift=0.001", nothing),
    "flux": ("joins=10,leaves=10", nothing),
    "crash": ("crashes=4,joins=3,leaves=2", nothing),
    "twins": ("joins=6", twins),
    "freeze": ("freezes=6", nothing),
    "cutlink": ("joins=2,leaves=2", cut_links),
    "cut": ("splits=1,split_s=3..20", nothing),
    "draw": ("joins=4,leaves=2,crashes=3", draws),
}
SHORT, LONG = 1, 24


def runs(monkeypatch, name, seeds):
    churn, hook = SCENES[name]
    for seed in seeds:
        start = "joined" if name == "calm" else "assembled"
        found = play(monkeypatch, scenario(seed, churn, start), hook, alone=name != "cut")
        assert not found.reasons, (seed, found.reasons)


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_clean(monkeypatch, name):
    runs(monkeypatch, name, range(1, 1 + SHORT))


def test_spite_is_in_vain(monkeypatch):
    spite(monkeypatch, range(2, 2 + SHORT))


def spite(monkeypatch, seeds):
    hook = Spite(monkeypatch)
    for seed in seeds:
        found = play(monkeypatch, scenario(seed, "joins=4,leaves=3"), hook)
        hook.scene = None
        assert not found.reasons, (seed, found.reasons)


def test_levels_rise_and_fall_while_peers_come_and_go(monkeypatch):
    levels(monkeypatch, range(3, 3 + SHORT))


def levels(monkeypatch, seeds):
    for seed in seeds:
        restless = {"frequency_limit": 0.06, "rate_s": 4.0, "deepest_level": 1}
        found = play(monkeypatch, scenario(seed, "joins=4,leaves=3,crashes=2", **restless), nothing)
        assert not found.reasons, (seed, found.reasons)


LOW = {"storage_limit": 4, "frequency_limit": 0.08, "rate_s": 10.0, "deepest_level": 1}
"""Limits so low that registries spread, are drawn together, raised and lowered all the time."""


def restless(numbers, seed=1):
    """Scenarios of a campaign with low limits; what was wrong with them."""
    drawn = (scenario_of(design("spice-unloaded"), seed, number) for number in numbers)
    findings = (check(replace(each, parameters={**each.parameters, **LOW})) for each in drawn)
    return [(one.reasons[:3], one.scenario.command()) for one in findings if one.reasons]


def test_random_change_meets_restless_registries():
    assert not restless((3, 13))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_random_change_meets_restless_registries_five_hundred_times():
    assert not restless(range(500), seed=7)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_clean_many_times(monkeypatch, name):
    runs(monkeypatch, name, range(100, 100 + LONG))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_spite_is_in_vain_many_times(monkeypatch):
    spite(monkeypatch, range(100, 100 + LONG))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_levels_rise_and_fall_many_times(monkeypatch):
    levels(monkeypatch, range(100, 100 + LONG))
