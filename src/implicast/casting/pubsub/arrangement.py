"""What all peers of one population know: the schema, where values live, how ids are made, how a range is gone through.

Chord hashes each value, so the values of a range are strewn all over the ring. OPChord keeps their order: a range lies
on consecutive nodes, and is stored by one look-up and a walk. Strings have no order and are hashed in both.
Sections 3.1 and 4.1; Figure 4 with the bound `<=` (its own example of 39 nodes needs it).

Small-domain remedy: with fewer values than nodes a walk by right neighbours would pass over nodes without any value;
when more than half of log2 N of them are to be expected between two values, fingers are the shorter way. Section 4.3.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import log2

from implicast.casting.keeping.pieces import Range, key_of_value, values, without
from implicast.language.attributes import Number, Schema
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.errors import RemoteError
from implicast.space.ring import ID_BITS, order_preserving

SUBSCRIBERS, PEERS = "s", "p"
"""The two shelves: lists of subscriptions, and of peers."""
TAG = ""
"""The name under which tags are listed: a tag is an attribute whose value is the tag itself."""
CELLS = 1_024
"""Intervals into which a wide domain is cut: few enough to store all of it, and more than most rings have nodes."""


@dataclass(frozen=True, slots=True)
class Span:
    """All grid values from low to high of one attribute, both included; or one string or tag, twice."""

    attribute: str
    low: Scalar
    high: Scalar

    def __len__(self) -> int:
        return len(values((self.low, self.high)))

    def minus(self, other: "Span") -> list["Span"]:
        """What this one has and the other lacks."""
        return [
            Span(self.attribute, *each)
            for each in without((self.low, self.high), other.low, other.high)
        ]


def spans_of(term: Term, schema: Schema) -> list[Span]:
    """The constraints of a term, one per attribute (and one per wanted tag), open ends closed by the schema."""
    found = [Span(TAG, tag, tag) for tag in term.has]
    for predicate in term.where:
        attribute, low, high = schema[predicate.attribute], predicate.low, predicate.high
        if isinstance(attribute, Number):
            ends = 0 if low is None else low, attribute.steps_max if high is None else high
        else:
            assert low is not None, "strings are compared for equality only"
            ends = low, low
        found.append(Span(predicate.attribute, *ends))
    return found


@dataclass(frozen=True, slots=True)
class SubIdLayout:
    """Subscription ids: c1 | c2 | c3, most significant first; how many bits each part has: 63 in all by default, so
    that an id is a number everywhere.

    c1: the id of the node where the subscription belongs (m bits); c2: its number there; c3: on how many attributes it
    has constraints. Who counts in how many lists an id occurs needs nothing else to know whether it matches.
    Content-based publish/subscribe over Chord, section 3, "The subscription identifier" and Figure 3.
    """

    node_bits: int = ID_BITS
    number_bits: int = 15
    attribute_bits: int = 8

    @classmethod
    def sized(cls, node_bits: int, subscriptions: int, attributes: int) -> "SubIdLayout":
        """For nodes of so many bits, so many subscriptions each, and a schema of so many attributes."""
        return cls(node_bits, max(1, (subscriptions - 1).bit_length()), attributes.bit_length())

    @property
    def numbers_max(self) -> int:
        return 1 << self.number_bits

    def pack(self, node: int, number: int, attributes: int) -> int:
        assert node >> self.node_bits == 0, f"node {node} does not fit into {self.node_bits} bits"
        assert number >> self.number_bits == 0, (
            f"number {number} does not fit into {self.number_bits} bits"
        )
        assert attributes >> self.attribute_bits == 0, f"{attributes} attributes do not fit"
        return (node << self.number_bits | number) << self.attribute_bits | attributes

    def node(self, sub_id: int) -> int:
        return sub_id >> (self.number_bits + self.attribute_bits)

    def number(self, sub_id: int) -> int:
        return sub_id >> self.attribute_bits & (1 << self.number_bits) - 1

    def attributes(self, sub_id: int) -> int:
        return sub_id & (1 << self.attribute_bits) - 1


class Arrangement:
    """Where order is kept and an attribute has more values than may be stored one by one, lists belong to *cells*:
    intervals of neighbouring values, each with one place. A range is then stored in the cells that it meets, some of
    whose values it does not admit; whoever is told compares exactly. A hash without order has no such intervals."""

    __slots__ = ("_domains", "_ordered", "_schema", "_walk", "_widths", "layout", "values_max")

    def __init__(self, schema: Schema, ordered: bool, walk: str, values_max: int) -> None:
        """`walk`: `auto`: by right neighbours unless values lie far apart; `neighbours` or `fingers`: always so."""
        self._schema, self._ordered, self._walk, self.values_max = schema, ordered, walk, values_max
        self.layout = SubIdLayout()
        steps = {each.name: each.steps_max for each in schema if isinstance(each, Number)}
        wide = {
            name: most // CELLS + 1
            for name, most in steps.items()
            if ordered and most >= values_max
        }
        self._widths = wide
        """Values of a cell, of attributes that have cells."""
        self._domains = {name: most // wide.get(name, 1) for name, most in steps.items()}

    def key(self, attribute: str, value: Scalar) -> int:
        """h(v): Chord's hash, or the order-preserving one."""
        if self._ordered and isinstance(value, int):
            steps = self._domains.get(attribute, -1)
            if not 0 <= value <= steps:
                raise RemoteError(f"{value} is no value of {attribute!r}")
            return order_preserving(value, 0, steps, attribute)
        return key_of_value(value)

    def place(self, attribute: str, value: Scalar) -> Scalar:
        """In which list of its attribute a value is: its own, or its cell's."""
        width = self._widths.get(attribute)
        return value // width if width is not None and isinstance(value, int) else value

    def spans(self, term: Term) -> list[Span]:
        """The lists in which a term is: one span of them for each attribute or tag that it constrains."""
        ends = ((each.attribute, each.low, each.high) for each in spans_of(term, self._schema))
        return [
            Span(name, self.place(name, low), self.place(name, high)) for name, low, high in ends
        ]

    def names(self, description: Description) -> list[tuple[str, Scalar]]:
        """In which lists an event looks: attributes, each with the place of its value."""
        values = (
            (each.attribute, self.place(each.attribute, each.value)) for each in description.values
        )
        return [*((TAG, tag) for tag in description.tags), *values]

    def refusal(self, target: Target, kept: int) -> str | None:
        """Why a node that keeps so many terms of its own cannot subscribe to this; None: it can."""
        spans = [self.spans(term) for term in target.terms]
        values = sum(len(span) for each in spans for span in each)
        if any(not each or len(each) >> self.layout.attribute_bits for each in spans):
            return "every term needs a tag or a predicate, and not more than an id can count"
        if values > self.values_max:
            return f"it admits {values} values; at most {self.values_max} are stored one by one (values_max)"
        if kept + len(spans) > self.layout.numbers_max:
            return f"a node keeps at most {self.layout.numbers_max} subscriptions"
        return None

    def ranges(self, shelf: str, span: Span, nodes: float) -> list[Range]:
        """What is sent out for a span among so many nodes: the whole range where order is kept, else single values."""
        ends = [(span.low, span.high)]
        if not self._ordered and len(span) > 1:
            ends = [(value, value) for value in values((span.low, span.high))]
        walked = self._walks(span, nodes)
        return [(shelf, span.attribute, low, high, walked) for low, high in ends]

    def _walks(self, span: Span, nodes: float) -> bool:
        """Whether a request goes through a range by right neighbours."""
        if self._walk != "auto" or len(span) == 1:
            return self._walk != "fingers"
        gap = nodes / max(
            1, self._domains.get(span.attribute, 1)
        )  # nodes between two neighbouring values
        return gap <= log2(max(2.0, nodes)) / 2


@lru_cache(16)
def arranged(schema: str, walk: str, values_max: int, ordered: bool) -> Arrangement:
    """The same for all who were given the same parameters; read once where many peers are in one process."""
    return Arrangement(Schema.read(schema), ordered, walk, values_max)


def matching(lists: Iterable[Iterable[int]], attributes_of: Callable[[int], int]) -> list[int]:
    """The ids that occur in as many lists as they have constrained attributes, sorted. Section 3.2, Figure 5."""
    counted = Counter(sub_id for each in lists for sub_id in each)
    return sorted(sub_id for sub_id, count in counted.items() if count == attributes_of(sub_id))
