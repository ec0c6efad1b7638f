"""Comparison of neighbouring lists: which neighbour to compare with, how two lists differ, and
which lists a place has found equal. Sends no messages.

Law, checked in `tests/laws`: if all pairs of neighbours agree, no list lacks a node. The choice of
the neighbour keeps this true where several places of one peer are adjacent on a ring.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from implicast.overlay.skip_graph.table import Level, LevelTable, is_between, twin
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Flag
from implicast.peer.identity import Certificate, Key
from implicast.space.vector import Vectors

NAMED_MAX = 1_024
"""Places in one answer or list. Honest peers send 50 to 200; the bound limits the verification work
that a liar can cause.
"""
EAGER = 4
"""An unchanged list on which the neighbour does not agree is offered in the first 4 rounds, then in
every fourth.
"""
SIDES = (True, False)
"""Left, right."""

Side = tuple[int, bool]
"""A level, and True for the left side of its list."""
Nodes = tuple[Certificate, ...]
Levels = Sequence[Level[Certificate]]
Unagreed = tuple[int, bool, Level[Certificate]]
Named = Annotated[tuple[Certificate, ...], Meta(max_length=NAMED_MAX)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=NAMED_MAX)]


class ListSpan(Message):
    """A list of one place, as keys clockwise, sent to another place of the same ring."""

    place: Key
    """The key of the place that the list is sent to."""
    owner: Certificate
    level: Flag
    keys: Keys
    full: bool


class ListAgreement:
    """Agreement of the lists of one place: for each side of each list, the list as the neighbour on
    that side last confirmed it.
    """

    __slots__ = ("_agreed", "_offered", "_shown", "compared")

    def __init__(self) -> None:
        self._agreed: dict[Side, Nodes] = {}
        # key of the neighbour a list was offered to, and the list
        self._offered: dict[Side, tuple[bytes, Nodes]] = {}
        # the lists on which all neighbours agreed
        self.compared: LevelTable[Certificate] | None = None
        self._shown: tuple[LevelTable[Certificate] | None, int] = (None, 0)
        """The lists last offered, and the number of further rounds in which they were unchanged."""

    def mark_all_agreed(self, lists: LevelTable[Certificate]) -> None:
        """Record that all neighbours have these lists."""
        self.compared = lists
        for number, level in enumerate(lists.levels):
            self._agreed[number, True] = self._agreed[number, False] = level.nodes

    def forget(self) -> None:
        """Drop all agreements, so that every list is offered again."""
        self._agreed.clear()
        self.compared, self._shown = None, (None, 0)

    def is_due(self, lists: LevelTable[Certificate]) -> bool:
        """Whether to offer the lists in this round; counts the round. False if all neighbours
        agreed, and in three of four rounds once the same lists were offered `EAGER` times.
        """
        if self.compared is lists:
            return False
        table, rounds = self._shown
        self._shown = (lists, rounds + 1 if table is lists else 0)
        return self._shown[1] < EAGER or self._shown[1] % EAGER == 0

    @property
    def is_eager(self) -> bool:
        """Whether the lists last offered are still in their first `EAGER` rounds."""
        return self._shown[1] < EAGER

    def is_agreed(
        self, lists: LevelTable[Certificate], number: int, me: Address, trusts_alone: bool
    ) -> bool:
        """Whether the neighbours on both sides have the same list of a level. `trusts_alone`: the
        answer for a list that names no other peer.
        """
        level, is_confirmed = lists.levels[number], trusts_alone
        for is_left in SIDES:
            if neighbour(level, me, is_left) is not None:
                is_confirmed = self._agreed.get((number, is_left)) == level.nodes
                if not is_confirmed:
                    break
        return is_confirmed

    def offers(self, lists: LevelTable[Certificate], me: Address) -> list[tuple[Address, ListSpan]]:
        """The lists to send, each with the address of a neighbour. If there are none, the lists
        count as compared until they change.
        """
        found: list[tuple[Address, ListSpan]] = []
        before = self.compared.levels if self.compared is not None else ()
        for number, is_left, level in unagreed(lists.levels, before, self._agreed):
            other = neighbour(level, me, is_left)
            if other is not None:
                self._offered[number, is_left] = (other.key, level.nodes)
                span = ListSpan(other.key, lists.owner, number, level.keys, level.full)
                found.append((other.address, span))
        if not found:
            self.compared = lists
        return found

    def found_same(
        self, lists: LevelTable[Certificate], number: int, whom: bytes, me: Address
    ) -> None:
        """Record that a neighbour sent a list equal to ours: it need not be offered ours."""
        for is_left in SIDES if number < len(lists.levels) else ():
            other = neighbour(lists.levels[number], me, is_left)
            if other is not None and other.key == whom:
                self._agreed[number, is_left] = lists.levels[number].nodes

    def answered_same(self, number: int, whom: bytes) -> None:
        """Record that a neighbour answered that it has the list it was offered."""
        for is_left in SIDES:
            to, nodes = self._offered.get((number, is_left), (b"", ()))
            if to == whom:
                self._agreed[number, is_left] = nodes
                del self._offered[number, is_left]


@twin
def own_neighbours(table: LevelTable[Certificate], me: Address) -> list[tuple[int, bytes]]:
    """For each level, the places of this peer that are directly beside the owner of the lists."""
    found = list[tuple[int, bytes]]()
    for number, level in enumerate(table.levels):
        nodes, sides = level.nodes, (level.own - 1, level.own + 1)
        near = [nodes[at % len(nodes)] for at in sides if level.full or 0 <= at < len(nodes)]
        found += [
            (number, node.key) for node in near if node.address == me and node is not table.owner
        ]
    return found


@twin
def unagreed(levels: Levels, before: Levels, agreed: Mapping[Side, Nodes]) -> list[Unagreed]:
    """The sides of lists that changed since `before` and differ from the list agreed on. About six
    lists in ten are unchanged: these are the same objects (`KnownNodes`). Equal nodes would not do,
    because a list may have changed twice and been agreed on in between.
    """
    fresh = [
        each
        for each in enumerate(levels)
        if each[0] >= len(before) or before[each[0]] is not each[1]
    ]
    sides = [(number, is_left, level) for number, level in fresh for is_left in SIDES]
    # about three sides in ten
    return [each for each in sides if agreed.get(each[:2]) != each[2].nodes]


@twin
def neighbour(level: Level[Certificate], me: Address, is_left: bool) -> Certificate | None:
    """The nearest node on one side of a list that belongs to another peer, or None. Own places are
    compared without messages. A list that is not the whole ring ends at its last node.
    """
    nodes, own, step = level.nodes, level.own, -1 if is_left else 1
    size = len(nodes)
    for places in range(1, size if level.full else own + 1 if is_left else size - own):
        node = nodes[(own + step * places) % size]
        if node.address != me:
            return node
    return None


@twin
def span_agrees(wide: LevelTable[Certificate], span: ListSpan) -> bool:
    """Quick test whether a neighbour's list equals ours where both reach; true for about three in
    four.

    The overlap runs from where one list begins within the other to where one ends within the other.
    Both must have the same keys in it. False does not prove a difference: `span_differences`
    decides.
    """
    levels = wide.levels
    if not 0 <= span.level < len(levels):
        return False
    level, theirs = levels[span.level], span.keys
    mine = level.keys
    if level.full or span.full:
        return level.full and span.full and len(mine) == len(theirs) and set(mine) == set(theirs)
    if not theirs:
        return False
    begin, end = (
        mine[0] if mine[0] in theirs else theirs[0],
        mine[-1] if mine[-1] in theirs else theirs[-1],
    )
    if begin not in mine or end not in mine:
        return False
    if (theirs[0] != begin and level.spans(theirs[0])) or (
        theirs[-1] != end and level.spans(theirs[-1])
    ):
        return False  # the lists overlap at the far side of the ring too
    common = mine[mine.index(begin) : mine.index(end) + 1]
    return bool(common) and common == theirs[theirs.index(begin) : theirs.index(end) + 1]


@twin
def span_differences(
    wide: LevelTable[Certificate], vectors: Vectors, span: ListSpan
) -> tuple[list[Certificate], list[bytes]]:
    """The nodes that a neighbour's list lacks, and its keys that ours lacks, where both lists
    reach.
    """
    levels, limit, vector = wide.levels, vectors.limits[span.level], wide.owner.vector
    level = levels[min(span.level, len(levels) - 1)]
    mine = {node.key: node for node in level.nodes if vector ^ node.vector < limit}
    theirs = {*span.keys, span.owner.key}
    lacking = [node for key, node in mine.items() if key not in theirs and covers(span, key)]
    unknown = [
        key for key in span.keys if key not in mine and key != span.owner.key and level.spans(key)
    ]
    return lacking, unknown


def covers(span: ListSpan, key: bytes) -> bool:
    """Whether a list with these ends must contain a key if the key is in its ring."""
    return span.full or not span.keys or is_between(span.keys[0], key, span.keys[-1])
