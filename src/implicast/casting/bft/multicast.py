"""Key-range multicast with k senders for each receiver: the procedures of the paper over one node's
table. No messages, no time.

A message starts at a level and descends. A node that holds it at level l sends it, at level l-1, to
the nodes that share exactly l-1 digits with it, in a neighbourhood chosen so that each receiver is
served by the kR nearest nodes on its left and the kL nearest on its right. Auxiliary nodes just
outside the range take part at levels above 0; they forward and never deliver.

Positions in a list replace keys where possible: comparing small integers costs half as much.
`reach` has two readings: literal (only nodes in the range extend their service at its ends) and
"through" (counting goes on beyond the range, so that auxiliary nodes always have k senders too, for
0.5 % more messages).
"""

from collections.abc import Sequence
from itertools import compress
from typing import Generic, NamedTuple

from implicast.overlay.skip_graph.table import Level, LevelTable, Node


class KeyRange(NamedTuple):
    """`[low, high)`, clockwise. Wraps if low > high; `low == high` is the full circle. No range is
    empty.
    """

    low: bytes
    high: bytes

    @property
    def is_circle(self) -> bool:
        return self.low == self.high

    def holds(self, key: bytes) -> bool:
        if self.low < self.high:
            return self.low <= key < self.high
        return self.low == self.high or key >= self.low or key < self.high


class Halves(NamedTuple):
    """The redundancy k in two parts: kL is the larger half (k = 3: 2 and 1)."""

    left: int
    right: int

    @classmethod
    def of(cls, k: int) -> "Halves":
        return cls((k + 1) // 2, k // 2)


class Leg(NamedTuple, Generic[Node]):
    """The receivers of one node at one level."""

    level: int
    receivers: tuple[Node, ...]


def inside(level: Level[Node], key_range: KeyRange) -> list[bool]:
    """Which of the listed nodes are in the range."""
    count = len(level.nodes)
    first_in = key_range.holds(level.nodes[0].key)
    if key_range.is_circle:
        return [True] * count
    enter, leave = level.position(key_range.low), level.position(key_range.high)
    if enter < leave:
        return [first_in] * enter + [True] * (leave - enter) + [False] * (count - leave)
    if leave < enter:
        return [first_in] * leave + [False] * (enter - leave) + [True] * (count - enter)
    return [first_in] * count


def participates(
    level: Level[Node], key_range: KeyRange, number: int, halves: Halves
) -> list[bool]:
    """Which of the listed nodes take part at this level: those in the range and, above level 0, the
    auxiliary ones.

    If the list does not show an end of the range, no node is auxiliary on that side.
    """
    flags = inside(level, key_range)
    if number == 0 or key_range.is_circle:
        return flags
    count = len(flags)
    enter, leave = level.position(key_range.low), level.position(key_range.high)
    if level.full:
        for place in range(1, min(halves.right, count) + 1):
            flags[(enter - place) % count] = True
        for place in range(min(halves.left, count)):
            flags[(leave + place) % count] = True
        return flags
    if enter < count:
        for index in range(max(0, enter - halves.right), enter):
            flags[index] = True
    for index in range(leave, min(count, leave + halves.left)):
        flags[index] = True
    return flags


def start_level(table: LevelTable[Node], key_range: KeyRange, halves: Halves) -> int:
    """The lowest level whose list covers the range with its auxiliary nodes, else the top level."""
    for number in range(table.top):
        if _covers(*table.ends(number), key_range, halves):
            return number
    return table.top  # the top list is full


def _covers(
    keys: Sequence[bytes], first: int, beyond: int, key_range: KeyRange, halves: Halves
) -> bool:
    (low, high), left = key_range, keys[(first + halves.right - 1) % len(keys)]
    right = keys[(beyond - halves.left) % len(keys)]
    if low in (high, left):
        return False
    return (low < left, low) < (high < left, high) <= (right < left, right)


def first_leg(
    table: LevelTable[Node], start: int, key_range: KeyRange, halves: Halves
) -> tuple[Leg[Node], bool]:
    """The source's receivers at its start level, and whether the source takes part itself."""
    level = table.levels[start]
    flags = participates(level, key_range, start, halves)
    takes_part, flags[level.own] = flags[level.own], False
    return Leg(start, tuple(compress(level.nodes, flags))), takes_part


def legs(
    table: LevelTable[Node],
    received: int,
    key_range: KeyRange,
    halves: Halves,
    through: bool = True,
) -> list[Leg[Node]]:
    """What a node sends after it receives at a level: one leg for each level below, as far down as
    the node takes part.
    """
    found: list[Leg[Node]] = []
    for number in range(received, 0, -1):
        leg, again = leg_below(table, number, key_range, halves, through)
        if leg.receivers:
            found.append(leg)
        if not again:
            break
    return found


def leg_below(
    table: LevelTable[Node], number: int, key_range: KeyRange, halves: Halves, through: bool
) -> tuple[Leg[Node], bool]:
    """A node's receivers one level below, and whether the node itself takes part there."""
    upper, lower = table.levels[number], table.levels[number - 1]
    far_left, far_right = reach(upper, key_range, halves, through)
    first = lower.position(upper.nodes[upper.own - far_left].key)
    last = lower.position(upper.nodes[(upper.own + far_right) % len(upper.nodes)].key)
    flags = participates(lower, key_range, number - 1, halves)
    nodes, fresh = lower.nodes, lower.fresh
    receivers = tuple(
        [nodes[index] for index in range(first, last + 1) if flags[index] and fresh[index]]
    )
    return Leg(number - 1, receivers), flags[lower.own]


def reach(
    level: Level[Node], key_range: KeyRange, halves: Halves, through: bool
) -> tuple[int, int]:
    """How many ring members to each side a node serves; more for the first and last nodes of the
    range.

    Nodes are counted from the end of the range to this node. An end that the list does not show is
    far enough away: at least k-1 nodes lie between.
    """
    left, right = halves
    if key_range.is_circle or not (through or key_range.holds(level.nodes[level.own].key)):
        return left, right
    count, own = len(level.nodes), level.own
    enter, leave = level.position(key_range.low), level.position(key_range.high)
    if level.full:
        before, after = (own - enter) % count, (leave - own - 1) % count
    else:
        before = own - enter if enter <= own else own
        after = leave - own - 1 if own < leave < count else count - 1 - own
    if before < left:
        left = max(left, halves.right + before)
    if after < right:
        right = max(right, halves.left + after)
    return left, right


def concerned(table: LevelTable[Node], number: int, key_range: KeyRange, halves: Halves) -> bool:
    """Whether the owner takes part at a level, by its own list (check 3 of the receiver).

    Equal to what `participates` says of the owner, at a tenth of the cost; a law in the tests.
    """
    return key_range.holds(table.owner.key) or is_auxiliary(table, number, key_range, halves)


def is_auxiliary(table: LevelTable[Node], number: int, key_range: KeyRange, halves: Halves) -> bool:
    """Whether the owner, outside the range, is an auxiliary node at a level."""
    if number == 0:
        return False
    me, (first, last), (low, high) = table.owner.key, table.borders(halves)[number], key_range
    # fewer than kR nodes between the owner and the beginning of the range
    if me < low <= last if me < last else low > me or low <= last:
        return True
    # or fewer than kL between the end of the range and the owner
    return first < high <= me if first < me else high > first or high <= me
