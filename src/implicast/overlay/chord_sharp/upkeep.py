"""One peer's share of a Chord# ring: its table, kept by asking the finger before for the next.

The ring itself is `overlay/links`: level 0 *is* its right pointer, so whom a key belongs to is never in doubt, and
a finger that is off by a few places costs hops, nothing else. A join shifts about n entries elsewhere by one place; a
round of refreshing mends one level, so ceil(log2 n) rounds mend all. Who refreshes when is for others to say: a private
timer (`period_us`, Chord#'s way) or whatever stands on the overlay (`refresh`).

Left out: suspicion of the silent. A finger that does not answer is dropped with those above it and found again from
below at the next refresh.
"""

from dataclasses import dataclass

from implicast.overlay.chord_sharp.messages import AskAgain, EntIs, Farewell, Freight, GetEnt, RefreshDue
from implicast.overlay.chord_sharp.rows import Rows, row_entry
from implicast.overlay.chord_sharp.table import LEVELS_MAX, Table
from implicast.overlay.links import Above, Links, Place, Ref
from implicast.peer.contract import Address, Host, Part, handles


@dataclass(frozen=True, slots=True)
class SharpSettings:
    """The waits of table upkeep."""

    ask_us: int = 1_000_000
    """Patience with a node that was asked for an entry."""
    tries: int = 3
    """How often it is asked."""
    period_us: int = 0
    """The private timer T_ft; 0: somebody else calls `refresh`."""


class Passenger:
    """What stands on the overlay: it has a value, and is told what happens. Plain Chord# carries nobody."""

    __slots__ = ()

    def value(self) -> Freight | None:
        """What this node adds to aggregates now; None: unknown."""
        return None

    def entered(self) -> None:
        """This node is on the ring and has asked for all its fingers."""

    def departed(self) -> None:
        """This node is off the ring, by its own wish."""

    def refreshed(self) -> None:
        """A refresh of the table is complete."""

    def silent(self, ref: Ref) -> None:
        """A node is suspected; a living ring only."""

    def moved(self) -> None:
        """A neighbour on the ring has changed; a living ring only."""

    def returned(self) -> None:
        """This node had been passed over and is on the ring again; a living ring only."""


class ChordSharp(Part, Above):
    """The table and its upkeep. `links.above` is this; `passenger` is what stands on it."""

    __slots__ = ("asked", "callers", "level", "links", "passenger", "rows", "settings", "table", "token", "turn")

    def __init__(self, address: Address, host: Host, links: Links, settings: SharpSettings) -> None:
        super().__init__(address, host)
        self.links, self.settings = links, settings
        links.above = self
        self.passenger = Passenger()
        self.table = Table(links.me)
        self.level = -1
        """The level whose node is being asked; -1: no refresh is under way."""
        self.asked: Ref | None = None
        self.rows: Rows = ()
        self.callers: dict[int, Address] = {}
        """Who asked last for each level: those who name this node as a finger."""
        self.token = self.turn = 0

    # --- what the ring tells

    def linked(self) -> None:
        """A newcomer has its neighbours; it asks for its fingers level by level."""
        self.table = Table(self.links.me)
        self.turn = 0
        self.refresh()

    def unlinked(self) -> None:
        self.level = -1
        for _, caller in sorted(self.callers.items()):
            if caller not in (self.address, self.links.right.address):
                self.host.send(caller, Farewell(self.links.me, self.links.right))
        self.callers.clear()
        self.passenger.departed()

    def moved(self) -> None:
        if self.table.me == self.links.me:
            self.table.follow(self.links.right)

    def nearest_before(self, place: Place) -> Ref | None:
        level = self.table.closest_preceding(place[0])
        while level >= 0 and self.table.nodes[level].place >= place and self.table.nodes[level].key == place[0]:
            level -= 1
        return self.table.nodes[level] if level >= 0 else None

    # --- refreshing

    def refresh(self, rows: Rows = ()) -> None:
        """Ask for the whole table, from level 0 up; rows that came along answer in place of their nodes."""
        self.table.begin(self.passenger.value(), self.links.right)
        self.rows, self.level = rows, 0
        self._proceed()
        if self.level >= 0:
            self.host.after(self.settings.ask_us, AskAgain(self.token, 1))

    @property
    def refreshing(self) -> bool:
        return self.level >= 0

    def _proceed(self) -> None:
        """Go up as far as rows reach; ask the first node that must be asked."""
        table = self.table
        while self.level < len(table):
            ent = row_entry(self.rows, self.level)
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
        if self.links.state == "out":
            self.host.send(sender, Farewell(self.links.me, self.links.right))
            return
        if 0 <= asks.level < LEVELS_MAX:
            self.callers[asks.level] = sender
        self.host.send(sender, EntIs(asks.token, self.table.get_ent(asks.level)))

    @handles(EntIs)
    def on_ent(self, sender: Address, answer: EntIs) -> None:
        if answer.token != self.token or self.level < 0 or self.asked is None or sender != self.asked.address:
            return
        if self.level >= len(self.table) or self.table.nodes[self.level] != self.asked:
            self._proceed()  # the ring or a farewell has put another in this place meanwhile
        elif self.table.take(self.level, answer.ent):
            self._complete()
        else:
            self.level += 1
            self._proceed()

    @handles(AskAgain)
    def on_ask_again(self, alarm: AskAgain) -> None:
        """One alarm stands for a whole refresh: it rings on while the refresh lasts."""
        if self.level < 0:
            return
        if alarm.token != self.token:
            self.host.after(self.settings.ask_us, AskAgain(self.token, 1))
        elif alarm.tried < self.settings.tries:
            self._ask(self.table.nodes[self.level])
            self.host.after(self.settings.ask_us, AskAgain(self.token, alarm.tried + 1))
        else:
            self.table.cut(max(1, self.level))  # level 0 is the ring's
            self._complete()

    def _complete(self) -> None:
        self.level, self.asked, self.rows = -1, None, ()
        if self.turn == 0:
            self.turn = 1
            self._next_turn()
            self.passenger.entered()
        self.passenger.refreshed()

    @handles(Farewell)
    def on_farewell(self, sender: Address, farewell: Farewell) -> None:
        self.table.replace(farewell.gone, farewell.heir)
        if self.level >= 0 and self.asked == farewell.gone:
            self._proceed()

    # --- the private timer

    def _next_turn(self) -> None:
        if self.settings.period_us:
            self.turn += 1
            self.host.after(self.settings.period_us, RefreshDue(self.turn))

    @handles(RefreshDue)
    def on_refresh_due(self, alarm: RefreshDue) -> None:
        if alarm.turn == self.turn and self.links.state == "in":
            self._next_turn()
            if self.level < 0:
                self.refresh()
