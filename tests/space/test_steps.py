"""Ranges of grid steps, compared with sets of their values."""

from hypothesis import given
from hypothesis import strategies as st

from implicast.space.steps import in_pieces, overlap, values, without

RANGE = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda each: tuple(sorted(each)))
WORD = st.sampled_from(["rust", "music"]).map(lambda each: (each, each))


def all_of(ranges) -> list[object]:
    return [value for each in ranges for value in values(each)]


@given(RANGE, RANGE)
def test_what_is_left_of_a_range_is_what_the_other_lacks(one, other) -> None:
    assert set(all_of(without(one, *other))) == set(values(one)) - set(values(other))


@given(RANGE, RANGE)
def test_the_overlap_is_what_both_have(one, other) -> None:
    both = overlap(one, other)

    assert set(all_of([] if both is None else [both])) == set(values(one)) & set(values(other))


@given(WORD, WORD)
def test_a_word_meets_only_itself(one, other) -> None:
    assert overlap(one, other) == (one if one == other else None)
    assert without(one, *other) == ([] if one == other else [one])


@given(RANGE, st.integers(1, 5))
def test_pieces_are_the_range_in_order(one, most) -> None:
    pieces = in_pieces(one, most)

    assert all_of(pieces) == list(values(one))
    assert len(pieces) <= most
