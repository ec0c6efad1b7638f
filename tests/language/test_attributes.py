"""Typed attributes: exact grids, ranges, strings, and what a schema objects to."""

from decimal import Decimal

import pytest

from implicast.language.attributes import Number, Schema, Text
from implicast.language.errors import LanguageError
from implicast.language.parse import describe, description, parse
from implicast.language.render import render
from implicast.language.target import Description, Predicate, Value, read_scalar, scalar_text

SCHEMA = Schema(
    Number("price", "0", "1000", "0.01"),
    Number("temperature", "-5.5", "4.5", "0.5"),
    Number("shares", 0, 10_000),
    Text("exchange", ("NYSE", "LSE", "TSE")),
    Text("title"),
)


def where(text: str) -> list[tuple[Predicate, ...]]:
    return [term.where for term in parse(text, SCHEMA).terms]


def width(text: str) -> int:
    ((only,),) = where(text)
    assert isinstance(only.low, int)
    assert isinstance(only.high, int)
    return only.high - only.low + 1


def test_between_8_30_and_8_70_lie_exactly_39_prices() -> None:
    assert width("8.30 < price < 8.70") == 39
    assert width("8.30 <= price <= 8.70") == 41
    assert width("price in 8.30..8.70") == 41
    assert width("price > 8.30 & price < 8.70") == 39


def test_every_grid_value_reads_back_exactly() -> None:
    price = Number("price", "0", "1000", "0.01")

    assert price.steps_max == 100_000
    assert all(price.read(price.text(step)) == step for step in range(0, 100_001, 7))
    assert price.read(Decimal("8.30")) == price.read("8.3") == price.read("+8.300") == 830


def test_a_grid_may_begin_anywhere() -> None:
    temperature = Number("temperature", "-5.5", "4.5", "0.5")

    assert temperature.steps_max == 20
    assert [temperature.text(step) for step in (0, 10, 11, 20)] == ["-5.5", "-0.5", "0.0", "4.5"]
    assert where("temperature in -1..1") == [(Predicate("temperature", 9, 13),)]


def test_tags_and_attributes_share_one_syntax() -> None:
    target = parse("jazz & price in 8.30..8.70 & exchange = NYSE", SCHEMA)

    assert render(target, SCHEMA) == "jazz & exchange = NYSE & price in 8.30..8.70"
    assert target.selects(description("jazz, price = 8.50, exchange = NYSE", SCHEMA))
    assert not target.selects(description("jazz, price = 8.71, exchange = NYSE", SCHEMA))
    assert not target.selects(description("jazz, price = 8.50", SCHEMA))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price < 5", "price <= 4.99"),
        ("price > 5", "price >= 5.01"),
        ("5 > price", "price < 5"),
        ("price != 5", "price < 5 | price > 5"),
        ("!(price = 5)", "price != 5"),
        ("!(price < 5)", "price >= 5"),
        ("!(2 < price < 5)", "price <= 2 | price >= 5"),
        ("price in ..5", "price <= 5"),
        ("price in 5..", "price >= 5"),
        ("price in 5 .. 6", "5 <= price <= 6"),
        ("price < 7 & price > 2 & price < 5", "2 < price < 5"),
        ("price in 1..9 | price in 2..3", "price in 1..9"),
        ("price in 2..3 | price in 1..9", "price in 1..9"),
        ("price < 3 & price > 3 | jazz", "jazz"),
        ("exchange != NYSE", "exchange = LSE | exchange = TSE"),
        ("!(exchange = NYSE | exchange = LSE)", "exchange = TSE"),
        ("exchange = NYSE & exchange = LSE | jazz", "jazz"),
        ("PRICE = 5", "price = 5.00"),
        ("price = 0", "price <= 0"),
        ("price = @830", "price = 8.30"),
    ],
)
def test_equal_predicates_are_equal_ranges(one: str, other: str) -> None:
    assert parse(one, SCHEMA) == parse(other, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "price in 8.30..8.70",
        "price <= 8.70",
        "price >= 8.70",
        "price in ..",
        "price = 8.70",
        'title = "Gone with the wind" & shares >= 5',
        "title = in",
        "a & !b & temperature = -0.5 | exchange = LSE",
    ],
)
def test_targets_render_in_decimal_and_read_back(text: str) -> None:
    target = parse(text, SCHEMA)

    assert parse(render(target, SCHEMA), SCHEMA) == target
    assert parse(str(target), SCHEMA) == target
    assert parse(str(target)) == target, "grid steps need no schema"


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("prize < 5", 1, 'unknown attribute "prize": the schema has price, temperature'),
        (
            "jazz & price = 8.305",
            16,
            "off the grid of price, which has steps of 0.01 from 0: the nearest values are 8.30",
        ),
        ("price < 1000.01", 9, "outside the range of price: 0..1000"),
        ("price > -1", 9, "outside the range"),
        ("price = cheap", 9, "is not a number"),
        ("price = 1e3", 9, "is not a number"),
        ("price = ٣", 9, "is not a number"),
        ("5 < price < cheap", 13, "is not a number"),
        ("exchange < NYSE", 1, "it has no order"),
        ("exchange in LSE..NYSE", 1, "it has no ranges"),
        ("exchange = nyse", 12, "is not a value of exchange: choose one of LSE, NYSE, TSE"),
        ("title != x", 1, "without choices"),
        ("a & !(title = x)", 7, "cannot be negated"),
        ("title = @5", 9, "has no grid"),
        ("price = @100001", 9, "outside the grid of price: @0..@100000"),
        ("price in 5", 7, "unexpected 'in'"),
        ("price = = 5", 9, "expected a value"),
        ("1 < price < 2 < 3", 15, "unexpected '<'"),
    ],
)
def test_violations_of_the_schema_are_named_with_their_place(
    text: str, column: int, words: str
) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text, SCHEMA)

    assert words in str(caught.value)
    assert caught.value.column == column


