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


class Hashing:
    """h(v): Chord's, or the order-preserving one."""

    __slots__ = ("_domains", "ordered")

    def __init__(self, schema: Schema, ordered: bool) -> None:
        self.ordered = ordered
        self._domains = {each.name: each.steps_max for each in schema if isinstance(each, Number)}

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
