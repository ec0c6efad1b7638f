"""Lists cut again after some came and went are those cut from all that is known."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.bft.trials import Spot, key_of
from implicast.overlay.skip_graph.cutting import Both, both_tables
from implicast.space.vector import Vectors


def spelled(both: Both[Spot]) -> list[object]:
    return [(level.nodes, level.own, level.full, level.fresh) for table in both for level in table.levels]


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 4), st.sampled_from([2, 2, 3]), st.booleans())
def test_only_lists_of_those_who_moved_need_be_cut(seed: int, n: int, k: int, alpha: int, forgets: bool) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    keys = rng.sample(range(1_000_000), n + 1)
    spots = [Spot(key_of(key), vectors.pack_number(rng.getrandbits(256)), index) for index, key in enumerate(keys)]
    owner, others = spots[0], spots[1:]
    known = {spot.key: spot for spot in others if rng.random() < 0.5}
    both = both_tables(owner, known, k, vectors)
    for _ in range(12):
        moved = rng.sample(others, min(len(others), rng.randint(1, 3)))
        for spot in moved:
            if known.pop(spot.key, None) is None:
                known[spot.key] = spot

        both = both_tables(owner, known, k, vectors, both, moved)

        assert spelled(both) == spelled(both_tables(owner, known, k, vectors))
        if forgets:  # as a place does: who is in no list is not kept
            known = {spot.key: spot for spot in both[1].contacts()}
