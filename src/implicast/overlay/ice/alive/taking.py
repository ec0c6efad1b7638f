"""The other side of a give: a piece that comes is held, backed up, accepted, and ours when the giver has let go.

While it is *provisional* it answers nothing and nobody learns of it but our heirs. It is let go when the giver knows
nothing of it any more, and lost like any other piece when a better title comes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from implicast.overlay.ice.alive.asking import Ask
from implicast.overlay.ice.alive.estate import Item, Keeper
from implicast.overlay.ice.alive.giving import Giving
from implicast.overlay.ice.alive.ground import PROVISIONAL, Status
from implicast.overlay.ice.alive.messages import Accepted, Circle, HandOver, Taking
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.messages import Declined, Done, Title
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract


@dataclass(slots=True)
class Receipt:
    """A piece that we are given."""

    number: int
    giver: Address
    title: Title
    around: tuple[Circle, ...]
    last_us: int
    """When the last part came."""
    items: dict[int, tuple[Item, ...]]
    held: bool = False
    """All of it has come."""
    taken_us: int = -1
    """When we first said that we have it; -1: not yet."""


class Receiving(Giving):
    """Takes."""

    __slots__ = ("receipt",)

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.receipt: Receipt | None = None

    def refused(self, giver: Address, number: int) -> None:
        receipt = self.receipt
        if receipt is not None and receipt.held and (receipt.giver, receipt.number) == (giver, number):
            self._let_go()

    def _let_go(self) -> None:
        """The giver knows nothing of the piece any more: nor do we claim it."""
        pieces, neighbours = self.of_status(PROVISIONAL), self.neighbours()
        self.atlas.drop(pieces)
        self.resurvey()
        self.lost(tract_of(pieces), neighbours, [])

    @handles(HandOver)
    def on_hand_over(self, sender: Address, give: HandOver) -> None:
        self.concern(sender)
        self.heard(sender)
        receipt, ended = self.receipt, self.done.get((sender, give.number))
        if receipt is not None and (receipt.giver, receipt.number) == (sender, give.number):
            self._next_part(receipt, give)
        elif ended == "taken":
            pass  # our Accepted was answered long ago: an old repeat
        elif ended is not None or not self._wants(sender, give):
            self._remember(sender, give.number, "declined")
            self.host.send(sender, Declined(give.number))
            self.correct(sender, [give.title])
        elif give.part == 0:
            self.receipt = Receipt(give.number, sender, give.title, give.around, self.host.now_us, {})
            self._next_part(self.receipt, give)

    def _wants(self, giver: Address, give: HandOver) -> bool:
        if self.leaving and not (self.pieces and self.concern(giver).leaving and self.address < giver):  # type: ignore[operator]
            return False
        return self.receipt is None and not self.atlas.better_than(give.title)

    def _next_part(self, receipt: Receipt, give: HandOver) -> None:
        self.host.send(receipt.giver, Taking(give.number, give.part))
        if receipt.held or give.part in receipt.items:
            return
        receipt.items[give.part] = give.items
        receipt.last_us = self.host.now_us
        if len(receipt.items) == give.parts:
            self._take(receipt)

    def _take(self, receipt: Receipt) -> None:
        """All of it has come: ours, but not yet granted."""
        title = receipt.title
        if self.atlas.better_than(title):
            self.receipt = None
            self._remember(receipt.giver, receipt.number, "declined")
            self.host.send(receipt.giver, Declined(receipt.number))
            return
        receipt.held = True
        self.atlas.learn(title)
        self.status[title.low] = Status(PROVISIONAL, receipt.giver, receipt.number)
        self.mark += 1  # a greeting on its way knows nothing of it: heirs must not take that for news
        self.resurvey()
        self.learn_around(receipt.around)
        items = tuple(item for part in sorted(receipt.items) for item in receipt.items[part])
        self.keeper.accept(items, (title.low, title.high))
        self._unite_estates((title.low, title.high), receipt.giver)
        if self.heirs or self.ground:
            self.batch(self.keeper.pack((title.low, title.high)), lambda: self._accept(receipt))
        else:
            self._accept(receipt)

    def _unite_estates(self, tract: Tract, giver: Address) -> None:
        """Who gives us ground whose owner never told us, its heir, that it parted with it has taken it over, maybe with
        an older copy than ours: an heir that was cut off and replaced does not know what was kept since."""
        for owner, estate in self.estates.items():
            if owner != giver:
                self.keeper.accept(estate.within(tract), tract)

    def learn_around(self, around: Iterable[Circle]) -> None:
        """What another owner knew of its neighbours, as far as they are ours now."""
        circles = tuple(around)
        self.hear(title for title, _ in circles)
        for title, heirs in circles:
            news = self.news.get(title.owner)
            if news is not None and not news.heirs:
                news.heirs = heirs
                self._around = None

    def expire_receipt(self) -> None:
        """A give whose parts stopped coming: the giver has taken it back or is gone."""
        receipt = self.receipt
        if receipt is not None and not receipt.held and self.host.now_us - receipt.last_us > 2 * self.life.patience_us:
            self._remember(receipt.giver, receipt.number, "declined")
            self.receipt = None

    def _accept(self, receipt: Receipt) -> None:
        if self.receipt is receipt and ("took", receipt.number) not in self.asks:
            receipt.taken_us = self.host.now_us if receipt.taken_us < 0 else receipt.taken_us
            message = Accepted(receipt.number, receipt.title, self.heirs or (receipt.giver,))
            self.ask(("took", receipt.number), receipt.giver, message, self.life.tries_took, self._not_granted)

    def _not_granted(self, ask: Ask) -> None:
        """The giver is silent: the piece stays provisional until somebody knows (`seizing.py`)."""
        self.suspect(ask.to)

    @handles(Done)
    def on_done(self, sender: Address, done: Done) -> None:
        self.heard(sender)
        receipt = self.receipt
        if receipt is not None and (receipt.giver, receipt.number) == (sender, done.number):
            if not self.heirs:
                self.heirs = (sender,)
                self.echoed_us = max(self.echoed_us, receipt.taken_us)
            self.granted()

    def granted(self) -> None:
        """The piece we were given is ours alone."""
        receipt = self.receipt
        assert receipt is not None
        before = self.neighbours()
        self.asks.pop(("took", receipt.number), None)
        self.receipt = None
        self._remember(receipt.giver, receipt.number, "taken")
        for each in self.of_status(PROVISIONAL):
            self.status.pop(each.low)
        self.merge_pieces()
        self.announce({*before, receipt.giver})
        self.settled_in()

    def settled_in(self) -> None:
        """There is firm ground under us: see `entering.py`."""

    # --- losing

    def lost(self, tract: Tract, neighbours: list[Address], winners: list[Title]) -> None:
        """Better titles took ground from us. What we kept there is offered by the keeper to whoever has it now."""
        self.lost_to(winners)
        if self.gift is not None and self.gift.piece not in self.pieces:
            self.take_back()
        if self.receipt is not None and self.receipt.held and not self.of_status(PROVISIONAL):
            self.asks.pop(("took", self.receipt.number), None)
            self._remember(self.receipt.giver, self.receipt.number, "declined")
            self.receipt = None
        self.keeper.yielded(tract)
        self.announce({*neighbours, *(each.owner for each in winners)})
        if not self.pieces:
            self.homeless()

    def homeless(self) -> None:
        """Nothing is left to us: see `entering.py`."""
