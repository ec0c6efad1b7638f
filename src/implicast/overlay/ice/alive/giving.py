"""How pieces change hands among the living: one give in three messages, repeated until it is settled.

From `HandOver` until `Accepted` the giver does not answer for the piece, from `Accepted` until `Done` the taker does
not either. The taker's heirs have everything before it accepts. If the taker stays silent or declines, the giver takes
the piece back under a better title than the taker was to have; a taker whose giver dies keeps the piece once nobody has
heard the giver for long (`seizing.py`). Epochs: split +1, merge largest +1, give +2, taking back +3.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from implicast.overlay.ice.alive.asking import Ask
from implicast.overlay.ice.alive.estate import Item, Keeper
from implicast.overlay.ice.alive.ground import GIVING, PROVISIONAL, Status
from implicast.overlay.ice.alive.heirs import Estate, Heirs, in_parts
from implicast.overlay.ice.alive.messages import Accepted, Circle, HandOver, Taking
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.messages import Declined, Done, Title
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract


@dataclass(slots=True)
class Gift:
    """A piece that we are giving away."""

    number: int
    piece: Title
    title: Title
    """The taker's."""
    parts: list[tuple[Item, ...]]
    around: tuple[Circle, ...]
    at: int = 0


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


class Giving(Heirs):
    """Give and take."""

    __slots__ = ("declined", "done", "gift", "receipt")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.gift: Gift | None = None
        self.receipt: Receipt | None = None
        self.done: OrderedDict[tuple[Address, int], str] = OrderedDict()
        """Transfers that are over, and how they ended: repeats get the same answer."""
        self.declined: dict[Address, int] = {}
        """Who would not take a piece, and until when it is not asked again."""

    # --- the giver

    def give(self, piece: Title, taker: Address) -> None:
        """Part with a firm piece."""
        number = self.next_number()
        granted = self.of_status(PROVISIONAL)
        around = tuple(
            (each, self.heirs_of(each.owner))
            for each in self.atlas.titles.values()
            if each.low != piece.low and each not in granted
        )
        parts = in_parts(self.keeper.pack((piece.low, piece.high)), self.life.part_bytes)
        title = Title(piece.low, piece.bits, piece.epoch + 2, taker)
        self.gift = Gift(number, piece, title, parts, around)
        self.status[piece.low] = Status(GIVING, taker, number)
        self.mark += 1
        self.resurvey()
        self.concern(taker)
        self._hand_over()

    def heirs_of(self, owner: Address) -> tuple[Address, ...]:
        if owner == self.address:
            return self.heirs
        news = self.news.get(owner)
        return news.heirs if news is not None else ()

    def _hand_over(self) -> None:
        gift = self.gift
        assert gift is not None
        message = HandOver(
            gift.number, gift.at, len(gift.parts), gift.title, gift.around if gift.at == 0 else (), gift.parts[gift.at]
        )
        self.ask(("give", gift.number), gift.title.owner, message, self.life.tries_give, self._not_taken)

    def _not_taken(self, ask: Ask) -> None:
        self.suspect(ask.to)
        self.take_back()

    @handles(Taking)
    def on_taking(self, sender: Address, taking: Taking) -> None:
        self.heard(sender)
        gift = self.gift
        if gift is None or gift.number != taking.number or sender != gift.title.owner:
            return
        self.go_on(("give", gift.number), sender)
        if taking.part == gift.at and gift.at + 1 < len(gift.parts):
            gift.at += 1
            self._hand_over()

    @handles(Accepted)
    def on_accepted(self, sender: Address, accepted: Accepted) -> None:
        self.heard(sender)
        gift = self.gift
        if gift is not None and gift.number == accepted.number and sender == gift.title.owner:
            self._part_with(gift, accepted.heirs)
        if (sender, accepted.number) in self.done:
            self.host.send(sender, Done(accepted.number))
        elif not self.correct(sender, [accepted.title]):
            self.host.send(sender, Declined(accepted.number))  # taken back, and lost to others long ago

    def _part_with(self, gift: Gift, heirs: tuple[Address, ...]) -> None:
        before, tract = self.neighbours(), (gift.piece.low, gift.piece.high)
        taker = gift.title.owner
        self._inherit(gift, heirs)
        self._end_gift()
        self._remember(taker, gift.number, "done")
        self.atlas.learn(gift.title)
        self.gifts.append((self.host.now_us, gift.title))
        self.keeper.drop(tract)
        self.announce({*before, taker})
        self.gave()

    def _inherit(self, gift: Gift, heirs: tuple[Address, ...]) -> None:
        """What we gave joins the estate that we hold for the taker; its only heir begins with that."""
        taker, items = gift.title.owner, [item for part in gift.parts for item in part]
        estate = self.estates.get(taker)
        if estate is None and heirs == (self.address,):
            estate = self.estates[taker] = Estate(-1, (), heirs, gift.around, -1)
        if estate is not None:
            estate.titles = (*(each for each in estate.titles if each.low != gift.title.low), gift.title)
            for item in items:
                estate.items.setdefault(item.key, (-1, item))

    def _end_gift(self) -> None:
        if self.gift is not None:
            self.asks.pop(("give", self.gift.number), None)
            self.status.pop(self.gift.piece.low, None)
            self.gift = None

    def _remember(self, peer: Address, number: int, end: str) -> None:
        self.done[peer, number] = end
        if len(self.done) > self.life.seen_max:
            self.done.popitem(last=False)

    @handles(Declined)
    def on_declined(self, sender: Address, declined: Declined) -> None:
        self.heard(sender)
        if self.gift is not None and self.gift.number == declined.number and sender == self.gift.title.owner:
            self.take_back()
        receipt = self.receipt
        if receipt is not None and receipt.held and (receipt.giver, receipt.number) == (sender, declined.number):
            self._let_go()

    def _let_go(self) -> None:
        """The giver knows nothing of the piece any more: nor do we claim it."""
        pieces, neighbours = self.of_status(PROVISIONAL), self.neighbours()
        self.atlas.drop(pieces)
        self.resurvey()
        self.lost(tract_of(pieces), neighbours, [])

    def take_back(self) -> None:
        """The taker will not have it, or is gone: whatever is left of the piece is firm again."""
        gift = self.gift
        assert gift is not None
        self.declined[gift.title.owner] = self.host.now_us + 6 * self.life.rto_us
        before = self.neighbours()
        left = self.of_status(GIVING)
        self._end_gift()
        for each in left:
            self.status.pop(each.low, None)
            self.atlas.titles[each.low] = Title(each.low, each.bits, gift.piece.epoch + 3, self.address)
        self.merge_pieces()
        self.announce(before)

    def gave(self) -> None:
        """A piece is in other hands: see `leaving.py`."""

    # --- the taker

    @handles(HandOver)
    def on_hand_over(self, sender: Address, give: HandOver) -> None:
        self.concern(sender)
        self.heard(sender)
        receipt, ended = self.receipt, self.done.get((sender, give.number))
        if receipt is not None and (receipt.giver, receipt.number) == (sender, give.number):
            self._next_part(receipt, give)
        elif ended == "taken":
            pass  # our Accepted was answered long ago: an old repeat
        elif ended is not None or not self._wants(give):
            self._remember(sender, give.number, "declined")
            self.host.send(sender, Declined(give.number))
            self.correct(sender, [give.title])
        elif give.part == 0:
            self.receipt = Receipt(give.number, sender, give.title, give.around, self.host.now_us, {})
            self._next_part(self.receipt, give)

    def _wants(self, give: HandOver) -> bool:
        return not (self.leaving or self.receipt is not None or self.atlas.better_than(give.title))

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
        if self.heirs or self.ground:
            self.batch(self.keeper.pack((title.low, title.high)), lambda: self._accept(receipt))
        else:
            self._accept(receipt)

    def learn_around(self, around: Iterable[Circle]) -> None:
        """What another owner knew of its neighbours, as far as they are ours now."""
        circles = tuple(around)
        self.hear(title for title, _ in circles)
        for title, heirs in circles:
            news = self.news.get(title.owner)
            if news is not None and not news.heirs:
                news.heirs = heirs

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
