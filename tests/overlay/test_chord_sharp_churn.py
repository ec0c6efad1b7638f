"""Chord# where peers crash: entries with ages, rounds that make tables exact, skipped nodes."""

from collections import Counter
from random import Random

import pytest

from implicast.language.values import Categories
from implicast.overlay import chord_sharp
from implicast.overlay.chord_sharp import (
    ChordSharp,
    FingerEntry,
    FingerValue,
    SharpSettings,
    Table,
    rounds,
)
from implicast.overlay.chord_sharp.messages import LevelUpdate, SubscribeLevel
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings, Ref, RingListener
from implicast.peer.contract import Message, Peer
from implicast.peer.detector import DETECTOR_KINDS, Detector
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.world.frozen import freeze, thaw
from implicast.world.journal import JOIN, LEAVE, UPKEEP
from implicast.world.populations import chord_sharp as sharp_rings
from implicast.world.populations.aggregates import sound_objections, too_small
from implicast.world.world import MessageFaults, World

SECOND_US = 1_000_000
STALE_US = 32 * SECOND_US
LINKS = LinkSettings.with_crashes(check_us=4 * SECOND_US, merge_us=10 * SECOND_US)


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Node(Peer, RingListener, parts={"links": Links, "ring": ChordSharp, "detector": Detector}):
    """A peer that consists of its ring node only, with one category as its value."""

    __slots__ = ("detector", "links", "ring")

    def __init__(self, address: int, world: World, key: int) -> None:
        super().__init__(address, world.host(address))
        self.links = Links(address, self.host, key, LINKS)
        self.detector = self.links.detector
        self.ring = ChordSharp(address, self.host, self.links, SharpSettings())
        self.ring.set_listener(self)

    def value(self) -> FingerValue:
        return Categories.of(self.address)  # type: ignore[arg-type]


class Counting(World):
    counts: Counter[str]

    def carry(self, sender: int, to: int, message: Message) -> None:
        self.counts[type(message).__name__] += 1
        super().carry(sender, to, message)


def _world(
    count: int, seed: int, faults: MessageFaults | None = None, newcomers: int = 0
) -> tuple[Counting, list[Node]]:
    kinds = (*LINK_KINDS, *chord_sharp.KINDS, *DETECTOR_KINDS)
    world = Counting(Flat(), seed, codec=Codec(kinds), faults=faults)
    world.counts = Counter()
    keys = stream(seed, "keys").sample(range(100_000), count + newcomers)
    nodes = [Node(at, world, key) for at, key in enumerate(keys)]
    for at, node in enumerate(nodes):
        world.place(at, node)
    sharp_rings.assemble(_rings(nodes[:count]))
    return world, nodes


def _rings(nodes: list[Node]) -> list[ChordSharp]:
    return [node.ring for node in nodes]


def _wrong(nodes: list[Node]) -> list[str]:
    return sound_objections(_rings(nodes), lambda ring: True)


# --- tables with ages


def _table(stale_us: int = 100) -> Table:
    """A table at key 0, all learnt at time 0, with nodes at 10, 20, ... 70."""
    refs = [Ref(key, key) for key in range(0, 80, 10)]
    return sharp_rings.settled_tables(refs, [Categories.of(at) for at in range(8)], stale_us)[0]


def test_what_is_older_than_allowed_is_unknown() -> None:
    table = _table()
    table.expire(100)
    assert None not in table.values

    table.expire(101)
    assert table.values == [None] * 3
    assert table.get_entry(2, 101)[0] == FingerEntry(Ref(40, 40), None, None)


def test_an_answer_is_as_old_as_its_oldest_part() -> None:
    table = _table()
    table.apply_update(1, FingerEntry(Ref(40, 40), 40, Categories.of(2, 3)), 60, 1)

    assert table.get_entry(0, 80) == (FingerEntry(Ref(10, 10), 10, Categories.of(0)), 0)
    assert table.get_entry(2, 80) == (FingerEntry(Ref(40, 40), 40, Categories.of(0, 1, 2, 3)), 80)

    table.apply_update(0, FingerEntry(Ref(20, 20), 20, Categories.of(1)), 70, 1)
    assert table.get_entry(2, 80)[1] == 20


def test_levels_with_a_gap_between_them_add_up_to_nothing_known() -> None:
    table = _table()
    table.apply_update(0, FingerEntry(Ref(20, 20), 15, Categories.of(1)), 0, 1)

    assert table.get_entry(1, 10)[0] == FingerEntry(Ref(20, 20), 15, Categories.of(0, 1))
    assert table.get_entry(2, 10)[0] == FingerEntry(Ref(40, 40), None, None), (
        "whoever stands in [15, 20) is in neither"
    )


