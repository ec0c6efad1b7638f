"""What a node of a Chord# ring tells of its table in rounds: to whom, and when.

A node that asked for a level is told of it in every round, as soon as all below it has been learnt, and whenever
another node stands at that level; until it says that it has had enough, or does not ask anew for long. When a round
begins, and what is learnt in it, is for `rounds.py`.
"""

from typing import TYPE_CHECKING

from implicast.overlay.chord_sharp.messages import AskLevel, Enough, FingerGone, LevelIs, TellAgain
from implicast.overlay.chord_sharp.settings import RENEWAL
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Part, handles
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.chord_sharp.chord_sharp import ChordSharp

ASKERS_MAX = 8
"""Nodes told about one level; usually one asks. The one that asked longest ago is told no more."""

Askers = dict[int, Recent[Address, tuple[int, int]]]


_NOBODY: Askers = {}
"""Shared by nodes without rounds."""


class Tidings(Part):
    """Tells those who asked."""

    __slots__ = ("_news", "askers", "ready", "ring", "told_round")

    def __init__(self, ring: "ChordSharp") -> None:
        super().__init__(ring.address, ring.host)
        self.ring = ring
        self.ready = 0
        """So many levels from 0 on have been learnt in this round."""
        self._news = 0
        """Levels, as bits, that have changed since all was told."""
        self.told_round = 0
        """The last round in which all was told."""
        self.askers: Askers = {} if ring.settings.rounds else _NOBODY
        """By level: who is told, with its token and when it asked."""

    def settle(self) -> None:
        """The table is that of a settled ring."""
        self.ready = len(self.ring.table)

    def begin(self) -> None:
        """A round begins: nothing has been learnt in it."""
        self.ready = self._news = 0

    def stop(self) -> list[Address]:
        """Off the ring, or anew on it. Returns those who name this node as a finger."""
        askers = self.askers
        if askers:
            self.askers = {}
        return list({address: None for each in askers.values() for address in each})

    @handles(AskLevel)
    def on_ask_level(self, sender: Address, ask: AskLevel) -> None:
        ring, links = self.ring, self.ring.links
        if links.state == INS or not ring.settings.rounds:
            return
        if links.state == OUT or ask.to != links.me:
            self.host.send(sender, FingerGone(ask.to, ring.heir(ask.to)))
            return
        links.heard(ask.by)
        ring.rounds.catch(ask.round)
        self.askers.setdefault(ask.level, Recent(ASKERS_MAX)).put(sender, (ask.token, self.host.now_us))
        if ask.answer:
            self._tell_one(sender, ask.level, ask.token, 0)

    def tell(self, level: int) -> None:
        """Tell those who want to know of a level. A node that has not asked anew for long is told no more."""
        now_us, askers = self.host.now_us, self.askers.get(level)
        if not askers:
            return
        over_us = now_us - (RENEWAL + 2) * self.ring.settings.period_us
        for address, (token, asked_us) in list(askers.items()):
            if asked_us < over_us:
                del askers[address]
            else:
                self._tell_one(address, level, token, now_us - asked_us)

    def _tell_one(self, to: Address, level: int, token: int, held_us: int) -> None:
        ring = self.ring
        me, number = ring.links.me, ring.rounds.number
        if level > self.ready:
            self.host.send(to, LevelIs(me, token, number, held_us, 0, None))
            return
        ring.table.hold(ring.passenger.value())
        ent, age_us = ring.table.answer(level, self.host.now_us)
        self.host.send(to, LevelIs(me, token, number, held_us, age_us, ent))

    @handles(Enough)
    def on_enough(self, sender: Address, enough: Enough) -> None:
        for askers in self.askers.values():
            known = askers.get(sender)
            if known is not None and known[0] == enough.token:
                del askers[sender]

    def advance(self) -> None:
        """With each level learnt the next can be told."""
        rounds, number = self.ring.table.rounds, self.ring.rounds.number
        self.ready = min(self.ready, len(rounds))
        while self.ready < len(rounds) and rounds[self.ready] >= number:
            self.ready += 1
            self.tell(self.ready)
        if self.ready == len(rounds):
            self.told_round = number

    def changed(self, level: int) -> None:
        """Another node stands at this level: those who ask for it are to be told, round or not; and, if they have been
        told of it in this round, once more in a while, for nobody misses what comes unexpected."""
        number = self.ring.rounds.number
        if self.told_round == number or level <= self.ready:
            self._news |= 1 << level
            self.host.after(self.ring.settings.again_us, TellAgain(self.ring.links.me.life, number))
        self.ready = min(self.ready, max(0, level - 1))

    @handles(TellAgain)
    def on_tell_again(self, alarm: TellAgain) -> None:
        if not self.ring.rounds.is_now(alarm.life, alarm.round):
            return
        news, self._news = self._news, 0
        for level in range(self.ready + 1):
            if news >> level & 1:
                self.tell(level)
