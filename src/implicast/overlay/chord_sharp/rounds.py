"""Chord# where peers crash and messages get lost: the table as soft state, kept in rounds.

Fingers go by count and aggregates come with them, as ever (`table.py`). What is different is who refreshes when:

- *Rounds.* About every `period_us` all tables are refreshed at once. The node whose timer rings first begins; the
  number of the round travels with every word, and a node that hears a higher one begins too. In a round level 0 is
  learnt first, from the right neighbour, and with each level that is learnt the next can be told: after log2 n steps
  all tables are exact, however wrong they were, if the ring was whole when the round began. Nobody holds a round, so
  nobody's death ends it; an update flow (one message that travels round the ring) dies with the node that holds it, and
  with each lost message.
- *Told without being asked.* A node asks its finger once and is told in every round from then on (`tidings.py`); it
  asks again every `RENEWAL` rounds, and whenever nothing came. One message per level and round instead of two.
- *Age.* Every answer says how old its oldest part is. The time on the way is counted in full: from the asker's question
  to the arrival, less the time that the answerer says it held the question. So a message that lay in a sleeper's mail
  is as old as it is.
- *The silent* are asked again, then suspected (the ring's own detector) and skipped until they are heard. Their level
  stays empty for the round, so that those who wait are told what is known.

After the Chord# rules of `table.py`; rounds are ours (`FIDELITY.md`).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from implicast.overlay.chord_sharp.messages import LEVELS_MAX, AskLevel, CatchUp, Enough, LevelIs, RoundDue
from implicast.overlay.chord_sharp.settings import RENEWAL
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Part, handles

if TYPE_CHECKING:
    from implicast.overlay.chord_sharp.chord_sharp import ChordSharp

CATCH_UPS_MAX = 16
"""How often a node looks for missing levels in one round; then the round goes on without them."""
DRIFT = 0.02
"""Two clocks may differ in speed by so much; ages are rounded up by it."""
AHEAD_MAX = 1 << 20
"""A round so far ahead of the own is none of this ring: that many take months."""


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

    def put(self, token: int, number: int, now_us: int, again_us: int) -> None:
        """It is asked, under this token."""
        self.round, self.quiet_us = number, now_us + again_us
        self.asked_us = {**dict(list(self.asked_us.items())[-1:]), token: now_us}

    def in_vain(self) -> None:
        self.silent += 1

    def spoke(self) -> None:
        self.silent = 0

    def leave_in_peace(self, until_us: int) -> None:
        self.quiet_us = until_us


_NONE_ASKED: dict[int, Asked] = {}
"""Shared by nodes without rounds."""


class Rounds(Part):
    """Asks, and is told."""

    __slots__ = ("_asks", "_catch_ups", "_token", "_watching", "number", "ring")

    def __init__(self, ring: "ChordSharp") -> None:
        super().__init__(ring.address, ring.host)
        self.ring = ring
        self.number = 0
        """Of the round that is under way."""
        self._catch_ups = self._token = 0
        self._watching = False
        self._asks: dict[int, Asked] = {} if ring.settings.rounds else _NONE_ASKED
        """By level."""

    def start(self, delay_us: int) -> None:
        """In an assembled ring: the first round begins then."""
        self.host.after(delay_us, RoundDue(self.ring.links.me.life, self.number))

    def enter(self) -> None:
        """A newcomer has its neighbours: it begins a round."""
        self.stop()
        self.begin(self.number + 1)

    def stop(self) -> None:
        if self.ring.settings.rounds:
            self._asks = {}

    def is_now(self, life: int, number: int) -> bool:
        """Whether an alarm is of this life and this round, and the node is on the ring."""
        links = self.ring.links
        return life == links.me.life and number == self.number and links.state not in (OUT, INS)

    @handles(RoundDue)
    def on_round_due(self, alarm: RoundDue) -> None:
        if self.is_now(alarm.life, alarm.round):
            self.begin(self.number + 1)

    def catch(self, number: int) -> None:
        """Another node is in this round: if it is a later one, it begins here too."""
        if number > self.number and (number - self.number < AHEAD_MAX or not self.number) and self.ring.settings.rounds:
            self.begin(number)

    def begin(self, number: int) -> None:
        ring, settings = self.ring, self.ring.settings
        self.number, self._catch_ups, self._watching = number, 0, False
        ring.tidings.begin()
        self.host.after(settings.period_us, RoundDue(ring.links.me.life, number))
        self._watch(settings.catch_up_us)
        ring.table.follow(ring.links.right)
        for level in range(len(ring.table)):
            self.stand_by(level)
        ring.tidings.tell(0)
        ring.tidings.advance()

    def _watch(self, after_us: int) -> None:
        """Look for what is missing then."""
        if not self._watching:
            self._watching = True
            self.host.after(after_us, CatchUp(self.ring.links.me.life, self.number))

    def stand_by(self, level: int) -> None:
        """See to it that the node at a level will tell. Nobody waits for one that is lost, but it is asked: it may have
        been cut off only."""
        ring = self.ring
        node, asked = ring.table.nodes[level], self._asks.get(level)
        if ring.is_lost(node):
            ring.table.go_on(level, self.number)
            ring.beware()
        if asked is None or asked.ref != node:
            self._asks[level] = Asked(node, self.number)
            self._put_question(level, answer=True)
            self._catch_ups = min(self._catch_ups, CATCH_UPS_MAX // 2)  # a late question may get lost too
            self._watch(ring.settings.again_us)
        elif self.number - asked.round >= RENEWAL:
            self._put_question(level, answer=False)

    def _put_question(self, level: int, answer: bool) -> None:
        asked = self._asks[level]
        self._token += LEVELS_MAX
        token = self._token + level  # so that an answer's level need not be looked for
        asked.put(token, self.number, self.host.now_us, self.ring.settings.again_us)
        question = AskLevel(asked.ref, self.ring.links.me, token, level, self.number, answer)
        self.host.send(asked.ref.address, question)

    @handles(CatchUp)
    def on_catch_up(self, alarm: CatchUp) -> None:
        """Ask for what has not come."""
        if not self.is_now(alarm.life, alarm.round):
            return
        self._watching = False
        self._catch_ups += 1
        table = self.ring.table
        highest = LEVELS_MAX if self.ring.tidings.told_round == self.number else self._catch_ups
        missing = [level for level, number in enumerate(table.rounds[:highest]) if number < self.number]
        for level in missing:
            if level < len(table):
                self._catch_up(level)
        if any(number < self.number for number in table.rounds):
            self._watch(self.ring.settings.step_us)

    def _catch_up(self, level: int) -> None:
        ring, asked = self.ring, self._asks.get(level)
        node = ring.table.nodes[level]
        if asked is None or asked.ref != node:
            self.stand_by(level)
        elif asked.silent >= ring.settings.tries:
            ring.suspect(node)
        elif self._catch_ups > CATCH_UPS_MAX:
            ring.table.go_on(level, self.number)
            ring.tidings.advance()
        elif asked.quiet_us <= self.host.now_us:
            asked.in_vain()
            self._put_question(level, answer=True)

    def go_without(self, ref: Ref) -> None:
        """Go on without this node in this round; ask it anew in the next."""
        table = self.ring.table
        for level, node in enumerate(table.nodes):
            if node == ref:
                table.go_on(level, self.number)
                self._asks.pop(level, None)
        self.ring.tidings.advance()

    # --- learning

    @handles(LevelIs)
    def on_level_is(self, sender: Address, told: LevelIs) -> None:
        ring = self.ring
        if ring.links.state in (OUT, INS):
            return
        ring.links.heard(told.by)
        self.catch(told.round)
        level = told.token % LEVELS_MAX
        asked = self._asks.get(level)
        if asked is None or asked.ref != told.by or told.token not in asked.asked_us:
            self.host.send(sender, Enough(told.token))
            return
        asked.spoke()
        if told.ent is None:
            asked.leave_in_peace(self.host.now_us + 2 * ring.settings.again_us)  # it will tell when it knows
        elif ring.table.nodes[level : level + 1] == [told.by] and told.round >= ring.table.rounds[level]:
            self._learn(level, asked, told)

    def _learn(self, level: int, asked: Asked, told: LevelIs) -> None:
        assert told.ent is not None, "something was told"
        table, asked_us = self.ring.table, asked.asked_us[told.token]
        since_us = int(asked_us + told.held_us * (1 - DRIFT) - told.age_us * (1 + DRIFT))
        next_before = table.nodes[level + 1 : level + 2]
        circulated = table.learn(level, told.ent, min(since_us, self.host.now_us), told.round)
        if table.nodes[level + 1 : level + 2] != next_before:
            self.ring.tidings.changed(level + 1)
        if circulated:
            for above in [each for each in self._asks if each > level]:
                del self._asks[above]
        elif table.rounds[level + 1] < self.number:
            self.stand_by(level + 1)
        self.ring.tidings.advance()
