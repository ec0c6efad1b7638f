"""What a node of a living Chord# ring tells of its table: to whom, and when.

Whoever asked for a level is told of it in every round, as soon as all below it has been learnt, and whenever another
node stands at that level; until it says that it has had enough, or does not ask anew for long. When a round begins, and
what is learnt in it, is for `rounds.py`.
"""

from abc import abstractmethod

from implicast.overlay.chord_sharp.living_messages import AskLevel, Enough, LevelIs, TellAgain
from implicast.overlay.chord_sharp.living_table import LivingTable
from implicast.overlay.chord_sharp.messages import Farewell
from implicast.overlay.chord_sharp.settings import RENEWAL, RoundSettings
from implicast.overlay.chord_sharp.table import LEVELS_MAX
from implicast.overlay.chord_sharp.upkeep import ChordSharp, SharpSettings
from implicast.overlay.links import Links
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Host, handles

ASKERS_MAX = 8
"""Nodes told about one level; usually one asks. The one that asked longest ago is told no more."""


class Telling(ChordSharp):
    """Tells those who asked."""

    __slots__ = ("askers", "news", "period", "ready", "round", "told_round")

    table: LivingTable

    def __init__(self, address: Address, host: Host, links: Links, settings: RoundSettings) -> None:
        super().__init__(address, host, links, SharpSettings())
        self.period = settings
        self.table = LivingTable(links.me, settings.stale_us)
        self.round = self.ready = self.news = 0
        """`ready`: so many levels from 0 on have been learnt in this round. `news`: levels, as bits, that have changed
        since all was told."""
        self.told_round = 0
        """The last round in which all was told."""
        self.askers: dict[int, dict[Address, tuple[int, int]]] = {}
        """By level: who is told, with its token and when it asked."""

    @abstractmethod
    def _begin(self, number: int) -> None:
        """Somebody is in this round already: it begins here too."""

    @handles(AskLevel)
    def on_ask_level(self, sender: Address, ask: AskLevel) -> None:
        links = self.links
        if links.state == INS:
            return
        if links.state == OUT or ask.to != links.me:
            self.host.send(sender, Farewell(ask.to, links.right if links.state == OUT else links.me))
            return
        links.heard(ask.by)
        if ask.round > self.round:
            self._begin(ask.round)
        if 0 <= ask.level < LEVELS_MAX:
            self._note_asker(sender, ask)
            if ask.answer:
                self._tell_one(sender, ask.level, ask.token, 0)

    def _note_asker(self, sender: Address, ask: AskLevel) -> None:
        askers = self.askers.setdefault(ask.level, {})
        askers.pop(sender, None)
        askers[sender] = ask.token, self.host.now_us
        if len(askers) > ASKERS_MAX:
            del askers[next(iter(askers))]

    def _tell(self, level: int) -> None:
        """Tell those who want to know of a level. Who has not asked anew for long is told no more."""
        now_us, askers = self.host.now_us, self.askers.get(level)
        if not askers:
            return
        over_us = now_us - (RENEWAL + 2) * self.period.period_us
        for address, (token, asked_us) in list(askers.items()):
            if asked_us < over_us:
                del askers[address]
            else:
                self._tell_one(address, level, token, now_us - asked_us)

    def _tell_one(self, to: Address, level: int, token: int, held_us: int) -> None:
        me = self.links.me
        if level > self.ready:
            self.host.send(to, LevelIs(me, token, self.round, held_us, 0, None))
            return
        self.table.hold(self.passenger.value())
        ent, age_us = self.table.answer(level, self.host.now_us)
        self.host.send(to, LevelIs(me, token, self.round, held_us, age_us, ent))

    @handles(Enough)
    def on_enough(self, sender: Address, enough: Enough) -> None:
        for askers in self.askers.values():
            if askers.get(sender, (0, 0))[0] == enough.token:
                del askers[sender]

    def _advance(self) -> None:
        """With each level learnt the next can be told."""
        rounds = self.table.rounds
        self.ready = min(self.ready, len(rounds))
        while self.ready < len(rounds) and rounds[self.ready] >= self.round:
            self.ready += 1
            self._tell(self.ready)
        if self.ready == len(rounds):
            self.told_round = self.round

    def _changed(self, level: int) -> None:
        """Another node stands at this level: those who ask for it are to be told, round or not; and, if they have been
        told of it in this round, once more in a while, for nobody misses what comes unexpected."""
        if self.told_round == self.round or level <= self.ready:
            self.news |= 1 << level
            self.host.after(self.period.again_us, TellAgain(self.links.me.life, self.round))
        self.ready = min(self.ready, max(0, level - 1))

    @handles(TellAgain)
    def on_tell_again(self, alarm: TellAgain) -> None:
        if alarm.life != self.links.me.life or alarm.round != self.round or self.links.state in (OUT, INS):
            return
        news, self.news = self.news, 0
        for level in range(self.ready + 1):
            if news >> level & 1:
                self._tell(level)
