"""Key-range multicast with k senders for everyone: the procedures of the paper, pure, over one node's table.

A message starts at a level and goes down: who holds it at level l serves, at level l-1, those newly met there, in a
neighbourhood chosen so that each is served by the kR nearest on its left and the kL nearest on its right. Just outside
the range, auxiliary nodes take part at levels above 0; they forward and never deliver.

Positions in a list stand in for keys wherever they can: comparing small integers is half the price of comparing keys.
`reach` has two readings: literal (only nodes inside the range serve further) and "through" (counting goes on beyond the
range, so that auxiliary nodes too always have k senders, at +0.5 % messages).
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple

from implicast.overlay.skip_graph.table import Level, LevelTable, Node


class Arc(NamedTuple):
    """`[low, high)`, clockwise. Wraps when low > high; `low == high` is the full circle. There is no empty arc."""

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
    """The redundancy k, cut in two: kL is the larger half (k = 3: 2 and 1)."""

    left: int
    right: int

    @classmethod
    def of(cls, k: int) -> "Halves":
        return cls((k + 1) // 2, k // 2)


class Leg(NamedTuple, Generic[Node]):
    """What one node sends at one level."""

    level: int
    receivers: tuple[Node, ...]


def inside(level: Level[Node], arc: Arc) -> list[bool]:
    """Which of the listed nodes lie in the arc."""
    count = len(level.nodes)
    first_in = arc.holds(level.nodes[0].key)
    if arc.is_circle:
        return [True] * count
    enter, leave = level.position(arc.low), level.position(arc.high)
    if enter < leave:
        return [first_in] * enter + [True] * (leave - enter) + [False] * (count - leave)
    if leave < enter:
        return [first_in] * leave + [False] * (enter - leave) + [True] * (count - enter)
    return [first_in] * count


def participates(level: Level[Node], arc: Arc, number: int, halves: Halves) -> list[bool]:
    """Which of the listed nodes take part at this level: those in the arc and, above level 0, the auxiliary ones.

    An end of the arc that the list does not show leaves nobody auxiliary on that side.
    """
    flags = inside(level, arc)
    if number == 0 or arc.is_circle:
        return flags
    count = len(flags)
    enter, leave = level.position(arc.low), level.position(arc.high)
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


def start_level(table: LevelTable[Node], arc: Arc, halves: Halves) -> int:
    """The lowest level whose list covers the arc with its auxiliary nodes; at worst the top."""
    covers = (number for number in range(table.top) if _covers(*table.ends(number), arc, halves))
    return next(covers, table.top)  # whose list is full


def _covers(keys: Sequence[bytes], first: int, beyond: int, arc: Arc, halves: Halves) -> bool:
    left, right = (
        keys[(first + halves.right - 1) % len(keys)],
        keys[(beyond - halves.left) % len(keys)],
    )
    if arc.is_circle or arc.low == left:
        return False
    low, high, end = ((key < left, key) for key in (arc.low, arc.high, right))
    return low < high <= end


def first_leg(
    table: LevelTable[Node], start: int, arc: Arc, halves: Halves
) -> tuple[Leg[Node], bool]:
    """Whom the source sends to at its start level, and whether it takes part itself."""
    level = table.levels[start]
    flags = participates(level, arc, start, halves)
    receivers = tuple(
        node for index, node in enumerate(level.nodes) if flags[index] and index != level.own
    )
    return Leg(start, receivers), flags[level.own]


def legs(
    table: LevelTable[Node], received: int, arc: Arc, halves: Halves, through: bool = True
) -> list[Leg[Node]]:
    """All that a node sends on when it receives at a level: one leg per level, as far down as it takes part."""
    found: list[Leg[Node]] = []
    for number in range(received, 0, -1):
        leg, again = duty(table, number, arc, halves, through)
        if leg.receivers:
            found.append(leg)
        if not again:
            break
    return found


def duty(
    table: LevelTable[Node], number: int, arc: Arc, halves: Halves, through: bool
) -> tuple[Leg[Node], bool]:
    """Whom a node serves one level below, and whether it goes on from there itself."""
    upper, lower = table.levels[number], table.levels[number - 1]
    far_left, far_right = reach(upper, arc, halves, through)
    first = lower.position(upper.nodes[upper.own - far_left].key)
    last = lower.position(upper.nodes[(upper.own + far_right) % len(upper.nodes)].key)
    flags = participates(lower, arc, number - 1, halves)
    nodes, fresh = lower.nodes, lower.fresh
    receivers = tuple(
        [nodes[index] for index in range(first, last + 1) if flags[index] and fresh[index]]
    )
    return Leg(number - 1, receivers), flags[lower.own]


def reach(level: Level[Node], arc: Arc, halves: Halves, through: bool) -> tuple[int, int]:
    """How many ring members to each side a node's service extends: further for the first and last in the arc.

    Counting from the end of the arc up to the node; an end out of sight is far enough (at least k-1 lie between).
    """
    left, right = halves
    if arc.is_circle or not (through or arc.holds(level.nodes[level.own].key)):
        return left, right
    count, own = len(level.nodes), level.own
    enter, leave = level.position(arc.low), level.position(arc.high)
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


def concerned(table: LevelTable[Node], number: int, arc: Arc, halves: Halves) -> bool:
    """Whether the owner takes part at a level, by its own list (check 3 of the receiver).

    What `participates` says of the owner, without asking about the others (a tenth of the price; a law in the tests).
    """
    return arc.holds(table.owner.key) or is_auxiliary(table, number, arc, halves)


def is_auxiliary(table: LevelTable[Node], number: int, arc: Arc, halves: Halves) -> bool:
    """Whether the owner, which lies outside the arc, takes part at a level as one just beside it."""
    if number == 0:
        return False
    me, (first, last), (low, high) = table.owner.key, table.borders(halves)[number], arc
    if (
        me < low <= last if me < last else low > me or low <= last
    ):  # fewer than kR between us and where it begins
        return True
    return (
        first < high <= me if first < me else high > first or high <= me
    )  # or than kL between where it ends and us
