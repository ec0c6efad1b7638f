"""The surface in the thesis's own examples, and the edges of its verbs."""

import pytest

from implicast.space.morton import BITS, CODES, DIMENSIONS, box, code, lengths, place, side
from implicast.space.surface import Surface
from implicast.space.tract import (
    EMPTY,
    WHOLE,
    container,
    extents,
    intersect,
    scale_within,
    subtract,
    translate,
    volume,
)

PLANE = Surface(2)


def test_subtracting_a_small_extent_leaves_its_siblings() -> None:
    """Section 7.2.1: {0, 2} - {20} = {0, 21, 22, 23}."""
    assert PLANE.text(subtract(PLANE.tract("0", "2"), PLANE.tract("20"))) == "{0,21,22,23}"


def test_the_distance_of_the_thesis_example() -> None:
    """Section 7.2.2: the distance between extents 3032 and 23 is 0.125."""
    assert PLANE.distance(PLANE.tract("3032"), PLANE.tract("23")) == 0.125


def test_digits_run_left_to_right_and_top_to_bottom() -> None:
    """Fig. 7.3: digit 0 is top left, 1 top right, 2 bottom left, 3 bottom right (vertical coordinate first)."""
    half = side(2) // 2

    corners = [box(PLANE.extent(digit)[0], 2, 2)[0] for digit in "0123"]

    assert corners == [(0, 0), (0, half), (half, 0), (half, half)]


def test_scaling_a_tract_within_its_container() -> None:
    """Fig. 8.2: {201, 203} within container 2 becomes {01, 03}."""
    address = PLANE.extent("2")[0]

    scaled = scale_within(PLANE.tract("201", "203"), address, PLANE.digits - 1, 2)

    assert PLANE.text(scaled) == "{01,03}"


def test_omitting_tail_digits_scales_an_extent_up_to_the_whole_surface() -> None:
    """Fig. 8.1: extent 210 scales to 21, then 2, then the universal extent."""
    address = PLANE.extent("210")[0]

    containers = [
        PLANE.text(container(address, PLANE.digits - digits, 2)) for digits in (3, 2, 1, 0)
    ]

    assert containers == ["{210}", "{21}", "{2}", "{}"]


def test_replacing_head_digits_translates_an_extent() -> None:
    """Fig. 8.3: the replicas of 210 at level 1 are 010, 110 and 310."""
    address = PLANE.extent("210")[0]

    moved = [PLANE.address(translate(address, PLANE.extent(digit)[0], 1, 2), 3) for digit in "013"]

    assert moved == ["010", "110", "310"]


def test_the_surface_wraps_on_every_edge() -> None:
    corner, opposite = PLANE.tract("00"), PLANE.tract("33")

    assert PLANE.distance(corner, opposite) == 0.0
    assert PLANE.rank(PLANE.boxes(corner)[0], PLANE.boxes(opposite)[0]) == (0, 2)


def test_the_whole_surface_is_one_extent_and_touches_nothing() -> None:
    assert PLANE.text(WHOLE) == "{}"
    assert PLANE.boxes(WHOLE) == [((0, 0), (side(2), side(2)))]
    assert subtract(WHOLE, WHOLE) == EMPTY
    assert volume(WHOLE) == CODES


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_a_code_is_a_whole_number_of_digits_in_every_dimension(dimensions: int) -> None:
    assert BITS % dimensions == 0
    assert place(CODES - 1, dimensions) == (side(dimensions) - 1,) * dimensions
    assert code((1,) * dimensions) == (1 << dimensions) - 1


def test_each_bit_of_a_prefix_halves_the_next_dimension() -> None:
    whole = side(3)

    assert [lengths(bits, 3) for bits in range(4)] == [
        (whole, whole, whole),
        (whole // 2, whole, whole),
        (whole // 2, whole // 2, whole),
        (whole // 2, whole // 2, whole // 2),
    ]


def test_a_surface_has_two_to_six_dimensions() -> None:
    with pytest.raises(AssertionError, match="2 to 6 dimensions"):
        Surface(7)


def test_digits_above_nine_are_letters() -> None:
    deep = Surface(5)

    assert deep.text(deep.tract("v0", "1a")) == "{1a,v0}"


def test_extents_of_an_interval_that_is_not_aligned() -> None:
    odd = (1, 18)

    assert [(low, PLANE.digits - digits) for low, digits in extents(odd, 2)] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 1),
        (8, 1),
        (12, 1),
        (16, 0),
        (17, 0),
    ]
    assert intersect(odd, (0, 4)) == (1, 4)
