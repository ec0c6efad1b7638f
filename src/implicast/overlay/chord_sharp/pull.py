"""A table asked for as a whole: the finger before is asked for the next, from level 0 up.

A join shifts about n entries elsewhere by one place; a refresh mends one level, so ceil(log2 n) refreshes mend all. Who
refreshes when is for others to say: a newcomer, an update flow. A finger that does not answer is dropped with those
above it and found again from below at the next refresh.

Answers to getEnt may travel with an update, so that most nodes need not be asked (condcast, "piggy-backing"). Seen by
the node that gets these rows, row x holds what the node 1 + x places ahead would have answered when the update left it.
Level y asks the node 2^y ahead, which is row 2^y - 1. So row x is needed for the levels y with 2^y - 1 >= x only, and
2^(m-1) rows serve m levels (the paper reserves 2^m): 2^m - 1 entries in all.
"""

from typing import TYPE_CHECKING

from implicast.overlay.chord_sharp.messages import Ent, EntIs, FingerGone, GetEnt
from implicast.overlay.chord_sharp.table import Table
from implicast.overlay.links import Ref
from implicast.overlay.links.state import OUT
from implicast.peer.contract import Address, Message, Part, handles

if TYPE_CHECKING:
    from implicast.overlay.chord_sharp.chord_sharp import ChordSharp

NOBODY: dict[int, Address] = {}
Rows = tuple[tuple[Ent, ...], ...]
"""Row x starts at its first needed level, ceil(log2(x + 1))."""


class EntLate(Message):
    """Rings when the node asked for an entry should have answered."""

    token: int
    tried: int


class Pull(Part):
    """Asks level by level, and answers those who ask so."""

    __slots__ = ("_rows", "asked", "callers", "level", "ring", "token")

    def __init__(self, ring: "ChordSharp") -> None:
        super().__init__(ring.address, ring.host)
        self.ring = ring
        self.level = -1
        """The level whose node is being asked; -1: no refresh is under way."""
        self.asked: Ref | None = None
        self._rows: Rows = ()
        self.callers = NOBODY
        """Who asked last for each level: those who name this node as a finger. Made when the first one asks."""
        self.token = 0

    @property
    def refreshing(self) -> bool:
        return self.level >= 0

    def stop(self) -> list[Address]:
        """Off the ring. Returns those who name this node as a finger."""
        callers, self.callers, self.level = self.callers, NOBODY, -1
        return [caller for _, caller in sorted(callers.items())]

    def refresh(self, rows: Rows = ()) -> None:
        """Ask for the whole table, from level 0 up; rows that came along answer in place of their nodes."""
        ring = self.ring
        ring.table.hold(ring.passenger.value())
        ring.table.follow(ring.links.right)
        self._rows, self.level = rows, 0
        self._proceed()
        if self.level >= 0:
            self.host.after(ring.settings.again_us, EntLate(self.token, 1))

    def _proceed(self) -> None:
        """Go up as far as rows reach; ask the first node that must be asked."""
        table = self.ring.table
        while self.level < len(table):
            ent = row_entry(self._rows, self.level)
            if ent is None:
                self._ask(table.nodes[self.level])
                return
            if table.take(self.level, ent):
                break
            self.level += 1
        self._complete()

    def _ask(self, node: Ref) -> None:
        self.token += 1
        self.asked = node
        self.host.send(node.address, GetEnt(self.token, self.level))

    @handles(GetEnt)
    def on_get_ent(self, sender: Address, asks: GetEnt) -> None:
        links = self.ring.links
        if links.state == OUT:
            self.host.send(sender, FingerGone(links.me, self.ring.heir(links.me)))
            return
        if self.callers is NOBODY:
            self.callers = {}
        self.callers[asks.level] = sender
        self.host.send(
            sender, EntIs(asks.token, self.ring.table.answer(asks.level, self.host.now_us)[0])
        )

    @handles(EntIs)
    def on_ent(self, sender: Address, answer: EntIs) -> None:
        if (
            answer.token != self.token
            or self.level < 0
            or self.asked is None
            or sender != self.asked.address
        ):
            return
        table = self.ring.table
        if self.level >= len(table) or table.nodes[self.level] != self.asked:
            self._proceed()  # the ring or a farewell has put another in this place meanwhile
        elif table.take(self.level, answer.ent):
            self._complete()
        else:
            self.level += 1
            self._proceed()

    @handles(EntLate)
    def on_ask_again(self, alarm: EntLate) -> None:
        """One alarm stands for a whole refresh: it rings on while the refresh lasts."""
        if self.level < 0:
            return
        settings, table = self.ring.settings, self.ring.table
        if alarm.token != self.token:
            self.host.after(settings.again_us, EntLate(self.token, 1))
        elif alarm.tried < settings.tries and self.level < len(table):
            self._ask(table.nodes[self.level])
            self.host.after(settings.again_us, EntLate(self.token, alarm.tried + 1))
        else:
            table.cut(max(1, self.level))  # level 0 is the ring's
            self._complete()

    def replaced(self, gone: Ref) -> None:
        """A finger has left: another is asked in its place."""
        if self.level >= 0 and self.asked == gone:
            self._proceed()

    def _complete(self) -> None:
        self.level, self.asked, self._rows = -1, None, ()
        self.ring.refreshed()


def row_entry(rows: Rows, level: int) -> Ent | None:
    """What the node 2^level ahead would answer, if the rows know."""
    row = (1 << level) - 1
    return rows[row][0] if row < len(rows) and rows[row] else None


def carried_on(rows: Rows, table: Table, levels: int) -> Rows:
    """The rows for the node behind: one's own answers first, all others one place farther, cut to `levels` levels."""
    if levels <= 0:
        return ()
    mine = tuple(table.answer(level)[0] for level in range(min(levels, len(table))))
    kept = [mine]
    for row in range(1, min(1 << (levels - 1), len(rows) + 1)):
        first = (
            row.bit_length()
        )  # the lowest level that may still use this row: the least y with 2^y - 1 >= row
        skipped = first - (row - 1).bit_length()
        kept.append(rows[row - 1][skipped : skipped + levels - first])
    return tuple(kept)
