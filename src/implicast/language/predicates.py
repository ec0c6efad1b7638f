"""Comparisons as written, turned into ranges of grid steps or strings, with the place of whatever
is wrong.

With a schema values are decimal and strings; every range has two ends. Without one only what needs
no schema can be read: grid steps (`price <= @870`) and strings (`exchange = "NYSE"`), as `str` of a
target writes them; a string that is one word, begins with a letter and stands behind a plain name
needs no quotes (`role = doctor`).
"""

import re
from collections.abc import Callable
from typing import TypeVar
from unicodedata import normalize

from implicast.language.attributes import Number, Schema, Text
from implicast.language.errors import LanguageError
from implicast.language.lexer import QUOTED, STEP, WORD, Token
from implicast.language.normal import Constraint
from implicast.language.tags import fold
from implicast.language.target import Predicate, Scalar, Value

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The same comparison with its sides exchanged."""

Result = TypeVar("Result")
_PLAIN = re.compile(r"[^\W\d][\w-]*")


class PredicateReader:
    """Reads comparisons and values against one schema, or against none."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema

    def names_an_attribute(self, token: Token) -> bool:
        return (
            self.schema is not None
            and token.kind in (WORD, QUOTED)
            and fold(token.text) in self.schema
        )

    def compare(self, name: Token, operator: str, value: Token) -> Constraint:
        """`name operator value`."""
        scalar = self.scalar(name, value)
        attribute = fold(name.text)
        if isinstance(scalar, str):
            return self._equality(attribute, operator, scalar, name.column)
        if operator in ("=", "!="):
            both = self._split(attribute, scalar, scalar, name.column)
        elif operator in ("<", "<="):
            both = self._split(attribute, None, scalar - (operator == "<"), name.column)
        else:
            both = self._split(attribute, scalar + (operator == ">"), None, name.column)
        return _opposite(both) if operator == "!=" else both

    def between(self, name: Token, low: Token | None, high: Token | None) -> Constraint:
        """`name in low..high`, either end left out."""
        ends = [None if end is None else self.scalar(name, end) for end in (low, high)]
        if any(isinstance(end, str) for end in ends) or self._is_text(name):
            raise _misfit(
                f"{fold(name.text)} is a string: it has no ranges, compare it with =", name.column
            )
        return self._split(fold(name.text), ends[0], ends[1], name.column)  # type: ignore[arg-type]

    def value(self, name: Token, token: Token) -> Value:
        """`name = value` of a description."""
        return Value(fold(name.text), self.scalar(name, token))

    def scalar(self, name: Token, token: Token) -> Scalar:
        if self.schema is None:
            return _bare(name, token)
        attribute = _at(name, lambda: self.schema[fold(name.text)])  # type: ignore[index]
        if token.kind == STEP:
            return _at(token, lambda: _step(attribute, int(token.text)))
        return _at(token, lambda: attribute.read(token.text))

    def _is_text(self, name: Token) -> bool:
        schema = self.schema
        return schema is not None and isinstance(_at(name, lambda: schema[fold(name.text)]), Text)

    def _equality(self, attribute: str, operator: str, value: str, column: int) -> Constraint:
        if operator not in ("=", "!="):
            raise _misfit(f"{attribute} is a string: it has no order, compare it with =", column)
        declared = self.schema[attribute] if self.schema is not None else None
        choices = declared.choices if isinstance(declared, Text) else ()
        others = tuple(Predicate(attribute, each, each) for each in choices if each != value)
        both = Constraint(
            (Predicate(attribute, value, value),), others if choices else None, column
        )
        return both if operator == "=" else _opposite(both)

    def _split(self, attribute: str, low: int | None, high: int | None, column: int) -> Constraint:
        """The range from low to high, and what is left of the grid on its two sides."""
        first, last = self._domain(attribute)
        low = first if low is None else low
        high = last if high is None else high
        below = (first, None if low is None else low - 1)
        above = (None if high is None else high + 1, last)
        if low is not None and high is not None and low > high:
            return Constraint((), _ranges(attribute, (first, last)), column)
        sides = ((below,) if low is not None else ()) + ((above,) if high is not None else ())
        return Constraint(_ranges(attribute, (low, high)), _ranges(attribute, *sides), column)

    def _domain(self, attribute: str) -> tuple[int | None, int | None]:
        declared = self.schema[attribute] if self.schema is not None else None
        return (0, declared.steps_max) if isinstance(declared, Number) else (None, None)


def _opposite(constraint: Constraint) -> Constraint:
    if constraint.refused is None:
        attribute = constraint.admitted[0].attribute
        raise _misfit(
            f"{attribute} is a string without choices in the schema: only = can be asked of it",
            constraint.column,
        )
    return Constraint(constraint.refused, constraint.admitted, constraint.column)


def _ranges(attribute: str, *ends: tuple[int | None, int | None]) -> tuple[Predicate, ...]:
    """Predicates for those ranges that hold anything."""
    return tuple(
        Predicate(attribute, low, high)
        for low, high in ends
        if low is None or high is None or low <= high
    )


def _step(attribute: Number | Text, step: int) -> int:
    if isinstance(attribute, Text):
        raise LanguageError(f"{attribute.name} is a string and has no grid")
    if not 0 <= step <= attribute.steps_max:
        raise LanguageError(
            f"@{step} is outside the grid of {attribute.name}: @0..@{attribute.steps_max}"
        )
    return step


def _bare(name: Token, token: Token) -> Scalar:
    if token.kind == STEP:
        return int(token.text)
    if token.kind == QUOTED or (name.kind == WORD and _PLAIN.fullmatch(token.text)):
        return normalize("NFC", token.text)
    raise _misfit(
        f"the attribute {fold(name.text)} needs a schema to read the value {token.text!r}: pass "
        "one,"
        ' or write a grid step (@17), a word (NYSE) or a quoted string ("New York")',
        token.column,
    )


def _at(token: Token, read: Callable[[], Result]) -> Result:
    """The result, or its error with the token's column."""
    try:
        return read()
    except LanguageError as error:
        raise _misfit(str(error), token.column) from None


def _misfit(text: str, column: int) -> LanguageError:
    return LanguageError(f"at column {column}: {text}", column)
