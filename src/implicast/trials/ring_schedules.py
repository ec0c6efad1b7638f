"""Seeded hostile schedules for rings: simultaneous joins, leaves and rejoins at adjacent places,
with loss, delay, reordering and duplication. The ring is checked from outside after every single
event.

    result = run_schedule(seed=17)             # the doubly linked ring
    result = run_schedule(17, upkeep="plain")  # Chord's stabilisation, with the same events
    result = run_schedule(17, settings=WITH_CRASHES, crashes=6, splits=True)

A schedule is a function of its seed alone, so any failure can be replayed. Network faults end at
`CALM_US`; afterwards the ring must converge. The model grants introductions: a joining node and a
node that ended alone are introduced to a live member, and every 5 s one member is introduced to
another, because two rings that share no contact cannot find each other. With crashes up to three
adjacent nodes fail at a time, and the ring may be open meanwhile. With splits the network is
partitioned for a while; each side then forms a ring of its own, and the two must merge.
"""

from dataclasses import dataclass, field
from random import Random

from implicast.overlay.links.links import Links
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Peer
from implicast.space.digest import stream
from implicast.trials.stabilise import Stabilise, StabiliseSettings
from implicast.world.journal import JOIN, UPKEEP
from implicast.world.populations.links import (
    assemble_ring,
    list_objections,
    opening,
    ring_objections,
)
from implicast.world.world import World

PLACES = 12
"""Places on the ring: few, so that most events concern adjacent nodes."""
CALM_US = 20_000_000
END_US = 60_000_000
END_WITH_CRASHES_US = 80_000_000
"""A minute after the last fault the ring must be whole."""
INTRODUCTION_US = 5_000_000
"""How often one member is introduced to another, as a list of introducers would do."""
BOOTSTRAP_US = 500_000
"""How often joining nodes are introduced to another member."""


class RingPeer(Peer, parts={"links": Links}):
    """A peer that consists of its linked ring only."""

    __slots__ = ("links",)

    def __init__(self, address: Address, host: Host, settings: LinkSettings) -> None:
        super().__init__(address, host)
        assert isinstance(address, int), "simulated peers have integer addresses"
        self.links = Links(address, host, address, settings)


class StabilisePeer(Peer, parts={"links": Stabilise}):
    """A peer that consists of its stabilised ring only."""

    __slots__ = ("links",)

    def __init__(self, address: Address, host: Host, settings: StabiliseSettings) -> None:
        super().__init__(address, host)
        assert isinstance(address, int), "simulated peers have integer addresses"
        self.links = Stabilise(address, host, address, settings)


@dataclass(slots=True)
class ScheduleFaults:
    """Fate of messages: one-way delay of 5 to 80 ms, for a share of them 200 to 1,500 ms; loss and
    duplication until `CALM_US`. Within `split_us` no message crosses between `side` and the other
    peers.
    """

    chance: Random
    loss: float
    repeat: float
    slow: float
    side: frozenset[int] = frozenset()
    split_us: tuple[int, int] = (0, 0)

    def copy_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        if now_us >= CALM_US:
            return (self._taken_us(0.0),)
        if self.chance.random() < self.loss:
            return ()
        if self.split_us[0] <= now_us < self.split_us[1] and (sender in self.side) != (
            receiver in self.side
        ):
            return ()
        copies = 2 if self.chance.random() < self.repeat else 1
        return tuple(self._taken_us(self.slow) for _ in range(copies))

    def _taken_us(self, slow: float) -> int:
        if self.chance.random() < slow:
            return int(self.chance.uniform(200_000, 1_500_000))
        return int(self.chance.uniform(5_000, 80_000))


class ZeroLatency:
    """A network without distances: `ScheduleFaults` decides all delays."""

    def latency_us(self, a: int, b: int) -> int:
        return 0


