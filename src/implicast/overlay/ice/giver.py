"""How pieces change hands among the living: one give in three messages, repeated until it is settled.

From `HandOver` until `Accepted` the giver does not answer for the piece, from `Accepted` until `Done` the taker does
not either. The taker's heirs have everything before it accepts. If the taker stays silent or declines, the giver takes
the piece back under a better title than the taker was to have; a taker whose giver dies keeps the piece once nobody has
heard the giver for long (`seizures.py`). Epochs: split +1, merge largest +1, give +2, taking back +3.
"""

from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.estates import Parcel, in_parts
from implicast.overlay.ice.messages import Accepted, Declined, Done, HandOver, Neighbour, Taking, Title
from implicast.overlay.ice.plot import GIVING, PROVISIONAL
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.asking import Question
from implicast.peer.contract import Address, handles
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
        self.declined: dict[Address, int] = {}
        """Who would not take a piece, and until when it is not asked again."""
        surface.asker.topic("give", self.timers.patience(self.timers.tries_give), self._not_taken)

    def give(self, piece: Title, taker: Address) -> None:
        """Part with a firm piece."""
        surface, plot, number = self.surface, self.surface.plot, self.surface.next_number()
        granted = plot.of_status(PROVISIONAL)
        around = tuple(
            (each, surface.heirs_of(each.owner))
            for each in plot.atlas.titles.values()
            if each.low != piece.low and each not in granted
        )
        parts = in_parts(surface.tenant.pack((piece.low, piece.high)), self.timers.part_bytes)
        self.gift = Gift(number, parts, piece, Title(piece.low, piece.bits, piece.epoch + 2, taker), around)
        plot.hold(piece.low, GIVING, taker, number)
        surface.greetings.next_mark()
        plot.survey()
        surface.circle.concern(taker)
        self.hand_over(self.gift)

    def hand_over(self, gift: Gift) -> None:
        around = gift.around if gift.at == 0 else ()
        message = HandOver(gift.number, gift.at, len(gift.parts), gift.title, around, gift.parts[gift.at])
        self.surface.asker.ask("give", gift.number, gift.title.owner, message)

    def _not_taken(self, key: Any, question: Question) -> None:
        self.surface.circle.suspect(question.to)
        self.take_back()

    @handles(Taking)
    def on_taking(self, sender: Address, taking: Taking) -> None:
        self.surface.circle.heard(sender)
        gift = self.gift
        if gift is None or gift.number != taking.number or sender != gift.title.owner:
            return
        self.surface.asker.encourage("give", gift.number)
        if taking.part == gift.at and gift.next_part():
            self.hand_over(gift)

    @handles(Accepted)
    def on_accepted(self, sender: Address, accepted: Accepted) -> None:
        self.surface.circle.heard(sender)
        gift = self.gift
        if gift is not None and gift.number == accepted.number and sender == gift.title.owner:
            self.part_with(gift, accepted.heirs, accepted.stamp_us)
        if (sender, accepted.number) in self.done:
            self.host.send(sender, Done(accepted.number))
        else:  # taken back, and perhaps lost to others since: what we have of it says nothing about the rest
            self.surface.greetings.correct(sender, [accepted.title])
            self.host.send(sender, Declined(accepted.number))

    def part_with(self, gift: Gift, heirs: tuple[Address, ...], stamp_us: int = -1) -> None:
        surface, plot = self.surface, self.surface.plot
        before, taker = plot.neighbours(), gift.title.owner
        surface.estates.given(gift, heirs, stamp_us)
        self._end_gift()
        self.done[taker, gift.number] = "done"
        plot.atlas.learn(gift.title)
        surface.greetings.gave(gift.title)
        surface.tenant.drop((gift.piece.low, gift.piece.high))
        surface.announce({*before, taker})
        if not plot.pieces and not surface.leaving:
            surface.homeless()  # the others were lost while this one, then a spare, was on its way
        surface.departure.step()

    def _end_gift(self) -> None:
        if self.gift is not None:
            self.surface.asker.drop("give", self.gift.number)
            self.surface.plot.free(self.gift.piece.low)
            self.gift = None

    @handles(Declined)
    def on_declined(self, sender: Address, declined: Declined) -> None:
        self.surface.circle.heard(sender)
        if self.gift is not None and self.gift.number == declined.number and sender == self.gift.title.owner:
            self.take_back()
        self.surface.taker.refused(sender, declined.number)

    def take_back(self) -> None:
        """The taker will not have it, or is gone: whatever is left of the piece is firm again."""
        gift, plot = self.gift, self.surface.plot
        assert gift is not None
        self.declined[gift.title.owner] = self.host.now_us + 6 * self.timers.rto_us
        before = plot.neighbours()
        left = plot.of_status(GIVING)
        self._end_gift()
        for each in left:
            plot.free(each.low)
            plot.atlas.put([Title(each.low, each.bits, gift.piece.epoch + 3, self.address)])
        plot.merge_pieces()
        self.surface.announce(before)

    def rescue(self) -> None:
        """A give that is not being asked for (no room among the questions) must not wait for ever."""
        if self.gift is not None and not self.surface.asker.open("give", self.gift.number):
            self.take_back()

    def has_declined(self, peer: Address) -> bool:
        """Would it not take a piece of late?"""
        return self.declined.get(peer, 0) > self.host.now_us

    def forgive(self, now_us: int) -> None:
        if self.declined:
            self.declined = {each: until_us for each, until_us in self.declined.items() if until_us > now_us}
