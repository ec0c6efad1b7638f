"""One peer's share of a living Chord# ring: what the ring says of neighbours, suspects and leavers, told to its table.

The table itself is kept in rounds (`rounds.py`).
"""

from implicast.overlay.chord_sharp.living_table import LivingTable
from implicast.overlay.chord_sharp.messages import Farewell
from implicast.overlay.chord_sharp.rounds import Rounds
from implicast.overlay.links import Place, Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, handles


class LivingSharp(Rounds):
    """Stands between the ring and what the ring carries (`passenger`)."""

    __slots__ = ()

    # --- what the ring tells

    def linked(self) -> None:
        self.table = LivingTable(self.links.me, self.period.stale_us, self.passenger.value())
        self.asks, self.askers = {}, {}
        self.gen = self.links.lnum[0]
        self._begin(self.round + 1)
        self.passenger.entered()

    def unlinked(self) -> None:
        right = self.links.right
        told = {address: None for askers in self.askers.values() for address in askers}
        for address in told:
            if address not in (self.address, right.address):
                self.host.send(address, Farewell(self.links.me, right))
        self.asks, self.askers = {}, {}
        self.passenger.departed()

    def moved(self) -> None:
        links = self.links
        if links.state == OUT or self.table.me != links.me:
            return
        before = self.table.nodes[0] if self.table.nodes else None
        self.table.follow(links.right)
        if self.table.nodes and self.table.nodes[0] != before:
            self._changed(0)
            self._tell(0)
            self._stand_by(0)
        if links.lnum[0] != self.gen:
            self.gen = links.lnum[0]
            self.passenger.returned()
        self.passenger.moved()

    def silent(self, ref: Ref) -> None:
        """Go on without it in this round; ask it anew in the next."""
        self.wary = True
        for level, node in enumerate(self.table.nodes):
            if node == ref:
                self.table.rounds[level] = self.round
                self.asks.pop(level, None)
        self._advance()
        self.passenger.silent(ref)

    def lost(self, ref: Ref) -> None:
        if self.links.detector is not None and ref != self.links.right:
            self.links.detector.say_gone(ref)
            self.wary = True

    def acquaintances(self) -> list[Ref]:
        return self.table.nodes

    def nearest_before(self, place: Place) -> Ref | None:
        table = self.table
        mark, bounds = table.mark(place[0]), table.bounds()
        best: Ref | None = None
        for level, node in enumerate(table.nodes):
            fits = bounds[level + 1] < mark or (node.key == place[0] and node.place < place)
            nearer = best is None or table.mark(node.key) > table.mark(best.key)
            if fits and nearer and not self.is_lost(node):
                best = node
        return best

    @handles(Farewell)
    def on_farewell(self, sender: Address, farewell: Farewell) -> None:
        """A finger has left and names its right neighbour, which takes its place at once."""
        if self.links.state in (OUT, INS):
            return
        self.lost(farewell.gone)
        before = list(self.table.nodes)
        self.table.replace(farewell.gone, farewell.heir)
        for level in range(1, len(self.table)):
            if self.table.nodes[level] != before[level]:
                self._stand_by(level)
