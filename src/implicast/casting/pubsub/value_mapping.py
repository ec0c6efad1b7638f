"""What all peers of a population agree on: the schema, the ring key of each value, the layout of
subscription ids, and how a request traverses a range.

Chord hashes each value, so the values of a range are spread over the ring. OPChord preserves their
order: a range lies on consecutive nodes, and is stored by one lookup and a walk along successors.
Strings have no order and are hashed in both. Sections 3.1 and 4.1; Figure 4 with the bound `<=`,
which its own example of 39 nodes needs.

Small domains (section 4.3): with fewer values than nodes, a walk along successors visits nodes
without any value. If more than half of log2 N nodes are expected between two values, finger routing
is shorter and is used instead.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import log2

from implicast.casting.replicated_lists.entries import ListRange, key_of_value
from implicast.language.attributes import Number, Schema
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.errors import RemoteError
from implicast.space.ring import ID_BITS, order_preserving
from implicast.space.steps import values, without

SUBSCRIBERS, PEERS = "s", "p"
"""The two namespaces: lists of subscriptions, and lists of peers."""
TAG = ""
"""Attribute name of tags: a tag is an attribute whose value is the tag itself."""
CELLS = 1_024
"""Intervals into which a wide domain is divided: few enough to store all of them, and more than
most rings have nodes.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """All grid values from low to high of one attribute, inclusive; or one string or tag, given as
    both.
    """

    attribute: str
    low: Scalar
    high: Scalar

    def __len__(self) -> int:
        return len(values((self.low, self.high)))

    def minus(self, other: "Span") -> list["Span"]:
        """Return the values of this span that the other lacks."""
        return [
            Span(self.attribute, *each)
            for each in without((self.low, self.high), other.low, other.high)
        ]


def spans_of(term: Term, schema: Schema) -> list[Span]:
    """Return the constraints of a term, one per attribute and one per wanted tag. The schema closes
    open ends.
    """
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
    """Bit layout of a subscription id: c1 | c2 | c3, most significant first. 63 bits by default, so
    that an id fits a signed 64-bit integer.

    c1: the ring key of the subscription's node (m bits); c2: its number at that node; c3: the
    number of its constrained attributes. A publisher that counts in how many lists an id occurs
    needs only c3 to know whether it matches. Content-based publish/subscribe over Chord, section 3,
    "The subscription identifier" and Figure 3.
    """

    node_bits: int = ID_BITS
    number_bits: int = 15
    attribute_bits: int = 8

    @classmethod
    def sized(cls, node_bits: int, subscriptions: int, attributes: int) -> "SubIdLayout":
        """Return the layout for node keys of `node_bits` bits, `subscriptions` per node, and a
        schema of `attributes` attributes.
        """
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


class ValueMapping:
    """Maps values to lists and lists to ring keys.

    With the order-preserving hash, an attribute with more values than may be stored one by one has
    one list per *cell*, an interval of neighbouring values with one key. A range is stored in all
    cells that it meets, so an end cell lists it for values that it does not admit; the receiver of
    a notification compares exactly. A hash without order has no such intervals.
    """

    __slots__ = ("_domains", "_ordered", "_schema", "_walk", "_widths", "layout", "values_max")

    def __init__(self, schema: Schema, ordered: bool, walk: str, values_max: int) -> None:
        """`walk`: `auto` walks along successors unless values lie far apart; `neighbours` always
        does; `fingers` never does.
        """
        self._schema, self._ordered, self._walk, self.values_max = schema, ordered, walk, values_max
        self.layout = SubIdLayout()
        steps = {each.name: each.steps_max for each in schema if isinstance(each, Number)}
        wide = {
            name: most // CELLS + 1
            for name, most in steps.items()
            if ordered and most >= values_max
        }
        self._widths = wide
        """Values per cell, for attributes that have cells."""
        self._domains = {name: most // wide.get(name, 1) for name, most in steps.items()}

    def key(self, attribute: str, value: Scalar) -> int:
        """h(v): Chord's hash, or the order-preserving one. Raises `RemoteError` for a value outside
        the domain.
        """
        if self._ordered and isinstance(value, int):
            steps = self._domains.get(attribute, -1)
            if not 0 <= value <= steps:
                raise RemoteError(f"{value} is no value of {attribute!r}")
            return order_preserving(value, 0, steps, attribute)
        return key_of_value(value)

    def place(self, attribute: str, value: Scalar) -> Scalar:
        """Return the value that names the list of `value`: the value itself, or its cell."""
        width = self._widths.get(attribute)
        return value // width if width is not None and isinstance(value, int) else value

    def spans(self, term: Term) -> list[Span]:
        """Return the lists of a term: one span for each attribute or tag that it constrains."""
        ends = ((each.attribute, each.low, each.high) for each in spans_of(term, self._schema))
        return [
            Span(name, self.place(name, low), self.place(name, high)) for name, low, high in ends
        ]

    def names(self, description: Description) -> list[tuple[str, Scalar]]:
        """Return the lists that an event reads: each attribute with the list of its value."""
        values = (
            (each.attribute, self.place(each.attribute, each.value)) for each in description.values
        )
        return [*((TAG, tag) for tag in description.tags), *values]

    def refusal(self, target: Target, held: int) -> str | None:
        """Return why a node with `held` terms cannot subscribe to this target; None if it can."""
        spans = [self.spans(term) for term in target.terms]
        values = sum(len(span) for each in spans for span in each)
        if any(not each or len(each) >> self.layout.attribute_bits for each in spans):
            return (
                "every term needs a tag or a predicate, and at most "
                f"{(1 << self.layout.attribute_bits) - 1} of them"
            )
        if values > self.values_max:
            return f"it admits {values} values; at most {self.values_max} are allowed (values_max)"
        if held + len(spans) > self.layout.numbers_max:
            return f"a node has at most {self.layout.numbers_max} subscriptions"
        return None

    def ranges(self, namespace: str, span: Span, nodes: float) -> list[ListRange]:
        """Return the ranges to request for a span on a ring of `nodes` nodes: the whole span with
        an order-preserving hash, otherwise single values.
        """
        ends = [(span.low, span.high)]
        if not self._ordered and len(span) > 1:
            ends = [(value, value) for value in values((span.low, span.high))]
        walked = self._walks(span, nodes)
        return [(namespace, span.attribute, low, high, walked) for low, high in ends]

    def _walks(self, span: Span, nodes: float) -> bool:
        """Whether a request traverses a range along successors."""
        if self._walk != "auto" or len(span) == 1:
            return self._walk != "fingers"
        gap = nodes / max(
            1, self._domains.get(span.attribute, 1)
        )  # expected nodes between two neighbouring values
        return gap <= log2(max(2.0, nodes)) / 2


@lru_cache(16)
def mapping_for(schema: str, walk: str, values_max: int, ordered: bool) -> ValueMapping:
    """Return the mapping for these parameters; shared by all peers of a process."""
    return ValueMapping(Schema.read(schema), ordered, walk, values_max)


def matching(lists: Iterable[Iterable[int]], attributes_of: Callable[[int], int]) -> list[int]:
    """Return, sorted, the ids that occur in as many lists as they have constrained attributes.
    Section 3.2, Figure 5.
    """
    counted = Counter(sub_id for each in lists for sub_id in each)
    return sorted(sub_id for sub_id, count in counted.items() if count == attributes_of(sub_id))