def test_the_level_above_the_top_has_no_node_but_a_sum() -> None:
    ent, age_us = _table().get_entry(3, 5)

    assert ent.node is None
    assert ent.value == Categories.of(*range(8))
    assert age_us == 5


def test_a_node_that_knows_less_than_before_does_not_revoke_its_statement() -> None:
    table = _table()
    table.apply_update(1, FingerEntry(Ref(40, 40), None, None), 50, 1)
    assert table.values[1] == Categories.of(2, 3)
    assert table.rounds[1] == 1

    table.expire(101)
    assert table.values[1] is None, "but it ages from when it was said"


# --- rounds


@pytest.mark.parametrize("count", [2, 3, 5, 16, 33, 70])
def test_one_round_makes_all_tables_exact_however_wrong_they_were(count: int) -> None:
    world, nodes = _world(count, seed=count)
    rng = stream(count, "mess")
    refs = [node.links.me for node in nodes]
    for node in nodes:
        _spoil(node.ring, refs, rng)
    assert count == 2 or _wrong(nodes)

    world.run(10 * SECOND_US)

    assert _wrong(nodes) == []
    assert all(node.ring.rounds.number == 1 for node in nodes)
    assert sharp_rings.stale(_rings(nodes)) == 0


def _spoil(ring: ChordSharp, refs: list[Ref], rng: Random) -> None:
    """Level 0 belongs to the ring and stays; above it arbitrary nodes, and nothing known."""
    table = ring.table
    others = [ref for ref in refs if ref not in (table.me, table.nodes[0])]
    table.truncate(1)
    for level in range(1, 1 + rng.randrange(7)):
        if others:
            table.put_node(level, rng.choice(others))
    table.ends[0] = table.values[0] = None
    table.invalidate(0)


def test_at_rest_a_level_costs_one_message_a_round_and_a_question_every_second_round() -> None:
    world, nodes = _world(64, seed=1)
    world.run(40 * SECOND_US)
    world.counts.clear()
    world.run((40 + 4 * 24) * SECOND_US)

    assert nodes[0].ring.rounds.number == 2 + 4
    assert world.counts["LevelUpdate"] == 4 * 6 * 64
    assert world.counts["SubscribeLevel"] == 2 * 6 * 64


class _Loss:
    def __init__(self, seed: int, share: float) -> None:
        self.rng, self.share = stream(seed, "loss"), share

    def copy_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        if self.rng.random() < self.share:
            return ()
        return (latency_us, 7 * latency_us) if self.rng.random() < 0.05 else (latency_us,)


@pytest.mark.parametrize("seed", range(3))
def test_lost_and_repeated_messages_delay_a_round_but_do_not_spoil_it(seed: int) -> None:
    world, nodes = _world(40, seed, _Loss(seed, 0.05))
    world.run(65 * SECOND_US)

    assert _wrong(nodes) == []
    known = [value is not None for node in nodes for value in node.ring.table.values]
    assert sum(known) > 0.97 * len(known)


