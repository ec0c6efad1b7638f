"""Chord's finger table, without I/O: finger[i] is the first node at or after self + 2^i.

Only levels with 2^i beyond the right neighbour are stored, about log2 n of them; below that every
finger is the right neighbour. Fingers shorten paths. The neighbours alone decide which node owns a
key, so a wrong finger costs hops and never gives a wrong answer.
"""

from bisect import bisect_left

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError


class FingerTable:
    """The fingers of one node, and the sorted distances that `next_hop` searches."""

    __slots__ = (
        "_steps",
        "addresses",
        "bits",
        "distances",
        "levels",
        "mask",
        "me",
        "own",
        "right",
        "right_distance",
        "span",
    )

    def __init__(self, me: Ref, bits: int) -> None:
        self.bits = bits
        self.mask = (1 << bits) - 1
        self.reset(me)

    def reset(self, me: Ref) -> None:
        """Empty the table: this node is alone on the ring."""
        self.me = self.right = me
        self.own = self.key_of(me)
        self.right_distance = 0
        self.span = 1 << self.bits
        """Number of keys, up to the own one, that this node owns."""
        self.levels: dict[int, Ref] = {}
        self.distances: list[int] = []
        self._steps: list[Ref] = []
        self.addresses: list[Address] = []

    def key_of(self, ref: Ref) -> int:
        """The identifier of a node. Raises RemoteError if it is out of range, since it may come
        from a message.
        """
        key = ref.key
        if not isinstance(key, int) or not 0 <= key <= self.mask:
            raise RemoteError(f"{key!r} is not an identifier of {self.bits} bits")
        return key

    def far(self, ref: Ref) -> int:
        """Clockwise distance to a node."""
        return (self.key_of(ref) - self.own) & self.mask

    def set_neighbours(self, left: Ref, right: Ref) -> None:
        """Set the ring neighbours; levels that the right neighbour covers are dropped."""
        # A node without a right neighbour owns all keys. Of two nodes with one identifier the
        # second in ring order owns none.
        alone = self.me.address in (right.address, left.address)
        self.span = 1 << self.bits if alone else -self.far(left) & self.mask
        before, reached = self.right, self.right_distance
        self.right, self.right_distance = right, self.far(right)
        # A node came in between: the former right neighbour is the finger of the levels uncovered.
        if self.right_distance < reached:
            new_levels = range(self.right_distance.bit_length(), reached.bit_length())
            self.levels |= dict.fromkeys(new_levels, before)
        self.levels = {
            level: ref for level, ref in self.levels.items() if 1 << level > self.right_distance
        }
        self._rebuild()

    def first_level(self) -> int:
        """The lowest level that the right neighbour does not cover."""
        return self.right_distance.bit_length() if self.right != self.me else self.bits

    def start(self, level: int) -> int:
        """The key whose successor is the finger of this level."""
        return (self.own + (1 << level)) & self.mask

    def restore(self, me: Ref, left: Ref, right: Ref, levels: dict[int, Ref]) -> None:
        """The fingers by level of a node between two neighbours."""
        self.reset(me)
        self.set_neighbours(left, right)
        self.levels = levels
        self._rebuild()

    def set_finger(self, level: int, ref: Ref) -> None:
        """Set a finger. One that leads back to this node is removed; one that lies before the start
        of its level is wrong and ignored.
        """
        if not self.first_level() <= level < self.bits or self.levels.get(level) == ref:
            return
        if ref.address == self.me.address:
            self.levels.pop(level, None)
        elif self.far(ref) >= 1 << level:
            self.levels[level] = ref
        self._rebuild()

    def remove_node(self, ref: Ref) -> list[int]:
        """Remove a node; returns the levels that have no finger now."""
        levels = [level for level, finger in self.levels.items() if finger == ref]
        for level in levels:
            del self.levels[level]
        if levels:
            self._rebuild()
        return levels

    def _rebuild(self) -> None:
        steps = {
            self.far(ref): ref for ref in self.levels.values() if ref.address != self.me.address
        }
        if self.right.address != self.me.address:
            steps[self.right_distance] = self.right
        self.distances = sorted(steps)
        self._steps = [steps[far] for far in self.distances]
        self.addresses = [ref.address for ref in self._steps]

    def owns(self, key: int) -> bool:
        """Whether the key's successor is this node."""
        return (self.own - key) & self.mask < self.span

    def next_hop(self, key: int) -> Ref:
        """The right neighbour if it owns the key, otherwise the closest preceding finger. Not for
        own keys.
        """
        far = (key - self.own) & self.mask
        # No steps: the right neighbour is an earlier incarnation of this node.
        if far <= self.right_distance or not self._steps:
            return self.right
        return self._steps[bisect_left(self.distances, far) - 1]

    def fingers_at(self, address: Address) -> list[Ref]:
        """The nodes known on the right with this address."""
        if address not in self.addresses:
            return []
        return [ref for ref in self._steps if ref.address == address]

    def fingers(self) -> list[Ref]:
        """The distinct nodes known on the right, nearest first."""
        return list(self._steps)
