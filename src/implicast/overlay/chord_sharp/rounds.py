"""Chord# where peers crash and messages get lost: the table as soft state, kept in rounds.

Fingers go by count and aggregates come with them, as ever (`table.py`). What is different is who refreshes when:

- *Rounds.* About every `period_us` everybody's table is refreshed at once. Whoever's timer rings first begins; the
  number of the round travels with every word, and whoever hears a higher one begins too. In a round level 0 is learnt
  first, from the right neighbour, and with each level that is learnt the next can be told: after log2 n steps all
  tables are exact, however wrong they were, if the ring was whole when the round began. Nobody holds a round, so
  nobody's death ends it; an update flow (one message that travels round the ring) dies with whoever holds it, and with
  each lost message.
- *Told without being asked.* Whoever names a node as its finger asks it once and is told in every round from then on;
  it asks again every `RENEWAL` rounds, and whenever nothing came. One message per level and round instead of two.
- *Age.* Every answer says how old its oldest part is. The time on the way is counted in full: from the asker's question
  to the arrival, less the time that the answerer says it held the question. So a message that lay in a sleeper's mail
  is as old as it is.
- *The silent* are asked again, then suspected (the ring's own detector) and skipped until they are heard. Their level
  stays empty for the round, so that those who wait are told what is known.

After the Chord# rules of `table.py`; rounds are ours (`FIDELITY.md`).
"""

from dataclasses import dataclass, field

from implicast.overlay.chord_sharp.living_messages import AskLevel, CatchUp, Enough, LevelIs, RoundDue, TellAgain
from implicast.overlay.chord_sharp.living_table import LivingTable
from implicast.overlay.chord_sharp.messages import Farewell
from implicast.overlay.chord_sharp.table import LEVELS_MAX
from implicast.overlay.chord_sharp.upkeep import ChordSharp, SharpSettings
from implicast.overlay.links import Links, Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Host, handles

RENEWAL = 2
"""A question holds for so many rounds; then it is put again. Rarely enough to save messages, often enough that clocks
which differ in speed do not make answers look much older than they are."""
ASKERS_MAX = 8
"""Nodes told about one level; usually one asks. The one that asked longest ago is told no more."""
CATCH_UPS_MAX = 16
"""How often one looks for missing levels in one round; then the round goes on without them."""
DRIFT = 0.02
"""Two clocks may differ in speed by so much; ages are rounded up by it."""


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """The waits of table upkeep in a living ring."""

    period_us: int = 24_000_000
    """From one round to the next."""
    stale_us: int = 32_000_000
    """What is older than this is unknown. A period, and what a round may take."""
    catch_up_us: int = 1_000_000
    """After so long one looks for levels that have not come."""
    step_us: int = 400_000
    """And again after this, each time one level higher: what is missing below is the reason for most that is missing
    above, and comes by itself when the reason is gone."""
    again_us: int = 1_000_000
    """The same node is not asked again before this."""
    tries: int = 4
    """Questions in vain before the silent one is suspected."""


@dataclass(slots=True)
class Asked:
    """A standing question: who answers for a level."""

    ref: Ref
    round: int
    asked_us: dict[int, int] = field(default_factory=dict)
    """When it was put, by token: the last two, for answers to the one before may still come."""
    silent: int = 0
    """Attempts since its last word."""
    quiet_us: int = 0
    """It is not asked again before this time."""


