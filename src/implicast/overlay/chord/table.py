"""A finger table by distance, pure: finger[i] is the first node at or after self + 2^i.

Only levels with 2^i beyond the right neighbour are kept (about log2 n of them); below that every finger is the right
neighbour itself. Fingers shorten the way; the neighbours alone decide who is responsible: a wrong finger costs hops,
never a wrong answer.
"""

from bisect import bisect_left

from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError


class FingerTable:
    """The fingers of one node, with what the next hop needs computed beforehand."""

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
        """Alone on the circle."""
        self.me = self.right = me
        self.own = self.key_of(me)
        self.right_distance = 0
        self.span = 1 << self.bits
        """How many keys up to the own one this node answers for."""
        self.levels: dict[int, Ref] = {}
        self.distances: list[int] = []
        self._steps: list[Ref] = []
        self.addresses: list[Address] = []

    def key_of(self, ref: Ref) -> int:
        """The identifier of a node, which may be a stranger's word."""
        key = ref.key
        if not isinstance(key, int) or not 0 <= key <= self.mask:
            raise RemoteError(f"{key!r} is no identifier of {self.bits} bits")
        return key

    def far(self, ref: Ref) -> int:
        """Steps clockwise to a node."""
        return (self.key_of(ref) - self.own) & self.mask

    def set_neighbours(self, left: Ref, right: Ref) -> None:
        """The ring's word on who is next to this node; levels that the right neighbour covers are dropped."""
        # Who knows nobody on its right answers for all. Of two with one identifier the second by name owns no key.
        alone = self.me.address in (right.address, left.address)
        self.span = 1 << self.bits if alone else -self.far(left) & self.mask
        before, reached = self.right, self.right_distance
        self.right, self.right_distance = right, self.far(right)
        if (
            self.right_distance < reached
        ):  # somebody came in between: what it does not cover, the former one does
            new_levels = range(self.right_distance.bit_length(), reached.bit_length())
            self.levels |= dict.fromkeys(new_levels, before)
        self.levels = {
            level: ref for level, ref in self.levels.items() if 1 << level > self.right_distance
        }
        self._arrange()

    def first_level(self) -> int:
        """The lowest level that the right neighbour does not cover."""
        return self.right_distance.bit_length() if self.right != self.me else self.bits

    def start(self, level: int) -> int:
        """The key whose successor is the finger of this level."""
        return (self.own + (1 << level)) & self.mask

    def set_levels(self, levels: dict[int, Ref]) -> None:
        self.levels = levels
        self._arrange()

    def set_finger(self, level: int, ref: Ref) -> None:
        """A finger that leads back to this node is none; one before its start is somebody's mistake."""
        if not self.first_level() <= level < self.bits or self.levels.get(level) == ref:
            return
        if ref.address == self.me.address:
            self.levels.pop(level, None)
        elif self.far(ref) >= 1 << level:
            self.levels[level] = ref
        self._arrange()

    def forget(self, ref: Ref) -> list[int]:
        """Drop a finger; the levels that have none now."""
        levels = [level for level, finger in self.levels.items() if finger == ref]
        for level in levels:
            del self.levels[level]
        if levels:
            self._arrange()
        return levels

    def _arrange(self) -> None:
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
        """The neighbour that is responsible, or the finger nearest before the key. Not for keys of one's own."""
        far = (key - self.own) & self.mask
        if (
            far <= self.right_distance or not self._steps
        ):  # none: the right neighbour is this node's own former life
            return self.right
        return self._steps[bisect_left(self.distances, far) - 1]

    def fingers(self) -> list[Ref]:
        """The distinct nodes known on the right, nearest first."""
        return list(self._steps)
