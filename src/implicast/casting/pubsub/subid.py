"""Subscription ids: c1 | c2 | c3, most significant first.

c1: the id of the node where the subscription belongs (m bits); c2: its number there; c3: on how many attributes it has
constraints. Who counts in how many lists an id occurs needs nothing else to know whether it matches.
Content-based publish/subscribe over Chord, section 3, "The subscription identifier" and Figure 3.
"""

from dataclasses import dataclass

from implicast.space.ring import ID_BITS


@dataclass(frozen=True, slots=True)
class SubIdLayout:
    """How many bits each part has: 63 in all by default, so that an id is a number everywhere."""

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
