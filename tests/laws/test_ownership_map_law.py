"""The claim_map joins claims: order, repeats and grouping of state do not matter, and the best
claim wins everywhere.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.ownership_map import OwnershipMap, better
from implicast.space.morton import BITS

DEPTH = 4


@st.composite
def claim(draw: st.DrawFn) -> OwnershipClaim:
    bits = draw(st.integers(0, DEPTH))
    low = draw(st.integers(0, (1 << bits) - 1)) << (BITS - bits)
    return OwnershipClaim(low, bits, draw(st.integers(0, 3)), draw(st.integers(0, 3)))


def best(claims: list[OwnershipClaim], code: int) -> tuple[int, int] | None:
    """By definition: of all claims that speak of this code, the best."""
    speaking = [each for each in claims if each.low <= code < each.high]
    found = next(
        (each for each in speaking if not any(better(other, each) for other in speaking)), None
    )
    return None if found is None else (found.epoch, int(str(found.owner)))


def learnt(claims: list[OwnershipClaim]) -> OwnershipMap:
    claim_map = OwnershipMap()
    for each in claims:
        claim_map.learn(each)
    return claim_map


def meaning(claim_map: OwnershipMap) -> list[tuple[int, int] | None]:
    codes = [place << (BITS - DEPTH) for place in range(1 << DEPTH)]
    return [best(list(claim_map.claims.values()), code) for code in codes]


@given(st.lists(claim(), max_size=8))
def test_the_best_title_wins_for_every_code(claims: list[OwnershipClaim]) -> None:
    expected = [best(claims, place << (BITS - DEPTH)) for place in range(1 << DEPTH)]

    assert meaning(learnt(claims)) == expected


@given(st.lists(claim(), max_size=8), st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(claims: list[OwnershipClaim], rng: st.DataObject) -> None:
    shuffled = claims + claims[: len(claims) // 2]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]

    assert meaning(learnt(shuffled)) == meaning(learnt(claims))


@given(st.lists(claim(), max_size=8))
def test_titles_of_an_atlas_never_overlap(claims: list[OwnershipClaim]) -> None:
    spans = sorted((each.low, each.high) for each in learnt(claims).claims.values())

    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(st.lists(claim(), max_size=6), claim())
def test_learning_says_whether_there_was_news(
    claims: list[OwnershipClaim], state: OwnershipClaim
) -> None:
    claim_map = learnt(claims)
    before = meaning(claim_map)

    said = claim_map.learn(state)

    assert said or meaning(claim_map) == before
    assert not claim_map.learn(state)
