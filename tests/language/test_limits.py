"""Hostile expressions are refused quickly, in little memory, and by the name of the bound they break."""

import tracemalloc
from itertools import combinations
from time import process_time

import pytest

from implicast.language.errors import LanguageError
from implicast.language.limits import NESTING_MAX, Limits
from implicast.language.parse import description, parse

HOSTILE = {
    "a product that doubles sixty times": ("&".join(f"(a{i}|b{i})" for i in range(60)), "terms"),
    "its negation": ("!(" + "|".join(f"(a{i}&b{i})" for i in range(60)) + ")", "terms"),
    "a hundred thousand parentheses": ("(" * 100_000, "characters"),
    "as many as are read": ("(" * 16_000, "nesting"),
    "as many negations": ("!" * 16_000, "nesting"),
    "a long disjunction": ("|".join(f"t{i}" for i in range(2_000)), "terms"),
    "a long conjunction": ("&".join(f"t{i}" for i in range(2_000)), "tags_per_term"),
    "overlapping factors": ("&".join(f"(a{i}|a{i + 1}|a{i + 2})" for i in range(200)), "steps"),
    "few tags, many factors": (
        "&".join(f"(a{i % 9}|a{i * 5 % 9}|!a{i * 7 % 9})" for i in range(1, 400)),
        "steps",
    ),
    "a thousand terms, sixty times over": (
        "(" * 60
        + "|".join(f"t{i}" for i in range(1_000))
        + "".join(f")&z{i}|y{i}" for i in range(60)),
        "steps",
    ),
    "three broad factors": (
        "&".join("(" + "|".join(f"{x}{i}" for i in range(30)) + ")" for x in "abc"),
        "terms",
    ),
    "a huge tag": ("a" * 10_000, "characters"),
}


def seconds_to_refuse(text: str, limit: str) -> float:
    began = process_time()
    with pytest.raises(LanguageError, match=limit):
        parse(text)
    return process_time() - began


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_expression_is_refused_in_milliseconds_and_little_memory(name: str) -> None:
    text, limit = HOSTILE[name]

    seconds = min(
        seconds_to_refuse(text, limit) for _ in range(3)
    )  # the collector may just be at work
    tracemalloc.start()
    with pytest.raises(LanguageError):
        parse(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert seconds < 0.5, "some 30 ms on a quiet machine"
    assert peak_bytes < 24_000_000


@pytest.mark.parametrize(
    "text",
    [
        "|".join(f"t{i}" for i in range(1_000)),
        "|".join(f"a{i} & a{j}" for i, j in combinations(range(45), 2)),
        "("
        + "|".join(f"a{i}" for i in range(30))
        + ") & ("
        + "|".join(f"b{i}" for i in range(30))
        + ")",
        "&".join(f"t{i}" for i in range(64)),
        "(" * 60 + "a" + ")" * 60,
    ],
)
def test_what_people_may_want_is_not_refused(text: str) -> None:
    assert parse(text).terms


def test_bounds_can_be_set() -> None:
    assert parse("a|b|c", limits=Limits(terms=3))
    with pytest.raises(LanguageError, match="terms"):
        parse("a|b|c|d", limits=Limits(terms=3))
    with pytest.raises(LanguageError, match="tags_per_term"):
        parse("a&b&!c", limits=Limits(tags_per_term=2))
    with pytest.raises(LanguageError, match="tags_per_description"):
        description("a b c", limits=Limits(tags_per_description=2))
    with pytest.raises(LanguageError, match="by recursion"):
        Limits(nesting=NESTING_MAX + 1)


def test_the_deepest_nesting_that_can_be_allowed_can_be_read() -> None:
    text = "!(" * (NESTING_MAX // 2) + "a" + ")" * (NESTING_MAX // 2)
    text = text if NESTING_MAX // 2 % 2 == 0 else f"b & {text}"

    assert parse(text, limits=Limits(nesting=NESTING_MAX))
