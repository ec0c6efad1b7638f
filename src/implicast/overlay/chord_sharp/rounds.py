"""Chord# where peers crash and messages get lost: the table as soft state, kept in rounds.

Fingers go by count and aggregates come with them, as ever (`table.py`). What is different is who refreshes when:

- *Rounds.* About every `period_us` all tables are refreshed at once. The node whose timer rings first begins; the
  number of the round travels with every word, and a node that hears a higher one begins too. In a round level 0 is
  learnt first, from the right neighbour, and with each level that is learnt the next can be told: after log2 n steps
  all tables are exact, however wrong they were, if the ring was whole when the round began. Nobody holds a round, so
  nobody's death ends it.
- *Told without being asked.* A node asks its finger once and is told in every round from then on, as soon as all below
  has been learnt, and whenever another node stands at that level; until it says that it has had enough. It asks again
  every `RENEWAL` rounds, and whenever nothing came. One message per level and round instead of two.
- *Age.* Every answer says how old its oldest part is. The time on the way is counted in full: from the asker's question
  to the arrival, less the time that the answerer says it held the question. So a message that lay in a sleeper's mail
  is as old as it is.
- *The silent* are asked again, then suspected (the ring's own detector) and skipped until they are heard. Their level
  stays empty for the round, so that those who wait are told what is known.

After the Chord# rules of `table.py`; rounds are ours (`FIDELITY.md`).
"""

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from implicast.overlay.chord_sharp.messages import (
    LEVELS_MAX,
    AskLevel,
    Enough,
    Ent,
    FingerGone,
    LevelIs,
)
from implicast.overlay.links import Ref
from implicast.overlay.links.state import INS, OUT
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.overlay.chord_sharp.chord_sharp import ChordSharp

RENEWAL = 2
"""A question holds for so many rounds; then it is put again. Rarely enough to save messages, often enough that clocks
which differ in speed do not make answers look much older than they are."""
CATCH_UPS_MAX = 16
"""How often a node looks for missing levels in one round; then the round goes on without them."""
DRIFT = 0.02
"""Two clocks may differ in speed by so much; ages are rounded up by it."""
SLOW, FAST = 1 - DRIFT, 1 + DRIFT
AHEAD_MAX = 1 << 20
"""A round so far ahead of the own is none of this ring: that many take months."""
ASKERS_MAX = 8
"""Nodes told about one level; usually one asks. The one that asked longest ago is told no more."""


class RoundAlarm(Message):
    """Rings for the sake of a round; if another has begun meanwhile it is stale."""

    upkeep: ClassVar[bool] = True
    incarnation: int
    round: int


class RoundDue(RoundAlarm):
    """Rings when the next round is to begin, unless another node has begun it."""


class CatchUp(RoundAlarm):
    """Rings when all levels should have come in a round."""


class TellAgain(RoundAlarm):
    """Rings when what has changed in the middle of a round is to be said once more."""


class Asked(Message):
    """A standing question: who answers for a level."""

    ref: Ref
    puts: tuple[int, ...] = (-1, 0, -1, 0)
    """With which token it was put when; and the one before it, to which answers may still come."""
    round: int = 0
    silent: int = 0
    """Attempts since its last word."""
    quiet_us: int = 0
    """It is not asked again before this time."""


_NOBODY: dict[int, Any] = {}
"""Shared by nodes without rounds."""