@pytest.mark.parametrize("seed", range(3))
def test_crashes_joins_and_leaves_end_in_exact_tables_within_a_minute(seed: int) -> None:
    world, nodes = _world(40, seed, newcomers=8)
    rng = stream(seed, "deeds")
    dead = rng.sample(range(40), 6)
    leavers = [at for at in range(40) if at not in dead][:5]
    for turn, at in enumerate(dead):
        world.at((5 + turn // 2) * SECOND_US, UPKEEP, lambda at=at: world.crash(at))  # type: ignore[misc]
    for at in leavers:
        world.at(6 * SECOND_US, LEAVE, nodes[at].links.leave)
    for node in nodes[40:]:
        introducers = tuple(at for at in range(40) if at not in dead and at not in leavers)[:3]
        world.at(7 * SECOND_US, JOIN, lambda node=node, by=introducers: node.links.join(by))  # type: ignore[misc]
    world.run(68 * SECOND_US)

    here = [node for at, node in enumerate(nodes) if at not in dead]
    assert sum(node.links.state == "in" for node in here) == 37
    assert _wrong(here) == []


def test_a_dead_finger_is_skipped_and_its_aggregates_hold_until_they_are_too_old() -> None:
    world, nodes = _world(16, seed=4)
    ring = sorted(nodes, key=lambda node: node.links.me.key)
    world.run(8 * SECOND_US)
    world.crash(ring[4].address)  # type: ignore[arg-type]
    world.run(40 * SECOND_US)

    table, dead = ring[0].ring.table, ring[4].links.me
    assert dead not in table.nodes
    assert (
        ring[0].ring.closest_preceding((ring[4].links.me.key, ("", -1))) == ring[3].links.me
        or table.nodes[2] != dead
    )


def test_an_update_queued_for_a_suspended_peer_has_its_true_age() -> None:
    world, nodes = _world(16, seed=5)
    sleeper = nodes[3]
    world.run(25 * SECOND_US)
    freeze(world, 3)
    world.run(65 * SECOND_US)
    learnt_us: list[int] = []
    learn = Table.apply_update

    def see(table: Table, level: int, ent: FingerEntry, since_us: int, number: int) -> bool:
        if table is sleeper.ring.table:
            learnt_us.append(since_us)
        return learn(table, level, ent, since_us, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "apply_update", see)
        thaw(world, 3)
        world.run(65 * SECOND_US)

    assert learnt_us, "the rounds that it slept through lay in its mail"
    assert max(learnt_us) < 60 * SECOND_US, "nothing of it passes for new"


def test_a_subscription_to_a_departed_incarnation_is_answered_with_finger_left() -> None:
    world, nodes = _world(8, seed=6)
    asked = nodes[2]
    former = Ref(asked.links.me.key, 2, 9)
    asked.receive(5, SubscribeLevel(former, nodes[5].links.me, 64, 0, 1, True))
    world.run(SECOND_US // 10)

    assert world.counts == {"FingerLeft": 1}
    assert asked.ring.rounds.subscribers == {}


def test_an_update_without_a_subscription_is_answered_with_unsubscribe() -> None:
    world, nodes = _world(8, seed=7)
    stranger, notifier = nodes[1], nodes[6]
    notifier.receive(1, SubscribeLevel(notifier.links.me, stranger.links.me, 128, 0, 0, True))
    assert notifier.ring.rounds.subscribers[0][1][0] == 128

    world.run(SECOND_US // 10)
    assert 1 not in notifier.ring.rounds.subscribers[0]
    assert (world.counts["LevelUpdate"], world.counts["UnsubscribeLevel"]) == (1, 1)


def test_one_level_has_a_bounded_number_of_subscribers() -> None:
    _, nodes = _world(40, seed=8)
    for node in nodes[1:]:
        nodes[0].receive(
            node.address, SubscribeLevel(nodes[0].links.me, node.links.me, 64, 0, 0, False)
        )

    assert len(nodes[0].ring.rounds.subscribers[0]) == rounds.SUBSCRIBERS_MAX


def test_a_higher_round_is_joined_at_once_and_a_lower_one_ignored() -> None:
    _, nodes = _world(8, seed=9)
    node = nodes[0]
    other = next(each for each in nodes if each.links.me != node.links.me)
    node.receive(other.address, LevelUpdate(other.links.me, 64, 7, 0, 0, None))
    assert node.ring.rounds.number == 7
    node.receive(other.address, LevelUpdate(other.links.me, 64, 5, 0, 0, None))
    assert node.ring.rounds.number == 7


# --- checks from outside


@pytest.mark.parametrize("count", [2, 7, 16, 19])
def test_an_aggregate_that_lacks_a_node_of_its_arc_is_objected_to_and_no_other(count: int) -> None:
    _, nodes = _world(count, seed=count)
    assert _wrong(nodes) == []
    ring = sorted(nodes, key=lambda node: node.links.me.key)
    for at, node in enumerate(ring):
        table = node.ring.table
        for level in range(len(table)):
            inside = [
                ring[(at + (1 << level) + step) % count].address for step in range(1 << level)
            ]
            whole = table.values[level]
            for missing in sorted(set(inside)):
                rest = [each for each in inside if each != missing]
                table.values[level] = Categories.of(*rest) if rest else Categories.of()  # type: ignore[arg-type]
                assert len(_wrong(nodes)) == 1, f"{missing} is missing in level {level}"
            table.values[level] = whole
    assert _wrong(nodes) == []


def test_a_node_that_need_not_be_known_yet_is_not_missed() -> None:
    _, nodes = _world(8, seed=1)
    table = nodes[0].ring.table
    table.values[0] = Categories.of()
    unknown = table.nodes[0]

    assert too_small(_rings(nodes), lambda ring: ring.links.me != unknown) == []
    assert len(too_small(_rings(nodes), lambda ring: True)) == 1
