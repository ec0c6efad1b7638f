"""How pieces change hands among the living: one give in three messages, repeated until it is settled.

From `HandOver` until `Accepted` the giver does not answer for the piece, from `Accepted` until `Done` the taker does
not either: it is *provisional*, and only the taker's heirs, who have everything before it accepts, learn of it. If the
taker stays silent or declines, the giver takes the piece back under a better title than the taker was to have; a taker
whose giver dies keeps the piece once nobody has heard the giver for long (`inquest.py`). Epochs: split +1, merge
largest +1, give +2, taking back +3.
"""

from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.estate import Item, check_items
from implicast.overlay.ice.estates import Legacy, Parcel, in_parts
from implicast.overlay.ice.messages import (
    Accepted,
    Declined,
    Done,
    HandOver,
    Neighbour,
    Taking,
    Title,
)
from implicast.overlay.ice.plot import GIVING, PROVISIONAL, SEIZED, Status
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.asking import Question
from implicast.peer.contract import Address, handles, in_order
from implicast.peer.errors import RemoteError
from implicast.peer.memory import Recent


@dataclass(slots=True)
class Gift(Parcel):
    """A piece that we are giving away."""

    piece: Title
    title: Title
    """The taker's."""
    around: tuple[Neighbour, ...]


class Giver(SurfacePart):
    """Parts with pieces, one at a time."""

    __slots__ = ("declined", "done", "gift")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.gift: Gift | None = None
        self.done: Recent[tuple[Address, int], str] = Recent(self.timers.seen_max)
        """Transfers that are over, given or taken, and how they ended: repeats get the same answer."""
        self.declined: Recent[Address, int] = Recent(self.timers.news_max)
        """Who would not take a piece, and until when it is not asked again."""
        surface.asker.topic("give", self.timers.patience(self.timers.tries_give), self._not_taken)

    def give(self, piece: Title, taker: Address) -> None:
        """Part with a firm piece."""
        surface, plot, number = self.surface, self.surface.plot, self.surface.next_number()
        granted = plot.of_status(PROVISIONAL)
        around = tuple(
            (
                each,
                surface.heirs
                if each.owner == self.address
                else surface.circle.heirs_of(each.owner),
            )
            for each in plot.atlas.titles.values()
            if each.low != piece.low and each not in granted
        )
        parts = in_parts(surface.tenant.pack((piece.low, piece.high)), self.timers.part_bytes)
        self.gift = Gift(
            number, parts, piece, Title(piece.low, piece.bits, piece.epoch + 2, taker), around
        )
        plot.status[piece.low] = Status(GIVING, taker, number)
        surface.greetings.next_mark()
        plot.survey()
        surface.circle.concern(taker)
        self.hand_over(self.gift)

    def hand_over(self, gift: Gift) -> None:
        around = gift.around if gift.at == 0 else ()
        message = HandOver(
            gift.number, gift.at, len(gift.parts), gift.title, around, gift.parts[gift.at]
        )
        self.surface.asker.ask("give", gift.number, gift.title.owner, message)

    def _not_taken(self, key: Any, question: Question) -> None:
        self.surface.circle.suspect(question.to)
        self.take_back()

    def _given(self, taker: Address, number: int) -> Gift | None:
        """What this peer is being given under this number."""
        gift = self.gift
        return (
            gift
            if gift is not None and (gift.title.owner, gift.number) == (taker, number)
            else None
        )

    @handles(Taking)
    def on_taking(self, sender: Address, taking: Taking) -> None:
        self.surface.circle.heard(sender)
        gift = self._given(sender, taking.number)
        if gift is not None:
            self.surface.asker.encourage("give", gift.number)
            if taking.part == gift.at and gift.next_part():
                self.hand_over(gift)

    @handles(Accepted)
    def on_accepted(self, sender: Address, accepted: Accepted) -> None:
        self.surface.circle.heard(sender)
        gift = self._given(sender, accepted.number)
        if gift is not None:
            self.part_with(gift, accepted.heirs, accepted.stamp_us)
        if (sender, accepted.number) in self.done:
            self.host.send(sender, Done(accepted.number))
        else:  # taken back, and perhaps lost to others since: what we have of it says nothing about the rest
            self.surface.greetings.correct(sender, [accepted.title])
            self.host.send(sender, Declined(accepted.number))

    def part_with(self, gift: Gift, heirs: tuple[Address, ...], stamp_us: int = -1) -> None:
        surface, plot = self.surface, self.surface.plot
        before, taker = plot.neighbours(), gift.title.owner
        if heirs == (
            self.address,
        ):  # what we give is all of the taker's estate, if we have none yet
            surface.estates.held.setdefault(taker, Legacy(-1, (), heirs, gift.around, stamp_us))
        if taker in surface.estates.held:
            surface.estates.held[taker].join(
                gift.title, [item for part in gift.parts for item in part], stamp_us
            )
        surface.asker.drop("give", gift.number)
        self.gift = None
        self.done[taker, gift.number] = "done"
        plot.atlas.learn(gift.title)
        surface.greetings.gifts.append((self.host.now_us, gift.title))
        surface.tenant.drop((gift.piece.low, gift.piece.high))
        surface.announce({*before, taker})
        if not plot.pieces and not surface.leaving:
            surface.homeless()  # the others were lost while this one, then a spare, was on its way
        surface.parting.step()

    @handles(Declined)
    def on_declined(self, sender: Address, declined: Declined) -> None:
        self.surface.circle.heard(sender)
        if self._given(sender, declined.number):
            self.take_back()
        self.surface.taker.refused(sender, declined.number)

    def take_back(self) -> None:
        """The taker will not have it, or is gone: whatever is left of the piece is firm again."""
        gift, plot = self.gift, self.surface.plot
        assert gift is not None
        self.declined[gift.title.owner] = self.host.now_us + 6 * self.timers.rto_us
        before = plot.neighbours()
        self.surface.asker.drop("give", gift.number)
        self.gift = None
        plot.atlas.put(self.as_taken_back(gift))
        plot.release(GIVING, gift.number)
        self.surface.announce(before)

    def as_taken_back(self, gift: Gift) -> tuple[Title, ...]:
        """What is left of a gift, by the titles that it has if it is taken back."""
        epoch = gift.piece.epoch + 3
        return tuple(
            Title(each.low, each.bits, epoch, self.address)
            for each in self.surface.plot.of_status(GIVING)
        )

    def rescue(self) -> None:
        """A give that is not being asked for (no room among the questions) must not wait for ever."""
        if self.gift is not None and not self.surface.asker.open("give", self.gift.number):
            self.take_back()

    def has_declined(self, peer: Address) -> bool:
        """Would it not take a piece of late?"""
        return self.declined.get(peer, 0) > self.host.now_us


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
    more: bool = False
    """We held a copy of things there ourselves, which the giver may not have."""

    def put(self, give: HandOver, now_us: int) -> bool:
        """A part has come; is it all?"""
        self.items[give.part], self.last_us = give.items, now_us
        self.held = len(self.items) == give.parts
        return self.held

    def unite(self, held: tuple[Item, ...]) -> None:
        """We had these of it before."""
        self.more = bool(held)

    def take(self, now_us: int) -> None:
        self.taken_us = now_us if self.taken_us < 0 else self.taken_us


