"""Typed attributes: numbers on an exact decimal grid, and strings.

A number has a minimum, a maximum and a precision; its values are `minimum + j * precision` for j =
0, 1, 2, ... and are kept as the whole number j (a *grid step*). No float ever touches a value:
between 8.30 and 8.70 at a precision of 0.01 there are exactly 39 values. After "publish/subscribe
over Chord" (data model): attributes have a type, a name, and for numbers a range and a precision;
strings know equality only.

How predicates are written is in `parse.py` and `predicates.py`; schemas as text: `Schema.read`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from unicodedata import normalize

from implicast.language.errors import LanguageError
from implicast.language.tags import objection_to, shown, tag
from implicast.language.target import Scalar, Value

Exact = str | int | Decimal
"""A number as people give it; floats are not exact and are refused."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?")
_NUMBER_IN_SCHEMA = re.compile(r"\s*(\S+)\s*\.\.\s*(\S+)(?:\s+by\s+(\S+))?\s*")


STEPS_MAX = 1 << 53
"""Grid steps of one attribute. Values are sent as 64-bit integers, which some languages read as
doubles.
"""


@dataclass(frozen=True)
class Number:
    """A numeric attribute. `Number("price", "0", "1000", "0.01")`; a precision of 1 makes it a
    whole number.
    """

    name: str
    minimum: Exact
    maximum: Exact
    precision: Exact = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", tag(self.name))
        low, high, by = (
            exact(end, self.name) for end in (self.minimum, self.maximum, self.precision)
        )
        if by <= 0:
            raise LanguageError(
                f"attribute {self.name}: precision {self.precision} is not above zero"
            )
        if high < low or (high - low) % by:
            raise LanguageError(
                f"attribute {self.name}: maximum {self.maximum} is not minimum {self.minimum}"
                f" plus a whole number of steps of {self.precision}"
            )
        if self.steps_max > STEPS_MAX:
            raise LanguageError(
                f"attribute {self.name}: {self.minimum}..{self.maximum} by {self.precision} has "
                f"{self.steps_max:,}"
                f" steps; at most {STEPS_MAX:,} can be told apart: give a coarser precision or a "
                "narrower range"
            )

    @cached_property
    def steps_max(self) -> int:
        """The grid step of the maximum; the minimum is step 0."""
        return int((exact(self.maximum, self.name) - self._minimum) / self._precision)

    @cached_property
    def _minimum(self) -> Fraction:
        return exact(self.minimum, self.name)

    @cached_property
    def _precision(self) -> Fraction:
        return exact(self.precision, self.name)

    @cached_property
    def _decimals(self) -> int:
        return max(_decimals(self._minimum), _decimals(self._precision))

    def read(self, given: Exact) -> int:
        """The grid step of a value; `LanguageError` if it is no number, off the grid or out of
        range.
        """
        step = (exact(given, self.name) - self._minimum) / self._precision
        if not 0 <= step <= self.steps_max:
            raise LanguageError(
                f"{given} is outside the range of {self.name}: {self.minimum}..{self.maximum}"
            )
        if step.denominator != 1:
            below = step.numerator // step.denominator
            raise LanguageError(
                f"{given} is off the grid of {self.name}, which has steps of {self.precision} from "
                f"{self.minimum}:"
                f" the nearest values are {self.text(below)} and {self.text(below + 1)}"
            )
        return int(step)

    def text(self, step: Scalar) -> str:
        """The value of a grid step, in decimal."""
        assert isinstance(step, int), f"{self.name} is a number, {step!r} is not a grid step of it"
        value = self._minimum + step * self._precision
        scaled = int(value * 10**self._decimals)
        whole, part = divmod(abs(scaled), 10**self._decimals)
        sign = "-" if scaled < 0 else ""
        return f"{sign}{whole}.{part:0{self._decimals}}" if self._decimals else f"{sign}{whole}"

    def describe(self) -> str:
        return f"{self.name}: {self.minimum}..{self.maximum} by {self.precision}"


@dataclass(frozen=True)
class Text:
    """A string attribute, compared exactly as written (NFC, case kept). With `choices` it can also
    be negated.
    """

    name: str
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", tag(self.name))
        object.__setattr__(
            self, "choices", tuple(sorted({normalize("NFC", each) for each in self.choices}))
        )

    def read(self, given: Exact) -> str:
        value = normalize("NFC", str(given))
        objection = objection_to(value)
        if objection:
            raise LanguageError(f"{shown(value)} cannot be a value of {self.name}: {objection}")
        if self.choices and value not in self.choices:
            raise LanguageError(
                f"{shown(value)} is not a value of {self.name}: choose one of "
                f"{', '.join(self.choices)}"
            )
        return value

    def describe(self) -> str:
        return f"{self.name}: {' | '.join(self.choices) or 'text'}"


Attribute = Number | Text


class Schema:
    """The attributes that descriptions and targets may speak of, by name."""

    def __init__(self, *attributes: Attribute) -> None:
        self._by_name: Mapping[str, Attribute] = {each.name: each for each in attributes}
        if len(self._by_name) < len(attributes):
            raise LanguageError("two attributes of the schema have the same name")

    @classmethod
    def read(cls, text: str) -> "Schema":
        """From lines (or `;` between) like `price: 0..1000 by 0.01`, `exchange: NYSE | LSE`,
        `title: text`.
        """
        lines = (line.strip() for line in re.split(r"[;\n]", text))
        return cls(*(_attribute(line) for line in lines if line))

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Attribute:
        found = self._by_name.get(name)
        if found is None:
            raise LanguageError(
                f"unknown attribute {shown(name)}: the schema has "
                f"{', '.join(self._by_name) or 'none'}"
            )
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and str(self) == str(other)

    def __hash__(self) -> int:
        raise TypeError("a schema is no key; use its text, `str(schema)`")

    def __str__(self) -> str:
        return "; ".join(each.describe() for each in self)

    def value(self, name: str, given: Exact) -> Value:
        """One value of a description."""
        attribute = self[tag(name)]
        return Value(attribute.name, attribute.read(given))

    def text(self, name: str, value: Scalar) -> str:
        """A value as people write it: decimal, or the string itself."""
        attribute = self[name]
        return attribute.text(value) if isinstance(attribute, Number) else str(value)


def exact(given: Exact, name: str) -> Fraction:
    """The number that a decimal text means, nothing lost."""
    if isinstance(given, float):
        raise LanguageError(
            f"{given!r} for {name} is a float, which is not exact: give a text, an integer or a "
            "Decimal"
        )
    if not isinstance(given, bool) and _DECIMAL.fullmatch(
        f"{given:f}" if isinstance(given, Decimal) else str(given)
    ):
        return Fraction(given)
    raise LanguageError(f"{shown(str(given))} is not a number, but {name} is: write it like 8.30")


def _decimals(value: Fraction) -> int:
    """How many digits behind the point write the value exactly."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    return digits


def _attribute(line: str) -> Attribute:
    name, colon, kind = line.partition(":")
    if not colon or not kind.strip():
        raise LanguageError(
            f"cannot read {shown(line)}: write `name: minimum..maximum by precision` or `name: "
            "text`"
        )
    number = _NUMBER_IN_SCHEMA.fullmatch(kind)
    if number:
        return Number(name.strip(), number[1], number[2], number[3] or 1)
    if kind.strip() == "text":
        return Text(name.strip())
    return Text(name.strip(), tuple(choice.strip() for choice in kind.split("|")))
