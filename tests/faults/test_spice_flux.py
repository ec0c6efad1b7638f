"""Peers of SPICE come and go, register, change and cast, all at once; the contract is judged from outside.

The network delivers everything, late and out of order; crashes and loss are another matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from implicast.casting.designs import design
from implicast.casting.spice.spice import Spice
from implicast.language.target import Description, Target, Term
from implicast.overlay.ice.surface import IceSurface
from implicast.peer.contract import Message
from implicast.peer.events import Notice
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.world.application import Application, Registration
from implicast.world.faults import Faults, FaultStream
from implicast.world.invariants import ContractReport, Notices, judge
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations.surface_objections import doubles, surface_objections
from implicast.world.world import World

FOREVER_US = 1 << 62
TAGS = ("jazz", "samba", "football", "chess", "opera", "tango")


@dataclass
class Scene:
    """A small world with everything going on in it."""

    seed: int
    peers: int = 24
    dimensions: int = 2
    storage_limit: int = 3
    frequency_limit: float = 0.0
    choose: str = "first"
    replication: str = "beforehand"
    rate_s: float = 0.0
    span_us: int = 60_000_000

    def __post_init__(self) -> None:
        self.rng = stream(self.seed, "scene")
        found = design("spice-unloaded")
        network = build("laboratory", hosts=self.peers, infrastructure=0, seed=self.seed)
        jitter = FaultStream(Faults(delay=0.2, delay_ms=(10.0, 400.0), reorder=0.2), self.seed)
        self.world = World(network, self.seed, faults=jitter, codec=Codec(found.kinds))
        self.application = Application(self.world)
        self.notices: list[tuple[int, int, int]] = []
        self.world.on_event = self.hear
        parameters = found.settle(
            {
                "assurance": "none",
                "dimensions": self.dimensions,
                "storage_limit": self.storage_limit,
                "frequency_limit": self.frequency_limit,
                "choose": self.choose,
                "replication": self.replication,
                "deepest_level": 2,
                "collect_ms": 50,
                "rate_s": self.rate_s,
            }
        )
        targets = [self.target() for _ in range(64)]
        plan = Plan(
            self.peers, 0, parameters, self.seed, self.world.host, network.latency_us, targets
        )
        newcomers = (plan.new_member(found, address) for address in range(self.peers))
        self.members = [each for each in newcomers if isinstance(each, Spice)]
        for address, member in enumerate(self.members):
            self.world.place(address, member)

    def hear(self, address: int, event: Message) -> None:
        if isinstance(event, Notice):
            self.notices.append((self.world.casts[event.cast], address, self.world.now_us))
        self.application.on_event(address, event)

    def description(self) -> Description:
        return Description(tuple(sorted(self.rng.sample(TAGS, self.rng.randint(1, 4)))))

    def target(self) -> Target:
        terms = {
            Term(tuple(sorted(self.rng.sample(TAGS, self.rng.randint(1, 2)))))
            for _ in range(self.rng.randint(1, 2))
        }
        return Target(
            tuple(
                sorted(each for each in terms if not any(set(o.has) < set(each.has) for o in terms))
            )
        )

    def surfaces(self) -> list[IceSurface]:
        return [each.surface for each in self.members]

    def play(self, leavers: int) -> ContractReport:
        """Everybody joins within the first third; changes and casts go on throughout; some leave in the last half."""
        rng, span_us = self.rng, self.span_us
        self.application.join(0, 0, ())
        for peer in range(1, self.peers):
            self.application.join(1 + rng.randrange(span_us // 3), peer, (0,))
        for peer in range(self.peers):
            for _ in range(rng.randint(1, 3)):
                self.application.register(
                    rng.randrange(span_us // 3, span_us), peer, self.description()
                )
        for peer in rng.sample(range(1, self.peers), leavers):
            self.application.leave(rng.randrange(span_us // 2, span_us), peer)
        for number, time_us in enumerate(
            sorted(rng.randrange(span_us // 3, span_us) for _ in range(64))
        ):
            self.application.cast(time_us, number, 0, self.target())
        self.watch()
        casts, registrations = self.application.casts, self.application.registrations
        away = {peer: ((since_us, FOREVER_US),) for peer, since_us in self.application.left.items()}
        return judge(casts, registrations, Notices.of(self.notices), away)

    def watch(self) -> None:
        """Run to the end, looking at the surface every quarter of a second."""
        while self.world.busy:
            self.world.run(self.world.now_us + 250_000)
            assert not doubles(self.surfaces()), f"two peers answer for one place, seed {self.seed}"


def scenes() -> Iterator[Scene]:
    for seed in (1, 2, 5, 6, 7, 8):
        yield Scene(
            seed,
            dimensions=2 + seed % 3,
            choose=("first", "rarest")[seed % 2],
            frequency_limit=seed % 4 * 0.02,
        )


@pytest.mark.parametrize("scene", list(scenes()), ids=lambda scene: f"seed{scene.seed}")
def test_joins_and_leaves_while_casts_are_under_way_break_no_law(scene: Scene) -> None:
    verdict = scene.play(leavers=scene.seed % 3 * 4)

    assert verdict.clean, f"seed {scene.seed}: {verdict}"
    assert verdict.expected > 50
    assert surface_objections(scene.surfaces()) == []
    assert all(each.completed_us is not None for each in _last_versions(scene))


@pytest.mark.parametrize(
    "seed", [3, 8, 14, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 160))]
)
def test_levels_raised_amid_joins_leaves_and_changes_break_no_law(seed: int) -> None:
    """Measured live, in short windows, so that levels rise in every scene."""
    scene = Scene(
        seed,
        12 + seed % 30,
        2 + seed % 2,
        1 + seed % 5,
        0.05,
        ("first", "rarest")[seed % 2],
        "live",
        4.0,
    )

    verdict = scene.play(leavers=seed % 3 * 3)
    scene.world.run(scene.world.now_us + 120_000_000)

    assert verdict.clean, f"seed {seed}: {verdict}"
    assert surface_objections(scene.surfaces()) == []
    assert any(
        header.number for member in scene.members for header in member.levels.headers.values()
    )
    assert not any(
        member.traversals.hops or member.pushes.active or member.replicas.copies
        for member in scene.members
    )


@pytest.mark.parametrize(
    "seed", [192, *(pytest.param(each, marks=pytest.mark.long) for each in range(100, 200))]
)
def test_a_hundred_scenes_of_joins_and_leaves_break_no_law(seed: int) -> None:
    """In scene 192 a change overtook the one before: the cast between them fits both, and what was complete before."""
    scene = Scene(
        seed,
        12 + seed % 30,
        2 + seed % 4,
        1 + seed % 5,
        seed % 4 * 0.02,
        ("first", "rarest")[seed % 2],
    )

    verdict = scene.play(leavers=seed % 3 * 3)

    assert verdict.clean, f"seed {seed}: {verdict}"
    assert surface_objections(scene.surfaces()) == []


def _last_versions(scene: Scene) -> list[Registration]:
    last = {each.peer: each for each in scene.application.registrations}
    return list(last.values())
