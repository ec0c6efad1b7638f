"""Silence, and an inquiry among all who might know better.

Heir number i of a silent owner waits i ranks longer than the first, then asks everybody around whether they have heard
it; only if nobody has is it declared dead. If all heirs died too, any neighbour acts at last. A taker whose giver is
silent asks in the same way.
"""

from dataclasses import dataclass, field

from implicast.overlay.ice.alive.estate import Item, Keeper
from implicast.overlay.ice.alive.ground import GIVING, PROVISIONAL
from implicast.overlay.ice.alive.inheriting import in_parts
from implicast.overlay.ice.alive.leaving import Leaving
from implicast.overlay.ice.alive.messages import Inquire, Judge, Witness
from implicast.overlay.ice.alive.settings import Life
from implicast.overlay.ice.alive.taking import Receipt
from implicast.overlay.ice.atlas import tract_of
from implicast.overlay.ice.messages import More, Title
from implicast.peer.contract import Address, Host, handles
from implicast.space.digest import digest_bits

NO_ESTATE = -2
WITNESSES_MAX = 64
"""Peers asked about one suspect."""


@dataclass(slots=True)
class Inquiry:
    """What we have been told of a suspect so far."""

    rank: int
    seizes: bool
    """False: we only want to know whether a giver is dead."""
    awaited: dict[Address, None]
    message: Inquire
    round: int = 0
    answers: int = 0
    ago_us: int = -1
    """The shortest time since anybody heard the suspect; -1: nobody knows any."""
    titles: list[Title] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    whole: bool = False
    """A witness had a whole copy of the estate."""
    held: list[Title] = field(default_factory=list)
    """What is in the hands of those who give to the suspect, or are given by it: not the dead's to lose."""


