"""Chord# tables where peers crash and messages are lost: soft state, refreshed in rounds.

Fingers by node count and their aggregates are those of `table.py`. The schedule differs:

- *Rounds.* About every `period_us` all tables are refreshed together. The node whose timer fires
  first begins a round. Every message carries the round number, and a node that receives a higher
  one begins that round too. Level 0 is learnt first, from the right neighbour; with each level
  learnt the next one can be published. After log2 n steps all tables are exact, whatever they
  held before, if the ring was intact when the round began. No node holds a round, so no crash
  ends it.
- *Subscriptions.* A node subscribes to its finger once and receives an update in every round, as
  soon as all lower levels have been learnt, and whenever the node at that level changes, until it
  unsubscribes. It renews the subscription every `RENEWAL` rounds, and whenever an update is
  missing. This takes one message per level and round instead of two.
- *Age.* Every update states the age of its oldest part. Transit time counts in full: from the
  sending of the subscription to the arrival of the update, less the time that the publisher says
  it held the subscription. So a message that was queued for a suspended peer has its true age.
- *Silent nodes* are asked again, then suspected (by the ring's detector) and skipped until they
  are heard of. Their level stays empty for the round, so that subscribers receive what is known.

The table follows Chord#; rounds are our own addition (`FIDELITY.md`).
"""

from typing import Any, ClassVar

from msgspec.structs import replace

from implicast.overlay.chord_sharp.messages import (
    LEVELS_MAX,
    FingerEntry,
    FingerLeft,
    LevelUpdate,
    SubscribeLevel,
    UnsubscribeLevel,
)
from implicast.overlay.chord_sharp.owner import FingerOwner
from implicast.overlay.chord_sharp.settings import SharpSettings
from implicast.overlay.chord_sharp.table import Table
from implicast.overlay.links import Links, Ref
from implicast.overlay.links.state import INS
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.memory import Recent

RENEWAL = 2
"""A subscription is renewed after this many rounds. Rarely enough to save messages, often enough
that clocks of different speed do not make updates look much older than they are.
"""
CATCH_UPS_MAX = 16
"""How often a node requests missing levels in one round; then the round goes on without them."""
DRIFT = 0.02
"""Largest relative difference in speed of two clocks; ages are rounded up by it."""
SLOW, FAST = 1 - DRIFT, 1 + DRIFT
AHEAD_MAX = 1 << 20
"""A round number this far ahead does not belong to this ring: that many rounds take months."""
SUBSCRIBERS_MAX = 8
"""Subscribers to one level; usually there is one. The least recent subscription is dropped."""


class RoundAlarm(Message):
    """An alarm of one round. It is ignored if another round has begun."""

    upkeep: ClassVar[bool] = True
    incarnation: int
    round: int


class RoundDue(RoundAlarm):
    """Fires when the next round is to begin, unless another node has begun it."""


class CatchUp(RoundAlarm):
    """Fires when all levels should have arrived in a round."""


class ResendUpdates(RoundAlarm):
    """Fires when changes in the middle of a round are to be sent a second time."""


class LevelSubscription(Message):
    """An own subscription: the node that publishes a level."""

    ref: Ref
    sent: tuple[int, ...] = (-1, 0, -1, 0)
    """Token and time of the last subscription, and of the one before it, to which updates may still
    arrive.
    """
    round: int = 0
    silent: int = 0
    """Unanswered attempts since its last message."""
    quiet_us: int = 0
    """It is not asked again before this time."""


_EMPTY: dict[int, Any] = {}
"""Shared by nodes without rounds."""