class Taker(SurfacePart):
    """Takes, one piece at a time."""

    __slots__ = ("receipt",)

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.receipt: Receipt | None = None
        # While the giver is silent the piece stays provisional, until it is known what became of it (`inquest.py`).
        surface.asker.topic(
            "took", self.timers.patience(self.timers.tries_took), surface.circle.unanswered
        )

    @property
    def is_first(self) -> bool:
        """Is what we are given all that is ours, so that its giver has all of it? What we seized it does not have."""
        plot = self.surface.plot
        return not (self.surface.heirs or plot.firm or plot.of_status(SEIZED))

    def held_from(self, giver: Address) -> Receipt | None:
        """The piece that has come from this peer, all of it, and is provisional."""
        return (
            self.receipt
            if self.receipt is not None and self.receipt.held and self.receipt.giver == giver
            else None
        )

    def _receipt(self, giver: Address, number: int) -> Receipt | None:
        receipt = self.receipt
        return (
            receipt
            if receipt is not None and (receipt.giver, receipt.number) == (giver, number)
            else None
        )

    @handles(HandOver)
    def on_hand_over(self, sender: Address, give: HandOver) -> None:
        if give.part >= give.parts or give.title.owner != self.address:
            raise RemoteError(f"part {give.part} of {give.parts}, for {give.title.owner}")
        check_items(give.items)
        surface, done = self.surface, self.surface.giver.done
        surface.circle.concern(sender)
        surface.circle.heard(sender)
        receipt, ended = self._receipt(sender, give.number), done.get((sender, give.number))
        if receipt is not None:
            self._next_part(receipt, give)
        elif ended == "taken":
            pass  # our Accepted was answered long ago: an old repeat
        elif ended is not None or not self._wants(sender, give):
            done[sender, give.number] = "declined"
            self.host.send(sender, Declined(give.number))
            surface.greetings.correct(sender, [give.title])
        elif give.part == 0:
            self.receipt = Receipt(
                give.number, sender, give.title, give.around, self.host.now_us, {}
            )
            self._next_part(self.receipt, give)

    def _wants(self, giver: Address, give: HandOver) -> bool:
        surface = self.surface
        if surface.leaving:
            leaves_too = bool(surface.plot.pieces) and surface.circle.concern(giver).leaving
            if not (leaves_too and in_order(self.address) < in_order(giver)):
                return False
        return self.receipt is None and not surface.plot.atlas.better_than(give.title)

    def _next_part(self, receipt: Receipt, give: HandOver) -> None:
        self.host.send(receipt.giver, Taking(give.number, give.part))
        if (
            not receipt.held
            and give.part not in receipt.items
            and receipt.put(give, self.host.now_us)
        ):
            self._take(receipt)

    def _take(self, receipt: Receipt) -> None:
        """All of it has come: ours, but not yet granted."""
        surface, plot, title = self.surface, self.surface.plot, receipt.title
        if plot.atlas.better_than(title):
            self._end(receipt, "declined")
            self.host.send(receipt.giver, Declined(receipt.number))
            return
        tract = (title.low, title.high)
        plot.atlas.learn(title)
        plot.status[title.low] = Status(PROVISIONAL, receipt.giver, receipt.number)
        surface.greetings.next_mark()  # a greeting on its way knows nothing of it: heirs must not take that for news
        plot.survey()
        surface.learn_around(receipt.around)
        surface.tenant.accept(
            tuple(item for part in sorted(receipt.items) for item in receipt.items[part]), tract
        )
        # Who gives us ground whose owner never told us, its heir, that it parted with it has taken it over, maybe with
        # an older copy than ours: an heir that was cut off and replaced does not know what was kept since.
        others = (
            estate for owner, estate in surface.estates.held.items() if owner != receipt.giver
        )
        held = tuple(item for estate in others for item in estate.within(tract))
        surface.tenant.accept(held, tract)
        receipt.unite(held)
        if self.is_first:
            self.accept(receipt)
        else:
            surface.batch(surface.tenant.pack(tract), lambda: self.accept(receipt))

    def accept(self, receipt: Receipt) -> None:
        surface = self.surface
        if self.receipt is receipt and not surface.asker.open("took", receipt.number):
            receipt.take(self.host.now_us)
            heirs = surface.heirs or ((receipt.giver,) if surface.terms.assured else ())
            message = Accepted(receipt.number, receipt.title, heirs, receipt.taken_us)
            surface.asker.ask("took", receipt.number, receipt.giver, message)

    @handles(Done)
    def on_done(self, sender: Address, done: Done) -> None:
        surface, receipt = self.surface, self._receipt(sender, done.number)
        surface.circle.heard(sender)
        if receipt is not None:
            if self.is_first and surface.terms.assured:
                surface.succession.begin_with((sender,), receipt.taken_us)
                if receipt.more:
                    surface.batch(
                        surface.tenant.pack((receipt.title.low, receipt.title.high)), lambda: None
                    )
            self.granted(receipt)

    def granted(self, receipt: Receipt) -> None:
        """The piece we were given is ours alone."""
        self._end(receipt, "taken")
        self.surface.firm_up(PROVISIONAL, receipt.number, {receipt.giver})

    def _end(self, receipt: Receipt, end: str) -> None:
        self.surface.asker.drop("took", receipt.number)
        self.surface.giver.done[receipt.giver, receipt.number] = end
        self.receipt = None

    def refused(self, giver: Address, number: int) -> None:
        """The giver knows nothing of the piece any more: nor do we claim it."""
        receipt, plot = self._receipt(giver, number), self.surface.plot
        if receipt is not None and receipt.held:
            pieces, neighbours = plot.of_status(PROVISIONAL), plot.neighbours()
            plot.atlas.drop(pieces)
            plot.survey()
            self.surface.lost(tract_of(pieces), neighbours, [])

    def lost(self) -> None:
        """Better titles took ground from us: was it what we are given?"""
        if (
            self.receipt is not None
            and self.receipt.held
            and not self.surface.plot.of_status(PROVISIONAL)
        ):
            self._end(self.receipt, "declined")

    def expire(self) -> None:
        """A give whose parts stopped coming: the giver has taken it back or is gone."""
        receipt, late_us = self.receipt, self.host.now_us - 2 * self.timers.patience_us
        if receipt is not None and not receipt.held and receipt.last_us < late_us:
            self._end(receipt, "declined")
