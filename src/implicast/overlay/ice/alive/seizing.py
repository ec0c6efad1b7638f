"""Death and what follows: silence, an inquiry among all who might know better, and the seizing of what the dead held.

Heir number i of a silent owner waits i ranks longer than the first, asks everybody around whether they have heard it,
and seizes only if nobody has. A seized piece answers when its items are at the seizer's own heirs, and not before
rivals that did not know of each other have had time to meet. If all heirs died too, any neighbour acts at last.

Why two never answer: the owner is doubtful after `self_us` without an echo, a stamp is older than its receipt, so every
heir that echoed lately has heard the owner lately and vetoes; and `self_us` is shorter than `dead_us`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from implicast.overlay.ice.alive.estate import Keeper, Way
from implicast.overlay.ice.alive.ground import SEIZED, Status
from implicast.overlay.ice.alive.inheriting import Estate
from implicast.overlay.ice.alive.inquiring import Inquiring, Inquiry
from implicast.overlay.ice.alive.messages import Firm, Who
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.atlas import Atlas, tract_of
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address, Host, handles
from implicast.space.tract import Tract, intersect


@dataclass(slots=True)
class Seizure:
    """Ground that we have taken and do not answer for yet."""

    tract: Tract
    whole: bool
    """We had a complete copy of what was kept there."""
    backed_up: bool = False
    rested: bool = False
    """Rivals have had time to meet us."""


class Seizing(Inquiring):
    """Takes what the dead held."""

    __slots__ = ("_gap_since_us", "seizures")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.seizures: dict[int, Seizure] = {}
        self._gap_since_us = -1

    def declare_dead(self, suspect: Address, inquiry: Inquiry) -> None:
        self.suspect(suspect)
        self.look_us[suspect] = self.host.now_us + self.life.rank_us
        self.hear(inquiry.titles)
        receipt = self.receipt
        if receipt is not None and receipt.held and receipt.giver == suspect:
            self.granted()
        if inquiry.seizes:
            self.seize(suspect, inquiry)

    # --- taking

    def seize(self, suspect: Address, inquiry: Inquiry) -> None:
        """Take every piece of the dead whose best title is still the dead's."""
        before, estate = {*self.neighbours(), suspect}, self.estates.get(suspect)
        best = _best((*inquiry.message.pieces, *inquiry.titles, *inquiry.held, *self.atlas.titles.values()))
        spans = tract_of(inquiry.message.pieces)
        titles = [each for each in best.of(suspect) if intersect((each.low, each.high), spans)]
        if estate is not None:
            self._hand_on(suspect, estate, best, spans)
        if estate is not None and not inquiry.held:
            del self.estates[suspect]  # else it may yet be the dead's: looked at again when the give has ended
        if not titles:
            return
        tract = tract_of(titles)
        number = self.next_number()
        for each in titles:
            self.atlas.learn(Title(each.low, each.bits, each.epoch + 1, self.address))
            self.status[each.low] = Status(SEIZED, suspect, number)
        self.resurvey()
        self.hear(inquiry.titles)
        if estate is not None:
            before.update(title.owner for title, _ in estate.around)
            self.learn_around(estate.around)
            self.keeper.accept(estate.within(tract), tract)
        self.keeper.accept(tuple(inquiry.items), tract)
        self._settle(number, tract, before, whole=inquiry.whole or self._was_whole(estate))

    def _hand_on(self, suspect: Address, estate: Estate, best: Atlas, spans: Tract) -> None:
        """Ground of the dead that is in the hands of one who was no heir: what we hold of it is offered there.

        Heirs have it already, and so do we if it is ours. This happens when a cut heals while an owner is dead.
        """
        having = (suspect, self.address, *estate.heirs)
        taken = intersect(tract_of(each for each in best.titles.values() if each.owner not in having), spans)
        if taken:
            self.keeper.accept(estate.within(taken), taken)
            self.keeper.yielded(taken)

    def _was_whole(self, estate: Estate | None) -> bool:
        return estate is not None and not estate.awaited

    def mend_gap(self) -> None:
        """Ask for the owner of ground beside ours that nobody seems to have; at long last take it."""
        now_us = self.host.now_us
        if self._gap is None or not self.pieces:
            self._gap_since_us = -1
            return
        if self._gap_since_us < 0:
            self._gap_since_us = now_us
        low, bits = self._gap
        if now_us - self._gap_since_us > self.life.gap_us:
            self._gap_since_us = -1
            self.claim(Title(low, bits, 0, self.address))
        else:
            self.send(Who(Way((low, low + 1)), self.address))

    def claim(self, title: Title) -> None:
        """Take ground that nobody has: any real title beats this one."""
        number = self.next_number()
        if self.atlas.learn(title):
            self.status[title.low] = Status(SEIZED, self.address, number)
            self._settle(number, (title.low, title.high), set(self.neighbours()), whole=False)

    def _settle(self, number: int, tract: Tract, before: set[Address], whole: bool) -> None:
        """Tell everybody, back it up, and let rivals meet us before it answers."""
        self.announce(before - {self.address})
        self.seizures[number] = Seizure(tract, whole)
        self.host.after(self.life.settle_us, Firm(number))
        self._back_up(number)

    def _back_up(self, number: int) -> None:
        seizure = self.seizures[number]
        own = intersect(seizure.tract, self.tract)
        self.batch(self.keeper.pack(own), lambda: self._backed_up(number))

    def _backed_up(self, number: int) -> None:
        seizure = self.seizures.get(number)
        if seizure is not None:
            seizure.backed_up = True
            self._firm_up(number, seizure)

    @handles(Firm)
    def on_firm(self, alarm: Firm) -> None:
        seizure = self.seizures.get(alarm.number)
        if seizure is not None:
            seizure.rested = True
            self._firm_up(alarm.number, seizure)

    def _firm_up(self, number: int, seizure: Seizure) -> None:
        if not seizure.backed_up or not seizure.rested:
            return
        del self.seizures[number]
        before = self.neighbours()
        ours = [low for low, status in self.status.items() if status.kind == SEIZED and status.number == number]
        for low in ours:
            del self.status[low]
        if ours:
            self.merge_pieces()
            self.announce(before)
            self.settled_in()
            if not seizure.whole:
                self.keeper.lost(intersect(seizure.tract, self.ground))

    def homeless(self) -> None:
        super().homeless()
        self.seizures.clear()


def _best(titles: Iterable[Title]) -> Atlas:
    best = Atlas()
    for each in titles:
        best.learn(each)
    return best
