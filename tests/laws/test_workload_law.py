"""A workload is the same however its range is cut, and whatever else was drawn before."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.workload.draw import Shuffle, Stream, span
from implicast.workload.workload import workload

PEERS, CASTS = 400, 120
DRAWN = {
    "zipf": workload("zipf", seed=9, peers=PEERS, casts=CASTS, terms=2, negated=1, skew=1.7),
    "zipf, independent": workload("zipf", seed=9, peers=PEERS, casts=CASTS, distinct=False),
    "extreme": workload("extreme", seed=9, peers=PEERS, casts=CASTS),
    "groups": workload("groups", seed=9, peers=PEERS, casts=CASTS),
}


def pieces(bounds: set[int], last: int) -> list[tuple[int, int]]:
    ends = sorted({0, last, *(bound % last for bound in bounds)})
    return list(pairwise(ends))


@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=10, deadline=None)
@given(bounds=st.sets(st.integers(0, 10_000), max_size=9))
def test_a_workload_does_not_depend_on_how_it_is_cut(name: str, bounds: set[int]) -> None:
    drawn = DRAWN[name]

    described = [drawn.descriptions(*piece) for piece in pieces(bounds, PEERS)]
    targeted = [drawn.targets(*piece) for piece in pieces(bounds, CASTS)]
    published = [drawn.publishers(*piece) for piece in pieces(bounds, CASTS)]

    for whole, parts in (
        (drawn.descriptions(0, PEERS), described),
        (drawn.targets(0, CASTS), targeted),
    ):
        for column, joined in zip(
            whole, map(np.concatenate, zip(*parts, strict=True)), strict=True
        ):
            assert np.array_equal(column, joined)
    assert np.array_equal(drawn.publishers(0, CASTS), np.concatenate(published))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3_000), st.integers(0, 2**63), st.data())
def test_any_part_of_a_shuffle_agrees_with_the_whole(
    size: int, seed: int, data: st.DataObject
) -> None:
    shuffle = Shuffle(size, Stream.of(seed, "law"))
    keys = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), dtype=np.int64)

    assert np.array_equal(shuffle.places(keys), shuffle.places(span(0, size))[keys])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(-(2**70), 2**70),
    st.integers(1, 2**32),
    st.integers(0, 2**40),
    st.integers(0, 2**20),
)
def test_draws_lie_in_their_ranges(seed: int, bound: int, first: int, index: int) -> None:
    stream, keys = Stream.of(seed, "law"), span(first, first + 50)

    assert ((stream.uniform(keys, index) >= 0) & (stream.uniform(keys, index) < 1)).all()
    assert (
        (stream.below(bound, keys, index) >= 0) & (stream.below(bound, keys, index) < bound)
    ).all()