class Inquiring(Leaving):
    """The silence rule."""

    __slots__ = ("_owners_us", "inquiries", "look_us")

    def __init__(
        self, address: Address, host: Host, keeper: Keeper, life: Life, dimensions: int, cosine: float,
        merge: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(address, host, keeper, life, dimensions, cosine, merge)
        self.inquiries: dict[Address, Inquiry] = {}
        self._owners_us = 0
        self.look_us: dict[Address, int] = {}
        """Suspects that are not to be asked about before a time."""

    def declare_dead(self, suspect: Address, inquiry: Inquiry) -> None:
        """Nobody has heard the suspect: `seizing.py`."""

    # --- noticing

    def watch(self, troubled: bool = True) -> None:
        """At each tick: has anybody whose place we would have to take been silent for too long?

        Without trouble no neighbour has (`greet_due`), and only owners whose estates we hold from afar may have been.
        """
        now_us = self.host.now_us
        owners_us = self.owners_next_us(now_us)
        if owners_us < self.quiet_us:
            self.quiet_us = owners_us
        if troubled or owners_us <= now_us:
            self._watch_owners(now_us, (*self._near, *self.estates) if troubled else tuple(self.estates))
        receipt = self.receipt
        if receipt is not None and receipt.held and self._may_ask(receipt.giver):
            self._watch_giver(receipt)

    def owners_next_us(self, now_us: int) -> int:
        """Before this time no owner whose estate we hold can have been silent for too long.

        Not looked for again until then: words only put it off, and estates that come are of those just heard.
        """
        if now_us >= self._owners_us:
            known, since_us = self.news, now_us
            for owner in self.estates:
                news = known.get(owner) or self.concern(owner)
                since_us = min(since_us, max(news.heard_us, news.since_us))
            self._owners_us = since_us + self.life.dead_us
        return self._owners_us

    def _watch_owners(self, now_us: int, owners: tuple[Address, ...]) -> None:
        known, dead_us = self.news, self.life.dead_us
        for owner in owners:
            news = known.get(owner) or self.concern(owner)
            until_us = max(news.heard_us, news.since_us) + dead_us
            if until_us < self.quiet_us:
                self.quiet_us = until_us
            if until_us < now_us and self._may_ask(owner):
                rank, wait_us = self._rank_of(owner)
                if self.silence_us(owner) > wait_us and (self.pieces or owner in self.estates):
                    self.inquire(owner, rank, seizes=True)

    def _watch_giver(self, receipt: Receipt) -> None:
        """Dead givers cannot take back."""
        if self.silence_us(receipt.giver) > self.life.dead_us:
            self.inquire(receipt.giver, self.life.heirs + 1, seizes=False)
        elif receipt.taken_us >= 0 or not (self.heirs or self.ground):
            self._accept(receipt)

    def _may_ask(self, owner: Address) -> bool:
        return owner not in self.inquiries and self.look_us.get(owner, 0) <= self.host.now_us

    def _rank_of(self, owner: Address) -> tuple[int, int]:
        """Our place in the order of those who may take an owner's place, and how long we wait."""
        life, estate = self.life, self.estates.get(owner)
        if estate is not None and not estate.awaited and self.address in estate.heirs:
            rank = estate.heirs.index(self.address)
            return rank, life.dead_us + rank * life.rank_us
        share = digest_bits(16, "last resort", repr(owner), repr(self.address)) / 2**16
        return life.heirs + 1, life.dead_us + int((life.heirs + 1 + share) * life.rank_us)

    # --- asking

    def inquire(self, suspect: Address, rank: int, seizes: bool, round_: int = 0) -> None:
        estate = self.estates.get(suspect)
        pieces = {each.low: each for each in (estate.titles if estate is not None else ())}
        pieces.update({each.low: each for each in self.atlas.of(suspect)})
        claims = self.of_status(PROVISIONAL) if self.receipt is not None and self.receipt.giver == suspect else []
        serial = NO_ESTATE if estate is None or estate.awaited else estate.serial
        message = Inquire(suspect, tuple(pieces.values()), rank, tuple(claims), serial)
        asked = dict.fromkeys(self._witnesses(suspect))
        self.inquiries[suspect] = Inquiry(rank, seizes, asked, message, round_)
        for peer in asked:
            self.host.send(peer, message)
        self.host.after(self.life.ask_us // 2, Judge(suspect, 2 * round_))

    def _witnesses(self, suspect: Address) -> list[Address]:
        """The suspect's heirs and neighbours, our neighbours, and the heirs of those among them that are silent too."""
        estate = self.estates.get(suspect)
        found = dict.fromkeys(self.heirs_of(suspect))
        if estate is not None:
            found.update(dict.fromkeys(estate.heirs))
            for title, heirs in estate.around:
                found[title.owner] = None
                if self.is_suspect(title.owner):
                    found.update(dict.fromkeys(heirs))
        for peer in self.neighbours():
            found[peer] = None
            if self.is_suspect(peer):
                found.update(dict.fromkeys(self.heirs_of(peer)))
        found.pop(self.address, None)
        found.pop(suspect, None)
        return list(found)[:WITNESSES_MAX]

    @handles(Inquire)
    def on_inquire(self, sender: Address, inquire: Inquire) -> None:
        self.heard(sender)
        suspect = inquire.suspect
        if suspect == self.address:
            self.hail([sender])
            return
        news = self.news.get(suspect)
        ago_us = -1 if news is None or news.heard_us < 0 else self.host.now_us - news.heard_us
        if ago_us < 0 or ago_us > self.life.self_us:
            self.hear(inquire.claims)
        if suspect in self.estates and not 0 <= ago_us < self.life.known_us:
            self.concern(suspect).mute_us = self.host.now_us + self.life.patience_us
        if self._rank_of(suspect)[0] >= inquire.rank:
            self.look_us[suspect] = self.host.now_us + self.life.rank_us
        spoken_of = (*inquire.pieces, *inquire.claims)
        better = [title for each in spoken_of for title in self.atlas.better_than(each)]
        granted = self.of_status(PROVISIONAL)
        titles = tuple(each for each in better if each not in granted)
        self.host.send(sender, Witness(suspect, ago_us, titles, *self._bequest(inquire), self._held_for(suspect)))

    def _held_for(self, suspect: Address) -> tuple[Title, ...]:
        """What we are giving to a suspect is not its own yet: nobody is to seize it, nor to believe it ours again.

        A title that we might have one day beats the taker's in everybody's eyes: if the give is accepted after all,
        nobody would have the piece. What we are given by a suspect is not the dead's to lose either.
        """
        gift, receipt = self.gift, self.receipt
        if gift is not None and gift.title.owner == suspect:
            epoch = gift.piece.epoch + 3
            return tuple(Title(each.low, each.bits, epoch, self.address) for each in self.of_status(GIVING))
        return tuple(self.of_status(PROVISIONAL)) if receipt is not None and receipt.giver == suspect else ()

    def _bequest(self, inquire: Inquire) -> tuple[tuple[Item, ...], bool]:
        """Our copy of the suspect's estate, if it is newer than the asker's, as far as one message holds.

        An heir that was cut off does not know that it is an heir no more: those who replaced it have the later word.
        """
        estate = self.estates.get(inquire.suspect)
        if estate is None or estate.awaited or estate.serial <= inquire.serial:
            return (), False
        parts = in_parts(estate.within(tract_of(inquire.pieces)), self.life.part_bytes)
        return parts[0], len(parts) == 1

    @handles(Witness)
    def on_witness(self, sender: Address, witness: Witness) -> None:
        self.heard(sender)
        inquiry = self.inquiries.get(witness.suspect)
        if inquiry is None or sender not in inquiry.awaited:
            return
        del inquiry.awaited[sender]
        inquiry.answers += 1
        if witness.ago_us >= 0:
            inquiry.ago_us = witness.ago_us if inquiry.ago_us < 0 else min(inquiry.ago_us, witness.ago_us)
        inquiry.titles += witness.titles
        inquiry.items += witness.items
        inquiry.held += witness.held
        inquiry.whole = inquiry.whole or witness.whole
        if not inquiry.awaited:
            self._judge(witness.suspect, inquiry)

    @handles(Judge)
    def on_judge(self, alarm: Judge) -> None:
        inquiry = self.inquiries.get(alarm.suspect)
        if inquiry is None or alarm.round // 2 != inquiry.round:
            return
        if alarm.round % 2:
            self._judge(alarm.suspect, inquiry)
            return
        for peer in inquiry.awaited:
            self.host.send(peer, inquiry.message)
        self.host.after(self.life.ask_us // 2, Judge(alarm.suspect, alarm.round + 1))

    def _judge(self, suspect: Address, inquiry: Inquiry) -> None:
        life, now_us = self.life, self.host.now_us
        del self.inquiries[suspect]
        if self.silence_us(suspect) < life.self_us:
            return
        if 0 <= inquiry.ago_us < life.known_us:
            self.hear(inquiry.titles)
            self.look_us[suspect] = now_us + min(life.rank_us, life.known_us - inquiry.ago_us)
            self.host.send(suspect, More())
        elif not inquiry.answers and inquiry.message.pieces and inquiry.round < life.rounds:
            self.inquire(suspect, inquiry.rank, inquiry.seizes, inquiry.round + 1)
        else:
            self.declare_dead(suspect, inquiry)

    def forget_suspects(self) -> None:
        now_us = self.host.now_us
        if self.look_us:
            self.look_us = {each: until_us for each, until_us in self.look_us.items() if until_us > now_us}
