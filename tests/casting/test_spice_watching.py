"""A watch that remembers says at every look what a fresh look says."""

import pytest

from implicast.casting.designs import design
from implicast.trials.campaign import scenario_of
from implicast.world.fault_injector import FaultInjector
from implicast.world.populations import population
from implicast.world.populations.registries import OBJECTIONS_MAX, record_objections
from implicast.world.populations.registry_watch import RegistryWatch
from implicast.world.simulate import simulate

UNFOUND = "would not find"


@pytest.mark.parametrize(
    ("name", "number"), [("spice", 1), ("spice", 4), ("spice-unloaded", 0), ("spice-unloaded", 3)]
)
def test_through_change_it_says_what_a_fresh_look_says(name, number, monkeypatch):
    looks = []

    def sample(injector):
        here = injector.present()
        remembered, fresh = (
            injector.overlay_check(here),
            population(injector.design).objections(here),
        )
        assert remembered == fresh
        looks.append(fresh)
        injector.samples.append((injector.world.now_us, fresh))
        return fresh

    monkeypatch.setattr(FaultInjector, "check", sample)
    simulate(scenario_of(design(name), 4711, number))
    assert any(looks), "something was wrong in between"
    assert not looks[-1]


@pytest.mark.parametrize("name", ["spice", "spice-unloaded"])
def test_a_record_that_goes_is_missed_at_the_next_look_and_found_again(name, monkeypatch):
    missed = []
    sample = FaultInjector.check

    def tampering(injector):
        found = sample(injector)
        here = injector.present()
        if not found and not missed:
            registry = _largest(here)
            held = next(iter(registry.records.values()))
            registry.remove(held)
            fresh = list(record_objections(here))
            missed.extend([fresh, injector.overlay_check(here)])
            registry.keep(
                held.entry,
                injector.world.now_us,
                injector.world.now_us + here[0].settings.lease_us,
                safe=True,
            )
            assert not injector.overlay_check(here)
        return found

    monkeypatch.setattr(FaultInjector, "check", tampering)
    simulate(scenario_of(design(name), 4711, 1))
    fresh, remembered = missed
    assert any(UNFOUND in each for each in fresh)
    assert remembered == fresh[:OBJECTIONS_MAX]


def test_a_member_that_has_not_registered_is_not_missed():
    assert RegistryWatch()([]) == []


def _largest(peers):
    """A registry with many records of consumers that are there."""
    here = {
        each.name
        for each in peers
        if each.description is not None and not each.registrations.awaited
    }
    found = [
        each
        for peer in peers
        for each in peer.registries.by_key.values()
        if each.records and not each.closed and here.issuperset(each.records)
    ]
    return max(found, key=lambda each: len(each.records))
