"""Silence, an inquiry among all who might know better, and the seizing of what the dead held.

Heir number i of a silent owner waits i ranks longer than the first, then asks everybody around whether they have heard
it; only if nobody has is it declared dead. If all heirs died too, any neighbour acts at last. A taker whose giver is
silent asks in the same way. A seized piece answers when its items are at the seizer's own heirs, and not before rivals
that did not know of each other have had time to meet.

Why two never answer: the owner is doubtful after `self_us` without an echo, a stamp is older than its receipt, so every
heir that echoed lately has heard the owner lately and vetoes; and `self_us` is shorter than `dead_us`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from implicast.overlay.ice.atlas import Atlas, overlap, tract_of
from implicast.overlay.ice.estate import Item, Way
from implicast.overlay.ice.estates import Legacy, in_parts
from implicast.overlay.ice.messages import Firm, Inquire, More, Title, Verdict, Who, Witness
from implicast.overlay.ice.plot import PROVISIONAL, SEIZED, Status
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.tract import EMPTY, Tract, intersect, subtract

NO_ESTATE = -2
WITNESSES_MAX = 64
"""Peers asked about one suspect."""
BURIED = 16
"""The round of an inquiry about a peer that is certainly dead: nobody needs to be asked for long."""


class Orphan(NamedTuple):
    """The estate of a peer that is certainly dead, since another life has begun at its address."""

    estate: Legacy
    rank: int
    due_us: int
    """When it is our turn to take its place."""


@dataclass(slots=True)
class Inquiry:
    """What we have been told of a suspect so far."""

    seizes: bool
    """False: we only want to know whether a giver is dead."""
    awaited: dict[Address, None]
    message: Inquire
    estate: Legacy | None = None
    """What we hold of the suspect's."""
    round: int = 0
    witnesses: list[Witness] = field(default_factory=list)

    @property
    def titles(self) -> list[Title]:
        """Better ones than the suspect's, as far as the witnesses know."""
        return [title for each in self.witnesses for title in each.titles]


@dataclass(slots=True)
class Seizure:
    """Ground that we have taken and do not answer for yet."""

    tract: Tract
    lacking: Tract
    """Where we had no copy of what was kept: the dead may have got ground since it last spoke to its heirs."""
    awaits: int = 2
    """It is to be backed up, and rivals are to have time to meet us."""

    def step(self) -> bool:
        """One of the two has happened; does it answer now?"""
        self.awaits -= 1
        return not self.awaits


