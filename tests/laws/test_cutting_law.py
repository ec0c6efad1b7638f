"""Both tables cut at once are those that the definitions give; so are the surroundings of the assembled graph."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.bft.trials import Spot, key_of
from implicast.overlay.skip_graph.cutting import both_tables
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import Table, every_class, table_of
from implicast.space.vector import Vectors


def spelled(table: Table[Spot]) -> list[object]:
    return [(level.nodes, level.own, level.full, level.fresh) for level in table.levels]


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 80), st.integers(2, 6), st.sampled_from([2, 2, 3, 4]))
def test_both_tables_at_once_are_those_of_the_definitions(seed: int, n: int, k: int, alpha: int) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    keys = rng.sample(range(1_000_000), n)
    spots = [Spot(key_of(key), vectors.pack_number(rng.getrandbits(256)), index) for index, key in enumerate(keys)]
    owner, known = spots[0], {spot.key: spot for spot in spots[1:]}

    table, wide = both_tables(owner, known, k, vectors)

    assert spelled(table) == spelled(table_of(owner, known.values(), k, vectors))
    assert spelled(wide) == spelled(every_class(owner, known.values(), k, vectors))
    assert wide.contacts() == Standing(k, vectors, spots).surroundings(owner.key)
