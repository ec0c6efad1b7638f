"""Kernels that were built when the package was against those that stand in `kernels.py`: the same to the last bit."""

import runpy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.space import kernels
from implicast.space.morton import BITS, CODES, box
from implicast.space.tract import union

built = pytest.importorskip("implicast.space._kernels", reason="there was no C compiler")
dimensions = st.sampled_from((2, 3, 4, 5, 6))
paces = st.sampled_from((1.0, 2.0, 0.1, 1e6 / 3, 50_000.0))


@pytest.fixture(scope="module")
def readable() -> Any:
    """The functions as they stand, compiled by nobody."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IMPLICAST_CORE", "python")
        patched.setenv("IMPLICAST_NUMBA", "0")
        return runpy.run_path(kernels.__file__)


@st.composite
def rows(draw: st.DrawFn, d: int, most: int) -> Any:
    bits = draw(st.lists(st.integers(0, BITS), min_size=1, max_size=most))
    lows = [draw(st.integers(0, CODES - 1)) >> BITS - each << BITS - each for each in bits]
    return np.array(
        [[*low, *high] for low, high in map(box, lows, bits, [d] * len(bits))], np.int64
    )


@st.composite
def tracts(draw: st.DrawFn) -> Any:
    ends = st.tuples(st.integers(0, CODES), st.sampled_from((1, 5, 1 << 20, 1 << 50, CODES)))
    found = union(
        (low, min(CODES, low + length))
        for low, length in draw(st.lists(ends, min_size=1, max_size=4))
    )
    return np.array(found, np.int64)


@given(st.data(), dimensions, st.sampled_from((-2.0, -0.5, 0.5, 0.9, 1.0, 2.0)))
def test_a_destination_is_divided_as_the_readable_kernels_divide_it(
    readable: Any, data: st.DataObject, d: int, cosine: float
) -> None:
    own, others, tract = data.draw(rows(d, 2)), data.draw(rows(d, 6)), data.draw(tracts())
    latencies = np.array([data.draw(paces) for _ in others])
    given_to = (tract, own, own[0][:d] + own[0][d:], others, latencies, cosine, d)

    assert np.array_equal(built.branch(*given_to), readable["branch"](*given_to))
    assert np.array_equal(built.cut(tract, d), readable["cut"](tract, d))
    targets = np.empty((1, 2 * d), np.int64)
    built.locate(int(tract[0]) % CODES, 0, d, targets[0])
    vectors = built.directions(given_to[2], others, d)
    assert vectors.tobytes() == readable["directions"](given_to[2], others, d).tobytes()
    assert np.array_equal(built.divide(vectors, cosine), readable["divide"](vectors, cosine))
    chosen = np.zeros(len(targets), np.int64)
    assert built.nearest(others, targets, 0, chosen, d) == readable["nearest"](
        others, targets, 0, chosen, d
    )


@given(st.data(), dimensions, st.integers(0, CODES - 1))
def test_a_next_hop_is_the_one_of_the_readable_kernels(
    readable: Any, data: st.DataObject, d: int, code: int
) -> None:
    boxes = data.draw(rows(d, 9))
    owns = data.draw(st.integers(0, min(2, len(boxes))))
    latencies = np.array([data.draw(paces) for _ in boxes[owns:]])
    sheet = kernels.sheet_of(boxes[:owns], boxes[owns:], latencies, list(range(len(latencies))))
    by_rows = (boxes[:owns], boxes[owns:], latencies, code, d)

    assert built.hop_by_sheet(sheet, owns, code) == readable["hop_by_sheet"](sheet, owns, code)
    assert built.hops_by_sheet(sheet, owns, np.array([code])).tolist() == [
        built.hop_by_sheet(sheet, owns, code)
    ]
    assert built.hop_to_code(*by_rows) == readable["hop_to_code"](*by_rows)


@given(st.data(), dimensions, st.sampled_from((-2.0, 0.5, 0.9, 2.0)), st.booleans())
def test_a_sheet_divides_a_destination_as_the_readable_one(
    readable: Any, data: st.DataObject, d: int, cosine: float, merge: bool
) -> None:
    boxes, tract = data.draw(rows(d, 9)), tuple(data.draw(tracts()).tolist())
    around = np.arange(1, len(boxes), dtype=np.int32)
    latencies = [data.draw(paces) for _ in around]
    sheet = kernels.sheet_of(boxes[:1], boxes[1:], latencies, around)

    assert built.sheet_of_row(boxes, 0, around, latencies).tobytes() == sheet.tobytes()
    assert built.branches(sheet, tract, cosine, merge) == readable["branches"](
        sheet, tract, cosine, merge
    )


@given(
    st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=4),
    st.binary(max_size=60),
    st.data(),
)
def test_digests_of_many_are_those_of_each(
    readable: Any, names: list[bytes], word: bytes, data: st.DataObject
) -> None:
    letters = np.frombuffer(b"".join(names), np.uint8).reshape(len(names), -1)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(names) - 1), max_size=5)), np.int32)

    assert (
        built.digests(letters, chosen, word).tolist()
        == readable["digests"](letters, chosen, word).tolist()
    )


def test_every_kernel_that_was_built_stands_in_the_readable_file() -> None:
    names = [
        name for name in vars(built) if not name.startswith("_") and callable(getattr(built, name))
    ]

    assert set(names) >= {"branch", "hop_by_sheet", "hops_by_sheet", "nearest", "locate"}
    assert all(hasattr(kernels, name) for name in names)
