"""Laws of the language, over random expressions: they mean what Python's own booleans mean, and they read back."""

import re
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.language.attributes import Number, Schema, Text
from implicast.language.errors import LanguageError
from implicast.language.index import Index
from implicast.language.limits import Limits
from implicast.language.normal import target_of
from implicast.language.parse import description, parse
from implicast.language.render import render
from implicast.language.tags import fold
from implicast.language.target import Description, Target, Term, Value

TAGS = "abcdef"
SCHEMA = Schema(Number("x", "-1", "1", "0.25"), Text("s", ("one", "two", "three")))
Reader = Callable[[str, Schema | None], Target | Description]
GENEROUS = Limits(terms=100_000, steps=100_000_000)

tag_expressions = st.recursive(
    st.sampled_from(TAGS),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from("&|"), parts).map(
            lambda three: f"({three[0]} {three[1]} {three[2]})"
        ),
        st.tuples(parts, parts, parts).map(lambda three: f"{three[0]} & {three[1]} | {three[2]}"),
        parts.map(lambda part: f"!({part})"),
        parts.map(lambda part: f"!{part}" if part in TAGS else f"({part})"),
    ),
    max_leaves=12,
)
grid = st.integers(0, 8).map(lambda step: f"{(step - 4) / 4:g}")
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
predicates = st.one_of(
    st.tuples(operators, grid).map(lambda two: f"x {two[0]} {two[1]}"),
    st.tuples(grid, operators, operators, grid).map(
        lambda four: f"{four[0]} {four[1]} x {four[2]} {four[3]}"
    ),
    st.tuples(grid, grid).map(lambda two: f"x in {two[0]}..{two[1]}"),
    st.tuples(st.sampled_from(["=", "!="]), st.sampled_from(["one", "two", "three"])).map(
        lambda two: f"s {two[0]} {two[1]}"
    ),
)
mixed_expressions = st.recursive(
    st.one_of(st.sampled_from(TAGS[:3]), predicates),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from("&|"), parts).map(
            lambda three: f"({three[0]} {three[1]} {three[2]})"
        ),
        parts.map(lambda part: f"!({part})"),
    ),
    max_leaves=8,
)
descriptions = st.builds(
    lambda tags, number, word: Description(
        tuple(sorted(tags)),
        (() if word is None else (Value("s", word),))
        + (() if number is None else (Value("x", number),)),
    ),
    st.sets(st.sampled_from(TAGS)),
    st.none() | st.integers(0, 8),
    st.none() | st.sampled_from(["one", "two", "three"]),
)
GROUPS = [
    frozenset(tag for place, tag in enumerate(TAGS) if mask >> place & 1)
    for mask in range(1 << len(TAGS))
]


def python_expression(text: str) -> str:
    """The same expression for Python, as a test of the set `held`."""
    quoted = re.sub(r"[a-f]", lambda match: f"('{match[0]}' in held)", text)
    return quoted.replace("&", " and ").replace("|", " or ").replace("!", " not ")


def parsed(text: str, schema: Schema | None = None) -> Target | None:
    """None for what selects nobody or has a term that only excludes."""
    try:
        return parse(text, schema, GENEROUS)
    except LanguageError as error:
        if "select no peer" in str(error) or "only says what is unwanted" in str(error):
            return None
        raise


@settings(max_examples=2_000, deadline=None)
@given(tag_expressions)
def test_an_expression_selects_what_pythons_booleans_select(text: str) -> None:
    meaning = eval(f"lambda held: {python_expression(text)}")
    target = parsed(text)

    if target is None:
        assert meaning(frozenset()) or not any(map(meaning, GROUPS)), (
            f"{text} was refused without a reason"
        )
        return
    for held in GROUPS:
        assert target.selects(Description(tuple(sorted(held)))) == meaning(held), (
            f"{text} for {sorted(held)}"
        )


literals = st.dictionaries(st.sampled_from(TAGS[:4]), st.booleans(), min_size=1, max_size=4)
term_sets = st.lists(literals.filter(lambda wanted: any(wanted.values())), min_size=1, max_size=12)


@settings(max_examples=300, deadline=None)
@given(term_sets)
def test_a_normal_form_keeps_exactly_the_terms_that_no_other_absorbs(
    wanted: list[dict[str, bool]],
) -> None:
    terms = [
        Term(
            tuple(sorted(tag for tag in each if each[tag])),
            tuple(sorted(tag for tag in each if not each[tag])),
        )
        for each in wanted
    ]
    implied = {
        one
        for one in terms
        for other in terms
        if one != other and {*other.has} <= {*one.has} and {*other.lacks} <= {*one.lacks}
    }

    assert target_of(terms).terms == tuple(sorted(set(terms) - implied))


