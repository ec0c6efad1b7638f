"""Kernels that were built when the package was against those that stand in `kernels.py`: the same to the last bit."""

import runpy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.space import kernels
from implicast.space.morton import BITS, CODES, Box, box
from implicast.space.tract import Tract, union

built = pytest.importorskip("implicast.space._kernels", reason="there was no C compiler")
dimensions = st.sampled_from((2, 3, 4, 5, 6))
paces = st.sampled_from((1.0, 2.0, 0.1, 1e6 / 3, 50_000.0))


@pytest.fixture(scope="module")
def readable() -> Any:
    """The functions as they stand."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IMPLICAST_CORE", "python")
        return runpy.run_path(kernels.__file__)


@st.composite
def boxes(draw: st.DrawFn, d: int, least: int, most: int) -> list[Box]:
    bits = draw(st.lists(st.integers(0, BITS), min_size=least, max_size=most))
    lows = [draw(st.integers(0, CODES - 1)) >> BITS - each << BITS - each for each in bits]
    return [box(low, each, d) for low, each in zip(lows, bits, strict=True)]


@st.composite
def tracts(draw: st.DrawFn) -> Tract:
    ends = st.tuples(st.integers(0, CODES), st.sampled_from((1, 5, 1 << 20, 1 << 50, CODES)))
    return union(
        (low, min(CODES, low + length))
        for low, length in draw(st.lists(ends, min_size=1, max_size=4))
        if low < CODES
    )


@st.composite
def sheets(draw: st.DrawFn, d: int, owns: int) -> memoryview:
    own, others = draw(boxes(d, owns, owns)), draw(boxes(d, 1, 8))
    latencies = [draw(paces) for _ in others]
    return kernels.sheet_of(d, own, others, latencies, [3 * each for each in range(len(others))])


@given(st.data(), dimensions, st.integers(0, 2), st.integers(0, CODES - 1))
def test_a_next_hop_is_the_one_of_the_readable_kernels(
    readable: Any, data: st.DataObject, d: int, owns: int, code: int
) -> None:
    sheet = data.draw(sheets(d, owns))

    hop = readable["hop_by_sheet"](sheet, owns, code)

    assert built.hop_by_sheet(sheet, owns, code) == hop
    assert built.hops_of_codes(sheet, owns, [code, 0, code])[::2] == [hop, hop]


@given(st.data(), dimensions, st.sampled_from((-2.0, -0.5, 0.5, 0.9, 1.0, 2.0)), st.booleans())
def test_a_sheet_divides_a_destination_as_the_readable_one(
    readable: Any, data: st.DataObject, d: int, cosine: float, merge: bool
) -> None:
    sheet, tract = data.draw(sheets(d, 1)), data.draw(tracts())

    divided = readable["branches"](sheet, tract, cosine, merge)

    assert built.branches(sheet, tract, cosine, merge) == divided
    assert (
        union(
            (low, high)
            for _, part in divided
            for low, high in zip(part[::2], part[1::2], strict=True)
        )
        == tract
    )


@given(st.data(), dimensions)
def test_a_sheet_of_rows_is_that_of_their_boxes(readable: Any, data: st.DataObject, d: int) -> None:
    some = data.draw(boxes(d, 1, 8))
    latencies = [data.draw(paces) for _ in some[1:]]
    around, names = np.arange(1, len(some), dtype=np.int32), range(1, len(some))
    rows = np.array([[*low, *high] for low, high in some], np.int64)

    due = kernels.sheet_of(d, some[:1], some[1:], latencies, names)

    assert built.sheet_around(rows, 0, around, latencies) == due
    assert readable["sheet_around"](rows, 0, around, latencies) == due


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
    one, other = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)

    built.digests_into(letters, chosen, word, one)
    readable["digests_into"](letters, chosen, word, other)

    assert one.tolist() == other.tolist()


def test_every_kernel_that_was_built_stands_in_the_readable_file() -> None:
    names = [
        name for name in vars(built) if not name.startswith("_") and callable(getattr(built, name))
    ]

    assert set(names) == {
        "branches",
        "digests_into",
        "hop_by_sheet",
        "hops_of_codes",
        "sheet_around",
    }
    assert all(hasattr(kernels, name) for name in names)
