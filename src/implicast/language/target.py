"""The values of the language: what a peer is (`Description`) and whom a cast is for (`Target`).

Both are frozen, ordered and encodable, so they travel inside messages. Texts are read by
`parse.py`; predicates over typed attributes are in `attributes.py`. `str` of a target or a
description is a text that reads back without a schema (grid steps are written `@17`); `render.py`
writes values in decimal.
"""

import re
from collections.abc import Callable

import msgspec

from implicast.language.bounds import Described, Step, Termed, Terms, Word
from implicast.language.tags import quoted, unquoted, written

Scalar = Step | Word
"""A value of an attribute: a whole number of grid steps, or a string. Decimal grids are exact
(`attributes.py`).
"""

_STEP = re.compile(r"@-?[0-9]{1,30}")

_BEYOND = 1 << 128
"""Farther than any grid reaches: the width of an open end."""


class Value(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One attribute of a description: its name and its value."""

    attribute: Word
    value: Scalar

    def __str__(self) -> str:
        return f"{written(self.attribute)} = {scalar_text(self.value)}"


class Predicate(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A closed range `low..high` of an attribute's grid, or (low == high) one value. `None` leaves
    that end open.
    """

    attribute: Word
    low: Scalar | None
    high: Scalar | None

    def __post_init__(self) -> None:
        if (isinstance(self.low, str) or isinstance(self.high, str)) and self.low != self.high:
            raise ValueError("a range of words has one word at both ends")

    def admits(self, value: Scalar) -> bool:
        if isinstance(self.low, str) or isinstance(value, str):
            return value == self.low
        assert not isinstance(self.high, str), "a range has two ends of one kind"
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def meet(self, other: "Predicate") -> "Predicate | None":
        """The range that both admit, of the same attribute; None if there is none."""
        if isinstance(self.low, str) or isinstance(other.low, str):
            return self if self == other else None
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if isinstance(each, int)]
        low, high = max(lows, default=None), min(highs, default=None)
        if low is not None and high is not None and low > high:
            return None
        return Predicate(self.attribute, low, high)

    def within(self, other: "Predicate") -> bool:
        """Whatever this admits, the other admits too."""
        return self.attribute == other.attribute and self.meet(other) == self

    def width(self) -> int:
        """A measure that is larger for the wider of two nested ranges."""
        if isinstance(self.low, str) or isinstance(self.high, str):
            return 0
        return (_BEYOND if self.high is None else self.high) - (
            -_BEYOND if self.low is None else self.low
        )

    def __str__(self) -> str:
        return self.text(scalar_text)

    def text(self, value_text: Callable[[Scalar], str]) -> str:
        """As one writes it, values in the given manner."""
        name = written(self.attribute)
        if self.low is not None and self.low == self.high:
            return f"{name} = {value_text(self.low)}"
        if self.low is None and self.high is not None:
            return f"{name} <= {value_text(self.high)}"
        if self.high is None and self.low is not None:
            return f"{name} >= {value_text(self.low)}"
        low, high = ("" if end is None else value_text(end) for end in (self.low, self.high))
        return f"{name} in {low}..{high}"


class Description(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What a peer says of itself: its tags, sorted and distinct, and its values, sorted by
    attribute.
    """

    tags: Described[Word] = ()
    values: Described[Value] = ()

    def value(self, attribute: str) -> Scalar | None:
        for each in self.values:
            if each.attribute == attribute:
                return each.value
        return None

    def __str__(self) -> str:
        return ", ".join([*map(written, self.tags), *map(str, self.values)])


class Term(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A conjunction: all of `has`, none of `lacks`, every predicate of `where`. Each part sorted
    and distinct.
    """

    has: Termed[Word] = ()
    lacks: Termed[Word] = ()
    where: Termed[Predicate] = ()

    def selects(self, description: Description) -> bool:
        # Plain loops: every member checks every notice, and generators would cost three times as
        # much.
        tags = description.tags
        for tag in self.has:
            if tag not in tags:
                return False
        for tag in self.lacks:
            if tag in tags:
                return False
        for each in self.where:
            value = description.value(each.attribute)
            if value is None or not each.admits(value):
                return False
        return True

    def __str__(self) -> str:
        return " & ".join(
            [
                *map(written, self.has),
                *("!" + written(tag) for tag in self.lacks),
                *map(str, self.where),
            ]
        )


class Target(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A disjunction of terms in normal form: sorted, distinct, none absorbed by another. Equal
    targets are equal.
    """

    terms: Terms[Term]

    def selects(self, description: Description) -> bool:
        for term in self.terms:  # noqa: SIM110 - see Term.selects
            if term.selects(description):
                return True
        return False

    def least_term(self, description: Description) -> Term | None:
        """The least of the terms that select a description. The peer that handles this term
        notifies, so that no member is notified twice.
        """
        return next((term for term in self.terms if term.selects(description)), None)

    def __str__(self) -> str:
        return " | ".join(map(str, self.terms))


def scalar_text(value: Scalar) -> str:
    """A value that needs no schema to be read: a grid step `@17`, or a string in quotes."""
    return f"@{value}" if isinstance(value, int) else quoted(value)


def read_scalar(text: str) -> Scalar:
    """The value of a text written by `scalar_text`; any other text is a string as it stands."""
    if _STEP.fullmatch(text):
        return int(text[1:])
    if len(text) > 1 and text[0] == text[-1] == '"':
        return unquoted(text)
    return text
