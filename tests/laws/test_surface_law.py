"""Laws of the surface: intervals against plain sets of codes, compiled kernels against the readable definitions."""

from math import pi

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from implicast.space import kernels
from implicast.space.angle import centre, clusters, cosine_of
from implicast.space.morton import BITS, CODES, DIMENSIONS, Box, box, code, place
from implicast.space.surface import Surface
from implicast.space.tract import (
    Tract,
    container,
    contains,
    extents,
    intersect,
    intervals,
    prefixes,
    scale_within,
    split,
    subtract,
    union,
    unite,
    volume,
)
from implicast.world.populations.curve import codes, places

SMALL = 64
"""Laws of intervals are tried on codes below this, where sets are cheap."""
small_spans = st.lists(st.tuples(st.integers(0, SMALL - 1), st.integers(1, 9)), max_size=6)
small_tracts = small_spans.map(
    lambda spans: union((low, min(SMALL, low + length)) for low, length in spans)
)
dimensions = st.sampled_from(DIMENSIONS)


@st.composite
def prefix(draw: st.DrawFn, bits_max: int = 14) -> tuple[int, int]:
    """(first code, bits), as peers own them."""
    bits = draw(st.integers(0, bits_max))
    return draw(st.integers(0, (1 << bits) - 1)) << (BITS - bits), bits


@st.composite
def extent_tract(draw: st.DrawFn, d: int) -> Tract:
    digits = st.integers(1, 3)
    parts = []
    for _ in range(draw(st.integers(1, 8))):
        shift = BITS - draw(digits) * d
        low = draw(st.integers(0, (CODES >> shift) - 1)) << shift
        parts.append((low, low + (1 << shift)))
    return union(parts)


def members(tract: Tract) -> set[int]:
    return {each for low, high in intervals(tract) for each in range(low, high)}


@given(small_tracts, small_tracts)
def test_verbs_of_tracts_are_verbs_of_sets(one: Tract, other: Tract) -> None:
    assert members(intersect(one, other)) == members(one) & members(other)
    assert members(subtract(one, other)) == members(one) - members(other)
    assert members(unite(one, other)) == members(one) | members(other)
    assert volume(one) == len(members(one))
    assert all(contains(one, each) == (each in members(one)) for each in range(SMALL))


@given(small_tracts, st.integers(0, SMALL), st.integers(1, SMALL))
def test_splitting_by_one_interval_is_intersecting_and_subtracting(
    tract: Tract, low: int, length: int
) -> None:
    assert split(tract, low, low + length) == (
        intersect(tract, (low, low + length)),
        subtract(tract, (low, low + length)),
    )


@given(small_tracts, small_tracts)
def test_equal_tracts_are_equal_values(one: Tract, other: Tract) -> None:
    assert (one == other) == (members(one) == members(other))


@given(small_tracts, dimensions)
def test_extents_make_up_the_tract_and_are_aligned(tract: Tract, d: int) -> None:
    found = [(low, low + (1 << (BITS - digits * d))) for low, digits in extents(tract, d)]

    assert union(found) == tract
    assert sum(high - low for low, high in found) == volume(tract)
    assert all(low % (high - low) == 0 for low, high in found)


@given(small_tracts)
def test_prefixes_are_never_more_than_extents(tract: Tract) -> None:
    assert len(list(prefixes(tract))) <= len(list(extents(tract, 2)))


@given(st.integers(0, CODES - 1), dimensions)
def test_a_code_is_its_place(at: int, d: int) -> None:
    assert code(place(at, d)) == at
    assert tuple(places(np.array([at]), d)[0]) == place(at, d)
    assert codes(np.array([place(at, d)]))[0] == at