def python_predicate(text: str) -> str:
    """A mixed expression for Python; only asked of descriptions that have both attributes."""
    text = re.sub(r"x in (\S+)\.\.(\S+?)(?=[ )]|$)", r"(\1 <= x <= \2)", text)
    text = re.sub(
        r"s (!?=) (one|two|three)", lambda m: f"(s {'==' if m[1] == '=' else '!='} {m[2]!r})", text
    )
    text = re.sub(r"(?<![<>!=])=(?!=)", "==", text)
    text = re.sub(
        r"(-?[\d.]+ \S+ x \S+ -?[\d.]+|(?<![\d.] )x (?:==|!=|<=|>=|<|>) -?[\d.]+)", r"(\1)", text
    )
    text = re.sub(r"(?<![\w'])[a-c](?![\w'])", lambda match: f"('{match[0]}' in held)", text)
    return re.sub(r"!(?!=)", " not ", text.replace("&", " and ").replace("|", " or "))


@settings(max_examples=500, deadline=None)
@given(mixed_expressions, st.lists(descriptions, min_size=1, max_size=12))
def test_predicates_select_what_pythons_comparisons_select(
    text: str, given: list[Description]
) -> None:
    code = python_predicate(text)
    meaning = eval(f"lambda held, x, s: {code}")
    target = parsed(text, SCHEMA)

    if target is None:
        return
    for each in given:
        number, word = each.value("x"), each.value("s")
        if isinstance(number, int) and word is not None:
            assert target.selects(each) == bool(meaning(each.tags, (number - 4) / 4, word)), (
                f"{text} {code} {each}"
            )


@settings(max_examples=400, deadline=None)
@given(tag_expressions)
def test_a_rendered_tag_expression_reads_back(text: str) -> None:
    target = parsed(text)

    if target is not None:
        assert parse(str(target), limits=GENEROUS) == target
        assert parse(render(target), limits=GENEROUS) == target


@settings(max_examples=400, deadline=None)
@given(mixed_expressions)
def test_a_rendered_predicate_reads_back(text: str) -> None:
    target = parsed(text, SCHEMA)

    if target is not None:
        assert parse(render(target, SCHEMA), SCHEMA, GENEROUS) == target
        assert parse(str(target), limits=GENEROUS) == target


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.text(min_size=1, max_size=12).filter(lambda text: not text.isspace()),
        min_size=1,
        max_size=5,
    )
)
def test_any_tags_at_all_read_back(tags: list[str]) -> None:
    given_tags = tuple(sorted({fold(each) for each in tags}))
    given_description = Description(given_tags)

    assert description(str(given_description)) == given_description
    assert (
        parse(" & ".join(str(Description((each,))) for each in given_tags)).terms[0].has
        == given_tags
    )


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_folding_is_idempotent(text: str) -> None:
    assert fold(fold(text)) == fold(text)


SIGNS = st.sampled_from(
    [
        *"&|!()=<>@,.\"\\' \t\n\x00-_:/+#",
        "..",
        "!=",
        "in",
        "a",
        "x",
        "s",
        "one",
        "é",
        "8.5",
        "\ud800",
    ]
)


@settings(max_examples=1_500, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.lists(SIGNS, max_size=24).map("".join),
        st.lists(SIGNS, max_size=24).map(" ".join),
    )
)
def test_garbage_raises_nothing_but_the_languages_own_error(text: str) -> None:
    for schema in (None, SCHEMA):
        for read in (parse, description):
            value = understood(read, text, schema)
            if isinstance(value, LanguageError):
                assert str(value), "an error without words"
                assert value.column is None or 1 <= value.column <= len(text) + 1
            else:
                assert read(render(value, schema), schema) == value


def understood(
    read: Reader, text: str, schema: Schema | None
) -> Target | Description | LanguageError:
    try:
        return read(text, schema)
    except LanguageError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(st.lists(descriptions, max_size=25), mixed_expressions, st.sets(st.integers(0, 24)))
def test_the_index_selects_what_a_scan_selects(
    given: list[Description], text: str, removed: set[int]
) -> None:
    target = parsed(text, SCHEMA)
    index: Index[int] = Index()
    for key, each in enumerate(given):
        index.add(key, given[-1])
        index.add(key, each)
    for key in sorted(removed):
        index.remove(key)
    if target is None:
        return

    kept = [key for key in range(len(given)) if key not in removed]
    assert index.select(target) == [key for key in kept if target.selects(given[key])]
    for term in target.terms:
        assert index.select_term(term) == [key for key in kept if term.selects(given[key])]
        assert index.select_least(target, term) == [
            key for key in kept if target.least_term(given[key]) == term
        ]
