"""What follows on death: the seizing of what the dead held.

A seized piece answers when its items are at the seizer's own heirs, and not before rivals that did not know of each
other have had time to meet.

Why two never answer: the owner is doubtful after `self_us` without an echo, a stamp is older than its receipt, so every
heir that echoed lately has heard the owner lately and vetoes; and `self_us` is shorter than `dead_us`.
"""

from dataclasses import dataclass

from implicast.overlay.ice.atlas import Atlas, overlap, tract_of
from implicast.overlay.ice.estate import Way
from implicast.overlay.ice.estates import Legacy
from implicast.overlay.ice.inquest import Inquiry
from implicast.overlay.ice.messages import Firm, Title, Who
from implicast.overlay.ice.plot import SEIZED
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.space.tract import Tract, intersect


@dataclass(slots=True)
class Seizure:
    """Ground that we have taken and do not answer for yet."""

    tract: Tract
    whole: bool
    """We had a complete copy of what was kept there."""
    awaits: int = 2
    """It is to be backed up, and rivals are to have time to meet us."""

    def step(self) -> bool:
        """One of the two has happened; does it answer now?"""
        self.awaits -= 1
        return not self.awaits


class Seizures(SurfacePart):
    """Takes what the dead held."""

    __slots__ = ("_gap_since_us", "open")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.open: dict[int, Seizure] = {}
        self._gap_since_us = -1

    def declare_dead(self, suspect: Address, inquiry: Inquiry) -> None:
        """Nobody has heard the suspect."""
        surface = self.surface
        if not inquiry.message.certain:
            surface.circle.suspect(suspect)
            surface.inquest.look_us[suspect] = self.host.now_us + self.timers.rank_us
        surface.hear(inquiry.titles)
        receipt = surface.taker.held_from(suspect)
        if receipt is not None:
            surface.taker.granted(receipt)
        if inquiry.seizes:
            self.seize(suspect, inquiry)

    # --- taking

    def seize(self, suspect: Address, inquiry: Inquiry) -> None:
        """Take every piece of the dead whose best title is still the dead's."""
        surface, plot, held = self.surface, self.surface.plot, self.surface.estates.held
        before, certain = {*plot.neighbours(), suspect}, inquiry.message.certain
        estate = inquiry.estate if certain else held.get(suspect)
        given = [title for each in inquiry.witnesses for title in each.held]  # in transit: not the dead's to lose
        best = Atlas()
        for each in (*inquiry.message.pieces, *inquiry.titles, *given, *plot.atlas.titles.values()):
            best.learn(each)
        spans = tract_of(inquiry.message.pieces)
        titles = [each for each in best.of(suspect) if intersect((each.low, each.high), spans)]
        if certain:  # the life that is there now may have got ground of the old one already
            old = inquiry.message.pieces
            titles = [each for each in titles if any(each.epoch == one.epoch and overlap(each, one) for one in old)]
        if estate is not None:
            self._hand_on(suspect, estate, best, spans)
        if not (certain or given):
            held.pop(suspect, None)  # else it may yet be the dead's: looked at again when the give has ended
        if not titles:
            return
        tract = tract_of(titles)
        number = surface.next_number()
        for each in titles:
            plot.atlas.learn(Title(each.low, each.bits, each.epoch + 1, self.address))
            plot.hold(each.low, SEIZED, suspect, number)
        plot.survey()
        surface.hear(inquiry.titles)
        if estate is not None:
            before.update(title.owner for title, _ in estate.around)
            surface.learn_around(estate.around)
            surface.tenant.accept(estate.within(tract), tract)
        surface.tenant.accept(tuple(item for each in inquiry.witnesses for item in each.items), tract)
        whole = any(each.whole for each in inquiry.witnesses) or (estate is not None and not estate.awaited)
        self.settle(number, Seizure(tract, whole), before)

    def _hand_on(self, suspect: Address, estate: Legacy, best: Atlas, spans: Tract) -> None:
        """Ground of the dead that is in the hands of one who was no heir: what we hold of it is offered there.

        Heirs have it already, and so do we if it is ours. This happens when a cut heals while an owner is dead.
        """
        having = (suspect, self.address, *estate.heirs)
        taken = intersect(tract_of(each for each in best.titles.values() if each.owner not in having), spans)
        if taken:
            self.surface.tenant.accept(estate.within(taken), taken)
            self.surface.tenant.yielded(taken)

    def mend_gap(self) -> None:
        """Ask for the owner of ground beside ours that nobody seems to have; at long last take it."""
        now_us, gap = self.host.now_us, self.surface.plot.gap
        if gap is None or not self.surface.pieces:
            self._gap_since_us = -1
            return
        if self._gap_since_us < 0:
            self._gap_since_us = now_us
        low, bits = gap
        if now_us - self._gap_since_us > self.timers.gap_us:
            self._gap_since_us = -1
            self.claim([Title(low, bits, 0, self.address)], set(self.surface.plot.neighbours()))
        else:
            self.surface.send(Who(Way((low, low + 1)), self.address))
            self._ask_outside(low)

    def _ask_outside(self, code: int) -> None:
        """Our neighbours may know no more than we do: after a partition a few peers had only each other as neighbours,
        and all ground around them others'. Whom we hear of those who are no neighbours asks for us too."""
        circle, near = self.surface.circle, self.surface.plot.neighbours()
        since_us = self.host.now_us - self.timers.self_us
        known = [each for each, news in circle.news.items() if news.heard_us > since_us and each not in near]
        if known and self.surface.terms.assured:
            way = Way((code, code + 1), self.surface.next_number())
            self.host.send(self.host.rng.choice(known), Who(way, self.address))

    def begin_again(self) -> None:
        """Take the whole surface, of which nobody whom we hear has any. Where a silent owner is known its title is
        beaten as at every seizure; elsewhere any real title beats ours, and of two such claims one wins."""
        silent = [Title(each.low, each.bits, each.epoch + 1, self.address) for each in self.surface.plot.others]
        self.claim([*silent, Title(0, 0, 0, self.address)], set())

    def claim(self, titles: list[Title], before: set[Address]) -> None:
        """Take ground that nobody has: any real title beats one of epoch 0."""
        plot, number = self.surface.plot, self.surface.next_number()
        for each in titles:
            plot.atlas.learn(each)
        taken = [each for each in plot.atlas.of(self.address) if each not in plot.pieces]
        for each in taken:
            plot.hold(each.low, SEIZED, self.address, number)
        if taken:
            self.settle(number, Seizure(tract_of(taken), whole=False), before)

    # --- settling

    def settle(self, number: int, seizure: Seizure, before: set[Address]) -> None:
        """Tell everybody, back it up, and let rivals meet us before it answers."""
        surface = self.surface
        surface.announce(before - {self.address})
        self.open[number] = seizure
        own = intersect(seizure.tract, surface.plot.tract)
        firm = Firm(number)
        self.host.after(self.timers.settle_us, firm)
        surface.batch(surface.tenant.pack(own), lambda: self.on_firm(firm))

    @handles(Firm)
    def on_firm(self, firm: Firm) -> None:
        """It is backed up, or rivals have had their time."""
        seizure = self.open.get(firm.number)
        if seizure is not None and seizure.step():
            self.firm_up(firm.number, seizure)

    def firm_up(self, number: int, seizure: Seizure) -> None:
        del self.open[number]
        if self.surface.firm_up(SEIZED, number, set()) and not seizure.whole:
            self.surface.tenant.lost(intersect(seizure.tract, self.surface.plot.firm))