class Inquest(SurfacePart):
    """The silence rule: who is dead, and who takes what the dead held."""

    __slots__ = ("_gap_since_us", "inquiries", "look_us", "open", "orphans")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.inquiries: dict[Address, Inquiry] = {}
        self.look_us: Recent[Address, int] = Recent(self.timers.news_max)
        """Suspects that are not to be asked about before a time."""
        self.orphans: dict[Address, Orphan] = {}
        self.open: dict[int, Seizure] = {}
        self._gap_since_us = -1

    def watch(self, troubled: bool = True) -> None:
        """At each tick: has anybody whose place we would have to take been silent for too long? Without trouble only
        owners whose estates we hold from afar may have been."""
        surface, circle = self.surface, self.surface.circle
        known, dead_us = circle.news, self.host.now_us - self.timers.dead_us
        for owner in (*(surface.plot.neighbours() if troubled else ()), *surface.estates.held):
            news = known.get(owner) or circle.concern(owner)
            if news.heard_us < dead_us and news.since_us < dead_us and self._may_ask(owner):
                rank, wait_us = self._rank_of(owner)
                if circle.silence_us(owner) > wait_us and (
                    surface.plot.pieces or owner in surface.estates.held
                ):
                    self.inquire(owner, rank, seizes=True)
        receipt = surface.taker.receipt
        if receipt is not None and receipt.held and self._may_ask(receipt.giver):
            if (
                circle.silence_us(receipt.giver) > self.timers.dead_us
            ):  # dead givers cannot take back
                self.inquire(receipt.giver, self.timers.heirs + 1, seizes=False)
            elif receipt.taken_us >= 0 or surface.taker.is_first:
                surface.taker.accept(receipt)
        self._adopt(self.host.now_us)

    def bury(self, peer: Address, estate: Legacy | None) -> None:
        """A peer is certainly dead: its heirs take over in turn, and what it was giving to us is ours."""
        self.inquiries.pop(peer, None)
        now_us = self.host.now_us
        if estate is not None and (rank := self._rank_in(estate)) is not None:
            self.orphans[peer] = Orphan(estate, rank, now_us + rank * self.timers.rank_us)
            self._adopt(now_us)
        elif self.surface.taker.held_from(peer) is not None:
            self.inquire(peer, self.timers.heirs + 1, False, BURIED)

    def _adopt(self, now_us: int) -> None:
        """Inquire about the dead whose turn has come."""
        for peer, orphan in list(self.orphans.items()):
            if orphan.due_us <= now_us:
                del self.orphans[peer]
                self.inquire(peer, orphan.rank, True, BURIED, orphan.estate)

    def _may_ask(self, owner: Address) -> bool:
        return owner not in self.inquiries and self.look_us.get(owner, 0) <= self.host.now_us

    def _rank_of(self, owner: Address) -> tuple[int, int]:
        """Our place in the order of those who may take an owner's place, and how long we wait."""
        timers, estate = self.timers, self.surface.estates.held.get(owner)
        if estate is not None and (rank := self._rank_in(estate)) is not None:
            return rank, timers.dead_us + rank * timers.rank_us
        share = digest_bits(16, "last resort", repr(owner), repr(self.address)) / 2**16
        return timers.heirs + 1, timers.dead_us + int((timers.heirs + 1 + share) * timers.rank_us)

    def _rank_in(self, estate: Legacy) -> int | None:
        """Our place among the heirs of an estate that we hold whole."""
        return (
            None
            if estate.awaited or self.address not in estate.heirs
            else estate.heirs.index(self.address)
        )

    def inquire(
        self,
        suspect: Address,
        rank: int,
        seizes: bool,
        round_: int = 0,
        buried: Legacy | None = None,
    ) -> None:
        surface, estate = self.surface, buried or self.surface.estates.held.get(suspect)
        pieces = {each.low: each for each in (estate.titles if estate is not None else ())}
        if round_ < BURIED:
            pieces.update({each.low: each for each in surface.plot.atlas.of(suspect)})
        claims = surface.plot.of_status(PROVISIONAL, suspect)
        serial = NO_ESTATE if estate is None or estate.awaited else estate.serial
        message = Inquire(
            suspect, tuple(pieces.values()), rank, tuple(claims), serial, round_ >= BURIED
        )
        asked = dict.fromkeys(self._witnesses(suspect, estate))
        self.inquiries[suspect] = Inquiry(seizes, asked, message, estate, round_)
        for peer in asked:
            self.host.send(peer, message)
        self.host.after(self.timers.ask_us // 2, Verdict(suspect, 2 * round_))

    def _witnesses(self, suspect: Address, estate: Legacy | None) -> list[Address]:
        """The suspect's heirs and neighbours, our neighbours, and the heirs of those among them that are silent too."""
        surface = self.surface
        found = dict.fromkeys(surface.circle.heirs_of(suspect))
        near = [(peer, surface.circle.heirs_of(peer)) for peer in surface.plot.neighbours()]
        if estate is not None:
            found.update(dict.fromkeys(estate.heirs))
            near = [*((title.owner, heirs) for title, heirs in estate.around), *near]
        for peer, heirs in near:
            found.update(
                dict.fromkeys((peer, *heirs) if surface.circle.is_suspect(peer) else (peer,))
            )
        found.pop(self.address, None)
        found.pop(suspect, None)
        return list(found)[:WITNESSES_MAX]

    @handles(Inquire)
    def on_inquire(self, sender: Address, inquire: Inquire) -> None:
        surface, timers, suspect = self.surface, self.timers, inquire.suspect
        surface.circle.heard(sender)
        if suspect == self.address:
            surface.greetings.hail([sender])
            return
        news = surface.circle.news.get(suspect)
        unknown = inquire.certain or news is None or news.heard_us < 0
        ago_us = -1 if unknown or news is None else self.host.now_us - news.heard_us
        if ago_us < 0 or ago_us > timers.self_us:
            surface.hear(inquire.claims)
        orphan = self.orphans.get(suspect)
        if inquire.certain:
            if (
                orphan is not None and orphan.rank > inquire.rank
            ):  # an heir before us takes the place of the dead
                self.orphans[suspect] = orphan._replace(due_us=self.host.now_us + timers.rank_us)
        else:
            if suspect in surface.estates.held and not 0 <= ago_us < timers.known_us:
                surface.circle.concern(suspect).mute(self.host.now_us + timers.patience_us)
            if self._rank_of(suspect)[0] >= inquire.rank:
                self.look_us[suspect] = self.host.now_us + timers.rank_us
        spoken_of = (*inquire.pieces, *inquire.claims)
        better = [title for each in spoken_of for title in surface.plot.atlas.better_than(each)]
        granted = surface.plot.of_status(PROVISIONAL)
        titles = tuple(each for each in better if each not in granted)
        self.host.send(
            sender,
            Witness(suspect, ago_us, titles, *self._bequest(inquire), self._held_for(suspect)),
        )

    def _held_for(self, suspect: Address) -> tuple[Title, ...]:
        """What we give to a suspect, or are given by it, is not the dead's to lose. Nobody is to learn yet that we took
        it back: that title beats the taker's, and if the give is accepted after all nobody would have the piece."""
        gift, plot = self.surface.giver.gift, self.surface.plot
        if gift is not None and gift.title.owner == suspect:
            return self.surface.giver.as_taken_back(gift)
        return tuple(plot.of_status(PROVISIONAL, suspect))

    def _bequest(self, inquire: Inquire) -> tuple[tuple[Item, ...], bool]:
        """Our copy of the suspect's estate, as far as one message holds, if it is newer than that of the asker: an heir
        that was cut off does not know that it is an heir no more, and those who replaced it have the later word."""
        orphan = self.orphans.get(inquire.suspect)
        estate = self.surface.estates.held.get(inquire.suspect) if orphan is None else orphan.estate
        if estate is None or estate.awaited or estate.serial <= inquire.serial:
            return (), False
        ground = tract_of(inquire.pieces)
        parts = in_parts(estate.within(ground), self.timers.part_bytes)
        return parts[0], len(parts) == 1 and not subtract(ground, tract_of(estate.titles))

    @handles(Witness)
    def on_witness(self, sender: Address, witness: Witness) -> None:
        self.surface.circle.heard(sender)
        inquiry = self.inquiries.get(witness.suspect)
        if inquiry is None or sender not in inquiry.awaited:
            return
        del inquiry.awaited[sender]
        inquiry.witnesses.append(witness)
        if not inquiry.awaited:
            self._judge(witness.suspect, inquiry)

    @handles(Verdict)
    def on_verdict(self, alarm: Verdict) -> None:
        inquiry = self.inquiries.get(alarm.suspect)
        if inquiry is None or alarm.round // 2 != inquiry.round:
            return
        if alarm.round % 2:
            self._judge(alarm.suspect, inquiry)
            return
        for peer in inquiry.awaited:
            self.host.send(peer, inquiry.message)
        self.host.after(self.timers.ask_us // 2, Verdict(alarm.suspect, alarm.round + 1))

    def _judge(self, suspect: Address, inquiry: Inquiry) -> None:
        surface, timers = self.surface, self.timers
        del self.inquiries[suspect]
        if inquiry.message.certain:
            self.declare_dead(suspect, inquiry)
            return
        if surface.circle.silence_us(suspect) < timers.self_us:
            return
        heard_us = [each.ago_us for each in inquiry.witnesses if 0 <= each.ago_us < timers.known_us]
        if heard_us:
            surface.hear(inquiry.titles)
            self.look_us[suspect] = self.host.now_us + min(
                timers.rank_us, timers.known_us - min(heard_us)
            )
            self.host.send(suspect, More())
        elif not inquiry.witnesses and inquiry.message.pieces and inquiry.round < timers.rounds:
            self.inquire(suspect, inquiry.message.rank, inquiry.seizes, inquiry.round + 1)
        else:
            self.declare_dead(suspect, inquiry)

    # --- taking

    def declare_dead(self, suspect: Address, inquiry: Inquiry) -> None:
        """Nobody has heard the suspect."""
        surface = self.surface
        if not inquiry.message.certain:
            surface.circle.suspect(suspect)
            self.look_us[suspect] = self.host.now_us + self.timers.rank_us
        surface.hear(inquiry.titles)
        receipt = surface.taker.held_from(suspect)
        if receipt is not None:
            surface.taker.granted(receipt)
        if inquiry.seizes:
            self.seize(suspect, inquiry)

    def seize(self, suspect: Address, inquiry: Inquiry) -> None:
        """Take every piece of the dead whose best title is still the dead's."""
        surface, plot, held = self.surface, self.surface.plot, self.surface.estates.held
        before, certain, old = (
            {*plot.neighbours(), suspect},
            inquiry.message.certain,
            inquiry.message.pieces,
        )
        estate = inquiry.estate if certain else held.get(suspect)
        given = [
            title for each in inquiry.witnesses for title in each.held
        ]  # in transit: not the dead's to lose
        best = Atlas()
        for each in (*old, *inquiry.titles, *given, *plot.atlas.titles.values()):
            best.learn(each)
        spans = tract_of(old)
        titles = [each for each in best.of(suspect) if intersect((each.low, each.high), spans)]
        if certain:  # the life that is there now may have got ground of the old one already
            titles = [
                each
                for each in titles
                if any(each.epoch == one.epoch and overlap(each, one) for one in old)
            ]
        if estate is not None:
            self._hand_on(suspect, estate, best, spans)
        if not (certain or given):
            held.pop(
                suspect, None
            )  # else it may yet be the dead's: looked at again when the give has ended
        if not titles:
            return
        tract = tract_of(titles)
        number = surface.next_number()
        for each in titles:
            plot.atlas.learn(Title(each.low, each.bits, each.epoch + 1, self.address))
            plot.status[each.low] = Status(SEIZED, suspect, number)
        plot.survey()
        surface.hear(inquiry.titles)
        if estate is not None:
            before.update(title.owner for title, _ in estate.around)
            surface.learn_around(estate.around)
            surface.tenant.accept(estate.within(tract), tract)
        surface.tenant.accept(
            tuple(item for each in inquiry.witnesses for item in each.items), tract
        )
        known = tract_of(estate.titles) if estate is not None and not estate.awaited else EMPTY
        lacking = EMPTY if any(each.whole for each in inquiry.witnesses) else subtract(tract, known)
        self.settle(number, Seizure(tract, lacking), before)

    def _hand_on(self, suspect: Address, estate: Legacy, best: Atlas, spans: Tract) -> None:
        """When a cut heals while an owner is dead, one who was no heir may have ground of it: what we hold of that is
        offered there. Heirs have it already, and so do we if it is ours."""
        having = (suspect, self.address, *estate.heirs)
        taken = intersect(
            tract_of(each for each in best.titles.values() if each.owner not in having), spans
        )
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
            return
        self.surface.send(Who(Way((low, low + 1)), self.address))
        # Our neighbours may know no more than we do: after a partition a few peers had only each other as neighbours.
        # So one that we hear, and that is no neighbour, asks for us too.
        near, since_us = self.surface.plot.neighbours(), now_us - self.timers.self_us
        heard = (
            each for each, news in self.surface.circle.news.items() if news.heard_us > since_us
        )
        known = [each for each in heard if each not in near]
        if known and self.surface.terms.assured:
            way = Way((low, low + 1), self.surface.next_number())
            self.host.send(self.host.rng.choice(known), Who(way, self.address))

    def begin_again(self) -> None:
        """Take the whole surface, of which nobody whom we hear has any. Where a silent owner is known its title is
        beaten as at every seizure; elsewhere any real title beats ours, and of two such claims one wins."""
        silent = [
            Title(each.low, each.bits, each.epoch + 1, self.address)
            for each in self.surface.plot.others
        ]
        self.claim([*silent, Title(0, 0, 0, self.address)], set())

    def claim(self, titles: list[Title], before: set[Address]) -> None:
        """Take ground that nobody has: any real title beats one of epoch 0."""
        plot, number = self.surface.plot, self.surface.next_number()
        for each in titles:
            plot.atlas.learn(each)
        taken = [each for each in plot.atlas.of(self.address) if each not in plot.pieces]
        for each in taken:
            plot.status[each.low] = Status(SEIZED, self.address, number)
        if taken:
            self.settle(number, Seizure(tract_of(taken), tract_of(taken)), before)

    def settle(self, number: int, seizure: Seizure, before: set[Address]) -> None:
        """Tell everybody, back it up, and let rivals meet us before it answers."""
        surface = self.surface
        surface.announce(before - {self.address})
        self.open[number] = seizure
        firm, own = Firm(number), intersect(seizure.tract, surface.plot.tract)
        self.host.after(self.timers.settle_us, firm)
        surface.batch(surface.tenant.pack(own), lambda: self.on_firm(firm))

    @handles(Firm)
    def on_firm(self, firm: Firm) -> None:
        """It is backed up, or rivals have had their time."""
        seizure = self.open.get(firm.number)
        if seizure is not None and seizure.step():
            self.firm_up(firm.number, seizure)

    def firm_up(self, number: int, seizure: Seizure) -> None:
        """The tenant knows first what it lacks: what waits for the ground is looked at as soon as that answers."""
        del self.open[number]
        if left := intersect(seizure.lacking, self.surface.plot.unsettled):
            self.surface.tenant.lost(left)
        self.surface.firm_up(SEIZED, number, set())
