"""Chord# where peers crash and messages get lost: the table as soft state, kept in rounds.

Fingers go by count and aggregates come with them, as ever (`table.py`). What is different is who refreshes when:

- *Rounds.* About every `period_us` everybody's table is refreshed at once. Whoever's timer rings first begins; the
  number of the round travels with every word, and whoever hears a higher one begins too. In a round level 0 is learnt
  first, from the right neighbour, and with each level that is learnt the next can be told: after log2 n steps all
  tables are exact, however wrong they were, if the ring was whole when the round began. Nobody holds a round, so
  nobody's death ends it; an update flow (one message that travels round the ring) dies with whoever holds it, and with
  each lost message.
- *Told without being asked.* Whoever names a node as its finger asks it once and is told in every round from then on
  (`telling.py`); it asks again every `RENEWAL` rounds, and whenever nothing came. One message per level and round
  instead of two.
- *Age.* Every answer says how old its oldest part is. The time on the way is counted in full: from the asker's question
  to the arrival, less the time that the answerer says it held the question. So a message that lay in a sleeper's mail
  is as old as it is.
- *The silent* are asked again, then suspected (the ring's own detector) and skipped until they are heard. Their level
  stays empty for the round, so that those who wait are told what is known.

After the Chord# rules of `table.py`; rounds are ours (`FIDELITY.md`).
"""

from dataclasses import dataclass, field

from implicast.overlay.chord_sharp.living_messages import AskLevel, CatchUp, Enough, LevelIs, RoundDue
from implicast.overlay.chord_sharp.settings import RENEWAL, RoundSettings
from implicast.overlay.chord_sharp.table import LEVELS_MAX
from implicast.overlay.chord_sharp.telling import Telling
from implicast.overlay.links import Links, Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Host, handles

CATCH_UPS_MAX = 16
"""How often one looks for missing levels in one round; then the round goes on without them."""
DRIFT = 0.02
"""Two clocks may differ in speed by so much; ages are rounded up by it."""


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


class Rounds(Telling):
    """Asks, is told, and tells."""

    __slots__ = ("asks", "catch_ups", "gen", "wary", "watching")

    def __init__(self, address: Address, host: Host, links: Links, settings: RoundSettings) -> None:
        super().__init__(address, host, links, settings)
        self.catch_ups = self.gen = 0
        """`gen`: repairs of the own place seen."""
        self.watching = False
        self.wary = False
        """Whether some finger may be lost: saves asking of each at every cast that passes."""
        self.asks: dict[int, Asked] = {}
        """By level."""

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
