"""The circle against brute force: every small arc, every key."""

from itertools import product

import pytest

from implicast.space.digest import stream
from implicast.space.ring import (
    Arc,
    between,
    clockwise,
    distance,
    from_on,
    hashed,
    length,
    minus_all,
    order_preserving,
    successor_index,
    up_to,
)

CIRCLE = 8


def walk(start: int, end: int) -> list[int]:
    """Keys met going clockwise from start, one step at least, before end is met."""
    met = [start]
    while (start + len(met)) % CIRCLE != end:
        met.append((start + len(met)) % CIRCLE)
    return met


@pytest.mark.parametrize(("low", "high"), list(product(range(CIRCLE), repeat=2)))
def test_arcs_hold_what_a_walk_meets(low: int, high: int) -> None:
    met = walk(low, high)

    for x in range(CIRCLE):
        assert from_on(low, x, high) == (x in met)
        assert (x in Arc(low, high)) == (x in met)
        assert between(low, x, high) == (x in met[1:])
        assert up_to(low, x, high) == (x in met[1:] or x == high)
    assert length(Arc(low, high), 3) == len(met)


def test_cutting_keeps_every_key_once_and_in_order() -> None:
    for start, end, first, second in product(range(CIRCLE), repeat=4):
        pieces = Arc(start, end).cut((first, second))

        assert [key for piece in pieces for key in walk(piece.start, piece.end)] == walk(start, end)
        assert all(
            point not in walk(piece.start, piece.end)[1:]
            for piece in pieces
            for point in (first, second)
        )


def test_what_is_left_of_an_arc_is_what_the_others_lack() -> None:
    for start, end, first, second in product(range(CIRCLE), repeat=4):
        others = [Arc(first, second), Arc(second, (first + 3) % CIRCLE)]
        left = [
            key
            for piece in minus_all(Arc(start, end), others)
            for key in walk(piece.start, piece.end)
        ]

        assert left == [
            key for key in walk(start, end) if not any(key in walk(o.start, o.end) for o in others)
        ]


def test_names_lie_on_a_circle_too() -> None:
    assert between("pear", "apple", "fig")
    assert "zebra" in Arc("pear", "fig")
    assert sorted(["apple", "fig", "pear"], key=lambda name: clockwise("banana", name)) == [
        "fig",
        "pear",
        "apple",
    ]


def test_distances_wrap() -> None:
    assert distance(6, 2, 3) == 4
    assert distance(2, 6, 3) == 4
    assert distance(5, 5, 3) == 0


def test_the_order_preserving_hash_keeps_order_round_the_circle() -> None:
    places = [order_preserving(step, 10, 110, "price", 16) for step in range(10, 110)]

    assert places == sorted(places, key=lambda place: clockwise(places[0], place))
    assert places[0] == hashed("price", bits=16)
    assert order_preserving(110, 10, 110, "price", 16) == places[0], (
        "the largest value ends the full turn"
    )
    assert order_preserving(5, 5, 5, "constant", 16) == hashed("constant", bits=16)


def test_the_successor_is_the_first_key_not_before() -> None:
    chance = stream(1, "successor")
    for _ in range(200):
        keys = sorted(chance.sample(range(64), chance.randrange(1, 12)))
        key = chance.randrange(64)

        assert keys[successor_index(keys, key)] == min(
            keys, key=lambda each: distance(key, each, 6)
        )
