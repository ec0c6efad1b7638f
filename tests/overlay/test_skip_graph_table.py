"""The table rule: k-redundant lists against their definition, and what follows from it."""

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph
from skip_graph_rule import every_class, objections, rule, table_of


class Spot(NamedTuple):
    key: bytes
    vector: int


def spots(rng: Random, n: int, vectors: Vectors) -> list[Spot]:
    keys = rng.sample(range(4 * n), n)
    return sorted(
        Spot(key.to_bytes(4, "big"), vectors.pack_number(rng.getrandbits(300))) for key in keys
    )


def graphs(count: int) -> list[tuple[list[Spot], int, Vectors]]:
    rng = Random(7)
    found = []
    for _ in range(count):
        vectors = Vectors(rng.randint(2, 4))
        found.append(
            (spots(rng, rng.choice([1, 2, 5, 9, 20, 60, 150]), vectors), rng.randint(2, 7), vectors)
        )
    return found


@pytest.mark.parametrize(("nodes", "k", "vectors"), graphs(60))
def test_assembled_tables_and_tables_of_the_known_are_what_the_definition_gives(
    nodes: list[Spot], k: int, vectors: Vectors
) -> None:
    assembled = AssembledGraph(k, vectors, nodes)

    assert objections([assembled.table(node.key) for node in nodes], k, vectors) == []
    assert objections([table_of(node, nodes, k, vectors) for node in nodes], k, vectors) == []
    assert all(
        assembled.contacts(node.key) == assembled.table(node.key).contacts() for node in nodes
    )


@pytest.mark.parametrize(("nodes", "k", "vectors"), graphs(30))
def test_below_the_top_a_list_is_a_proper_arc_with_room_on_both_sides(
    nodes: list[Spot], k: int, vectors: Vectors
) -> None:
    assembled = AssembledGraph(k, vectors, nodes)
    for node in nodes:
        table = assembled.table(node.key)
        for number, level in enumerate(table.levels):
            assert level.nodes[level.own] == node
            assert level.full == (number == table.top)
            if not level.full:
                assert k - 1 <= level.own <= len(level) - k
            if number:
                assert (
                    sum(vectors.common(node.vector, other.vector) >= number for other in nodes)
                    >= 2 * k - 1
                )


@pytest.mark.parametrize(("nodes", "k", "vectors"), graphs(30))
def test_members_of_a_ring_below_my_top_have_that_level_too(
    nodes: list[Spot], k: int, vectors: Vectors
) -> None:
    assembled = AssembledGraph(k, vectors, nodes)
    tables = [assembled.table(node.key) for node in nodes]
    for one, other in pairwise(tables):
        shared = min(vectors.common(one.owner.vector, other.owner.vector), one.top)
        assert other.top >= shared


def test_position_counts_the_listed_nodes_before_a_key() -> None:
    vectors = Vectors(2)
    nodes = [Spot(bytes([key]), vectors.pack("01"[key // 10 % 2])) for key in range(0, 200, 10)]
    assembled = AssembledGraph(2, vectors, nodes)
    level = assembled.table(bytes([0])).levels[0]  # ... 180, 190, 0, 10, 20: wraps

    assert [node.key[0] for node in level.nodes] == [180, 190, 0, 10, 20]
    positions = {
        key: level.position(bytes([key]))
        for key in (180, 181, 190, 195, 0, 5, 10, 20, 21, 100, 179)
    }
    assert positions == {
        180: 0,
        181: 1,
        190: 1,
        195: 2,
        0: 2,
        5: 3,
        10: 3,
        20: 4,
        21: 5,
        100: 5,
        179: 5,
    }


def test_everyone_who_must_enter_a_newcomer_is_in_its_every_class_lists() -> None:
    rng = Random(5)
    must = own_table = 0
    for _ in range(20):
        vectors, k = Vectors(2), 4
        nodes = spots(rng, 200, vectors)
        newcomer = rng.choice(nodes)
        told = {node.key for node in every_class(newcomer, nodes, k, vectors).contacts()}
        mine = {node.key for node in table_of(newcomer, nodes, k, vectors).contacts()}
        listing = {
            node.key
            for node in nodes
            if any(newcomer.key in keys for keys in rule(node, nodes, k, vectors))
        } - {newcomer.key}
        assert listing <= told
        must += len(listing)
        own_table += len(listing & mine)

    assert own_table < must, "telling only one's own table would not do"


def test_a_table_holds_about_forty_entries_at_400_nodes_and_k_4() -> None:
    vectors = Vectors(2)
    nodes = spots(Random(1), 400, vectors)
    assembled = AssembledGraph(4, vectors, nodes)

    sizes = [len(assembled.table(node.key).contacts()) for node in nodes]

    assert 35 <= sum(sizes) / len(sizes) <= 47


def test_an_objection_names_the_level_and_what_is_wrong() -> None:
    vectors = Vectors(2)
    nodes = spots(Random(2), 50, vectors)
    blind = table_of(nodes[0], nodes[:25], 3, vectors)
    tables = [blind, *(table_of(node, nodes, 3, vectors) for node in nodes[1:])]

    found = objections(tables, 3, vectors, [f"node {each}" for each in range(50)])

    assert found
    assert all(text.startswith("node 0: ") for text in found)
