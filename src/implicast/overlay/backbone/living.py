"""The backbone through changes of its tree: with each view the filters are built anew, and casts flood meanwhile.

A view's messages are told from those of others by their numbers: generations and serials of a view begin at the view's
own number. What belongs to another view is not answered; who sent it says it again in the view that is to come. Until
a neighbour's whole filter has come, every cast goes to it: filters save messages, never deliveries.
"""

from typing import Any

from implicast.language.target import Target
from implicast.overlay.backbone.backbone import Backbone, Edge
from implicast.overlay.backbone.messages import Covered, Renew, Stale, Summary, Tell, Unheard
from implicast.overlay.backbone.table import Table
from implicast.overlay.backbone.views import View
from implicast.peer.contract import Address, handles
from implicast.peer.pending import Pending

EPOCH_SHIFT = 24
"""Generations and serials that one view has room for, in bits."""
PATIENCE_US = 3_000_000


class LivingBackbone(Backbone):
    """A broker's share of a backbone whose tree changes."""

    __slots__ = ("epoch",)

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.epoch = 0

    def stand(self, epoch: int) -> None:
        """The first view; nothing is registered yet, so empty filters are whole."""
        self.epoch = epoch
        self.table.generation = epoch << EPOCH_SHIFT
        self._edges = {neighbour: self._edge() for neighbour in self.neighbours}

    def follow(self, view: View) -> None:
        """A new tree: forget what was said to whom, and build filters from what each broker's own clients hold."""
        self.epoch, self.root, self.neighbours = view.epoch, view.root, view.neighbours
        self._edges = {neighbour: self._edge() for neighbour in view.neighbours}
        self._unheard = Pending(self.host, Unheard(), PATIENCE_US)
        self.table, self.next = self._new_table(view.epoch << EPOCH_SHIFT, view.room), None
        self._begin((view.epoch << EPOCH_SHIFT) + 1, view.room, self.address)

    def leads(self, neighbour: Address, target: Target) -> bool:
        return super().leads(neighbour, target) or self._knows_nothing_of(neighbour)

    def _knows_nothing_of(self, neighbour: Address) -> bool:
        under_way: Table | None = self.next
        first = self.table.generation == self.epoch << EPOCH_SHIFT
        return under_way is not None and first and neighbour not in under_way.whole

    def _edge(self) -> Edge:
        edge = Edge()
        edge.newest = self.epoch << EPOCH_SHIFT
        return edge

    def _ours(self, sender: Address, number: int) -> bool:
        return number >> EPOCH_SHIFT == self.epoch and (sender in self._edges)

    @handles(Tell)
    def on_tell(self, sender: Address, tell: Tell) -> None:
        if self._ours(sender, tell.generation):
            super().on_tell(sender, tell)

    @handles(Renew)
    def on_renew(self, sender: Address, renew: Renew) -> None:
        if self._ours(sender, renew.generation):
            super().on_renew(sender, renew)

    @handles(Summary)
    def on_summary(self, sender: Address, summary: Summary) -> None:
        if self._ours(sender, summary.generation):
            super().on_summary(sender, summary)

    @handles(Covered)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        if self._ours(sender, covered.serial):
            super().on_covered(sender, covered)

    @handles(Stale)
    def on_stale(self, sender: Address, stale: Stale) -> None:
        if stale.generation >> EPOCH_SHIFT == self.epoch:
            super().on_stale(sender, stale)