class Rounds(Part):
    """Subscribes to the fingers of this node, and publishes its levels to subscribers."""

    __slots__ = (
        "_catch_up_scheduled",
        "_catch_ups",
        "_changed_levels",
        "_links",
        "_owner",
        "_position",
        "_published_round",
        "_ready",
        "_settings",
        "_subscriptions",
        "_table",
        "_token",
        "number",
        "subscribers",
    )

    def __init__(
        self, links: Links, table: Table, settings: SharpSettings, owner: FingerOwner
    ) -> None:
        super().__init__(links.address, links.host)
        self._links, self._table, self._settings, self._owner = links, table, settings, owner
        self._position = links.position
        self.number = 0
        """The number of the current round."""
        self._catch_ups = self._token = 0
        self._catch_up_scheduled = False
        self._subscriptions: dict[int, LevelSubscription] = {} if settings.rounds else _EMPTY
        """By level."""
        self._ready = 0
        """Number of levels from 0 on that have been learnt in this round."""
        self._changed_levels = 0
        """Bit set of levels that have changed since all levels were published."""
        self._published_round = 0
        """The last round in which all levels were published."""
        self.subscribers: dict[int, Recent[Address, tuple[int, int]]] = (
            {} if settings.rounds else _EMPTY
        )
        """By level: the subscribers, each with its token and the time of its subscription."""

    def start(self) -> None:
        """In an assembled ring, whose tables are converged: schedule the first round, at nearly the
        same time on all nodes.
        """
        self._ready, settings = len(self._table), self._settings
        if not settings.resting:
            delay_us = settings.period_us // 4 + int(
                self.host.rng.random() * settings.period_us / 20
            )
            self.host.after(delay_us, RoundDue(self._position.me.incarnation, self.number))

    def stop(self) -> list[Address]:
        """Off the ring, or joining again. Returns the nodes that have this node as a finger."""
        subscribers, self.subscribers, self._subscriptions = self.subscribers, {}, {}
        return list({address: None for each in subscribers.values() for address in each})

    def _is_current(self, alarm: RoundAlarm) -> bool:
        """Whether an alarm is of this incarnation and this round, and the node is on the ring."""
        position = self._position
        return (
            alarm.incarnation == position.me.incarnation
            and alarm.round == self.number
            and position.is_on_ring
        )

    @handles(RoundDue)
    def on_round_due(self, alarm: RoundDue) -> None:
        if self._is_current(alarm):
            self.begin_round(self.number + 1)

    def _on_contact(self, by: Ref, number: int) -> None:
        """Another node has sent a message. If it is in a later round, begin that round here too."""
        self._links.liveness.on_message_from(by)
        ahead = number - self.number
        if ahead > 0 and (ahead < AHEAD_MAX or not self.number) and self._settings.rounds:
            self.begin_round(number)

    def begin_round(self, number: int) -> None:
        position, settings, table = self._position, self._settings, self._table
        self.number, self._catch_ups, self._catch_up_scheduled = number, 0, False
        self._ready = self._changed_levels = 0
        self.host.after(settings.period_us, RoundDue(position.me.incarnation, number))
        self._schedule_catch_up(settings.catch_up_us)
        table.set_successor(position.right)
        for level in range(len(table)):
            self.subscribe_level(level)
        self._publish(0)
        self._advance()

    # --- subscribing

    def _schedule_catch_up(self, after_us: int) -> None:
        """Schedule a request for missing levels."""
        if not self._catch_up_scheduled:
            self._catch_up_scheduled = True
            self.host.after(after_us, CatchUp(self._position.me.incarnation, self.number))

    def subscribe_level(self, level: int) -> None:
        """Make sure that the node at a level will send updates. The round does not wait for a lost
        node, but it is asked.
        """
        node, subscription = self._table.nodes[level], self._subscriptions.get(level)
        if self._owner.is_lost(node):
            self._table.skip_level(level, self.number)
            self._owner.note_possible_loss()
        if subscription is None or subscription.ref != node:
            self._send_subscribe(level, LevelSubscription(node), answer=True)
            # A subscription sent late in the round may be lost too: allow further catch-ups.
            self._catch_ups = min(self._catch_ups, CATCH_UPS_MAX // 2)
            self._schedule_catch_up(self._settings.again_us)
        elif self.number - subscription.round >= RENEWAL:
            self._send_subscribe(level, subscription, answer=False)

    def _send_subscribe(self, level: int, subscription: LevelSubscription, answer: bool) -> None:
        self._token += LEVELS_MAX
        token = self._token + level  # the token encodes the level of the answer
        ref, now_us, (last, last_us, _, _) = subscription.ref, self.host.now_us, subscription.sent
        quiet_us = now_us + self._settings.again_us
        self._subscriptions[level] = LevelSubscription(
            ref, (token, now_us, last, last_us), self.number, subscription.silent, quiet_us
        )
        self.host.send(
            ref.address, SubscribeLevel(ref, self._position.me, token, level, self.number, answer)
        )

    @handles(CatchUp)
    def on_catch_up(self, alarm: CatchUp) -> None:
        """Request the levels that have not arrived."""
        if not self._is_current(alarm):
            return
        self._catch_up_scheduled = False
        self._catch_ups += 1
        table = self._table
        if min(table.rounds, default=self.number) >= self.number:
            return  # usual case: nothing is missing
        highest = LEVELS_MAX if self._published_round == self.number else self._catch_ups
        for level in [
            level for level, number in enumerate(table.rounds[:highest]) if number < self.number
        ]:
            if level < len(table):
                self._catch_up(level)
        if min(table.rounds, default=self.number) < self.number:
            self._schedule_catch_up(self._settings.step_us)

    def _catch_up(self, level: int) -> None:
        table, subscription = self._table, self._subscriptions.get(level)
        node = table.nodes[level]
        if subscription is None or subscription.ref != node:
            self.subscribe_level(level)
        elif subscription.silent >= self._settings.tries:
            self._owner.suspect(node)
        elif self._catch_ups > CATCH_UPS_MAX:
            table.skip_level(level, self.number)
            self._advance()
        elif subscription.quiet_us <= self.host.now_us:
            self._send_subscribe(
                level, replace(subscription, silent=subscription.silent + 1), answer=True
            )

    def skip_node(self, ref: Ref) -> None:
        """Continue this round without this node; subscribe to it again in the next one."""
        table = self._table
        for level, node in enumerate(table.nodes):
            if node == ref:
                table.skip_level(level, self.number)
                self._subscriptions.pop(level, None)
        self._advance()

    @handles(LevelUpdate)
    def on_level_update(self, sender: Address, update: LevelUpdate) -> None:
        token, by = update.token, update.by
        if not self._position.is_on_ring:
            return
        self._on_contact(by, update.round)
        level, table = token % LEVELS_MAX, self._table
        subscription = self._subscriptions.get(level)
        if subscription is None or subscription.ref != by or token not in subscription.sent[::2]:
            self.host.send(sender, UnsubscribeLevel(token))
        elif update.entry is None:  # it sends an update when the level is complete
            quiet_us = self.host.now_us + 2 * self._settings.again_us
            self._subscriptions[level] = replace(subscription, silent=0, quiet_us=quiet_us)
        else:
            if subscription.silent:
                self._subscriptions[level] = replace(subscription, silent=0)
            at_level = table.nodes[level : level + 1] == [by]
            if at_level and update.round >= table.rounds[level]:
                asked_us = subscription.sent[1 if token == subscription.sent[0] else 3]
                self._apply_update(level, asked_us, update, update.entry)

    def _apply_update(
        self, level: int, asked_us: int, update: LevelUpdate, entry: FingerEntry
    ) -> None:
        table, above, now_us = self._table, level + 1, self.host.now_us
        since_us, nodes = int(asked_us + update.held_us * SLOW - update.age_us * FAST), table.nodes
        before = nodes[above] if above < len(nodes) else None
        circulated = table.apply_update(
            level, entry, since_us if since_us < now_us else now_us, update.round
        )
        if (nodes[above] if above < len(nodes) else None) != before:
            self._on_level_changed(above)
        if circulated:
            for each in [each for each in self._subscriptions if each > level]:
                del self._subscriptions[each]
        elif table.rounds[above] < self.number:
            self.subscribe_level(above)
        self._advance()

    # --- publishing

    @handles(SubscribeLevel)
    def on_subscribe_level(self, sender: Address, request: SubscribeLevel) -> None:
        position = self._position
        if position.state == INS or not self._settings.rounds:
            return
        if position.is_former(request.to):
            replacement = self._owner.replacement_for(request.to)
            self.host.send(sender, FingerLeft(request.to, replacement))
            return
        self._on_contact(request.by, request.round)
        if request.level not in self.subscribers:
            self.subscribers[request.level] = Recent(SUBSCRIBERS_MAX)
        self.subscribers[request.level].put(sender, (request.token, self.host.now_us))
        if request.answer:
            self._send_update(sender, request.level, request.token, 0)

    def _publish(self, level: int) -> None:
        """Send a level to its subscribers. A subscription that was not renewed for `RENEWAL` + 2
        periods is dropped.
        """
        now_us, subscribers = self.host.now_us, self.subscribers.get(level)
        if not subscribers:
            return
        over_us = now_us - (RENEWAL + 2) * self._settings.period_us
        for address, (token, asked_us) in list(subscribers.items()):
            if asked_us < over_us:
                del subscribers[address]
            else:
                self._send_update(address, level, token, now_us - asked_us)

    def _send_update(self, to: Address, level: int, token: int, held_us: int) -> None:
        """Send the current entry of a level, or None while a lower level has not been learnt in
        this round.
        """
        entry, age_us, table = None, 0, self._table
        if level <= self._ready:
            if (own := self._owner.value()) is not table.own:
                table.set_own_value(own)
            entry, age_us = table.get_entry(level, self.host.now_us)
        self.host.send(
            to, LevelUpdate(self._position.me, token, self.number, held_us, age_us, entry)
        )

    @handles(UnsubscribeLevel)
    def on_unsubscribe_level(self, sender: Address, message: UnsubscribeLevel) -> None:
        subscribers = self.subscribers.get(message.token % LEVELS_MAX)
        if subscribers is not None and subscribers.get(sender, (None,))[0] == message.token:
            del subscribers[sender]

    def _advance(self) -> None:
        """Publish each further level whose lower levels have been learnt in this round."""
        rounds, number = self._table.rounds, self.number
        self._ready = ready = min(self._ready, len(rounds))
        while ready < len(rounds) and rounds[ready] >= number:
            self._ready = ready = ready + 1
            self._publish(ready)
        if ready == len(rounds):
            self._published_round = number

    def on_successor_changed(self) -> None:
        """Another node stands at level 0."""
        self._on_level_changed(0)
        self._publish(0)
        self.subscribe_level(0)

    def _on_level_changed(self, level: int) -> None:
        """Another node stands at this level: its subscribers are updated regardless of rounds. If
        the level was published in this round already, the update is sent a second time after a
        while, because a subscriber does not miss an update it does not expect.
        """
        if self._published_round == self.number or level <= self._ready:
            self._changed_levels |= 1 << level
            self.host.after(
                self._settings.again_us,
                ResendUpdates(self._position.me.incarnation, self.number),
            )
        self._ready = min(self._ready, max(0, level - 1))

    @handles(ResendUpdates)
    def on_resend_updates(self, alarm: ResendUpdates) -> None:
        if not self._is_current(alarm):
            return
        news, self._changed_levels = self._changed_levels, 0
        for level in range(min(self._ready + 1, news.bit_length())):
            if news >> level & 1:
                self._publish(level)
