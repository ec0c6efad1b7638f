"""A cast that goes around the lost leaves nothing out: every place of its range is sent for, proven empty, or stuck."""

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.condcast.split import split, split_around
from implicast.language.queries import OfCategory
from implicast.language.values import Categories
from implicast.overlay.links import Ref
from implicast.space.ring import Arc, between
from implicast.world.populations.chord_sharp import settled_tables

RINGS = st.lists(st.integers(0, 999), min_size=1, max_size=40, unique=True).map(sorted)


@settings(max_examples=300, deadline=None)
@given(
    RINGS,
    st.data(),
    st.integers(0, 999),
    st.integers(0, 999),
    st.lists(st.booleans(), min_size=40, max_size=40),
    st.lists(st.integers(0, 2), min_size=40, max_size=40),
)
def test_around_the_lost_everybody_is_sent_for_or_waits(
    keys: list[int], data: st.DataObject, start: int, end: int, lost: list[bool], held: list[int]
) -> None:
    refs = [Ref(key, at) for at, key in enumerate(keys)]
    tables = settled_tables(refs, [Categories.of(held[at]) for at in range(len(keys))])
    table = data.draw(st.sampled_from(tables))
    arc, match = Arc(start, end), OfCategory(1).match
    is_lost = lambda ref: lost[ref.address]  # noqa: E731

    here, onward, stuck = split_around(table, [arc], match, is_lost)

    assert here == (table.me.key in arc)
    for ref, pieces in onward:
        assert not is_lost(ref)
        for piece in pieces:
            assert piece.start == ref.key or between(table.me.key, ref.key, piece.start), (
                "it goes clockwise"
            )
    assert all(piece.start == table.nodes[0].key or is_lost(table.nodes[0]) for piece in stuck)
    for at, ref in enumerate(refs):
        if ref.key in arc and held[at] == 1 and ref != table.me:
            ways = sum(ref.key in piece for _, pieces in onward for piece in pieces)
            assert ways + sum(ref.key in piece for piece in stuck) == 1, (
                "once, and nobody is forgotten"
            )


@settings(max_examples=200, deadline=None)
@given(RINGS, st.data(), st.integers(0, 999), st.integers(0, 999))
def test_with_nobody_lost_it_is_what_the_short_cut_finds(
    keys: list[int], data: st.DataObject, start: int, end: int
) -> None:
    refs = [Ref(key, at) for at, key in enumerate(keys)]
    table = data.draw(
        st.sampled_from(settled_tables(refs, [Categories.of(at % 3) for at in range(len(keys))]))
    )
    match = OfCategory(1).match

    here, onward, stuck = split_around(table, [Arc(start, end)], match, lambda ref: False)

    assert (here, onward) == split(table, [Arc(start, end)], match)
    assert stuck == ()
