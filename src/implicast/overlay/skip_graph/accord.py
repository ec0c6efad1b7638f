"""Whether lists of neighbours say the same: who is the neighbour to be asked, how two lists differ, and what one place
knows of it. Pure of messages.

That nobody is missing anywhere once all agree is a law in `tests/laws`: with whom to compare is chosen so that it holds
also where several places of one peer stand in a row.
"""

from collections.abc import Mapping, Sequence

from implicast.overlay.skip_graph.messages import ListSpan
from implicast.overlay.skip_graph.table import Level, LevelTable, is_between, twin
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

EAGER = 4
"""Rounds in which a list that stays as it is is shown though the neighbour does not agree; then every fourth."""
SIDES = (True, False)
"""Left, right."""

Side = tuple[int, bool]
"""A level, and whether its left side is meant."""
Nodes = tuple[Certificate, ...]
Levels = Sequence[Level[Certificate]]
Unagreed = tuple[int, bool, Level[Certificate]]


class Accord:
    """By side of each list, the list as it was when the neighbour there had the same."""

    __slots__ = ("_agreed", "_offered", "_shown", "compared")

    def __init__(self) -> None:
        self._agreed: dict[Side, Nodes] = {}
        self._offered: dict[Side, tuple[bytes, Nodes]] = {}  # to whom a list was shown, and which
        self.compared: LevelTable[Certificate] | None = (
            None  # the lists with all of which neighbours agreed
        )
        self._shown: tuple[LevelTable[Certificate] | None, int] = (None, 0)
        """The lists last shown, and in how many rounds."""

    def agree_with_all(self, lists: LevelTable[Certificate]) -> None:
        """These lists are known to be what those of the neighbours are."""
        self.compared = lists
        for number, level in enumerate(lists.levels):
            self._agreed[number, True] = self._agreed[number, False] = level.nodes

    def forget(self) -> None:
        """The lists may be out of date, all of them: they are to be shown to the neighbours."""
        self._agreed.clear()
        self.compared, self._shown = None, (None, 0)

    def is_due(self, lists: LevelTable[Certificate]) -> bool:
        """Whether to show the lists in this round: not if all agreed, and rarely if they are as they were."""
        if self.compared is lists:
            return False
        table, rounds = self._shown
        self._shown = (lists, rounds + 1 if table is lists else 0)
        return self._shown[1] < EAGER or self._shown[1] % EAGER == 0

    @property
    def is_eager(self) -> bool:
        """Whether the lists last shown have not been shown often yet."""
        return self._shown[1] < EAGER

    def is_agreed(self, lists: LevelTable[Certificate], number: int, me: Address) -> bool:
        """Whether the neighbours have the same list of a level."""
        level = lists.levels[number]
        return all(
            self._agreed.get((number, is_left)) == level.nodes
            or neighbour(level, me, is_left) is None
            for is_left in SIDES
        )

    def offers(self, lists: LevelTable[Certificate], me: Address) -> list[tuple[Address, ListSpan]]:
        """Which lists to show to whom; if none, they need not be looked at until they change."""
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
        """A neighbour came with the same list as ours: it need not be shown to it."""
        for is_left in SIDES if number < len(lists.levels) else ():
            other = neighbour(lists.levels[number], me, is_left)
            if other is not None and other.key == whom:
                self._agreed[number, is_left] = lists.levels[number].nodes

    def answered_same(self, number: int, whom: bytes) -> None:
        """A neighbour to whom a list was shown has the same."""
        for is_left in SIDES:
            to, nodes = self._offered.get((number, is_left), (b"", ()))
            if to == whom:
                self._agreed[number, is_left] = nodes
                del self._offered[number, is_left]


@twin
def ours(table: LevelTable[Certificate], me: Address) -> list[tuple[int, bytes]]:
    """By level, the places of this peer that stand next to the owner of lists, on either side."""
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
    """Sides of lists that are neither as they were, as six in ten are, nor as was agreed on."""
    fresh = [
        each
        for each in enumerate(levels)
        if each[0] >= len(before) or before[each[0]] is not each[1]
    ]
    sides = [(number, is_left, level) for number, level in fresh for is_left in SIDES]
    return [each for each in sides if agreed.get(each[:2]) != each[2].nodes]  # three in ten


@twin
def neighbour(level: Level[Certificate], me: Address, is_left: bool) -> Certificate | None:
    """The next on one side of a list that is not of the same peer; of our own places we know without a word. In a list
    that is not the whole ring nobody stands beyond its end."""
    nodes, own, step = level.nodes, level.own, -1 if is_left else 1
    size = len(nodes)
    for places in range(1, size if level.full else own + 1 if is_left else size - own):
        node = nodes[(own + step * places) % size]
        if node.address != me:
            return node
    return None


@twin
def agrees(wide: LevelTable[Certificate], span: ListSpan) -> bool:
    """Whether another's list is plainly the same as ours where both reach; three in four are.

    They overlap from where one begins within the other to where one ends within the other, and name the same between.
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
        return False  # they meet at the far side of the ring too
    common = mine[mine.index(begin) : mine.index(end) + 1]
    return bool(common) and common == theirs[theirs.index(begin) : theirs.index(end) + 1]


@twin
def contrast(
    wide: LevelTable[Certificate], vectors: Vectors, span: ListSpan
) -> tuple[list[Certificate], list[bytes]]:
    """Whom another's list lacks, and whom it has too many by ours, where both reach."""
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
    """Whether a list that reaches so far would have to name this key."""
    return span.full or not span.keys or is_between(span.keys[0], key, span.keys[-1])
