"""The laws of values that can be combined, for every kind, as condcast needs them (formula 1)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.language.aggregate import DescriptionAggregate, TargetQuery, aggregate_of
from implicast.language.errors import LanguageError
from implicast.language.queries import (
    Above,
    AllOf,
    AnyOf,
    AnyQuery,
    Everything,
    InBox,
    OfCategory,
    OwnQuery,
    PartQuery,
    Within,
    bloom_asks,
)
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.language.values import (
    AnyValue,
    Bitmap,
    BloomValue,
    Box,
    Bundle,
    Categories,
    Interval,
    Own,
    Threshold,
    add_kind,
    bloom_of,
    reduce,
)
from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError
from implicast.peer.wire import Codec


def _lower_price(one: bytes, other: bytes) -> bytes:
    return min(one, other)


def _affordable(budget: bytes, price: bytes) -> bool:
    return price <= budget


add_kind("lowest-price", _lower_price, _affordable)

NUMBER = st.integers(-50, 50) | st.floats(-50, 50)
SMALL = st.integers(0, 40)
WORDS = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=4)
BITS, HASHES = 64, 3


def _ordered(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[tuple[float, float]]:
    return st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))


def _corners(pairs: list[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


POINT = st.tuples(NUMBER, NUMBER)
SIMPLE = {
    "threshold": (NUMBER.map(Threshold), st.builds(Above, NUMBER, st.booleans())),
    "interval": (NUMBER.map(lambda c: Interval(c, c)), _ordered(NUMBER).map(lambda r: Within(*r))),
    "bitmap": (
        SMALL.map(Bitmap.of),
        _ordered(st.integers(-5, 60) | st.floats(-5, 60)).map(lambda r: Within(*r)),
    ),
    "box": (
        POINT.map(lambda p: Box(p, p)),
        st.tuples(_ordered(NUMBER), _ordered(NUMBER)).map(
            lambda pairs: InBox(*_corners(list(pairs)))
        ),
    ),
    "categories": (
        st.lists(SMALL, max_size=4).map(lambda own: Categories.of(*own)),
        SMALL.map(OfCategory),
    ),
    "bloom": (
        WORDS.map(lambda words: bloom_of(words, BITS, HASHES)),
        WORDS.map(lambda words: bloom_asks(words, BITS, HASHES)),
    ),
    "own": (
        st.binary(min_size=4, max_size=4).map(lambda price: Own("lowest-price", price)),
        st.binary(min_size=4, max_size=4).map(lambda budget: OwnQuery("lowest-price", budget)),
    ),
}
BUNDLED = ("threshold", "bitmap", "bloom")
PARTS = st.tuples(*(SIMPLE[kind][0] for kind in BUNDLED)).map(Bundle)
ASKED = st.one_of(
    *(SIMPLE[kind][1].map(lambda query, i=i: PartQuery(i, query)) for i, kind in enumerate(BUNDLED))
)
KINDS = {
    **SIMPLE,
    "all-of": (PARTS, st.lists(ASKED, max_size=3).map(lambda parts: AllOf(tuple(parts)))),
    "any-of": (PARTS, st.lists(ASKED, max_size=3).map(lambda parts: AnyOf(tuple(parts)))),
    "everything": (PARTS, st.just(Everything())),
}
NAMED = st.sampled_from(sorted(KINDS))


@given(NAMED, st.data())
def test_whoever_matches_is_not_hidden_by_a_combination(kind: str, data: st.DataObject) -> None:
    value, query = KINDS[kind]
    asks, group = data.draw(query), data.draw(st.lists(value, min_size=2, max_size=6))

    combined = group[0]
    for each in group[1:]:
        combined = reduce(combined, each)

    assert asks.match(combined) or not any(asks.match(each) for each in group)


@given(NAMED, st.data())
def test_values_may_be_combined_in_any_order_and_more_than_once(
    kind: str, data: st.DataObject
) -> None:
    one, two, three = (data.draw(KINDS[kind][0]) for _ in range(3))

    assert reduce(one, one) == one
    assert reduce(one, two) == reduce(two, one)
    assert reduce(reduce(one, two), three) == reduce(one, reduce(two, three))


@given(st.sampled_from(["threshold", "bitmap", "categories", "own"]), st.data())
def test_an_exact_combination_matches_only_if_somebody_in_it_does(
    kind: str, data: st.DataObject
) -> None:
    value, query = KINDS[kind]
    asks, one, two = data.draw(query), data.draw(value), data.draw(value)

    assert asks.match(reduce(one, two)) == (asks.match(one) or asks.match(two))


@given(NAMED, st.data())
def test_values_and_queries_travel(kind: str, data: st.DataObject) -> None:
    value, query = data.draw(KINDS[kind][0]), data.draw(KINDS[kind][1])

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=AnyValue) == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=AnyQuery) == query


# --- descriptions and targets

TAGS = st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True).map(
    lambda tags: tuple(sorted(tags))
)
VALUES = st.tuples(
    st.none() | st.integers(-9, 9).map(lambda step: Value("age", step)),
    st.none() | st.sampled_from(["NYSE", "XETRA"]).map(lambda text: Value("exchange", text)),
).map(lambda both: tuple(value for value in both if value is not None))
DESCRIPTIONS = st.builds(Description, TAGS, VALUES)
AGES = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9)).filter(
    lambda ends: None in ends or ends[0] <= ends[1]
)
PREDICATES = AGES.map(lambda ends: Predicate("age", *ends)) | st.sampled_from(
    ["NYSE", "XETRA"]
).map(lambda text: Predicate("exchange", text, text))
TERMS = st.builds(Term, TAGS, TAGS, st.lists(PREDICATES, max_size=2).map(tuple))
TARGETS = st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: Target(tuple(terms)))


@given(st.lists(DESCRIPTIONS, min_size=1, max_size=6), TARGETS)
def test_a_portrait_hides_nobody_whom_the_target_selects(
    group: list[Description], target: Target
) -> None:
    pictures = [aggregate_of(each, BITS, HASHES) for each in group]
    combined = pictures[0]
    for each in pictures[1:]:
        combined = combined.reduce(each)

    assert TargetQuery(target, BITS, HASHES).match(combined) or not any(
        target.selects(each) for each in group
    )


@given(DESCRIPTIONS, DESCRIPTIONS, DESCRIPTIONS)
def test_portraits_may_be_combined_in_any_order_and_more_than_once(
    first: Description, second: Description, third: Description
) -> None:
    one, two, three = (aggregate_of(each, BITS, HASHES) for each in (first, second, third))

    assert one.reduce(one) == one
    assert one.reduce(two) == two.reduce(one)
    assert one.reduce(two).reduce(three) == one.reduce(two.reduce(three))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=DescriptionAggregate) == one


def test_a_wide_filter_tells_most_strangers_from_members() -> None:
    members = bloom_of((f"tag{number}" for number in range(100)), 2048, 4)

    strangers = sum(
        bloom_asks([f"other{number}"], 2048, 4).match(members) for number in range(10_000)
    )

    assert strangers / 10_000 < 0.003  # (1 - e^(-400/2048))^4 = 0.001


# --- what is refused


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Threshold(1), Interval(1, 1)),
        (Box((1,), (1,)), Box((1, 2), (1, 2))),
        (BloomValue(b"\0"), BloomValue(b"\0\0")),
        (Own("lowest-price", b"1"), Own("highest-price", b"1")),
        (Bundle((Threshold(1),)), Bundle(())),
    ],
)
def test_values_of_different_make_are_not_combined(one: AnyValue, other: AnyValue) -> None:
    with pytest.raises(LanguageError, match="cannot be combined"):
        reduce(one, other)


def test_a_query_finds_nothing_in_a_value_of_another_kind() -> None:
    queries = [
        Above(-99),
        Within(-99, 99),
        InBox((0,), (9,)),
        OfCategory(0),
        OwnQuery("lowest-price", b"\xff"),
    ]

    assert not any(query.match(bloom_of(["a"], BITS, HASHES)) for query in queries)


def test_numbers_that_make_no_value_are_refused_here_and_off_the_wire() -> None:
    class Carries(Message):
        wire = 0x7001

        value: AnyValue

    with pytest.raises(LanguageError, match="no range"):
        Interval(3, 2)
    with pytest.raises(LanguageError, match="not a number"):
        Threshold(float("nan"))
    codec = Codec([Carries])
    with pytest.raises(RemoteError, match="no range"):
        codec.decode(b"\x70\x01" + msgspec.msgpack.encode([["interval", 3, 2]]))


def test_an_unknown_or_repeated_kind_is_named() -> None:
    with pytest.raises(LanguageError, match="'weight'"):
        Own("weight", b"1").reduce(Own("weight", b"2"))
    with pytest.raises(LanguageError, match="already"):
        add_kind("lowest-price", max, _affordable)
