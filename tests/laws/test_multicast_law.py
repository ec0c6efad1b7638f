"""Key-range multicast: exactly the range, at least k senders, one level for all copies. 5,000 cases when long."""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from implicast.casting.bft.multicast import (
    Halves,
    KeyRange,
    concerned,
    first_leg,
    inside,
    legs,
    participates,
    start_level,
)
from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph


class Spot(NamedTuple):
    key: bytes
    vector: int


class Case(NamedTuple):
    """One multicast: who, over which range, in which graph."""

    number: int
    assembled: AssembledGraph[Spot]
    nodes: list[Spot]
    source: Spot
    key_range: KeyRange

    def __repr__(self) -> str:
        graph = f"n={len(self.nodes)} k={self.assembled.k} alpha={self.assembled.vectors.alpha}"
        return f"case {self.number}: {graph} {self.key_range}"


def cases(count: int, seed: int = 1) -> Iterator[Case]:
    rng = Random(seed)
    for number in range(count):
        n = rng.randint(1, rng.choice([1, 2, 3, 5, 8, 13, 20, 40, 80, 150, 300]))
        vectors, size = Vectors(rng.randint(2, 4)), n * rng.choice([1, 2, 5])
        keys = rng.sample(range(size), n)
        nodes = sorted(
            Spot(key.to_bytes(4, "big"), vectors.pack_number(rng.getrandbits(300))) for key in keys
        )
        assembled = AssembledGraph(rng.randint(2, 7), vectors, nodes)
        yield Case(number, assembled, nodes, rng.choice(nodes), random_arc(rng, size, keys))


def random_arc(rng: Random, size: int, keys: list[int]) -> KeyRange:
    """Full, wrapping, empty of nodes, or with ends on nodes: each often."""
    low = rng.choice(keys) if rng.random() < 0.3 else rng.randrange(size)
    high = rng.choice(keys) if rng.random() < 0.3 else rng.randrange(size)
    if rng.random() < 0.2:
        high = low
    if rng.random() < 0.15:
        high = (low + rng.randint(1, 3)) % size
    return KeyRange(low.to_bytes(4, "big"), high.to_bytes(4, "big"))


class Run:
    """All messages of one multicast, to the end."""

    def __init__(self, case: Case, through: bool = True) -> None:
        self.case, self.through = case, through
        self.halves = Halves.of(case.assembled.k)
        self.senders: dict[bytes, set[bytes]] = {}
        self.levels: dict[bytes, set[int]] = {}
        self.held: dict[bytes, int] = {}
        self.direct: set[bytes] = set()
        self.queue: deque[tuple[Spot, int]] = deque()
        self._go()

    def _go(self) -> None:
        table = self.case.assembled.table(self.case.source.key)
        self.start = start_level(table, self.case.key_range, self.halves)
        leg, takes_part = first_leg(table, self.start, self.case.key_range, self.halves)
        if takes_part:
            self.held[self.case.source.key] = self.start
            self.queue.append((self.case.source, self.start))
        self.direct = {node.key for node in leg.receivers}
        self._send(self.case.source, leg.level, leg.receivers)
        while self.queue:
            node, level = self.queue.popleft()
            table = self.case.assembled.table(node.key)
            for leg in legs(table, level, self.case.key_range, self.halves, self.through):
                self._send(node, leg.level, leg.receivers)

    def _send(self, sender: Spot, level: int, receivers: tuple[Spot, ...]) -> None:
        for node in receivers:
            self.senders.setdefault(node.key, set()).add(sender.key)
            self.levels.setdefault(node.key, set()).add(level)
            if node.key not in self.held:
                self.held[node.key] = level
                self.queue.append((node, level))


def in_range(case: Case) -> set[bytes]:
    return {node.key for node in case.nodes if case.key_range.holds(node.key)}


def check(case: Case) -> None:
    run = Run(case)
    vectors, k, source = case.assembled.vectors, case.assembled.k, case.source

    assert {key for key in run.held if case.key_range.holds(key)} == in_range(case), case
    for node in case.nodes:
        if node.key not in run.levels:
            continue
        proper = min(vectors.common(source.vector, node.vector), run.start)
        assert run.levels[node.key] == {proper}, (
            f"{case}: copies to {node} at levels {run.levels[node.key]}"
        )
        assert concerned(case.assembled.table(node.key), proper, case.key_range, run.halves), (
            f"{case}: {node} would refuse"
        )
        if node.key not in run.direct and node.key != source.key:
            assert len(run.senders[node.key]) >= k, (
                f"{case}: {node} has {len(run.senders[node.key])} senders"
            )


def test_every_multicast_reaches_exactly_its_range_through_k_senders() -> None:
    for case in cases(400):
        check(case)


@pytest.mark.long
def test_five_thousand_multicasts_reach_exactly_their_range_through_k_senders() -> None:
    for case in cases(5_000, seed=2):
        check(case)


def test_in_the_literal_reading_nodes_in_range_have_k_senders_but_auxiliary_ones_may_have_fewer() -> (
    None
):
    fewer = 0
    for case in cases(400, seed=3):
        run = Run(case, through=False)
        assert {key for key in run.held if case.key_range.holds(key)} == in_range(case), case
        for key, senders in run.senders.items():
            if key in run.direct or key == case.source.key or len(senders) >= case.assembled.k:
                continue
            assert not case.key_range.holds(key), case
            fewer += 1

    assert fewer > 0


def test_the_short_ways_to_say_who_is_inside_and_who_is_concerned_agree_with_the_long_ones() -> (
    None
):
    for case in cases(150, seed=4):
        halves = Halves.of(case.assembled.k)
        for node in case.nodes[:8]:
            table = case.assembled.table(node.key)
            for number, level in enumerate(table.levels):
                assert inside(level, case.key_range) == [
                    case.key_range.holds(each.key) for each in level.nodes
                ], case
                flags = participates(level, case.key_range, number, halves)
                assert concerned(table, number, case.key_range, halves) == flags[level.own], case


def auxiliary_by_definition(case: Case, node: Spot, number: int) -> bool:
    """Of the ring members outside the range: the kR just before it and the kL just after it, over the whole ring."""
    vectors, halves = case.assembled.vectors, Halves.of(case.assembled.k)
    ring = [other for other in case.nodes if vectors.common(node.vector, other.vector) >= number]
    outside = [other for other in ring if not case.key_range.holds(other.key)]
    before = sorted(outside, key=lambda other: (other.key < case.key_range.low, other.key))[
        -halves.right :
    ]
    after = sorted(outside, key=lambda other: (other.key < case.key_range.high, other.key))[
        : halves.left
    ]
    return node in before or node in after


def test_a_node_knows_from_its_own_list_whether_it_is_auxiliary() -> None:
    for case in cases(150, seed=5):
        if case.key_range.is_circle:
            continue
        for node in case.nodes[:10]:
            table = case.assembled.table(node.key)
            for number in range(1, table.top + 1):
                wanted = case.key_range.holds(node.key) or auxiliary_by_definition(
                    case, node, number
                )
                found = concerned(table, number, case.key_range, Halves.of(case.assembled.k))
                assert found == wanted, f"{case}: {node} at level {number}"
