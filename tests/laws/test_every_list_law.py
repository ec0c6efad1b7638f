"""Everyone's lists at once are those that the assembled graph gives one by one."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.space.vector import Vectors
from implicast.trials.bft import Spot, key_of
from implicast.world.populations.assembled_graph import AssembledGraph
from implicast.world.populations.skip_graph import every_list


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(2, 5), st.sampled_from([2, 2, 3, 4]))
def test_all_lists_at_once_are_those_one_by_one(seed: int, n: int, k: int, alpha: int) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    keys = rng.sample(range(1_000_000), n)
    spots = [
        Spot(key_of(key), vectors.pack_number(rng.getrandbits(256)), index)
        for index, key in enumerate(keys)
    ]
    assembled = AssembledGraph(k, vectors, spots)

    assert every_list(spots, k, vectors) == {spot.key: assembled.lists(spot.key) for spot in spots}
