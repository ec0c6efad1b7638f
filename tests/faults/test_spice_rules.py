"""Rules of SPICE whose absence only the right moment shows: each is left out, and the scene objects."""

import pytest
from spice_scenes import OVER_S, Scene, Spite, nothing, play, scenario

from implicast.casting.spice.containers import Containers
from implicast.casting.spice.pushes import ReplicaPushes
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.stores import FlushOutbox, Stores
from implicast.casting.spice.traversal_messages import CastRequest, ReregisterRequest
from implicast.casting.spice.traversals import Traversals

QUIET = "event=44:join:20"
"""One newcomer, late: a scene of a campaign must change something."""


def missing(finding) -> int:
    """Of casts made while things changed."""
    return finding.outcome.change.during.missing


# --- what is not covered is sent again


def crash_at_arrival(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the peer that a cast has just reached dies before it does anything."""
    whole = Traversals.process_here
    struck: list[int] = []

    def fatal(peer, branch, traversal, part):
        now_us = scene.run.world.now_us
        calm_us = struck[-1] + 9_000_000 if struck else scene.start_us
        fits = (
            isinstance(traversal, CastRequest)
            and branch is not None
            and branch.from_hop is not None
        )
        if fits and calm_us < now_us < scene.start_us + OVER_S * 1_000_000 and len(struck) < 4:
            struck.append(now_us)
            scene.crash(peer.address)
        else:
            whole(peer, branch, traversal, part)

    monkeypatch.setattr(Traversals, "process_here", fatal)


def fatal_arrivals(monkeypatch, seed=5):
    with monkeypatch.context() as patch:
        return play(patch, scenario(seed, QUIET), lambda scene: crash_at_arrival(scene, patch))


def test_a_cast_survives_a_crash_of_the_peer_it_has_just_reached(monkeypatch):
    found = fatal_arrivals(monkeypatch)

    assert not found.reasons, found.reasons
    assert missing(found) == 0


def test_without_repeating_what_is_not_covered_such_casts_are_lost(monkeypatch):
    monkeypatch.setattr(Traversals, "on_hop_timeout", lambda self, number: None)

    assert missing(fatal_arrivals(monkeypatch)) > 0


# --- backups first, then confirm


def hasty(monkeypatch):
    """Registrations are confirmed at once; the copies for backups follow two seconds later."""
    back_up = Stores.back_up

    def confirm_first(self):
        self.confirm_backed_up(list(self.unbacked))
        self.host.after(2_000_000, FlushOutbox())

    def flush(self, alarm):
        stores = self.stores
        if stores.flushing:
            stores.on_flush_outbox(alarm)
        elif stores.unbacked:
            back_up(stores)

    monkeypatch.setattr(Stores, "back_up", confirm_first)
    monkeypatch.setitem(Spice.alarm_handlers, FlushOutbox, flush)


class DeathAtConfirmation(Spite):
    """Whoever has just confirmed a newcomer's registration dies."""

    MOMENTS = ((Stores, "confirm_backed_up"),)
    PAUSE_US = 4_000_000

    def strike(self, surface):
        scene = self.scene
        if (
            scene is not None
            and self.last_us < scene.run.world.now_us < scene.start_us + OVER_S * 1_000_000
        ):
            self.last_us = scene.run.world.now_us + self.PAUSE_US
            scene.soon(0.01, lambda: scene.crash(surface.address))


def test_an_acknowledged_registration_survives_a_crash_of_its_holder(monkeypatch):
    found = play(monkeypatch, scenario(6, "joins=12"), DeathAtConfirmation(monkeypatch))

    assert not found.reasons, found.reasons


def test_confirming_before_the_copies_loses_registrations(monkeypatch):
    hasty(monkeypatch)
    found = play(monkeypatch, scenario(6, "joins=12"), DeathAtConfirmation(monkeypatch))

    assert any("would not find" in reason or "missing" in reason for reason in found.reasons), (
        found.reasons
    )


# --- lost ground


def three_at_once(scene: Scene) -> None:
    """An owner and all its backups die in the same moment: nobody has a copy of what they kept."""

    def strike() -> None:
        owner = max(scene.peers(), key=lambda peer: (len(peer.registries.by_key), -peer.address))
        for each in (owner.address, *owner.surface.backups):
            scene.crash(each)

    scene.at(10, strike)


def test_what_an_owner_and_all_its_backups_stored_is_registered_again(monkeypatch):
    found = play(monkeypatch, scenario(9, QUIET), three_at_once)

    assert not found.reasons, found.reasons


def test_without_the_call_it_stays_lost_until_renewals(monkeypatch):
    monkeypatch.setattr(Spice, "lost", lambda self, tract: None)
    found = play(monkeypatch, scenario(9, QUIET), three_at_once)

    assert any("would not find" in reason for reason in found.reasons), found.reasons


def test_a_call_that_no_peer_received_is_repeated(monkeypatch):
    """Where a whole neighbourhood died, calls meet further holes."""
    unheard, come = [], Traversals.begin_branch

    def deaf_at_first(self, sender, traversal):
        if isinstance(traversal, ReregisterRequest) and len(unheard) < 40:
            unheard.append(traversal)
        else:
            come(self, sender, traversal)

    monkeypatch.setattr(Traversals, "begin_branch", deaf_at_first)
    found = play(monkeypatch, scenario(9, QUIET), three_at_once)

    assert not found.reasons, found.reasons
    assert len(unheard) == 40


def test_renewals_bring_it_back_too(monkeypatch):
    monkeypatch.setattr(Spice, "lost", lambda self, tract: None)
    found = play(monkeypatch, scenario(9, QUIET, lease_s=90.0), three_at_once)

    assert all(each.startswith("misreported") for each in found.reasons), found.reasons


# --- records stay until the next notch has them


def throw_away(monkeypatch):
    """What goes up is deleted as soon as it is sent."""
    send = Containers.send_ascending

    def careless(self, key):
        registry = self._registries.by_key.get(key)
        rising = registry.ascending() if registry is not None else []
        send(self, key)
        for record in rising:
            self._registries.forget(key, record)

    monkeypatch.setattr(Containers, "send_ascending", careless)


def crash_at_rising(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is about to keep a record that has come up from below dies first."""
    whole = ReplicaPushes.on_store
    struck: list[int] = []

    def fatal(peer, part, store):
        now_us = scene.run.world.now_us
        rises = store.notch and not store.first and store.reply != peer.address
        if (
            rises
            and now_us > scene.start_us
            and len(struck) < 3
            and (not struck or now_us > struck[-1] + 12_000_000)
        ):
            struck.append(now_us)
            scene.crash(peer.address)
            return
        whole(peer, part, store)

    monkeypatch.setattr(ReplicaPushes, "on_store", fatal)


def fatal_risings(monkeypatch, seed):
    """Closed registries open again and close anew, so that there is much going up."""

    def hook(scene: Scene) -> None:
        crash_at_rising(scene, monkeypatch)

        def stir() -> None:
            for peer in scene.peers():
                for key, each in list(peer.registries.by_key.items()):
                    if each.closed and key[2] == 0:
                        peer.containers.gather_tried_us.clear()
                        peer.containers.gather(key)
            if scene.run.world.now_us < scene.start_us + OVER_S * 1_000_000:
                scene.soon(6, stir)

        scene.at(2, stir)

    return play(monkeypatch, scenario(seed, QUIET), hook)


def test_a_record_on_its_way_up_outlives_the_peer_above(monkeypatch):
    found = fatal_risings(monkeypatch, 13)

    assert not found.reasons, found.reasons


def test_records_thrown_away_before_they_arrived_are_lost(monkeypatch):
    throw_away(monkeypatch)
    said: list[str] = []
    for seed in (13, 14, 15):  # not every crash meets a record that is nowhere else
        with monkeypatch.context() as patch:
            if not said:
                found = fatal_risings(patch, seed)
                said = [
                    each for each in found.reasons if "would not find" in each or "missing" in each
                ]

    assert said


def test_nothing_happens_in_a_scene_where_nothing_happens(monkeypatch):
    found = play(monkeypatch, scenario(11, QUIET), nothing)

    assert not found.reasons, found.reasons
    assert missing(found) == 0
