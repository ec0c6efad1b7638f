"""The atlas joins titles: order, repeats and grouping of news do not matter, and the best title wins everywhere."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from implicast.overlay.ice.atlas import Atlas, better
from implicast.overlay.ice.messages import Title
from implicast.space.morton import BITS

DEPTH = 4


@st.composite
def title(draw: st.DrawFn) -> Title:
    bits = draw(st.integers(0, DEPTH))
    low = draw(st.integers(0, (1 << bits) - 1)) << (BITS - bits)
    return Title(low, bits, draw(st.integers(0, 3)), draw(st.integers(0, 3)))


def best(titles: list[Title], code: int) -> tuple[int, int] | None:
    """By definition: of all titles that speak of this code, the best."""
    speaking = [each for each in titles if each.low <= code < each.high]
    found = next(
        (each for each in speaking if not any(better(other, each) for other in speaking)), None
    )
    return None if found is None else (found.epoch, int(str(found.owner)))


def learnt(titles: list[Title]) -> Atlas:
    atlas = Atlas()
    for each in titles:
        atlas.learn(each)
    return atlas


def meaning(atlas: Atlas) -> list[tuple[int, int] | None]:
    codes = [place << (BITS - DEPTH) for place in range(1 << DEPTH)]
    return [best(list(atlas.titles.values()), code) for code in codes]


@given(st.lists(title(), max_size=8))
def test_the_best_title_wins_for_every_code(titles: list[Title]) -> None:
    expected = [best(titles, place << (BITS - DEPTH)) for place in range(1 << DEPTH)]

    assert meaning(learnt(titles)) == expected


@given(st.lists(title(), max_size=8), st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(titles: list[Title], rng: st.DataObject) -> None:
    shuffled = titles + titles[: len(titles) // 2]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]

    assert meaning(learnt(shuffled)) == meaning(learnt(titles))


@given(st.lists(title(), max_size=8))
def test_titles_of_an_atlas_never_overlap(titles: list[Title]) -> None:
    spans = sorted((each.low, each.high) for each in learnt(titles).titles.values())

    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(st.lists(title(), max_size=6), title())
def test_learning_says_whether_there_was_news(titles: list[Title], news: Title) -> None:
    atlas = learnt(titles)
    before = meaning(atlas)

    said = atlas.learn(news)

    assert said or meaning(atlas) == before
    assert not atlas.learn(news)