@dataclass(slots=True)
class ScheduleResult:
    """The result of one schedule."""

    seed: int
    events: int = 0
    open_events: int = 0
    open_us: int = 0
    first_opening: str = ""
    objections: list[str] = field(default_factory=list)
    """What was still wrong at the end."""
    crashes: int = 0
    was_split: bool = False

    @property
    def clean(self) -> bool:
        return not (self.open_events or self.objections)

    def replay(self) -> str:
        return (
            "from implicast.trials.ring_schedules import run_schedule; "
            f"print(run_schedule({self.seed}))"
        )


class Schedule:
    """One schedule under way."""

    def __init__(
        self, seed: int, upkeep: str, settings: LinkSettings, crashes: int, splits: bool
    ) -> None:
        self.chance = stream(seed, "ring schedule")
        chance = self.chance
        faults = ScheduleFaults(
            stream(seed, "hardship"),
            chance.choice((0, 0.05, 0.15, 0.3)),
            chance.choice((0, 0.05, 0.2)),
            chance.choice((0, 0.1, 0.4)),
        )
        self.world = World(ZeroLatency(), seed, faults=faults)
        self.may_open = bool(crashes or splits)
        """Whether the ring may be open; then it is checked only at the end."""
        self.end_us = END_WITH_CRASHES_US if self.may_open else END_US
        self.upkeep = upkeep
        self.nodes: list[Links | Stabilise] = []
        for address in range(PLACES):
            peer = self._peer(address, settings)
            self.world.place(address, peer)
            self.nodes.append(peer.links)
        self.alive = [True] * PLACES
        self.result = ScheduleResult(seed)
        self._prepare(crashes)
        if splits:
            self._split(faults, stream(seed, "split"))

    def _peer(self, address: int, settings: LinkSettings) -> RingPeer | StabilisePeer:
        host = self.world.host(address)
        if self.upkeep == "links":
            return RingPeer(address, host, settings)
        return StabilisePeer(address, host, StabiliseSettings(cured=self.upkeep == "cured"))

    def _prepare(self, crashes: int) -> None:
        chance = self.chance
        assembled = chance.sample(range(PLACES), chance.randrange(1, 8))
        self._assemble(sorted(assembled))
        within_us = chance.choice((600_000, 4_000_000))
        for _ in range(chance.randrange(2, 13)):
            self.world.at(
                1_000_000 + int(chance.random() * within_us), JOIN, self._membership_change
            )
        for _ in range(chance.randrange(crashes + 1)):
            self.world.at(1_000_000 + int(chance.random() * within_us), UPKEEP, self._crash)
        self.world.at(BOOTSTRAP_US, UPKEEP, self._bootstrap)

    def _split(self, faults: ScheduleFaults, chance: Random) -> None:
        from_us = chance.randrange(500_000, 8_000_000)
        faults.split_us = (from_us, chance.randrange(from_us + 1_000_000, CALM_US))
        faults.side = frozenset(chance.sample(range(PLACES), chance.randrange(1, PLACES // 2 + 1)))
        self.result.was_split = True

    def _assemble(self, assembled: list[int]) -> None:
        """Links are assembled; stabilisation starts from the same converged ring."""
        nodes = [self.nodes[address] for address in assembled]
        links = [node for node in nodes if isinstance(node, Links)]
        if links:
            assemble_ring(links)
        for index, node in enumerate(nodes):
            if isinstance(node, Stabilise):
                after = tuple(
                    nodes[(index + step) % len(nodes)].me for step in range(1, len(nodes))
                )
                node.restore(nodes[index - 1].me, after[: node.settings.successors])

    # --- events

    def _membership_change(self) -> None:
        """A member leaves, half of the time together with its right neighbour, or a node joins or
        rejoins.
        """
        inside, outside = self._members(), self._outside()
        if inside and (not outside or self.chance.random() < 0.5):
            index = self.chance.randrange(len(inside))
            inside[index].leave()
            if self.chance.random() < 0.5 and len(inside) > 1:
                inside[(index + 1) % len(inside)].leave()
        elif outside:
            self._join(self.chance.choice(outside))

    def _join(self, node: Links | Stabilise) -> None:
        inside = self._members()
        if inside:
            node.join((self.chance.choice(inside).address,))
        elif not any(each.state != OUT or _introducers(each) for each in self._living()):
            node.join(())

    def _crash(self) -> None:
        inside = self._members()
        if len(inside) > 1:
            index = self.chance.randrange(len(inside))
            for victim in inside[index : index + self.chance.randrange(1, 4)][: len(inside) - 1]:
                assert isinstance(victim.address, int), "simulated peers have integer addresses"
                self.alive[victim.address] = False
                self.world.crash(victim.address)
                self.result.crashes += 1

    def _bootstrap(self) -> None:
        self.world.at(self.world.now_us + BOOTSTRAP_US, UPKEEP, self._bootstrap)
        inside = self._members()
        joining = [node for node in self._living() if node.state == OUT and _introducers(node)]
        self._introduce_members(inside)
        for node in joining:
            if inside:
                _set_introducers(node, (self.chance.choice(inside).address,))
        if joining and not any(node.state != OUT for node in self._living()):
            _set_introducers(joining[0], ())
            joining[0].join(())

    def _introduce_members(self, inside: list[Links | Stabilise]) -> None:
        """Introduce a node that ended alone to a member, and every `INTRODUCTION_US` any member to
        another.
        """
        links = [node for node in inside if isinstance(node, Links) and node.detector is not None]
        introduced = [node for node in links if node.right == node.me]
        if links and self.world.now_us % INTRODUCTION_US < BOOTSTRAP_US:
            introduced.append(self.chance.choice(links))
        for node in introduced:
            node.lookup.lookup_via(self.chance.choice(inside).address)

    def _living(self) -> list[Links | Stabilise]:
        return [node for node, alive in zip(self.nodes, self.alive, strict=True) if alive]

    def _members(self) -> list[Links | Stabilise]:
        return [node for node in self._living() if node.state == IN]

    def _outside(self) -> list[Links | Stabilise]:
        return [node for node in self._living() if node.state == OUT and not _introducers(node)]

    # --- checking

    def run(self) -> ScheduleResult:
        result, world = self.result, self.world
        opened: str | None = None
        while world.now_us < self.end_us:
            before_us = world.now_us
            world.step()
            result.events += 1
            if self.may_open:
                continue
            result.open_us += world.now_us - before_us if opened else 0
            opened = opening(self._living())
            if opened:
                result.open_events += 1
                result.first_opening = result.first_opening or f"at {world.now_us} us: {opened}"
        result.objections = self._objections()
        return result

    def _objections(self) -> list[str]:
        links = [node for node in self._living() if isinstance(node, Links)]
        if not links:
            opened = opening(self._living())
            return [opened] if opened else []
        waiting = [f"{node.address} never joined" for node in links if _introducers(node)]
        return ring_objections(links) + list_objections(links) + waiting


def _introducers(node: Links | Stabilise) -> tuple[Address, ...]:
    """The members through which a node joins; empty if it is not joining."""
    return node.introducers.addresses if isinstance(node, Links) else node.introducers


def _set_introducers(node: Links | Stabilise, introducers: tuple[Address, ...]) -> None:
    if isinstance(node, Links):
        node.introducers.set_addresses(introducers)
    else:
        node.set_introducers(introducers)


SCHEDULE_SETTINGS = LinkSettings(check_us=2_000_000)
"""Live nodes are never suspected; without crashes requests repeat until they are answered."""


WITH_CRASHES = LinkSettings.with_crashes(check_us=2_000_000, merge_us=10_000_000)
"""For schedules with crashes and splits."""


def run_schedule(
    seed: int,
    upkeep: str = "links",
    settings: LinkSettings = SCHEDULE_SETTINGS,
    crashes: int = 0,
    splits: bool = False,
) -> ScheduleResult:
    """Run one schedule. `upkeep`: `links`, `plain` (Chord as published) or `cured`."""
    return Schedule(seed, upkeep, settings, crashes, splits).run()
