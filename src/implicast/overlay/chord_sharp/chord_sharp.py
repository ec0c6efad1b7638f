"""One peer's share of a Chord# ring: its table, the two ways to keep it, and what the ring says of neighbours.

The ring itself is `overlay/links`: level 0 *is* its right pointer, so whom a key belongs to is never in doubt, and a
finger that is off by a few places costs hops, nothing else. Tables are kept in rounds (`rounds.py`), or asked for when
somebody says so (`pull.py`).
"""

from dataclasses import dataclass

from implicast.overlay.chord_sharp.messages import FingerGone
from implicast.overlay.chord_sharp.pull import Pull
from implicast.overlay.chord_sharp.rounds import Rounds
from implicast.overlay.chord_sharp.table import NEVER_US, Table
from implicast.overlay.links import Above, Links, Place, Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Host, Part, handles


@dataclass(frozen=True, slots=True)
class SharpSettings:
    """The waits of table upkeep."""

    period_us: int = 24_000_000
    """From one round to the next; 0: there are no rounds, and a node asks for its table when it is told to."""
    stale_us: int = 32_000_000
    """What is older than this is unknown. A period, and what a round may take."""
    catch_up_us: int = 1_000_000
    """After so long a node looks for levels that have not come."""
    step_us: int = 400_000
    """And again after this, each time one level higher: what is missing below is the reason for most that is missing
    above, and comes by itself when the reason is gone."""
    again_us: int = 1_000_000
    """The same node is not asked again before this."""
    tries: int = 4
    """Questions in vain before the silent one is suspected, or dropped where nobody is suspected."""
    resting: bool = False
    """Nothing will change: rounds need not begin, and nothing grows old."""

    @property
    def rounds(self) -> bool:
        return self.period_us > 0

    @property
    def age_us(self) -> int:
        """How old a table lets its entries grow; 0: it does not keep their age."""
        return NEVER_US if self.resting and self.rounds else self.stale_us if self.rounds else 0


ON_DEMAND = SharpSettings(period_us=0, tries=3)
"""Tables are asked for when somebody says so: update flows, and newcomers of a world without receipts."""


class ChordSharp(Part, Above, parts={"rounds": Rounds, "pull": Pull}):
    """The table and its upkeep. `links.above` is this; `passenger` is what stands on it, and has a value."""

    __slots__ = ("_entering", "_wary", "links", "passenger", "pull", "rounds", "settings", "table")

    def __init__(
        self, address: Address, host: Host, links: Links, settings: SharpSettings, passenger: Above
    ) -> None:
        super().__init__(address, host)
        self.links, self.settings, self.passenger = links, settings, passenger
        links.carry(self)
        self.table = Table(links.me, None, settings.age_us)
        self.rounds, self.pull = Rounds(self), Pull(self)
        self._wary = self._entering = False
        """`_wary`: whether some finger may be lost; saves asking of each at every cast that passes."""

    def settle(self, table: Table) -> None:
        """Stand in a settled ring."""
        self.table = table
        if self.settings.rounds:
            self.rounds.start()

    def refreshed(self) -> None:
        if self._entering:
            self._entering = False
            self.passenger.entered()
        self.passenger.refreshed()

    # --- those who are lost

    def is_lost(self, ref: Ref) -> bool:
        detector = self.links.detector
        return detector is not None and detector.is_lost(ref)

    def some_are_lost(self) -> bool:
        """Whether any finger is; most often none is."""
        if self._wary:
            self._wary = any(map(self.is_lost, self.table.nodes))
        return self._wary

    def beware(self) -> None:
        """Some finger may be lost."""
        self._wary = True

    def suspect(self, ref: Ref) -> None:
        """It was asked in vain."""
        self.links.company.suspect(ref)
        self.silent(ref)

    def silent(self, ref: Ref) -> None:
        self._wary = True
        if self.settings.rounds:
            self.rounds.go_without(ref)
        self.passenger.silent(ref)

    def lost(self, ref: Ref) -> None:
        if self.links.detector is not None and ref != self.links.right:
            self.links.detector.say_gone(ref)
            self._wary = True

    # --- what the ring tells

    def entered(self) -> None:
        """A newcomer has its neighbours."""
        self.table = Table(self.links.me, self.passenger.value(), self.settings.age_us)
        if self.settings.rounds:
            self.rounds.stop()
            self.rounds.begin(self.rounds.number + 1)
            self.passenger.entered()
        else:
            self._entering = True
            self.pull.refresh()

    def departed(self) -> None:
        self._entering = False
        right = self.links.right
        for address in (*self.rounds.stop(), *self.pull.stop()):
            if address not in (self.address, right.address):
                self.host.send(address, FingerGone(self.links.me, right))
        self.passenger.departed()

    def heir(self, gone: Ref) -> Ref | None:
        """Who stands where a life stood that is over, as far as is known: its next life, or its heir if it left."""
        links = self.links
        if links.state != OUT and links.me.place == gone.place:
            return links.me
        grace = links.graces.get(gone)
        return None if grace is None else grace.right

    def moved(self) -> None:
        links, table = self.links, self.table
        if links.state == OUT or table.me != links.me:
            return
        before = table.nodes[:1]
        table.follow(links.right)
        if self.settings.rounds and table.nodes and table.nodes[:1] != before:
            self.rounds.moved()
        self.passenger.moved()

    def mended(self) -> None:
        """Nobody spoke for this place while its left neighbour was dead, unless the right one passed it over: ask."""
        if self.links.right != self.links.me:
            self.links.tell_link()

    def overlooked(self) -> None:
        self.passenger.overlooked()

    def acquaintances(self) -> list[Ref]:
        return self.table.nodes

    def nearest_before(self, place: Place) -> Ref | None:
        table = self.table
        mark, bounds = table.mark(place[0]), table.bounds()
        fits = [
            node
            for level, node in enumerate(table.nodes)
            if bounds[level + 1] < mark or (node.key == place[0] and node.place < place)
        ]
        living = (node for node in fits if not self.is_lost(node))
        return max(living, key=lambda node: table.mark(node.key), default=None)

    @handles(FingerGone)
    def on_farewell(self, sender: Address, farewell: FingerGone) -> None:
        """A finger has left and names its right neighbour, which takes its place at once."""
        if self.links.state in (OUT, INS) or farewell.gone == self.links.me:
            return
        self.lost(farewell.gone)
        if farewell.heir is None:
            self.silent(farewell.gone)
            return
        levels = self.table.replace(farewell.gone, farewell.heir)
        self.pull.replaced(farewell.gone)
        for level in levels if self.settings.rounds else ():
            self.rounds.stand_by(level)
