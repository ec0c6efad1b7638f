"""Both tables of those known around a place are those of the definitions, however they came and went."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.overlay.skip_graph.table import LevelTable, NodeLists, twin
from implicast.space.vector import Vectors
from implicast.trials.bft import Spot, key_of
from implicast.world.populations.assembled_graph import AssembledGraph
from skip_graph_rule import every_class, table_of

BOTH = pytest.mark.parametrize("kind", dict.fromkeys([NodeLists, twin(NodeLists)]))
"""The readable form, and the compiled one where it was built."""


def population(rng: Random, n: int, vectors: Vectors) -> list[Spot]:
    keys = rng.sample(range(1_000_000), n)
    return [
        Spot(key_of(key), vectors.pack_number(rng.getrandbits(256)), index)
        for index, key in enumerate(keys)
    ]


def spelled(table: LevelTable[Spot]) -> list[object]:
    return [(level.nodes, level.keys, level.own, level.full, level.fresh) for level in table.levels]


def assert_as_defined(around: NodeLists[Spot], owner: Spot, k: int, vectors: Vectors) -> None:
    table, wide = around.tables()
    assert spelled(table) == spelled(table_of(owner, around.known.values(), k, vectors))
    assert spelled(wide) == spelled(every_class(owner, around.known.values(), k, vectors))


@BOTH
@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(2, 6), st.sampled_from([2, 2, 3, 4]))
def test_both_tables_are_those_of_the_definitions(
    kind: type[NodeLists[Spot]], seed: int, n: int, k: int, alpha: int
) -> None:
    vectors = Vectors(alpha)
    spots = population(Random(seed), n, vectors)
    around = kind(spots[0], k, vectors)
    around.replace(spots[1:])

    assert_as_defined(around, spots[0], k, vectors)
    around.keep_listed()
    assert sorted(around.known) == [
        node.key for node in AssembledGraph(k, vectors, spots).surroundings(spots[0].key)
    ]
    assert_as_defined(around, spots[0], k, vectors)


@BOTH
@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(2, 4),
    st.sampled_from([2, 2, 3]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([3, 3, 20]),
)
def test_so_they_are_when_some_came_went_and_changed(
    kind: type[NodeLists[Spot]], seed: int, n: int, k: int, alpha: int, forgets: int, most: int
) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    owner, *others = population(rng, n + 1, vectors)
    around = kind(owner, k, vectors)
    around.replace([spot for spot in others if rng.random() < 0.5])
    for turn in range(12):
        for spot in rng.sample(others, min(len(others), rng.randint(1, most))):
            if rng.random() < 0.1:  # as by a newer certificate
                around.put(Spot(spot.key, vectors.pack_number(rng.getrandbits(256)), 1_000 + turn))
            elif not around.remove(spot.key):
                around.put(spot)
        if rng.random() < 0.2:
            owner = Spot(owner.key, owner.vector, owner.number + 1)
            around.renew(owner)

        if turn % 2 or not forgets:
            assert_as_defined(around, owner, k, vectors)
        if forgets and turn % forgets == 0:  # as a place does: who is in no list is not kept
            around.keep_listed()
            assert around.known == {spot.key: spot for spot in around.tables()[1].contacts()}
            assert_as_defined(around, owner, k, vectors)


@BOTH
@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(2, 4),
    st.sampled_from([2, 2, 3]),
    st.sampled_from([1, 3, 20]),
)
def test_a_list_stays_the_same_object_exactly_while_it_is_unchanged(
    kind: type[NodeLists[Spot]], seed: int, n: int, k: int, alpha: int, most: int
) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    owner, *others = population(rng, n + 1, vectors)
    around = kind(owner, k, vectors)
    around.replace([spot for spot in others if rng.random() < 0.5])
    before = around.tables()
    for _ in range(6):
        for spot in rng.sample(others, min(len(others), rng.randint(1, most))):
            if not around.remove(spot.key):
                around.put(spot)
                if rng.random() < 0.3:
                    around.remove(spot.key)
        now = around.tables()

        assert around.tables() == now
        assert now[0] is not before[0]
        assert now[1] is not before[1]
        same = [
            one == other for one, other in zip(*map(spelled, (before[1], now[1])), strict=False)
        ]
        for old, new in zip(before, now, strict=True):
            kept = [one is other for one, other in zip(old.levels, new.levels, strict=False)]
            assert kept == same
        before = now


@BOTH
def test_a_node_that_changes_its_vector_twice_leaves_every_list_it_was_in(
    kind: type[NodeLists[Spot]],
) -> None:
    vectors = Vectors(2)
    owner, one, *others = population(Random(3), 8, vectors)

    def sharing(spot: Spot, digits: int) -> Spot:
        return Spot(spot.key, owner.vector ^ 1 << vectors.length - 1 - digits, spot.number)

    around = kind(owner, 2, vectors)
    around.replace([sharing(spot, 5) for spot in (one, *others)])
    assert one.key in around.tables()[0].levels[5].keys
    around.put(sharing(one, 2))
    around.put(sharing(one, 3))

    assert_as_defined(around, owner, 2, vectors)


@BOTH
def test_the_known_nodes_can_be_replaced_by_a_view_of_themselves(
    kind: type[NodeLists[Spot]],
) -> None:
    vectors = Vectors(2)
    owner, *others = population(Random(7), 6, vectors)
    around = kind(owner, 2, vectors)
    around.replace(others)
    around.replace(around.known.values())

    assert list(around.known.values()) == others


@BOTH
def test_who_was_never_known_is_not_taken_out(kind: type[NodeLists[Spot]]) -> None:
    vectors = Vectors(2)
    owner, one, other = population(Random(5), 3, vectors)
    around = kind(owner, 2, vectors)
    around.put(one)

    assert not around.remove(other.key)
    assert around.remove(one.key)
    assert around.known == {}
    assert [level.nodes for level in around.tables()[0].levels] == [(owner,)]
