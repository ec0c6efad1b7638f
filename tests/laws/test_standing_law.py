"""Subscriptions found in drawers are those that trying all of them finds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.language.standing import StandingTargets
from implicast.language.target import Description, Predicate, Target, Term, Value

names = st.sampled_from(["a", "b"])
steps = st.integers(0, 40)


def ranges(attribute: str) -> st.SearchStrategy[Predicate]:
    both = st.tuples(steps, steps).map(lambda ends: Predicate(attribute, min(ends), max(ends)))
    return st.one_of(
        both,
        steps.map(lambda low: Predicate(attribute, low, None)),
        steps.map(lambda high: Predicate(attribute, None, high)),
        steps.map(lambda one: Predicate(attribute, one, one)),
    )


words = st.sampled_from(["x", "y"]).map(lambda word: Predicate("word", word, word))
wheres = st.lists(
    st.one_of(names.flatmap(ranges), words),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.attribute,
)
terms = st.one_of(
    wheres.map(lambda where: Term(where=tuple(where))),
    wheres.map(lambda where: Term(has=("jazz",), where=tuple(where))),
    st.just(Term(has=("jazz",), lacks=("blues",))),
)
targets = st.lists(terms, min_size=1, max_size=3).map(lambda found: Target(tuple(found)))
descriptions = st.builds(
    lambda tags, a, b, word: Description(
        tuple(sorted(tags)), (Value("a", a), Value("b", b), Value("word", word))
    ),
    st.sets(st.sampled_from(["jazz", "blues"])),
    steps,
    steps,
    st.sampled_from(["x", "y"]),
)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(targets, max_size=12),
    st.lists(st.integers(0, 11), max_size=4),
    st.lists(descriptions, max_size=5),
)
def test_what_is_found_is_what_matches(
    wanted: list[Target], gone: list[int], events: list[Description]
) -> None:
    standing: StandingTargets[int] = StandingTargets()
    for key, target in enumerate(wanted):
        standing.put(key, wanted[-1])
        standing.put(key, target)
    for key in gone:
        standing.remove(key)

    for event in events:
        expected = [
            key for key, target in enumerate(wanted) if key not in gone and target.selects(event)
        ]
        assert sorted(standing.matching(event)) == expected
