"""condcast's experiments in which time passes, on the peers of the design: update flows, ages,
calls.

Everything is measured from outside, through the peers' tables and the messages that the world
carries. Each function returns plain rows; the laboratory and the tests put the formulas beside
them.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, cast

from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.flows import FlowSettings
from implicast.casting.condcast.settings import CondcastSettings
from implicast.language.queries import OfCategory
from implicast.language.values import Categories
from implicast.peer.contract import Message
from implicast.peer.events import Notice
from implicast.peer.name import name_of, network_of
from implicast.peer.site import Site
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.trials.condcast_formulas import Steady
from implicast.world.journal import UPKEEP
from implicast.world.populations import chord_sharp as chord_sharp_rings
from implicast.world.world import MessageFaults, World

Row = dict[str, Any]
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class _Flat:
    """The same latency between any two peers."""

    one_way_us: int

    def latency_us(self, a: int, b: int) -> int:
        return self.one_way_us


class CallCountingWorld(World):
    """A world that counts messages by kind."""

    counts: Counter[str]

    def carry(self, sender: int, to: int, message: Message) -> None:
        self.counts[type(message).__name__] += 1
        super().carry(sender, to, message)


@dataclass(slots=True)
class FlowRing:
    """A ring of condcast peers in ring order, whose update flows are started by the trial."""

    nodes: int
    seed: int = 1
    settings: FlowSettings = field(default_factory=FlowSettings)
    latency_us: int = 20_000
    faults: MessageFaults | None = None
    world: CallCountingWorld = field(init=False)
    peers: list[Condcast] = field(init=False)

    def __post_init__(self) -> None:
        self.world = CallCountingWorld(_Flat(self.latency_us), self.seed, faults=self.faults)
        self.world.counts = Counter()
        chosen = CondcastSettings(flows=self.settings)
        self.peers = [Condcast(self._site(at), at, chosen) for at in range(self.nodes)]
        for peer in self.peers:
            peer.restore(Categories.of(0))
            self.world.place(cast(int, peer.address), peer)
        chord_sharp_rings.assemble([peer.ring for peer in self.peers])

    def _site(self, at: int) -> Site:
        network = network_of(self.seed)
        return Site(
            name_of(network, at), 1, at, self.world.host(at), {"assurance": "none"}, network
        )

    def start(self, flows: int | None) -> None:
        """Start this many flows at equal distances. None: every peer waits as after a join, and
        those whose wait ends start a flow.
        """
        for at, peer in enumerate(self.peers):
            if flows is None:
                peer.flows.start()
            else:
                peer.flows.restore(first=at * flows // self.nodes != (at + 1) * flows // self.nodes)

    def start_at_random(self, flows: int) -> None:
        """Start this many flows at random places."""
        chosen = set(stream(self.seed, "flows").sample(range(self.nodes), flows))
        for at, peer in enumerate(self.peers):
            peer.flows.restore(first=at in chosen)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now_us + int(seconds * SECOND_US))

    def flows(self, seconds: float = 20) -> float:
        """The number of flows: updates held, averaged over samples, plus an estimate of those in
        transit.
        """
        samples = []
        for _ in range(max(1, int(seconds))):
            self.run(1)
            samples.append(sum(peer.flows.updating for peer in self.peers))
        return fmean(samples) * (1 + self.latency_us / max(1, self.delta_s() * SECOND_US))

    def delta_s(self) -> float:
        return fmean(peer.flows.delta_us for peer in self.peers) / SECOND_US

    def rho_s(self) -> float:
        return fmean(peer.flows.rho_us for peer in self.peers) / SECOND_US

    def steady(self, flows: float) -> Steady:
        chosen = self.settings
        return Steady(
            self.nodes,
            flows,
            chosen.period_us / SECOND_US,
            chosen.hold_us / SECOND_US,
            chosen.alpha,
            self.latency_us / SECOND_US,
        )

    def lacking(self, key: int, category: int) -> int:
        """Table entries that cover a key but do not show that its node has a category."""
        query = OfCategory(category)
        return sum(
            value is not None and not query.match(value) and key in Arc(node.key, end)
            for peer in self.peers
            for node, end, value in zip(
                peer.ring.table.nodes, peer.ring.table.ends, peer.ring.table.values, strict=True
            )
            if end is not None
        )


def steady_state(
    nodes: int, flows: int, seconds: float = 600, seed: int = 1, latency_us: int = 20_000
) -> Row:
    """For a given F: rho and delta measured, and by formulas (10) to (12)."""
    ring = FlowRing(nodes, seed, latency_us=latency_us)
    ring.start(flows)
    ring.run(seconds)
    by_formula = ring.steady(flows)
    return {
        "nodes": nodes,
        "flows": flows,
        "flows_at_end": ring.flows(),
        "rho_s": ring.rho_s(),
        "delta_s": ring.delta_s(),
        "rho_formula_s": by_formula.rho,
        "delta_formula_s": by_formula.delta,
    }


def flows_over_time(
    nodes: int = 50,
    seconds: float = 600,
    seed: int = 1,
    flows: int | None = None,
    every_s: float = 10,
    settings: FlowSettings | None = None,
) -> list[Row]:
    """One run of update flows: their number, rho and delta over time. `flows`: start that many at
    random places.
    """
    ring = FlowRing(nodes, seed, settings or FlowSettings())
    ring.start(None) if flows is None else ring.start_at_random(flows)
    rows = []
    for step in range(1, int(seconds / every_s) + 1):
        ring.run(every_s - 1)
        rows.append(
            {
                "nodes": nodes,
                "seed": seed,
                "time_s": step * every_s,
                "flows": ring.flows(1),
                "rho_s": ring.rho_s(),
                "delta_s": ring.delta_s(),
            }
        )
    return rows


def calls(
    nodes: int,
    flows: int,
    piggyback: bool,
    seconds: float = 300,
    seed: int = 1,
    settings: FlowSettings | None = None,
) -> Row:
    """getEnt calls per update, once rows have accumulated."""
    ring = FlowRing(nodes, seed, replace(settings or FlowSettings(), piggyback=piggyback))
    ring.start(flows)
    ring.run(180)
    ring.world.counts.clear()
    ring.run(seconds)
    per_update = ring.world.counts["GetEntry"] / ring.world.counts["Update"]
    levels, steady = (nodes - 1).bit_length(), ring.steady(flows)
    return {
        "nodes": nodes,
        "flows": flows,
        "piggyback": piggyback,
        "calls_per_update": per_update,
        "calls_formula": levels - steady.doublings * piggyback,
        "rho_s": ring.rho_s(),
    }


def calls_until_everywhere(
    nodes: int, flows: int, changes: int = 5, seed: int = 1, settings: FlowSettings | None = None
) -> list[Row]:
    """getEnt calls of one node while a change spreads, plain and piggy-backed: measured age and
    calls per update beside the formulas of the paper. Chord# with its own timers by formula only.
    """
    age_s = fmean(row["age_s"] for row in ages(nodes, flows, changes, seed, settings=settings))
    rows = []
    for piggyback, name in ((False, "plain"), (True, "piggy_backed")):
        row = calls(nodes, flows, piggyback, seed=seed, settings=settings)
        by_formula = FlowRing(nodes, seed, settings or FlowSettings()).steady(flows).calls
        measured = age_s / row["rho_s"] * row["calls_per_update"]
        rows.append(
            {
                **row,
                "age_s": age_s,
                "calls_until_everywhere": measured,
                "calls_until_everywhere_formula": by_formula[name],
                "calls_chord_sharp_formula": by_formula["chord_sharp"],
            }
        )
    return rows


def ages(
    nodes: int = 50,
    flows: int = 5,
    changes: int = 40,
    seed: int = 1,
    casts_every_s: float = 2,
    settings: FlowSettings | None = None,
) -> list[Row]:
    """The time until a value change is in every table, and the casts that miss the changed node
    until then.

    One row per change. age_s: time until every table shows the change. casts, missed: casts made
    before that, and those that missed the node. missed_after: casts missed although every table
    showed the change. bystanders_missed: notices due to *other* nodes that were not delivered.
    promise_s: when the node would report `Registered`. E by formula (14) stands beside; it is an
    estimate and can be exceeded.
    """
    ring = FlowRing(nodes, seed, settings or FlowSettings())
    ring.start(flows)
    ring.run(300)
    rng = stream(seed, "ages")
    estimate_s = ring.steady(flows).age
    return [
        _age(ring, rng.randrange(nodes), 1 + change, casts_every_s, estimate_s)
        for change in range(changes)
    ]


def _age(ring: FlowRing, at: int, category: int, casts_every_s: float, estimate_s: float) -> Row:
    rng = stream(ring.seed, "casts", category)
    ring.run(rng.random() * 60)
    begun_us = ring.world.now_us
    changed = ring.peers[at]
    changed.set_value(Categories.of(0, category))
    missed = made = bystanders = 0
    while ring.lacking(at, category):
        notified = _cast(ring, rng.randrange(ring.nodes), category)
        all_notified = _cast(ring, rng.randrange(ring.nodes), 0)
        made, missed, bystanders = (
            made + 1,
            missed + (at not in notified),
            bystanders + ring.nodes - len(all_notified),
        )
        ring.run(casts_every_s - 1)
    age_s = (ring.world.now_us - begun_us) / SECOND_US
    promise_s = (changed.visibility.due_us() - begun_us) / SECOND_US
    missed_after = sum(
        at not in _cast(ring, rng.randrange(ring.nodes), category) for _ in range(10)
    )
    return {
        "nodes": ring.nodes,
        "age_s": age_s,
        "age_formula_s": estimate_s,
        "casts": made,
        "missed": missed,
        "missed_after": missed_after,
        "bystanders_missed": bystanders,
        "rho_s": ring.rho_s(),
        "promise_s": promise_s,
    }


def _cast(ring: FlowRing, publisher: int, category: int) -> set[int]:
    """Cast to a category, wait half a second, and return the nodes that were notified."""
    seen = len(ring.world.events)
    key = ring.peers[publisher].links.me.key
    ring.world.at(
        ring.world.now_us,
        UPKEEP,
        lambda: ring.peers[publisher].condcast(Arc(key, key), OfCategory(category), b""),
    )
    ring.run(0.5)
    return {address for _, address, event in ring.world.events[seen:] if isinstance(event, Notice)}