@given(st.data(), dimensions, st.integers(0, 4), st.integers(0, CODES - 1))
def test_disjoint_tracts_scale_to_disjoint_tracts(
    data: st.DataObject, d: int, below: int, address: int
) -> None:
    """Thesis section 8.2.2; and scaling multiplies the volume by 2^d and stays in the next container."""
    notch = BITS // d - 1 - below
    low, high = container(address, notch, d)
    cuts = sorted(data.draw(st.lists(st.integers(low, high), min_size=4, max_size=4, unique=True)))
    one, other = (cuts[0], cuts[1]), (cuts[2], cuts[3])

    larger = [scale_within(each, address, notch, d) for each in (one, other)]

    assert intersect(*larger) == ()
    assert [volume(each) for each in larger] == [volume(one) << d, volume(other) << d]
    assert all(subtract(each, container(address, notch + 1, d)) == () for each in larger)


@given(prefix(), prefix(), dimensions)
def test_the_rank_of_rows_is_the_readable_one(
    one: tuple[int, int], other: tuple[int, int], d: int
) -> None:
    boxes = box(*one, d), box(*other, d)
    rows = [(*low, *high) for low, high in boxes]

    assert kernels.rank(*rows, d) == Surface(d).rank(*boxes)
    assert Surface(d).rank(*boxes) == Surface(d).rank(*reversed(boxes))


def nearest_by_definition(
    own: Box, others: list[Box], latencies: list[float], targets: list[Box], d: int
) -> int:
    """Listing 6 with ties as stated, word by word."""
    surface = Surface(d)
    here = min(surface.rank(own, target) for target in targets)
    found = []
    for index, (other, latency) in enumerate(zip(others, latencies, strict=True)):
        there = min(surface.rank(other, target) for target in targets)
        if there < here:
            progress = (here[0] ** 0.5 - there[0] ** 0.5) / latency
            found.append((-progress, there[1], latency, index))
    return min(found)[3] if found else -1


@given(st.data(), st.sampled_from((2, 3)))
def test_the_next_hop_is_the_readable_one(data: st.DataObject, d: int) -> None:
    own, *others = (box(*data.draw(prefix(8)), d) for _ in range(data.draw(st.integers(2, 9))))
    latencies = [float(data.draw(st.integers(1, 3))) for _ in others]
    target = data.draw(st.integers(0, CODES - 1))
    names = [7 * each for each in range(len(others))]

    sheet = kernels.sheet_of(d, [own], others, latencies, names)

    hop = nearest_by_definition(own, others, latencies, [box(target, BITS, d)], d)
    assert kernels.hop_by_sheet(sheet, 1, target) == (7 * hop if hop >= 0 else -1)


@given(st.data(), dimensions)
def test_a_sheet_holds_the_table(data: st.DataObject, d: int) -> None:
    boxes = [box(*data.draw(prefix(8)), d) for _ in range(data.draw(st.integers(3, 9)))]
    owns = data.draw(st.integers(1, 2))
    latencies = [data.draw(st.sampled_from((1.0, 2.0, 0.1, 1e6 / 3))) for _ in boxes[owns:]]

    sheet = kernels.sheet_of(d, boxes[:owns], boxes[owns:], latencies, range(len(latencies)))

    rows, found = kernels.unpack(sheet)
    assert [each[: 2 * d] for each in rows] == [[*low, *high] for low, high in boxes]
    assert found[owns:] == latencies


@given(
    st.data(), st.sampled_from((2, 3, 4)), st.sampled_from((0.0, pi / 6, pi / 3, pi / 2, 3.0, pi))
)
def test_the_clusters_are_the_readable_ones(
    data: st.DataObject, d: int, branch_factor: float
) -> None:
    own = box(*data.draw(prefix(10)), d)
    boxes = Surface(d).boxes(data.draw(extent_tract(d)))[:40]
    rows = [(*low, *high) for low, high in boxes]

    found = kernels.divide(kernels.directions(centre(own), rows, d), cosine_of(branch_factor))

    expected = clusters(centre(own), boxes, branch_factor)
    assert [
        [index for index, cluster in enumerate(found) if cluster == number]
        for number in range(max(found) + 1)
    ] == expected
