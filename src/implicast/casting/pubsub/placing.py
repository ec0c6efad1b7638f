"""Where values live: the two hashes, ranges of values, and the difference between two ranges. Pure.

Chord hashes each value, so the values of a range are strewn all over the ring. OPChord keeps their order: a range lies
on consecutive nodes, and is stored by one look-up and a walk. Strings have no order and are hashed in both.
Sections 3.1 and 4.1; Figure 4 with the bound `<=` (its own example of 39 nodes needs it).
"""

from dataclasses import dataclass
from functools import lru_cache

from implicast.casting.keeping.pieces import length, values, without
from implicast.language.attributes import Number, Schema
from implicast.language.target import Scalar, Term
from implicast.peer.errors import RemoteError
from implicast.space.ring import hashed, order_preserving

KEYS_MAX = 16_384
"""Values whose places are remembered: they are the same for all, and popular ones come again and again."""
_key = lru_cache(KEYS_MAX)(hashed)

TAG = ""
"""The name under which tags are listed: a tag is an attribute whose value is the tag itself."""


@dataclass(frozen=True, slots=True)
class Span:
    """All grid values from low to high of one attribute, both included; or one string or tag, twice."""

    attribute: str
    low: Scalar
    high: Scalar

    def __len__(self) -> int:
        return length((self.low, self.high))

    def minus(self, other: "Span") -> list["Span"]:
        """What this one has and the other lacks."""
        return [Span(self.attribute, *each) for each in without((self.low, self.high), other.low, other.high)]


def spans_of(term: Term, schema: Schema) -> list[Span]:
    """The constraints of a term, one per attribute (and one per wanted tag), open ends closed by the schema."""
    found = [Span(TAG, tag, tag) for tag in term.has]
    for predicate in term.where:
        attribute = schema[predicate.attribute]
        if isinstance(attribute, Number):
            low = 0 if predicate.low is None else predicate.low
            high = attribute.steps_max if predicate.high is None else predicate.high
            found.append(Span(predicate.attribute, low, high))
        else:
            assert predicate.low is not None, "strings are compared for equality only"
            found.append(Span(predicate.attribute, predicate.low, predicate.low))
    return found


CELLS = 1_024
"""Intervals into which a wide domain is cut: few enough to store all of it, and more than most rings have nodes."""


class Hashing:
    """h(v): Chord's, or the order-preserving one.

    Where order is kept and an attribute has more values than may be stored one by one, lists belong to *cells*:
    intervals of neighbouring values, each with one place. A range is then stored in the cells that it meets, some of
    whose values it does not admit; whoever is told compares exactly. A hash without order has no such intervals.
    """

    __slots__ = ("_domains", "_widths", "ordered")

    def __init__(self, schema: Schema, ordered: bool, values_max: int) -> None:
        self.ordered = ordered
        steps = {each.name: each.steps_max for each in schema if isinstance(each, Number)}
        wide = {name: most // CELLS + 1 for name, most in steps.items() if ordered and most >= values_max}
        self._widths = wide
        """Values of a cell, of attributes that have cells."""
        self._domains = {name: most // wide.get(name, 1) for name, most in steps.items()}

    def place(self, attribute: str, value: Scalar) -> Scalar:
        """In which list of its attribute a value is: its own, or its cell's."""
        width = self._widths.get(attribute)
        return value // width if width is not None and isinstance(value, int) else value

    def placed(self, span: Span) -> Span:
        """The lists of all values of a span."""
        return Span(span.attribute, self.place(span.attribute, span.low), self.place(span.attribute, span.high))

    def key(self, attribute: str, value: Scalar) -> int:
        if self.ordered and isinstance(value, int):
            steps = self._domains.get(attribute, -1)
            if not 0 <= value <= steps:
                raise RemoteError(f"{value} is no value of {attribute!r}")
            return order_preserving(value, 0, steps, attribute)
        return _key(value)

    def pieces(self, span: Span) -> list[Span]:
        """What is sent out as one request: the whole range where order is kept, else one value at a time."""
        if self.ordered or len(span) == 1:
            return [span]
        return [Span(span.attribute, value, value) for value in values((span.low, span.high))]

    def gap(self, attribute: str, nodes: float) -> float:
        """How many nodes there are between two neighbouring values, when there are so many on the ring."""
        return nodes / max(1, self._domains.get(attribute, 1))
