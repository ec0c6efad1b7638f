"""What one place knows of whether its neighbours have the same lists. Pure of messages."""

from implicast.overlay.skip_graph.agreement import neighbour
from implicast.overlay.skip_graph.messages import ListSpan
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate

EAGER = 4
"""Rounds in which a list that stays as it is is shown though the neighbour does not agree; then every fourth."""
SIDES = (True, False)
"""Left, right."""

Side = tuple[int, bool]
"""A level, and whether its left side is meant."""
Nodes = tuple[Certificate, ...]


class Accord:
    """By side of each list, the list as it was when the neighbour there had the same."""

    __slots__ = ("_agreed", "_offered", "_shown", "compared")

    def __init__(self) -> None:
        self._agreed: dict[Side, Nodes] = {}
        self._offered: dict[Side, tuple[bytes, Nodes]] = {}  # to whom a list was shown, and which
        self.compared: LevelTable[Certificate] | None = None  # the lists with all of which neighbours agreed
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
            self._agreed.get((number, is_left)) == level.nodes or neighbour(level, me, is_left) is None
            for is_left in SIDES
        )

    def offers(self, lists: LevelTable[Certificate], me: Address) -> list[tuple[Address, ListSpan]]:
        """Which lists to show to whom; if none, they need not be looked at until they change."""
        found: list[tuple[Address, ListSpan]] = []
        before = self.compared.levels if self.compared is not None else ()
        for number, level in enumerate(lists.levels):
            if number < len(before) and before[number] is level:  # six in ten
                continue
            for is_left in SIDES:
                held = self._agreed.get((number, is_left))
                if held is level.nodes or held == level.nodes:  # seven in ten
                    continue
                other = neighbour(level, me, is_left)
                if other is not None:
                    self._offered[number, is_left] = (other.key, level.nodes)
                    span = ListSpan(other.key, lists.owner, number, level.keys, level.full)
                    found.append((other.address, span))
        if not found:
            self.compared = lists
        return found

    def found_same(self, lists: LevelTable[Certificate], number: int, whom: bytes, me: Address) -> None:
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
