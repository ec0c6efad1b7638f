"""The other side of a give: a piece that comes is held, backed up, accepted, and ours when the giver has let go.

While it is *provisional* it answers nothing and nobody learns of it but our heirs. It is let go when the giver knows
nothing of it any more, and lost like any other piece when a better title comes.
"""

from dataclasses import dataclass

from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.estate import Item, check_items
from implicast.overlay.ice.messages import Accepted, Declined, Done, HandOver, Neighbour, Taking, Title
from implicast.overlay.ice.plot import PROVISIONAL
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.errors import RemoteError
from implicast.space.tract import Tract


@dataclass(slots=True)
class Receipt:
    """A piece that we are given."""

    number: int
    giver: Address
    title: Title
    around: tuple[Neighbour, ...]
    last_us: int
    """When the last part came."""
    items: dict[int, tuple[Item, ...]]
    held: bool = False
    """All of it has come."""
    taken_us: int = -1
    """When we first said that we have it; -1: not yet."""

    def put(self, give: HandOver, now_us: int) -> bool:
        """A part has come; is it all?"""
        self.items[give.part], self.last_us = give.items, now_us
        return len(self.items) == give.parts

    def hold(self) -> None:
        self.held = True

    def take(self, now_us: int) -> None:
        self.taken_us = now_us if self.taken_us < 0 else self.taken_us


class Taker(SurfacePart):
    """Takes, one piece at a time."""

    __slots__ = ("receipt",)

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.receipt: Receipt | None = None
        # While the giver is silent the piece stays provisional, until it is known what became of it (`seizures.py`).
        surface.asker.topic("took", self.timers.patience(self.timers.tries_took), surface.circle.unanswered)

    # --- coming

    @handles(HandOver)
    def on_hand_over(self, sender: Address, give: HandOver) -> None:
        if give.part >= give.parts or give.title.owner != self.address:
            raise RemoteError(f"part {give.part} of {give.parts}, for {give.title.owner}")
        check_items(give.items)
        surface, giver = self.surface, self.surface.giver
        surface.circle.concern(sender)
        surface.circle.heard(sender)
        receipt, ended = self.receipt, giver.done.get((sender, give.number))
        if receipt is not None and (receipt.giver, receipt.number) == (sender, give.number):
            self._next_part(receipt, give)
        elif ended == "taken":
            pass  # our Accepted was answered long ago: an old repeat
        elif ended is not None or not self._wants(sender, give):
            giver.done[sender, give.number] = "declined"
            self.host.send(sender, Declined(give.number))
            surface.greetings.correct(sender, [give.title])
        elif give.part == 0:
            self.receipt = Receipt(give.number, sender, give.title, give.around, self.host.now_us, {})
            self._next_part(self.receipt, give)

    def _wants(self, giver: Address, give: HandOver) -> bool:
        surface = self.surface
        if surface.leaving:
            leaves_too = bool(surface.plot.pieces) and surface.circle.concern(giver).leaving
            if not (leaves_too and self.address < giver):  # type: ignore[operator]
                return False
        return self.receipt is None and not surface.plot.atlas.better_than(give.title)

    def _next_part(self, receipt: Receipt, give: HandOver) -> None:
        self.host.send(receipt.giver, Taking(give.number, give.part))
        if receipt.held or give.part in receipt.items:
            return
        if receipt.put(give, self.host.now_us):
            self._take(receipt)

    def _take(self, receipt: Receipt) -> None:
        """All of it has come: ours, but not yet granted."""
        surface, plot, title = self.surface, self.surface.plot, receipt.title
        if plot.atlas.better_than(title):
            self._end(receipt, "declined")
            self.host.send(receipt.giver, Declined(receipt.number))
            return
        receipt.hold()
        tract = (title.low, title.high)
        plot.atlas.learn(title)
        plot.hold(title.low, PROVISIONAL, receipt.giver, receipt.number)
        surface.greetings.next_mark()  # a greeting on its way knows nothing of it: heirs must not take that for news
        plot.survey()
        surface.learn_around(receipt.around)
        surface.tenant.accept(tuple(item for part in sorted(receipt.items) for item in receipt.items[part]), tract)
        self._unite_estates(tract, receipt.giver)
        if surface.heirs or plot.firm:
            surface.batch(surface.tenant.pack(tract), lambda: self.accept(receipt))
        else:
            self.accept(receipt)

    def _unite_estates(self, tract: Tract, giver: Address) -> None:
        """Who gives us ground whose owner never told us, its heir, that it parted with it has taken it over, maybe with
        an older copy than ours: an heir that was cut off and replaced does not know what was kept since."""
        for owner, estate in self.surface.estates.held.items():
            if owner != giver:
                self.surface.tenant.accept(estate.within(tract), tract)

    # --- accepting

    def accept(self, receipt: Receipt) -> None:
        surface = self.surface
        if self.receipt is receipt and not surface.asker.open("took", receipt.number):
            receipt.take(self.host.now_us)
            heirs = surface.heirs or ((receipt.giver,) if surface.terms.assured else ())
            message = Accepted(receipt.number, receipt.title, heirs, receipt.taken_us)
            surface.asker.ask("took", receipt.number, receipt.giver, message)

    @handles(Done)
    def on_done(self, sender: Address, done: Done) -> None:
        surface, receipt = self.surface, self.receipt
        surface.circle.heard(sender)
        if receipt is not None and (receipt.giver, receipt.number) == (sender, done.number):
            if not surface.heirs and surface.terms.assured:
                surface.succession.begin_with((sender,), receipt.taken_us)
            self.granted(receipt)

    def granted(self, receipt: Receipt) -> None:
        """The piece we were given is ours alone."""
        surface, plot = self.surface, self.surface.plot
        before = plot.neighbours()
        self._end(receipt, "taken")
        for each in plot.of_status(PROVISIONAL):
            plot.free(each.low)
        plot.merge_pieces()
        surface.announce({*before, receipt.giver})
        surface.entry.settled_in()

    # --- not ours after all

    def _end(self, receipt: Receipt, end: str) -> None:
        self.surface.asker.drop("took", receipt.number)
        self.surface.giver.done[receipt.giver, receipt.number] = end
        self.receipt = None

    def refused(self, giver: Address, number: int) -> None:
        """The giver knows nothing of the piece any more: nor do we claim it."""
        receipt, plot = self.receipt, self.surface.plot
        if receipt is not None and receipt.held and (receipt.giver, receipt.number) == (giver, number):
            pieces, neighbours = plot.of_status(PROVISIONAL), plot.neighbours()
            plot.atlas.drop(pieces)
            plot.survey()
            self.surface.lost(tract_of(pieces), neighbours, [])

    def lost(self) -> None:
        """Better titles took ground from us: was it what we are given?"""
        receipt = self.receipt
        if receipt is not None and receipt.held and not self.surface.plot.of_status(PROVISIONAL):
            self._end(receipt, "declined")

    def expire(self) -> None:
        """A give whose parts stopped coming: the giver has taken it back or is gone."""
        receipt = self.receipt
        late_us = self.host.now_us - 2 * self.timers.patience_us
        if receipt is not None and not receipt.held and receipt.last_us < late_us:
            self._end(receipt, "declined")
