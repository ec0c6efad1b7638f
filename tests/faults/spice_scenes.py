"""Scenes for SPICE: small networks in which the worst happens at the worst moment.

A scene is a scenario and what is done while it runs, with the living peers in hand: an owner and its heir are found
when they are to die, a peer is cut off just when it closes a registry. Judged from outside, as campaigns are; besides,
no place may have two peers that answer for it, at any second.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from implicast.casting.spice.containers import Containers
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.stores import Stores
from implicast.overlay.ice.handoff import Handoff
from implicast.space.digest import stream
from implicast.trials.campaign import Finding, check
from implicast.world import simulate as simulating
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.journal import UPKEEP
from implicast.world.populations.surface_objections import doubles
from implicast.world.run import Progress, Run
from implicast.world.scenario import Scenario
from implicast.world.scripted_events import ScriptedEvent

_S = 1_000_000
OVER_S = 45
LIMITS = {"storage_limit": 4, "frequency_limit": 0.0}
Hook = Callable[["Scene"], None]


class Scene:
    """A run under way, and what can be done to it."""

    def __init__(self, run: Run, seed: int) -> None:
        self.run, self.chance = run, stream(seed, "scene")
        self.start_us = run.world.now_us + _S
        self.said: list[str] = []
        """What was wrong with the surface at some second."""

    @property
    def rng(self) -> Random:
        return self.chance

    def at(self, time_s: float, what: Callable[[], object]) -> None:
        self.run.world.at(self.start_us + int(time_s * _S), UPKEEP, what)

    def soon(self, delay_s: float, what: Callable[[], object]) -> None:
        self.run.world.at(self.run.world.now_us + int(delay_s * _S), UPKEEP, what)

    def peers(self) -> list[Spice]:
        """Who is awake, has joined and does not leave."""
        return [self.run.world.peers[address] for address in self.run.injector.able()]

    def anybody(self) -> Spice:
        return self.chance.choice(self.peers())

    def crash(self, address: int) -> None:
        if len(self.peers()) > 4:
            self._do("_crash", ScriptedEvent(0, 0, "crash", (address,)))

    def cut(self, one: int, other: int, lasts_s: float) -> None:
        """Neither hears the other for a while."""
        for pair in ((one, other), (other, one)):
            event = ScriptedEvent(0, 1, "cut", pair)
            self._do("_cut", event)
            self.soon(lasts_s, lambda event=event: self._do("_mend", event))

    def _do(self, act: str, event: ScriptedEvent) -> None:
        self.run.injector.carry_out(getattr(type(self.run.injector), act), event)

    def watch(self) -> None:
        """No code has two peers that answer for it."""
        surfaces = [each.surface for each in self.run.injector.present() if isinstance(each, Spice)]
        self.said += doubles(surfaces)
        self.soon(1, self.watch)


def play(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, hook: Hook, alone: bool = True
) -> Finding:
    """Run a scene; `alone`: nobody may ever answer for a place beside another."""
    scenes: list[Scene] = []

    class Staged(Run):
        def cast(self, progress: Progress) -> None:
            scenes.append(Scene(self, scenario.seed))
            hook(scenes[0])
            if alone:
                scenes[0].at(0, scenes[0].watch)
            super().cast(progress)

    with monkeypatch.context() as patch:
        patch.setattr(simulating, "Run", Staged)
        finding = check(scenario)
    return replace(finding, reasons=(*finding.reasons, *scenes[0].said[:3]))


def scenario(
    seed: int, churn: str = "drift=0.001", start: str = "assembled", **parameters
) -> Scenario:
    """Twenty peers, on two and three dimensions in turn, 1 % loss and repeats."""
    given = {"hello_s": 3.0, "dimensions": 2 + seed % 2, **LIMITS, **parameters}
    return Scenario(
        "spice-unloaded",
        peers=20,
        casts=OVER_S + 75,
        seed=seed,
        workload="groups",
        parameters=given,
        workload_parameters={"tags_per_peer": 8, "share": 0.25},
        faults=Faults(loss=0.01, duplicate=0.01),
        churn=Churn.parse(f"{churn},over_s={OVER_S}"),
        start=start,
        strict=seed % 4 == 0,
    )


# --- what happens


def nothing(scene: Scene) -> None:
    """The script is all there is."""


def twins(scene: Scene) -> None:
    """Three times an owner, and within eight seconds its first backup."""

    def strike() -> None:
        owner = scene.anybody()
        heirs = owner.surface.backups
        scene.crash(owner.address)
        if heirs:
            scene.soon(scene.rng.uniform(0, 8), lambda: scene.crash(heirs[0]))

    for time_s in (4, 19, 34):
        scene.at(time_s, strike)


def cut_links(scene: Scene) -> None:
    """An owner and its first backup cannot hear each other."""

    def strike() -> None:
        owner = scene.anybody()
        if owner.surface.backups:
            scene.cut(owner.address, owner.surface.backups[0], scene.rng.uniform(3, 15))

    for time_s in (3, 10, 17, 24):
        scene.at(time_s, strike)


def draws(scene: Scene) -> None:
    """Registries are drawn together at random moments, ten times a second, whatever is in them."""

    def strike() -> None:
        registries = [
            (peer, key, each)
            for peer in scene.peers()
            for key, each in peer.registries.by_key.items()
        ]
        closed = [(peer, key) for peer, key, each in registries if each.closed and key[2] == 0]
        if closed:
            peer, key = scene.rng.choice(closed)
            peer.containers.gather_tried_us.clear()
            peer.containers.gather(key)
        if scene.run.world.now_us < scene.start_us + OVER_S * _S:
            scene.soon(0.1, strike)

    scene.at(1, strike)


class Spite:
    """A crash or a cut link just when somebody gives a piece, closes, gathers or confirms."""

    MOMENTS = (
        (Containers, "on_closing_backed_up"),
        (Containers, "gather"),
        (Containers, "open_gathered"),
        (Stores, "confirm_backed_up"),
    )
    PAUSE_US = 7 * _S

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scene: Scene | None = None
        self.last_us = 0
        for part, name in self.MOMENTS:
            self._spoil(monkeypatch, part, name)
        self._spoil(monkeypatch, Handoff, "hand_off")

    def __call__(self, scene: Scene) -> None:
        self.scene, self.last_us = scene, scene.start_us

    def _spoil(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        whole = getattr(owner, name)

        def spoiled(part, *given):
            whole(part, *given)
            self.strike(self.scene.run.world.peers[part.address].surface)

        monkeypatch.setattr(owner, name, spoiled)

    def strike(self, surface) -> None:
        scene = self.scene
        if (
            scene is None
            or not self.last_us < scene.run.world.now_us < scene.start_us + OVER_S * _S
        ):
            return
        self.last_us = scene.run.world.now_us + self.PAUSE_US
        delay_s = scene.rng.uniform(0, 0.3)
        if scene.rng.random() < 0.5 or not surface.backups:
            scene.soon(delay_s, lambda: scene.crash(surface.address))
        else:
            heir = surface.backups[0]
            scene.soon(delay_s, lambda: scene.cut(surface.address, heir, scene.rng.uniform(3, 12)))
