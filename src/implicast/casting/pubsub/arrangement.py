"""What all peers of one population know: the schema, where values live, how ids are made, how a range is gone through.

Small-domain remedy: with fewer values than nodes a walk by right neighbours would pass over nodes without any value;
when more than half of log2 N of them are to be expected between two values, fingers are the shorter way. Section 4.3.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import log2

from implicast.casting.keeping.questions import Range
from implicast.casting.pubsub.placing import TAG, Hashing, Span, spans_of
from implicast.language.attributes import Schema
from implicast.language.target import Description, Scalar, Target, Term
from implicast.space.ring import ID_BITS

SUBSCRIBERS, PEERS = "s", "p"
"""The two shelves: lists of subscriptions, and of peers."""


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

    @property
    def attributes_max(self) -> int:
        return (1 << self.attribute_bits) - 1

    def pack(self, node: int, number: int, attributes: int) -> int:
        assert node >> self.node_bits == 0, f"node {node} does not fit into {self.node_bits} bits"
        assert number >> self.number_bits == 0, f"number {number} does not fit into {self.number_bits} bits"
        assert attributes >> self.attribute_bits == 0, f"{attributes} attributes do not fit"
        return (node << self.number_bits | number) << self.attribute_bits | attributes

    def node(self, sub_id: int) -> int:
        return sub_id >> (self.number_bits + self.attribute_bits)

    def number(self, sub_id: int) -> int:
        return sub_id >> self.attribute_bits & (1 << self.number_bits) - 1

    def attributes(self, sub_id: int) -> int:
        return sub_id & (1 << self.attribute_bits) - 1


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What all peers of one population know."""

    schema: Schema
    hashing: Hashing
    layout: SubIdLayout
    walk: str
    """`auto`: by right neighbours unless values lie far apart; `neighbours` or `fingers`: always so."""
    values_max: int

    def spans(self, term: Term) -> list[Span]:
        """The lists in which a term is: one span of them for each attribute or tag that it constrains."""
        return [self.hashing.placed(span) for span in spans_of(term, self.schema)]

    def names(self, description: Description) -> list[tuple[str, Scalar]]:
        """In which lists an event looks: attributes, each with the place of its value."""
        tags: list[tuple[str, Scalar]] = [(TAG, tag) for tag in description.tags]
        return tags + [(each.attribute, self.hashing.place(each.attribute, each.value)) for each in description.values]

    def refusal(self, target: Target, kept: int) -> str | None:
        """Why a node that keeps so many terms of its own cannot subscribe to this; None: it can."""
        spans = [self.spans(term) for term in target.terms]
        values = sum(len(span) for each in spans for span in each)
        if any(not each or len(each) > self.layout.attributes_max for each in spans):
            return "every term needs a tag or a predicate, and not more than an id can count"
        if values > self.values_max:
            return f"it admits {values} values; at most {self.values_max} are stored one by one (values_max)"
        if kept + len(spans) > self.layout.numbers_max:
            return f"a node keeps at most {self.layout.numbers_max} subscriptions"
        return None

    def ranges(self, shelf: str, span: Span, nodes: float) -> list[Range]:
        """What is sent out for a span on a ring of so many nodes."""
        walked = self._walks(span, nodes)
        return [(shelf, piece.attribute, piece.low, piece.high, walked) for piece in self.hashing.pieces(span)]

    def _walks(self, span: Span, nodes: float) -> bool:
        """Whether a request goes through a range by right neighbours."""
        if self.walk != "auto" or len(span) == 1:
            return self.walk != "fingers"
        return self.hashing.gap(span.attribute, nodes) <= log2(max(2.0, nodes)) / 2


@lru_cache(16)
def arranged(schema: str, walk: str, values_max: int, ordered: bool) -> Arrangement:
    """The same for all who were given the same parameters; read once where many peers are in one process."""
    known = Schema.read(schema)
    return Arrangement(known, Hashing(known, ordered, values_max), SubIdLayout(), walk, values_max)


def matching(lists: Iterable[Iterable[int]], attributes_of: Callable[[int], int]) -> list[int]:
    """The ids that occur in as many lists as they have constrained attributes, sorted. Section 3.2, Figure 5."""
    counted = Counter(sub_id for each in lists for sub_id in each)
    return sorted(sub_id for sub_id, count in counted.items() if count == attributes_of(sub_id))
