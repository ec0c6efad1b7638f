"""Looking through records as it was built when the package was, against the readable way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.casting.spice import registry as registries
from implicast.casting.spice.items import Entry
from implicast.casting.spice.registry import BEFORE_US, Registry, VersionCounter, fits
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import Contact
from implicast.space.morton import CODES
from implicast.space.tract import union

pytestmark = pytest.mark.skipif(
    registries._BUILT is None, reason="there was no C compiler, or it is not asked for"
)
tags = st.lists(st.sampled_from("abcde"), max_size=5, unique=True).map(
    lambda found: tuple(sorted(found))
)
descriptions = st.none() | tags.map(Description)
ROOT = 5 << 40


@st.composite
def registers(draw: st.DrawFn, notch: int) -> Registry:
    found = Registry(ROOT, notch, 2, VersionCounter())
    for number in range(draw(st.integers(0, 6))):
        spot, begun_us = draw(st.integers(0, CODES - 1)), draw(st.sampled_from((0, 7)))
        entry = Entry(
            Contact(b"%d" % number, number), 1, spot, draw(descriptions), draw(descriptions)
        )
        found.keep(entry, begun_us, 1 << 60)
    return found


@given(
    st.data(),
    st.sampled_from((0, 20, 30)),
    st.sampled_from((0, BEFORE_US, BEFORE_US + 3, BEFORE_US + 9)),
)
def test_the_built_way_selects_whom_the_readable_one_does(
    data: st.DataObject, notch: int, now_us: int
) -> None:
    registry = data.draw(registers(notch))
    ends = st.tuples(st.integers(0, CODES - 1), st.sampled_from((1, 1 << 40, 1 << 55, CODES)))
    part = union(
        (low, min(CODES, low + length)) for low, length in data.draw(st.lists(ends, max_size=3))
    )
    part = data.draw(st.sampled_from((part, (ROOT, ROOT + 1), (0, CODES))))
    target = Target((Term(data.draw(tags), data.draw(tags)),))

    found = registry.selected(target, 0, part, now_us)

    assert found == [
        each.entry.member for each in registry.records_in(part) if fits(each, target, 0, now_us)
    ]