class Rounds(Part):
    """Asks, and is told; tells those who asked."""

    __slots__ = (
        "_asks",
        "_catch_ups",
        "_news",
        "_ready",
        "_token",
        "_told_round",
        "_watching",
        "askers",
        "number",
        "ring",
    )

    def __init__(self, ring: "ChordSharp") -> None:
        super().__init__(ring.address, ring.host)
        self.ring = ring
        self.number = 0
        """Of the round that is under way."""
        self._catch_ups = self._token = 0
        self._watching = False
        self._asks: dict[int, Asked] = {} if ring.settings.rounds else _NOBODY
        """By level."""
        self._ready = 0
        """So many levels from 0 on have been learnt in this round."""
        self._news = 0
        """Levels, as bits, that have changed since all was told."""
        self._told_round = 0
        """The last round in which all was told."""
        self.askers: dict[int, Recent[Address, tuple[int, int]]] = (
            {} if ring.settings.rounds else _NOBODY
        )
        """By level: who is told, with its token and when it asked."""

    def start(self) -> None:
        """In an assembled ring: the table is settled, and the first round begins in a while, nearly together."""
        self._ready, settings = len(self.ring.table), self.ring.settings
        if not settings.resting:
            delay_us = settings.period_us // 4 + int(
                self.host.rng.random() * settings.period_us / 20
            )
            self.host.after(delay_us, RoundDue(self.ring.links.me.incarnation, self.number))

    def stop(self) -> list[Address]:
        """Off the ring, or anew on it. Returns those who name this node as a finger."""
        askers, self.askers, self._asks = self.askers, {}, {}
        return list({address: None for each in askers.values() for address in each})

    def _is_now(self, alarm: RoundAlarm) -> bool:
        """Whether an alarm is of this life and this round, and the node is on the ring."""
        links = self.ring.links
        return (
            alarm.incarnation == links.me.incarnation
            and alarm.round == self.number
            and links.state not in (OUT, INS)
        )

    @handles(RoundDue)
    def on_round_due(self, alarm: RoundDue) -> None:
        if self._is_now(alarm):
            self.begin(self.number + 1)

    def _hear(self, by: Ref, number: int) -> None:
        """A word of another node. If it is in a later round, that begins here too."""
        self.ring.links.company.heard(by)
        ahead = number - self.number
        if ahead > 0 and (ahead < AHEAD_MAX or not self.number) and self.ring.settings.rounds:
            self.begin(number)

    def begin(self, number: int) -> None:
        ring, settings = self.ring, self.ring.settings
        self.number, self._catch_ups, self._watching = number, 0, False
        self._ready = self._news = 0
        self.host.after(settings.period_us, RoundDue(ring.links.me.incarnation, number))
        self._watch(settings.catch_up_us)
        ring.table.follow(ring.links.right)
        for level in range(len(ring.table)):
            self.stand_by(level)
        self._tell(0)
        self._advance()

    # --- asking

    def _watch(self, after_us: int) -> None:
        """Look for what is missing then."""
        if not self._watching:
            self._watching = True
            self.host.after(after_us, CatchUp(self.ring.links.me.incarnation, self.number))

    def stand_by(self, level: int) -> None:
        """See to it that the node at a level will tell. Nobody waits for a lost one, but it is asked."""
        ring = self.ring
        node, asked = ring.table.nodes[level], self._asks.get(level)
        if ring.is_lost(node):
            ring.table.go_on(level, self.number)
            ring.beware()
        if asked is None or asked.ref != node:
            self._put_question(level, Asked(node), answer=True)
            self._catch_ups = min(
                self._catch_ups, CATCH_UPS_MAX // 2
            )  # a late question may get lost too
            self._watch(ring.settings.again_us)
        elif self.number - asked.round >= RENEWAL:
            self._put_question(level, asked, answer=False)

    def _put_question(self, level: int, asked: Asked, answer: bool) -> None:
        self._token += LEVELS_MAX
        token = self._token + level  # so that an answer's level need not be looked for
        ref, now_us, (last, last_us, _, _) = asked.ref, self.host.now_us, asked.puts
        quiet_us = now_us + self.ring.settings.again_us
        self._asks[level] = Asked(
            ref, (token, now_us, last, last_us), self.number, asked.silent, quiet_us
        )
        self.host.send(
            ref.address, AskLevel(ref, self.ring.links.me, token, level, self.number, answer)
        )

    @handles(CatchUp)
    def on_catch_up(self, alarm: CatchUp) -> None:
        """Ask for what has not come."""
        if not self._is_now(alarm):
            return
        self._watching = False
        self._catch_ups += 1
        table = self.ring.table
        if min(table.rounds, default=self.number) >= self.number:
            return  # nothing is missing, as nearly always
        highest = LEVELS_MAX if self._told_round == self.number else self._catch_ups
        for level in [
            level for level, number in enumerate(table.rounds[:highest]) if number < self.number
        ]:
            if level < len(table):
                self._catch_up(level)
        if min(table.rounds, default=self.number) < self.number:
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
            self._advance()
        elif asked.quiet_us <= self.host.now_us:
            self._put_question(level, replace(asked, silent=asked.silent + 1), answer=True)

    def go_without(self, ref: Ref) -> None:
        """Go on without this node in this round; ask it anew in the next."""
        table = self.ring.table
        for level, node in enumerate(table.nodes):
            if node == ref:
                table.go_on(level, self.number)
                self._asks.pop(level, None)
        self._advance()

    @handles(LevelIs)
    def on_level_is(self, sender: Address, told: LevelIs) -> None:
        ring, token, by = self.ring, told.token, told.by
        if ring.links.state in (OUT, INS):
            return
        self._hear(by, told.round)
        level, table = token % LEVELS_MAX, ring.table
        asked = self._asks.get(level)
        if asked is None or asked.ref != by or token not in asked.puts[::2]:
            self.host.send(sender, Enough(token))
        elif told.ent is None:  # it will tell when it knows
            quiet_us = self.host.now_us + 2 * ring.settings.again_us
            self._asks[level] = replace(asked, silent=0, quiet_us=quiet_us)
        else:
            if asked.silent:
                self._asks[level] = replace(asked, silent=0)
            if (
                level < len(table.nodes)
                and table.nodes[level] == by
                and told.round >= table.rounds[level]
            ):
                self._learn(level, asked.puts[1 if token == asked.puts[0] else 3], told, told.ent)

    def _learn(self, level: int, asked_us: int, told: LevelIs, ent: Ent) -> None:
        table, above, now_us = self.ring.table, level + 1, self.host.now_us
        since_us, nodes = int(asked_us + told.held_us * SLOW - told.age_us * FAST), table.nodes
        before = nodes[above] if above < len(nodes) else None
        circulated = table.learn(level, ent, since_us if since_us < now_us else now_us, told.round)
        if (nodes[above] if above < len(nodes) else None) != before:
            self._changed(above)
        if circulated:
            for each in [each for each in self._asks if each > level]:
                del self._asks[each]
        elif table.rounds[above] < self.number:
            self.stand_by(above)
        self._advance()

    # --- telling

    @handles(AskLevel)
    def on_ask_level(self, sender: Address, ask: AskLevel) -> None:
        ring, links = self.ring, self.ring.links
        if links.state == INS or not ring.settings.rounds:
            return
        if links.state == OUT or ask.to != links.me:
            self.host.send(sender, FingerGone(ask.to, ring.heir(ask.to)))
            return
        self._hear(ask.by, ask.round)
        if ask.level not in self.askers:
            self.askers[ask.level] = Recent(ASKERS_MAX)
        self.askers[ask.level].put(sender, (ask.token, self.host.now_us))
        if ask.answer:
            self._tell_one(sender, ask.level, ask.token, 0)

    def _tell(self, level: int) -> None:
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
        """How it stands with this level; if all below it has not been learnt in this round, nothing yet."""
        ring, ent, age_us, table = self.ring, None, 0, self.ring.table
        if level <= self._ready:
            if (own := ring.passenger.value()) is not table.own:
                table.hold(own)
            ent, age_us = table.answer(level, self.host.now_us)
        self.host.send(to, LevelIs(ring.links.me, token, self.number, held_us, age_us, ent))

    @handles(Enough)
    def on_enough(self, sender: Address, enough: Enough) -> None:
        askers = self.askers.get(enough.token % LEVELS_MAX)
        if askers is not None and sender in askers and askers[sender][0] == enough.token:
            del askers[sender]

    def _advance(self) -> None:
        """With each level learnt the next can be told."""
        rounds, number = self.ring.table.rounds, self.number
        self._ready = ready = min(self._ready, len(rounds))
        while ready < len(rounds) and rounds[ready] >= number:
            self._ready = ready = ready + 1
            self._tell(ready)
        if ready == len(rounds):
            self._told_round = number

    def moved(self) -> None:
        """Another node stands at level 0."""
        self._changed(0)
        self._tell(0)
        self.stand_by(0)

    def _changed(self, level: int) -> None:
        """Another node stands at this level: those who ask for it are to be told, round or not; and, if they have been
        told of it in this round, once more in a while, for nobody misses what comes unexpected."""
        if self._told_round == self.number or level <= self._ready:
            self._news |= 1 << level
            self.host.after(
                self.ring.settings.again_us, TellAgain(self.ring.links.me.incarnation, self.number)
            )
        self._ready = min(self._ready, max(0, level - 1))

    @handles(TellAgain)
    def on_tell_again(self, alarm: TellAgain) -> None:
        if not self._is_now(alarm):
            return
        news, self._news = self._news, 0
        for level in range(min(self._ready + 1, news.bit_length())):
            if news >> level & 1:
                self._tell(level)
