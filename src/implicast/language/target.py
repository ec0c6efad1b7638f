"""The values of the language: what a peer is (`Description`) and whom a cast is for (`Target`).

Both are frozen, ordered and encodable, so they travel inside messages. Texts are read by `parse.py`;
predicates over typed attributes are in `attributes.py`.
"""

import msgspec

Scalar = int | str
"""A value of an attribute: a whole number of grid steps, or a string. Decimal grids are exact (`attributes.py`)."""


class Value(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One attribute of a description: its name and its value."""

    attribute: str
    value: Scalar


class Predicate(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A closed range `low..high` of an attribute's grid, or (low == high) one value. `None` leaves that end open."""

    attribute: str
    low: Scalar | None
    high: Scalar | None

    def admits(self, value: Scalar) -> bool:
        if isinstance(self.low, str) or isinstance(value, str):
            return value == self.low
        assert not isinstance(self.high, str), "a range has two ends of one kind"
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


class Description(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What a peer says of itself: its tags, sorted and distinct, and its values, sorted by attribute."""

    tags: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()

    def value(self, attribute: str) -> Scalar | None:
        return next((each.value for each in self.values if each.attribute == attribute), None)


class Term(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A conjunction: all of `has`, none of `lacks`, every predicate of `where`. Each part sorted and distinct."""

    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    where: tuple[Predicate, ...] = ()

    def selects(self, description: Description) -> bool:
        tags = description.tags
        if not all(tag in tags for tag in self.has) or any(tag in tags for tag in self.lacks):
            return False
        return all((value := description.value(each.attribute)) is not None and each.admits(value) for each in self.where)


class Target(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A disjunction of terms in normal form: sorted, distinct, none absorbed by another. Equal targets are equal values."""

    terms: tuple[Term, ...]

    def selects(self, description: Description) -> bool:
        return any(term.selects(description) for term in self.terms)

    def least_term(self, description: Description) -> Term | None:
        """The least of the terms that select: who handles it notifies, so that nobody is notified twice."""
        return next((term for term in self.terms if term.selects(description)), None)
