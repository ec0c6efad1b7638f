"""The BFT paper's experiments on the algorithm alone: hops, messages per node, arrival under
faults, pre-emption.

A multicast over the converged graph is computed by plain calls, hop by hop, without messages: the
figures depend only on which node sends to which, and a million sends take seconds. Peers run the
same procedures (`multicast.py`), and a test compares receivers and counts of both. Every trial
returns plain rows (dicts of numbers) for the laboratory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import NamedTuple

from implicast.casting.bft.multicast import (
    Halves,
    KeyRange,
    Leg,
    concerned,
    first_leg,
    legs,
    start_level,
)
from implicast.space.digest import stream
from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph

Row = dict[str, float | int | str]

KEY_BYTES = 8
HOPS_MULTICASTS = 300
ARRIVAL_MULTICASTS = 100
OVERLAYS = 5


class Spot(NamedTuple):
    """A node as the algorithm sees it, and its number for counting."""

    key: bytes
    vector: int
    number: int


@dataclass(slots=True)
class Overlay:
    """A random graph of n nodes at keys 0, 1, 2, ... with random membership vectors."""

    n: int
    k: int
    seed: int
    alpha: int = 2
    through: bool = True
    spots: list[Spot] = field(init=False)
    graph: AssembledGraph[Spot] = field(init=False)
    halves: Halves = field(init=False)
    _circle: dict[tuple[int, int], list[Leg[Spot]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        vectors = Vectors(self.alpha)
        rng = stream(self.seed, "overlay", self.n, self.alpha)
        self.spots = [
            Spot(key_of(each), vectors.pack_number(rng.getrandbits(256)), each)
            for each in range(self.n)
        ]
        self.graph = AssembledGraph(self.k, vectors, self.spots)
        self.halves = Halves.of(self.k)

    def key_range(self, first: int, count: int) -> KeyRange:
        """The arc that holds `count` nodes from number `first` on."""
        return KeyRange(key_of(first % self.n), key_of((first + count) % self.n))

    def legs(self, spot: Spot, received: int, key_range: KeyRange) -> list[Leg[Spot]]:
        """As `multicast.legs`. On the full circle the legs do not depend on the source, so they are
        cached (6 times faster).
        """
        if not key_range.is_circle:
            return legs(self.graph.table(spot.key), received, key_range, self.halves, self.through)
        found = self._circle.get((spot.number, received))
        if found is None:
            found = legs(self.graph.table(spot.key), received, key_range, self.halves, self.through)
            self._circle[spot.number, received] = found
        return found


@dataclass(slots=True)
class MulticastSpread:
    """The result of one multicast: hops to each node that received it (0 for the source), and
    messages sent.
    """

    start: int
    hops: list[int | None]
    messages: int = 0

    def arrived(self, receivers: Sequence[int]) -> float:
        """The share of these nodes that received the multicast."""
        return (
            sum(self.hops[each] is not None for each in receivers) / len(receivers)
            if receivers
            else 1.0
        )


def key_of(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


Attack = Callable[[Overlay, Spot, KeyRange, Sequence[bool]], dict[int, int]]
"""What colluders do once one of them has the message: the level at which each node receives it from
them.
"""


def silence(
    overlay: Overlay, source: Spot, key_range: KeyRange, faulty: Sequence[bool]
) -> dict[int, int]:
    """Colluders send nothing."""
    return {}


def spread(
    overlay: Overlay,
    source: Spot,
    key_range: KeyRange,
    faulty: Sequence[bool],
    attack: Attack = silence,
) -> MulticastSpread:
    """One multicast, in rounds of one hop. Faulty nodes never forward; they attack once, when one
    of them has received the message.

    From then on all colluders know the message and can reach every node; their copies come first in
    the round. Honest copies of one round arrive in the order sent, which does not matter: all
    copies to a node carry one level.
    """
    table = overlay.graph.table(source.key)
    start = start_level(table, key_range, overlay.halves)
    leg, takes_part = first_leg(table, start, key_range, overlay.halves)
    outcome = MulticastSpread(start, [None] * overlay.n)
    frontier: list[tuple[Spot, int]] = []
    if takes_part:
        outcome.hops[source.number] = 0
        frontier += _serve(outcome, overlay.legs(source, start, key_range), 1)
    frontier += _serve(outcome, [leg], 1)
    hop, known = 1, False
    while frontier:
        hop += 1
        following: list[tuple[Spot, int]] = []
        if not known and any(faulty[spot.number] for spot, _ in frontier):
            known = True
            following += _attacked(
                overlay, outcome, attack(overlay, source, key_range, faulty), hop
            )
        for spot, level in frontier:
            if level and not faulty[spot.number]:
                following += _serve(outcome, overlay.legs(spot, level, key_range), hop)
        frontier = following
    return outcome


def _attacked(
    overlay: Overlay, outcome: MulticastSpread, levels: dict[int, int], hop: int
) -> list[tuple[Spot, int]]:
    """Nodes that have not received the message yet receive it from the colluders."""
    victims = [number for number in levels if outcome.hops[number] is None]
    for number in victims:
        outcome.hops[number] = hop
    return [(overlay.spots[number], levels[number]) for number in victims]


def _serve(outcome: MulticastSpread, sent: Sequence[Leg[Spot]], hop: int) -> list[tuple[Spot, int]]:
    hops = outcome.hops
    news: list[tuple[Spot, int]] = []
    for level, receivers in sent:
        outcome.messages += len(receivers)
        for spot in receivers:
            if hops[spot.number] is None:
                hops[spot.number] = hop
                news.append((spot, level))
    return news


def hops_formula(n: int, k: int, alpha: int = 2) -> float:
    """Formula (1): worst-case hops, h + 1, about log_alpha(n / (2(k-1)))."""
    return log(n / (2 * (k - 1)), alpha)


def arrival_formula(n: int, k: int, f: float, alpha: int = 2) -> float:
    """Formula (3): arrival in the worst case, (1 - f^k)^h, h from formula (1)."""
    return float((1 - f**k) ** max(0.0, hops_formula(n, k, alpha) - 1))


def hops_row(
    n: int, k: int, seed: int = 0, overlays: int = OVERLAYS, multicasts: int = HOPS_MULTICASTS
) -> Row:
    """Mean of the largest hop count of a multicast to the full circle, beside formula (1)."""
    largest: list[int] = []
    for overlay, rng in _overlays(n, k, seed, overlays):
        for _ in range(-(-multicasts // overlays)):
            outcome = spread(
                overlay, rng.choice(overlay.spots), overlay.key_range(0, n), [False] * n
            )
            largest.append(max(hop for hop in outcome.hops if hop is not None))
    return {"n": n, "k": k, "hops_max_mean": _mean(largest), "formula_1": hops_formula(n, k)}


def messages_row(
    n: int,
    k: int,
    share: float,
    seed: int = 0,
    overlays: int = OVERLAYS,
    multicasts: int = HOPS_MULTICASTS,
) -> Row:
    """Messages per node in range, for ranges that hold a share of the nodes; tends to k."""
    per_node: list[float] = []
    count = round(n * share)
    for overlay, rng in _overlays(n, k, seed, overlays):
        for _ in range(-(-multicasts // overlays)):
            key_range = overlay.key_range(rng.randrange(n), count)
            per_node.append(
                spread(overlay, rng.choice(overlay.spots), key_range, [False] * n).messages / count
            )
    return {"n": n, "k": k, "share": share, "messages_per_node": _mean(per_node)}


def arrival_row(
    n: int,
    k: int,
    f: float,
    share: float = 0.5,
    seed: int = 0,
    overlays: int = OVERLAYS,
    multicasts: int = ARRIVAL_MULTICASTS,
) -> Row:
    """Arrival at the correct nodes in range when a fraction f of all nodes is silent, beside
    formula (3).
    """
    runs = _faulty(n, k, f, share, seed, overlays, multicasts, silence)
    arrivals = [outcome.arrived(honest) for outcome, honest in runs]
    return {
        "n": n,
        "k": k,
        "f": f,
        "share": share,
        "arrival": _mean(arrivals),
        "formula_3": arrival_formula(n, k, f),
    }


def preemption_row(
    n: int,
    k: int,
    f: float,
    check_5: bool,
    share: float = 0.5,
    seed: int = 0,
    overlays: int = OVERLAYS,
    multicasts: int = ARRIVAL_MULTICASTS,
) -> Row:
    """Arrival when faulty nodes collude and send the genuine message early, at too low a level, to
    every node they can.

    With check 5 such copies are refused, and only the silence of the faulty nodes remains.
    """
    attack = silence if check_5 else preempt
    runs = _faulty(n, k, f, share, seed, overlays, multicasts, attack)
    arrivals = [outcome.arrived(honest) for outcome, honest in runs]
    return {
        "n": n,
        "k": k,
        "f": f,
        "share": share,
        "check_5": int(check_5),
        "arrival": _mean(arrivals),
    }


def preempt(
    overlay: Overlay, source: Spot, key_range: KeyRange, faulty: Sequence[bool]
) -> dict[int, int]:
    """The nodes that can be made to accept the message below their proper level, each with the
    lowest level that checks 2 to 4 accept.
    """
    start = start_level(overlay.graph.table(source.key), key_range, overlay.halves)
    liars = [spot for spot in overlay.spots if faulty[spot.number]]
    honest = [spot for spot in overlay.spots if not faulty[spot.number] and spot is not source]
    levels = {
        spot.number: _lowest(overlay, source, spot, liars, start, key_range) for spot in honest
    }
    return {number: level for number, level in levels.items() if level is not None}


def _lowest(
    overlay: Overlay,
    source: Spot,
    spot: Spot,
    liars: Sequence[Spot],
    start: int,
    key_range: KeyRange,
) -> int | None:
    common = overlay.graph.vectors.common
    proper = min(common(source.vector, spot.vector), start)
    table = overlay.graph.table(spot.key)
    for level in sorted({common(liar.vector, spot.vector) for liar in liars}):
        if level < proper and concerned(table, level, key_range, overlay.halves):
            return level
    return None


def _faulty(
    n: int,
    k: int,
    f: float,
    share: float,
    seed: int,
    overlays: int,
    multicasts: int,
    attack: Attack,
) -> Iterator[tuple[MulticastSpread, list[int]]]:
    """Multicasts with a correct source among faulty nodes, each with the correct nodes in its
    range.
    """
    count = round(n * share)
    for overlay, rng in _overlays(n, k, seed, overlays):
        for _ in range(multicasts):
            source = rng.choice(overlay.spots)
            faulty = [rng.random() < f and spot is not source for spot in overlay.spots]
            first = rng.randrange(n)
            key_range = overlay.key_range(first, count)
            honest = [each % n for each in range(first, first + count) if not faulty[each % n]]
            yield spread(overlay, source, key_range, faulty, attack), honest


def _overlays(n: int, k: int, seed: int, overlays: int) -> Iterator[tuple[Overlay, Random]]:
    for number in range(overlays):
        yield Overlay(n, k, seed * 1_000 + number), stream(seed, "multicasts", n, k, number)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
