"""How pieces change hands among the living: one give in three messages, repeated until it is settled.

From `HandOver` until `Accepted` the giver does not answer for the piece, from `Accepted` until `Done` the taker does
not either. The taker's heirs have everything before it accepts. If the taker stays silent or declines, the giver takes
the piece back under a better title than the taker was to have; a taker whose giver dies keeps the piece once nobody has
heard the giver for long (`seizing.py`). Epochs: split +1, merge largest +1, give +2, taking back +3.
"""

from collections import OrderedDict
from dataclasses import dataclass

from implicast.overlay.ice.alive.asking import Ask
from implicast.overlay.ice.alive.estate import Item, Keeper
from implicast.overlay.ice.alive.ground import GIVING, PROVISIONAL, Status
from implicast.overlay.ice.alive.heirs import Heirs
from implicast.overlay.ice.alive.inheriting import Estate, in_parts
from implicast.overlay.ice.alive.messages import Accepted, Circle, HandOver, Taking
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.messages import Declined, Done, Title
from implicast.peer.contract import Address, Host, handles


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


class Giving(Heirs):
    """Give and take."""

    __slots__ = ("declined", "done", "gift")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.gift: Gift | None = None
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
        else:  # taken back, and perhaps lost to others since: what we have of it says nothing about the rest
            self.correct(sender, [accepted.title])
            self.host.send(sender, Declined(accepted.number))

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
                estate.add(item)

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
        self.refused(sender, declined.number)

    def refused(self, giver: Address, number: int) -> None:
        """A giver will not grant what we took: `taking.py`."""

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

    def rescue_gift(self) -> None:
        """A give that is not being asked for (no room among the questions) must not wait for ever."""
        if self.gift is not None and ("give", self.gift.number) not in self.asks:
            self.take_back()

    def gave(self) -> None:
        """A piece is in other hands: see `leaving.py`."""
