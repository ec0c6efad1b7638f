"""Descriptions as places, targets as arcs: an arc reaches exactly the places of those it may concern."""

from hypothesis import given
from hypothesis import strategies as st

from implicast.casting.bft.keys import (
    HOME,
    description_of,
    handles_of,
    realms,
    tag_realm,
    value_realm,
)
from implicast.language.target import Description, Predicate, Term, Value

tags = st.text(max_size=6)
tails = st.binary(min_size=8, max_size=8)
numbers = st.integers(-(2**70), 2**70)


@given(tags, tags, tails)
def test_a_tags_arc_holds_the_places_of_that_tag_and_of_no_other(
    asked: str, held: str, tail: bytes
) -> None:
    (key_range,) = handles_of(Term(has=(asked,)))

    assert key_range.holds(tag_realm(held) + tail) == (asked == held)
    assert not key_range.holds(HOME + tail)
    assert not key_range.holds(value_realm(Value(asked, 1)) + tail)


@given(tags, numbers, numbers, numbers, tails)
def test_a_ranges_arc_holds_exactly_the_values_within(
    name: str, a: int, b: int, value: int, tail: bytes
) -> None:
    predicate = Predicate(name, min(a, b), max(a, b))
    (key_range,) = handles_of(Term(where=(predicate,)))

    assert key_range.holds(value_realm(Value(name, value)) + tail) == predicate.admits(value)
    assert not key_range.holds(value_realm(Value(name + "x", value)) + tail)


@given(tags, st.none() | numbers, numbers, tails)
def test_an_open_end_reaches_every_number_and_no_string(
    name: str, low: int | None, value: int, tail: bytes
) -> None:
    (key_range,) = handles_of(Term(where=(Predicate(name, low, None),)))

    assert key_range.holds(value_realm(Value(name, value)) + tail) == (low is None or low <= value)
    assert not key_range.holds(value_realm(Value(name, "text")) + tail)


@given(tags, tags, tags, tails)
def test_a_string_value_is_its_own_realm(name: str, asked: str, held: str, tail: bytes) -> None:
    (key_range,) = handles_of(Term(where=(Predicate(name, asked, asked),)))

    assert key_range.holds(value_realm(Value(name, held)) + tail) == (asked == held)


def test_a_peer_has_a_home_and_a_place_per_tag_and_value() -> None:
    described = Description(("jazz", "opera"), (Value("age", 7), Value("city", "Kyoto")))

    assert len(realms(described)) == len(set(realms(described))) == 5
    assert realms(None) == [HOME]


def test_a_term_has_a_handle_per_tag_and_range_and_one_without_either_is_for_everyone() -> None:
    assert len(handles_of(Term(has=("a", "b"), where=(Predicate("c", 1, 2),)))) == 3
    (everyone,) = handles_of(Term(lacks=("a",)))
    assert everyone.holds(HOME + bytes(8))
    assert not everyone.holds(tag_realm("a") + bytes(8))


@given(st.lists(tags, max_size=3), st.lists(st.tuples(tags, tags | numbers), max_size=3))
def test_realms_say_what_was_said(names: list[str], values: list[tuple[str, str | int]]) -> None:
    described = Description(tuple(names), tuple(Value(*each) for each in values))

    assert description_of(realms(described)) == described


def test_what_is_no_text_is_held_against_protected_prefixes_all_the_same() -> None:
    said = description_of([b"tstaff:\xff\x00"])

    assert said.tags[0].startswith("staff:")
