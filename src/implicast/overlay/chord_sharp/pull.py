"""Refresh of a whole table on demand: each finger is asked for the next one, from level 0 up.

A join shifts about n entries of other nodes by one place. A refresh corrects one level, so
ceil(log2 n) refreshes correct all. Refreshes are started from outside: by a join or by an update
flow. A finger that does not answer is dropped with those above it and found again from below at the
next refresh.

Answers to getEnt may travel with an update, so that most nodes need not be asked (condcast,
"piggy-backing"). At the node that receives these rows, row x holds the answer that the node 1 + x
places ahead would have given when the update left it. Level y asks the node 2^y ahead, which is row
2^y - 1. So row x is needed only for the levels y with 2^y - 1 >= x, and 2^(m-1) rows serve m levels
(the paper reserves 2^m): 2^m - 1 entries in all.
"""

from implicast.overlay.chord_sharp.messages import EntryReply, FingerEntry, FingerLeft, GetEntry
from implicast.overlay.chord_sharp.owner import FingerOwner
from implicast.overlay.chord_sharp.settings import SharpSettings
from implicast.overlay.chord_sharp.table import Table
from implicast.overlay.links import Links, Ref
from implicast.overlay.links.state import OUT
from implicast.peer.contract import Address, Message, Part, handles

_NO_CALLERS: dict[int, Address] = {}
Rows = tuple[tuple[FingerEntry, ...], ...]
"""Row x starts at the first level that needs it, ceil(log2(x + 1))."""


class GetEntryTimeout(Message):
    """Fires when the node asked for an entry should have answered."""

    token: int
    tried: int


class TablePull(Part):
    """Requests the table level by level, and answers such requests."""

    __slots__ = (
        "_owner",
        "_position",
        "_rows",
        "_settings",
        "_table",
        "asked",
        "callers",
        "level",
        "token",
    )

    def __init__(
        self, links: Links, table: Table, settings: SharpSettings, owner: FingerOwner
    ) -> None:
        super().__init__(links.address, links.host)
        self._position, self._table, self._settings = links.position, table, settings
        self._owner = owner
        self.level = -1
        """The level being requested; -1: no refresh is under way."""
        self.asked: Ref | None = None
        self._rows: Rows = ()
        self.callers = _NO_CALLERS
        """For each level the last node that asked: these nodes have this node as a finger. Created
        at the first request.
        """
        self.token = 0

    @property
    def refreshing(self) -> bool:
        return self.level >= 0

    def stop(self) -> list[Address]:
        """Off the ring. Returns the nodes that have this node as a finger."""
        callers, self.callers, self.level = self.callers, _NO_CALLERS, -1
        return [caller for _, caller in sorted(callers.items())]

    def refresh(self, rows: Rows = ()) -> None:
        """Request the whole table from level 0 up. Rows from an update replace requests."""
        self._table.set_own_value(self._owner.value())
        self._table.set_successor(self._position.right)
        self._rows, self.level = rows, 0
        self._proceed()
        if self.level >= 0:
            self.host.after(self._settings.again_us, GetEntryTimeout(self.token, 1))

    def _proceed(self) -> None:
        """Apply rows as far as they reach, then ask the first node that must be asked."""
        table = self._table
        while self.level < len(table):
            entry = row_entry(self._rows, self.level)
            if entry is None:
                self._ask(table.nodes[self.level])
                return
            if table.apply_entry(self.level, entry):
                break
            self.level += 1
        self._complete()

    def _ask(self, node: Ref) -> None:
        self.token += 1
        self.asked = node
        self.host.send(node.address, GetEntry(self.token, self.level))

    @handles(GetEntry)
    def on_get_entry(self, sender: Address, request: GetEntry) -> None:
        me = self._position.me
        if self._position.state == OUT:
            self.host.send(sender, FingerLeft(me, self._owner.replacement_for(me)))
            return
        if self.callers is _NO_CALLERS:
            self.callers = {}
        self.callers[request.level] = sender
        entry, _ = self._table.get_entry(request.level, self.host.now_us)
        self.host.send(sender, EntryReply(request.token, entry))

    @handles(EntryReply)
    def on_entry_reply(self, sender: Address, answer: EntryReply) -> None:
        if (
            answer.token != self.token
            or self.level < 0
            or self.asked is None
            or sender != self.asked.address
        ):
            return
        table = self._table
        if self.level >= len(table) or table.nodes[self.level] != self.asked:
            self._proceed()  # the ring or a FingerLeft has replaced the node at this level
        elif table.apply_entry(self.level, answer.entry):
            self._complete()
        else:
            self.level += 1
            self._proceed()

    @handles(GetEntryTimeout)
    def on_get_entry_timeout(self, alarm: GetEntryTimeout) -> None:
        """One alarm serves a whole refresh: it is set again while the refresh lasts."""
        if self.level < 0:
            return
        settings, table = self._settings, self._table
        if alarm.token != self.token:
            self.host.after(settings.again_us, GetEntryTimeout(self.token, 1))
        elif alarm.tried < settings.tries and self.level < len(table):
            self._ask(table.nodes[self.level])
            self.host.after(settings.again_us, GetEntryTimeout(self.token, alarm.tried + 1))
        else:
            table.truncate(max(1, self.level))  # level 0 belongs to the ring
            self._complete()

    def replaced(self, gone: Ref) -> None:
        """A finger has left: ask its replacement."""
        if self.level >= 0 and self.asked == gone:
            self._proceed()

    def _complete(self) -> None:
        self.level, self.asked, self._rows = -1, None, ()
        self._owner.on_table_refreshed()


def row_entry(rows: Rows, level: int) -> FingerEntry | None:
    """The answer of the node 2^level ahead, if the rows contain it."""
    row = (1 << level) - 1
    return rows[row][0] if row < len(rows) and rows[row] else None


def rows_for_previous(rows: Rows, table: Table, levels: int) -> Rows:
    """The rows for the previous node on the ring: the own answers first, then all others one place
    farther, cut to `levels` levels.
    """
    if levels <= 0:
        return ()
    mine = tuple(table.get_entry(level)[0] for level in range(min(levels, len(table))))
    result = [mine]
    for row in range(1, min(1 << (levels - 1), len(rows) + 1)):
        # The lowest level that can use this row: the least y with 2^y - 1 >= row.
        first = row.bit_length()
        skipped = first - (row - 1).bit_length()
        result.append(rows[row - 1][skipped : skipped + levels - first])
    return tuple(result)
