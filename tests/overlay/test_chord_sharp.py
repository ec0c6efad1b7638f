"""Chord# rings by messages: joining, leaving, refreshing; grown rings equal assembled ones."""

from collections import Counter
from random import Random

import pytest

from implicast.language.values import Categories, Threshold
from implicast.overlay import chord_sharp
from implicast.overlay.chord_sharp import ON_DEMAND, ChordSharp, FingerEntry, FingerValue, Table
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings, Ref, RingListener
from implicast.peer.contract import Message, Peer
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.world.journal import JOIN, LEAVE
from implicast.world.populations import chord_sharp as sharp_rings
from implicast.world.populations.chord_sharp import settled_tables
from implicast.world.world import MessageFaults, World

SECOND_US = 1_000_000


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Node(Peer, RingListener, parts={"links": Links, "ring": ChordSharp}):
    """A peer that consists of its ring node only, with one category as its value."""

    __slots__ = ("links", "ring")

    def __init__(self, address: int, world: World, key: int) -> None:
        super().__init__(address, world.host(address))
        self.links = Links(address, self.host, key, LinkSettings())
        self.ring = ChordSharp(address, self.host, self.links, ON_DEMAND)
        self.ring.set_listener(self)

    def value(self) -> FingerValue:
        return Categories.of(self.address)  # type: ignore[arg-type]


class Counting(World):
    counts: Counter[str]

    def carry(self, sender: int, to: int, message: Message) -> None:
        self.counts[type(message).__name__] += 1
        super().carry(sender, to, message)


def _world(
    count: int, seed: int, period_s: float = 0, faults: MessageFaults | None = None
) -> tuple[Counting, list[Node]]:
    world = Counting(Flat(), seed, codec=Codec((*LINK_KINDS, *chord_sharp.KINDS)), faults=faults)
    world.counts = Counter()
    keys = stream(seed, "keys").sample(range(100_000), count)
    nodes = [Node(at, world, key) for at, key in enumerate(keys)]
    for at, node in enumerate(nodes):
        world.place(at, node)
        for turn in range(1, int(300 / period_s) if period_s else 0):
            world.at(
                int((turn * period_s + at / count) * SECOND_US),
                JOIN,
                lambda node=node: _in_turn(node),
            )  # type: ignore[misc]
    return world, nodes


def _in_turn(node: Node) -> None:
    """Chord#'s private timer: a member refreshes its table once per period."""
    if node.links.state == "in" and not node.ring.pull.refreshing:
        node.ring.pull.refresh()


def _join(world: World, nodes: list[Node], spacing_us: int, rng: Random, after_us: int = 0) -> None:
    for turn, node in enumerate(nodes):
        first = turn == 0 and not after_us
        introducers = () if first else (rng.randrange(node.address),)  # type: ignore[arg-type]
        world.at(
            after_us + turn * spacing_us,
            JOIN,
            lambda node=node, by=introducers: node.links.join(by),  # type: ignore[misc]
        )


def _rings(nodes: list[Node]) -> list[ChordSharp]:
    return [node.ring for node in nodes]


@pytest.mark.parametrize("count", [*range(1, 18), 31, 32, 33, 50, 100])
def test_refreshing_in_any_order_reaches_the_settled_tables(count: int) -> None:
    rng = stream(count, "order")
    refs = [Ref(at, at) for at in range(count)]
    values: list[FingerValue] = [Categories.of(at) for at in range(count)]
    tables = [Table(ref) for ref in refs]

    for _ in range(count.bit_length() + 1):
        for at in rng.sample(range(count), count):
            _refresh(tables, at, values[at])

    for table, due in zip(tables, settled_tables(refs, values), strict=True):
        assert (table.nodes, table.ends, table.values) == (due.nodes, due.ends, due.values)


def _refresh(tables: list[Table], at: int, value: FingerValue) -> None:
    table = tables[at]
    table.set_own_value(value)
    table.set_successor(tables[(at + 1) % len(tables)].me)
    level = 0
    while level < len(table) and not table.apply_entry(
        level, tables[table.nodes[level].address].get_entry(level)[0]
    ):  # type: ignore[index]
        level += 1


def test_a_ring_grown_by_messages_equals_an_assembled_one() -> None:
    world, nodes = _world(60, seed=3, period_s=10)
    _join(world, nodes, 300_000, stream(3, "introducers"))
    world.run(200 * SECOND_US)

    assert sharp_rings.objections(_rings(nodes)) == []
    assert sharp_rings.stale(_rings(nodes)) == 0


def test_peers_that_join_at_once_find_their_places() -> None:
    world, nodes = _world(40, seed=4, period_s=10)
    _join(world, nodes[:5], SECOND_US, stream(4, "introducers"))
    for node in nodes[5:]:
        world.at(10 * SECOND_US, JOIN, lambda node=node: node.links.join((node.address % 5,)))  # type: ignore[misc]
    world.run(200 * SECOND_US)

    assert sharp_rings.objections(_rings(nodes)) == []


@pytest.mark.parametrize(("count", "asks"), [(16, 5), (64, 7), (256, 9)])
def test_a_newcomer_asks_once_per_level(count: int, asks: int) -> None:
    world, nodes = _world(count + 1, seed=5)
    sharp_rings.assemble(_rings(nodes[:-1]))
    world.at(0, JOIN, lambda: nodes[-1].links.join((0,)))
    world.run()

    assert world.counts["GetEntry"] == world.counts["EntryReply"] == asks
    assert [node.address for node in nodes[-1].ring.table.nodes] == _ahead(nodes, nodes[-1])


