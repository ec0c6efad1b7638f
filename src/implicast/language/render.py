"""Targets and descriptions as people write them, values in decimal. What is rendered reads back as
the same value.
"""

from implicast.language.attributes import Number, Schema
from implicast.language.tags import quoted, written
from implicast.language.target import Description, Predicate, Target, Term


def render(value: Target | Description, schema: Schema | None = None) -> str:
    """A text that `parse` (or `description`) reads back to an equal value with the same schema.

    Without a schema it is `str(value)`: grid steps stand for numbers, since only a schema knows
    what they mean.
    """
    if schema is None:
        return str(value)
    if isinstance(value, Target):
        return " | ".join(_term(term, schema) for term in value.terms)
    values = (
        f"{written(each.attribute)} = {_scalar(schema, each.attribute, each.value)}"
        for each in value.values
    )
    return ", ".join([*map(written, value.tags), *values])


def _term(term: Term, schema: Schema) -> str:
    lacks = ("!" + written(tag) for tag in term.lacks)
    return " & ".join(
        [*map(written, term.has), *lacks, *(_predicate(each, schema) for each in term.where)]
    )


def _predicate(predicate: Predicate, schema: Schema) -> str:
    return _opened(predicate, schema).text(
        lambda value: _scalar(schema, predicate.attribute, value)
    )


def _opened(predicate: Predicate, schema: Schema) -> Predicate:
    """With the ends of the attribute's grid left out: `price <= 5` rather than `price in 0..5`."""
    attribute = schema[predicate.attribute]
    if not isinstance(attribute, Number) or predicate.low == predicate.high:
        return predicate
    low = None if predicate.low == 0 else predicate.low
    high = None if predicate.high == attribute.steps_max else predicate.high
    return Predicate(predicate.attribute, low, high)


def _scalar(schema: Schema, attribute: str, value: int | str) -> str:
    text = schema.text(attribute, value)
    return (
        text
        if isinstance(value, int)
        else (written(text) if text.casefold() != "in" else quoted(text))
    )
