"""Expressions over tags: what they mean, and what is said of those that mean nothing."""

import pytest

from implicast.language.errors import LanguageError, LocalError
from implicast.language.parse import all_of, describe, description, parse
from implicast.language.target import Description, Target, Term, Value


def terms(text: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(term.has, term.lacks) for term in parse(text).terms]


def test_and_binds_tighter_than_or() -> None:
    assert terms("a | b & c") == [(("a",), ()), (("b", "c"), ())]
    assert terms("(a | b) & c") == [(("a", "c"), ()), (("b", "c"), ())]


def test_the_example_of_the_thesis_has_two_terms() -> None:
    assert terms("(samba | jazz) & football") == [
        (("football", "jazz"), ()),
        (("football", "samba"), ()),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a | a&b", "a"),
        ("a & a", "a"),
        ("a | a", "a"),
        ("b & a", "a & b"),
        ("a & (b | !b & c) ", "a&b | a&c&!b"),
        ("a & !!b", "a & b"),
        ("c & !(a & !b)", "c & !a | c & b"),
        ("c & !(a | b)", "c & !a & !b"),
        ("a | b & !b", "a"),
        ("a&b | a&b&c | a&b&!d", "a & b"),
        ("(a|b) & (a|c)", "a | b&c"),
        ("((a))", "a"),
        ("JAZZ", "jazz"),
        ('"jazz"', "jazz"),
    ],
)
def test_equal_expressions_have_equal_normal_forms(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert str(parse(one)) == str(parse(other))


@pytest.mark.parametrize(
    "tag",
    [
        "c++",
        "c#",
        ".net",
        "a/b",
        "topic:jazz",
        "x-y_z",
        "8.30",
        "日本語",
        "naïve",
        "हिन्दी",
        "in",
        "and",
        "²",
    ],
)
def test_letters_digits_and_some_signs_need_no_quotes(tag: str) -> None:
    assert terms(tag) == [((tag,), ())]
    assert str(parse(tag)) == tag


@pytest.mark.parametrize(
    "tag", ["machine learning", "a&b", 'say "hi"', "back\\slash", "a..b", "line\nbreak", "👍", "--"]
)
def test_anything_else_is_quoted(tag: str) -> None:
    target = all_of(tag)

    assert str(target).startswith('"')
    assert parse(str(target)) == target


def test_however_a_tag_was_typed_it_is_one_tag() -> None:
    composed, taken_apart, loud = "caf\u00e9", "cafe\u0301", "CAF\u00c9"

    assert parse(composed) == parse(taken_apart) == parse(loud)
    assert parse("Straße") == parse("STRASSE")


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("a & b & )", 9, "unexpected ')' at column 9: expected a tag"),
        ("jazz)", 5, "no parenthesis is open"),
        ("(a & (b | c)", 1, "opened at column 1 is never closed"),
        ("", 1, "empty"),
        ("  \t ", 1, "empty"),
        ("()", 2, "expected a tag"),
        ("a &", 4, "unexpected end of the text at column 4: expected a tag"),
        ("| a", 1, "expected a tag"),
        ("a && b", 4, "a single & joins two tags"),
        ("a and b", 3, "write & for and"),
        ("not a", 5, "write ! for not"),
        ("machine learning", 9, "quote a tag that holds spaces"),
        ("a, b", 2, "join tags with & or |"),
        ("a ; b", 3, "unknown character ';' at column 3"),
        ("a & 'b'", 5, 'quote with "..."'),
        ("a & “b”", 5, 'write " where “ stands'),
        ('a & "b', 5, "never closed"),
        ('"a\\q"', 3, "unknown escape at column 3"),
        ('""', 1, "it is empty"),
        ("a & --", 5, "must be quoted"),
        ("a & \ud800", 5, "unknown character"),
        ('a & "\\u{d800}"', 5, "surrogate"),
        ("@5", 1, "a grid step is a value"),
        ("a & price < 5", 13, "needs a schema"),
        ("a & price <", 12, "expected a value"),
    ],
)
def test_errors_say_where_and_what_would_be_right(text: str, column: int, words: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text)

    assert words in str(caught.value)
    assert caught.value.column == column


@pytest.mark.parametrize("text", ["!a", "a | !b", "!(a | b)", "!(a & b)"])
def test_a_term_that_only_excludes_is_refused(text: str) -> None:
    with pytest.raises(LanguageError, match="only says what is unwanted"):
        parse(text)


@pytest.mark.parametrize("text", ["a & !a", "(a | b) & !a & !b", "a & !(a | b)"])
def test_an_expression_that_can_select_nobody_is_refused(text: str) -> None:
    with pytest.raises(LanguageError, match="can select no peer"):
        parse(text)


def test_negation_selects_those_without_the_tag() -> None:
    target = parse("gpu & !eu | asia")

    assert target.selects(describe("gpu"))
    assert not target.selects(describe("gpu", "eu"))
    assert target.selects(describe("gpu", "eu", "asia"))
    assert not target.selects(Description())


def test_a_description_lists_tags_with_commas_or_spaces() -> None:
    expected = Description(("c++", "jazz", "machine learning"))

    assert description('Jazz, "machine learning" c++ jazz') == expected
    assert describe("jazz", "C++", "machine learning") == expected
    assert description("") == Description()


def test_a_description_reads_back() -> None:
    given = Description(
        ("jazz", "machine learning"), (Value("exchange", "NYSE"), Value("price", 830))
    )

    assert description(str(given)) == given


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("a & b", 3, "a description is a list"),
        ("a,,b", 3, "expected a tag"),
        ("price = 5", 9, "needs a schema"),
        ("price =", 8, "expected a value"),
        ("price = 5th", 9, "needs a schema"),
        ('"a name" = word', 12, "needs a schema"),
        ('x = "a" x = "b"', None, "given two values"),
    ],
)
def test_a_malformed_description_is_refused(text: str, column: int | None, words: str) -> None:
    with pytest.raises(LanguageError) as caught:
        description(text)

    assert words in str(caught.value)
    assert caught.value.column == column


def test_a_value_of_one_word_needs_neither_schema_nor_quotes() -> None:
    assert description("jazz, role = doctor") == description('jazz, role = "doctor"')
    assert parse("jazz & role = head-nurse") == parse('jazz & role = "head-nurse"')


def test_language_errors_are_the_callers_fault() -> None:
    assert issubclass(LanguageError, LocalError)


def test_all_of_needs_a_tag() -> None:
    assert all_of("b", "A", "b") == Target((Term(("a", "b")),))
    with pytest.raises(LanguageError, match="at least one tag"):
        all_of()
    with pytest.raises(LanguageError, match="cannot be a tag"):
        all_of(" ")