def _ahead(nodes: list[Node], of: Node) -> list[int]:
    """By brute force: the addresses 1, 2, 4, ... places ahead."""
    ring = sorted(nodes, key=lambda node: node.links.me.place)
    at, count = ring.index(of), len(ring)
    return [ring[(at + (1 << level)) % count].address for level in range((count - 1).bit_length())]  # type: ignore[misc]


def test_a_leaver_tells_those_who_name_it_and_they_name_its_right_neighbour() -> None:
    world, nodes = _world(32, seed=6, period_s=10)
    sharp_rings.assemble(_rings(nodes))
    for node in nodes:
        world.at(0, JOIN, node.ring.pull.refresh)
    world.run(5 * SECOND_US)
    leaver = nodes[7]
    heir = leaver.links.right
    named = [node for node in nodes if leaver.links.me in node.ring.table.nodes]

    world.at(5 * SECOND_US, LEAVE, leaver.links.leave)
    world.run(6 * SECOND_US)

    assert len(named) == 5
    assert leaver.links.state == "out"
    assert not any(leaver.links.me in node.ring.table.nodes for node in nodes if node is not leaver)
    assert all(heir in node.ring.table.nodes for node in named if node.links.me != heir)


def test_leaves_and_joins_end_in_exact_tables() -> None:
    world, nodes = _world(48, seed=7, period_s=5)
    _join(world, nodes[:32], 200_000, stream(7, "introducers"))
    for turn, node in enumerate(nodes[3:13]):
        world.at((20 + turn) * SECOND_US, LEAVE, node.links.leave)
    for turn, node in enumerate(nodes[32:]):
        world.at((20 + turn) * SECOND_US, JOIN, lambda node=node: node.links.join((0, 1, 2)))  # type: ignore[misc]
    world.run(150 * SECOND_US)

    assert sum(node.links.state == "in" for node in nodes) == 38
    assert sharp_rings.objections(_rings(nodes)) == []
    assert sharp_rings.stale(_rings(nodes)) == 0


class _Loss:
    def __init__(self, seed: int, share: float, until_us: int) -> None:
        self.rng, self.share, self.until_us = stream(seed, "loss"), share, until_us

    def copy_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        if now_us < self.until_us and self.rng.random() < self.share:
            return ()
        return (latency_us, 3 * latency_us) if self.rng.random() < 0.05 else (latency_us,)


def test_lost_and_repeated_answers_delay_a_table_but_do_not_spoil_it() -> None:
    world, nodes = _world(30, seed=8, period_s=5, faults=_Loss(8, 0.2, 60 * SECOND_US))
    _join(world, nodes, 500_000, stream(8, "introducers"))
    world.run(140 * SECOND_US)

    assert sharp_rings.objections(_rings(nodes)) == []
    assert sharp_rings.stale(_rings(nodes)) == 0


def test_a_silent_finger_is_dropped_with_those_above_it() -> None:
    world, nodes = _world(16, seed=9)
    ring = sharp_rings.assemble(_rings(nodes))
    silent = ring[0].table.nodes[2]
    world.crash(silent.address)  # type: ignore[arg-type]
    world.at(0, JOIN, ring[0].pull.refresh)
    world.run(10 * SECOND_US)

    assert len(ring[0].table) == 2
    assert not ring[0].pull.refreshing


def test_an_answer_of_a_strange_kind_counts_as_unknown() -> None:
    table = Table(Ref(0, 0))
    table.set_own_value(Categories.of(1))
    table.set_successor(Ref(5, 1))

    table.apply_entry(0, FingerEntry(Ref(7, 2), 7, Threshold(3)))

    assert (table.ends[0], table.values[0]) == (None, None)
    assert table.nodes == [Ref(5, 1), Ref(7, 2)]


def test_a_level_that_gets_another_node_is_unknown_until_that_node_is_asked() -> None:
    tables = settled_tables(
        [Ref(key, key) for key in range(0, 80, 10)], [Categories.of(key) for key in range(8)]
    )
    table = tables[0]
    assert table.is_consistent()

    table.apply_entry(0, FingerEntry(Ref(15, 99), 15, Categories.of(1)))

    assert [node.key for node in table.nodes] == [10, 15, 40]
    assert (table.ends[1], table.values[1]) == (None, None)
    assert table.get_entry(2)[0] == FingerEntry(Ref(40, 40), None, None)


def test_an_answer_that_comes_late_or_from_another_is_ignored() -> None:
    _, nodes = _world(8, seed=10)
    ring = sharp_rings.assemble(_rings(nodes))[0]
    asked = ring.table.nodes[0]
    ring.pull.refresh()
    before = list(ring.table.nodes)

    false = FingerEntry(None, None, None)
    ring.pull.on_entry_reply(
        asked.address, chord_sharp.messages.EntryReply(ring.pull.token - 1, false)
    )
    ring.pull.on_entry_reply(99, chord_sharp.messages.EntryReply(ring.pull.token, false))
    assert (ring.pull.level, ring.table.nodes) == (0, before)

    ring.pull.on_entry_reply(asked.address, chord_sharp.messages.EntryReply(ring.pull.token, false))
    assert not ring.pull.refreshing
    assert ring.table.nodes == [asked]
