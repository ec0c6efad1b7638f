"""Silence, and an inquiry among all who might know better.

Heir number i of a silent owner waits i ranks longer than the first, then asks everybody around whether they have heard
it; only if nobody has is it declared dead. If all heirs died too, any neighbour acts at last. A taker whose giver is
silent asks in the same way.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.estate import Item
from implicast.overlay.ice.estates import Legacy, in_parts
from implicast.overlay.ice.messages import Inquire, More, Title, Verdict, Witness
from implicast.overlay.ice.plot import PROVISIONAL
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits

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


class Inquest(SurfacePart):
    """The silence rule."""

    __slots__ = ("inquiries", "look_us", "orphans")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.inquiries: dict[Address, Inquiry] = {}
        self.look_us: Recent[Address, int] = Recent(self.timers.news_max)
        """Suspects that are not to be asked about before a time."""
        self.orphans: dict[Address, Orphan] = {}

    # --- noticing

    def watch(self, troubled: bool = True) -> None:
        """At each tick: has anybody whose place we would have to take been silent for too long? Without trouble only
        owners whose estates we hold from afar may have been."""
        surface, circle = self.surface, self.surface.circle
        for owner in (*(surface.plot.neighbours() if troubled else ()), *surface.estates.held):
            if circle.silence_us(owner) > self.timers.dead_us and self._may_ask(owner):
                rank, wait_us = self._rank_of(owner)
                if circle.silence_us(owner) > wait_us and (surface.plot.pieces or owner in surface.estates.held):
                    self.inquire(owner, rank, seizes=True)
        receipt = surface.taker.receipt
        if receipt is not None and receipt.held and self._may_ask(receipt.giver):
            if circle.silence_us(receipt.giver) > self.timers.dead_us:  # dead givers cannot take back
                self.inquire(receipt.giver, self.timers.heirs + 1, seizes=False)
            elif receipt.taken_us >= 0 or not (surface.heirs or surface.plot.firm):
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
        return None if estate.awaited or self.address not in estate.heirs else estate.heirs.index(self.address)

    # --- asking

    def inquire(self, suspect: Address, rank: int, seizes: bool, round_: int = 0, buried: Legacy | None = None) -> None:
        surface, estate = self.surface, buried or self.surface.estates.held.get(suspect)
        pieces = {each.low: each for each in (estate.titles if estate is not None else ())}
        if round_ < BURIED:
            pieces.update({each.low: each for each in surface.plot.atlas.of(suspect)})
        claims = surface.plot.of_status(PROVISIONAL, suspect)
        serial = NO_ESTATE if estate is None or estate.awaited else estate.serial
        message = Inquire(suspect, tuple(pieces.values()), rank, tuple(claims), serial, round_ >= BURIED)
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
            found.update(dict.fromkeys((peer, *heirs) if surface.circle.is_suspect(peer) else (peer,)))
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
            if orphan is not None and orphan.rank > inquire.rank:  # an heir before us takes the place of the dead
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
        self.host.send(sender, Witness(suspect, ago_us, titles, *self._bequest(inquire), self._held_for(suspect)))

    def _held_for(self, suspect: Address) -> tuple[Title, ...]:
        """What we are giving to a suspect is not its own yet: nobody is to seize it, nor to believe it ours again.

        A title that we might have one day beats the taker's in everybody's eyes: if the give is accepted after all,
        nobody would have the piece. What we are given by a suspect is not the dead's to lose either.
        """
        gift, plot = self.surface.giver.gift, self.surface.plot
        if gift is not None and gift.title.owner == suspect:
            return self.surface.giver.as_taken_back(gift)
        return tuple(plot.of_status(PROVISIONAL, suspect))

    def _bequest(self, inquire: Inquire) -> tuple[tuple[Item, ...], bool]:
        """Our copy of the suspect's estate, if it is newer than the asker's, as far as one message holds.

        An heir that was cut off does not know that it is an heir no more: those who replaced it have the later word.
        """
        orphan = self.orphans.get(inquire.suspect)
        estate = self.surface.estates.held.get(inquire.suspect) if orphan is None else orphan.estate
        if estate is None or estate.awaited or estate.serial <= inquire.serial:
            return (), False
        parts = in_parts(estate.within(tract_of(inquire.pieces)), self.timers.part_bytes)
        return parts[0], len(parts) == 1

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
            surface.seizures.declare_dead(suspect, inquiry)
            return
        if surface.circle.silence_us(suspect) < timers.self_us:
            return
        heard_us = [each.ago_us for each in inquiry.witnesses if 0 <= each.ago_us < timers.known_us]
        if heard_us:
            surface.hear(inquiry.titles)
            self.look_us[suspect] = self.host.now_us + min(timers.rank_us, timers.known_us - min(heard_us))
            self.host.send(suspect, More())
        elif not inquiry.witnesses and inquiry.message.pieces and inquiry.round < timers.rounds:
            self.inquire(suspect, inquiry.message.rank, inquiry.seizes, inquiry.round + 1)
        else:
            surface.seizures.declare_dead(suspect, inquiry)