class Rounds(ChordSharp):
    """Asks, is told, and tells."""

    __slots__ = (
        "askers",
        "asks",
        "catch_ups",
        "gen",
        "news",
        "period",
        "ready",
        "round",
        "told_round",
        "wary",
        "watching",
    )

    table: LivingTable

    def __init__(self, address: Address, host: Host, links: Links, settings: RoundSettings) -> None:
        super().__init__(address, host, links, SharpSettings())
        self.period = settings
        self.table = LivingTable(links.me, settings.stale_us)
        self.round = self.ready = self.catch_ups = self.gen = self.news = 0
        """`ready`: so many levels from 0 on have been learnt in this round. `gen`: repairs of the own place seen.
        `news`: levels, as bits, that have changed since all was told."""
        self.told_round = 0
        """The last round in which all was told."""
        self.watching = False
        self.wary = False
        """Whether some finger may be lost: saves asking of each at every cast that passes."""
        self.asks: dict[int, Asked] = {}
        """By level."""
        self.askers: dict[int, dict[Address, tuple[int, int]]] = {}
        """By level: who is told, with its token and when it asked."""

    def start(self, delay_us: int) -> None:
        """In an assembled ring: the first round begins then."""
        self.host.after(delay_us, RoundDue(self.links.me.life, self.round))

    def is_lost(self, ref: Ref) -> bool:
        detector = self.links.detector
        return detector is not None and detector.is_lost(ref)

    def some_are_lost(self) -> bool:
        """Whether any finger is; most often nobody is."""
        if self.wary:
            self.wary = any(map(self.is_lost, self.table.nodes))
        return self.wary

    # --- rounds

    @handles(RoundDue)
    def on_round_due(self, alarm: RoundDue) -> None:
        if alarm.life == self.links.me.life and alarm.round == self.round and self.links.state not in (OUT, INS):
            self._begin(self.round + 1)

    def _begin(self, number: int) -> None:
        links = self.links
        self.round, self.ready, self.catch_ups, self.news = number, 0, 0, 0
        self.host.after(self.period.period_us, RoundDue(links.me.life, number))
        self.watching = False
        self._watch(self.period.catch_up_us)
        self.table.follow(links.right)
        for level in range(len(self.table)):
            self._stand_by(level)
        self._tell(0)
        self._advance()

    def _watch(self, after_us: int) -> None:
        """Look for what is missing then."""
        if not self.watching:
            self.watching = True
            self.host.after(after_us, CatchUp(self.links.me.life, self.round))

    def _stand_by(self, level: int) -> None:
        """See to it that the node at a level will tell. Nobody waits for one that is lost, but it is asked: it may have
        been cut off only."""
        node, asked = self.table.nodes[level], self.asks.get(level)
        if self.is_lost(node):
            self.table.rounds[level] = self.round
            self.wary = True
        if asked is None or asked.ref != node:
            self.asks[level] = Asked(node, self.round)
            self._put_question(level, answer=True)
            self.catch_ups = min(self.catch_ups, CATCH_UPS_MAX // 2)  # a late question may get lost too
            self._watch(self.period.again_us)
        elif self.round - asked.round >= RENEWAL:
            self._put_question(level, answer=False)

    def _put_question(self, level: int, answer: bool) -> None:
        asked = self.asks[level]
        self.token += LEVELS_MAX
        token = self.token + level  # so that an answer's level need not be looked for
        asked.round = self.round
        asked.quiet_us = self.host.now_us + self.period.again_us
        asked.asked_us = {**dict(list(asked.asked_us.items())[-1:]), token: self.host.now_us}
        question = AskLevel(asked.ref, self.links.me, token, level, self.round, answer)
        self.host.send(asked.ref.address, question)

    @handles(CatchUp)
    def on_catch_up(self, alarm: CatchUp) -> None:
        """Ask for what has not come."""
        if alarm.life != self.links.me.life or alarm.round != self.round or self.links.state in (OUT, INS):
            return
        self.watching = False
        self.catch_ups += 1
        highest = LEVELS_MAX if self.told_round == self.round else self.catch_ups
        missing = [level for level, number in enumerate(self.table.rounds[:highest]) if number < self.round]
        for level in missing:
            if level < len(self.table):
                self._catch_up(level)
        if any(number < self.round for number in self.table.rounds):
            self._watch(self.period.step_us)

    def _catch_up(self, level: int) -> None:
        asked, node = self.asks.get(level), self.table.nodes[level]
        if asked is None or asked.ref != node:
            self._stand_by(level)
        elif asked.silent >= self.period.tries:
            assert self.links.detector is not None, "in a living ring somebody watches"
            self.links.detector.suspect(node)
            self.silent(node)
        elif self.catch_ups > CATCH_UPS_MAX:
            self.table.rounds[level] = self.round
            self._advance()
        elif asked.quiet_us <= self.host.now_us:
            asked.silent += 1
            self._put_question(level, answer=True)

    # --- telling

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

    # --- learning

    @handles(LevelIs)
    def on_level_is(self, sender: Address, told: LevelIs) -> None:
        if self.links.state in (OUT, INS):
            return
        self.links.heard(told.by)
        if told.round > self.round:
            self._begin(told.round)
        level = told.token % LEVELS_MAX
        asked = self.asks.get(level)
        if asked is None or asked.ref != told.by or told.token not in asked.asked_us:
            self.host.send(sender, Enough(told.token))
            return
        asked.silent = 0
        if told.ent is None:
            asked.quiet_us = self.host.now_us + 2 * self.period.again_us  # it will tell when it knows
        elif self._is_at(level, told.by) and told.round >= self.table.rounds[level]:
            self._learn(level, asked, told)

    def _is_at(self, level: int, ref: Ref) -> bool:
        return level < len(self.table) and self.table.nodes[level] == ref

    def _learn(self, level: int, asked: Asked, told: LevelIs) -> None:
        assert told.ent is not None, "something was told"
        table, asked_us = self.table, asked.asked_us[told.token]
        since_us = int(asked_us + told.held_us * (1 - DRIFT) - told.age_us * (1 + DRIFT))
        next_before = table.nodes[level + 1 : level + 2]
        circulated = table.learn(level, told.ent, min(since_us, self.host.now_us), told.round)
        if table.nodes[level + 1 : level + 2] != next_before:
            self._changed(level + 1)
        if circulated:
            for above in [each for each in self.asks if each > level]:
                del self.asks[above]
        elif table.rounds[level + 1] < self.round:
            self._stand_by(level + 1)
        self._advance()

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

    def _advance(self) -> None:
        """With each level learnt the next can be told."""
        rounds = self.table.rounds
        self.ready = min(self.ready, len(rounds))
        while self.ready < len(rounds) and rounds[self.ready] >= self.round:
            self.ready += 1
            self._tell(self.ready)
        if self.ready == len(rounds):
            self.told_round = self.round