@pytest.mark.parametrize(
    "text", ["price < 5 & price > 7", "price < 0", "price in 9..8", "exchange=NYSE & exchange=LSE"]
)
def test_an_empty_range_can_select_nobody(text: str) -> None:
    with pytest.raises(LanguageError, match="can select no peer"):
        parse(text, SCHEMA)


def test_a_description_gives_one_value_of_each_attribute() -> None:
    given = description('jazz price=8.3 title="x y"', SCHEMA)

    assert given == Description(("jazz",), (Value("price", 830), Value("title", "x y")))
    assert describe("jazz", values={"price": "8.30", "title": "x y"}, schema=SCHEMA) == given
    assert description(render(given, SCHEMA), SCHEMA) == given
    with pytest.raises(LanguageError, match="needs a schema"):
        describe(values={"price": 5})


@pytest.mark.parametrize("given", [8.3, True, "NaN", "1_000", "", "1e2"])
def test_what_is_not_exact_is_not_read(given: object) -> None:
    with pytest.raises(LanguageError):
        Number("price", "0", "1000", "0.01").read(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("price: 0..1 by 0.3", "whole number of steps"),
        ("price: 5..1", "whole number of steps"),
        ("price: 0..1 by 0", "not above zero"),
        ("price", "cannot read"),
        ("price: a..b", "is not a number"),
        ("price: 0..1; price: 0..2", "same name"),
    ],
)
def test_a_schema_without_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        Schema.read(text)


def test_a_schema_reads_back() -> None:
    assert Schema.read(str(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("value", [5, -5, "NYSE", "@5", '"', "", "a b"])
def test_values_read_back_without_a_schema(value: int | str) -> None:
    assert read_scalar(scalar_text(value)) == value


def test_a_domain_with_more_steps_than_can_be_told_apart_is_refused_when_it_is_declared():
    with pytest.raises(LanguageError, match="steps; at most"):
        Schema.read("mass: 0..1000000000000 by 0.000000000001")
    assert Schema.read("mass: 0..1000000000 by 0.000001")["mass"].steps_max == 10**15
