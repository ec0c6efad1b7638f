"""Calls to the owners of a tract, repeated until every owner has answered or one has objected.

The original root of a tag calls its other roots. A peer that lost a tract to a stronger ownership
claim offers its items there to the new owner. Offered items leave the registries at once. Otherwise
a peer that got the tract back would delete live records when the old offer is acknowledged.

If a tract's registries are lost with all backups, a traversal of the whole surface asks the
consumers to register again. It is covered when all have. Casts to the tract wait for that, since
they would find no members there. The tract is then doubtful for `UNCERTAIN_US`, and casts to it count
an uncertain region. If an owner on the way knows of members that are silent, these could not be
asked, and the tract is doubtful for `OWED_US`.

A peer that lost a tract tells the present owners even if it has no items there: requests to
register again may have reached it in their place, so they register again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import DOUBTFUL_KEY, UNRECOVERED_KEY, cut, label_of, places
from implicast.casting.spice.messages import (
    CallAck,
    ItemOffer,
    ReplicaActivation,
    ReregisterRequest,
    VetoRequest,
)
from implicast.casting.spice.part import Spice, SpicePart, StoreBackoff
from implicast.casting.spice.registry import NEVER_US
from implicast.casting.spice.settings import CAST_US, UNCERTAIN_US
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.peer.contract import Address, Message, handles
from implicast.peer.lease import OWED_US
from implicast.space.tract import EMPTY, WHOLE, Tract, intersect, subtract, unite

CALLS_MAX = 2_048
"""Maximum number of open calls. Further calls to roots are tried later; further offers are dropped,
and renewals repair the loss.
"""
OFFER_ITEMS = 64
"""Maximum number of items in one offer."""
RECOVERY_TRIES = 3
"""Attempts to recover a lost tract, each for the lifetime of a cast."""
RECOVERY_POLL_US = 1_000_000
"""Interval at which a peer checks whether its neighbourhood is whole and a recovery can start."""
RECOVERY_WAIT_US = 30_000_000
"""A recovery starts after this time even if the neighbourhood is not whole."""


class RetryCall(Message):
    """Fires when a call should have been answered."""

    token: int


class RecoveryDue(Message):
    """Fires when lost tracts are to be recovered, if the neighbourhood is whole."""


@dataclass(slots=True)
class OwnerCall(StoreBackoff):
    """A message repeated to several owners until all have answered."""

    message: ReplicaActivation | VetoRequest | ItemOffer
    until_us: int  # later answers are ignored

    def confirm_part(self, part: Tract) -> bool:
        """An owner has answered for this part. Returns whether all parts are answered."""
        left = subtract(self.message.way.tract, part)
        self.message = replace(self.message, way=RouteHeader(left))
        return not left


class Recovery(NamedTuple):
    """A recovery traversal."""

    task: TraversalTask
    tries: int
    """Attempts left after this one."""
    lost_us: int
    """When the last part of the tract was lost."""


class OwnerCalls(SpicePart):
    """Calls other owners, offers them items, and recovers lost registries."""

    __slots__ = ("_last_lost_us", "_lost", "_lost_since_us", "_recoveries", "open_calls")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.open_calls: dict[int, OwnerCall] = {}
        self._lost: Tract = EMPTY
        """Lost tract whose recovery waits until the neighbourhood is whole."""
        self._lost_since_us = self._last_lost_us = 0
        self._recoveries: dict[int, Recovery] = {}
        """By token: recovery traversals in progress."""

    def is_calling(self, tag: str) -> bool:
        """Whether a call to roots of the tag is open."""
        calls = [
            each.message for each in self.open_calls.values() if self.host.now_us <= each.until_us
        ]
        return any(
            not isinstance(each, ItemOffer) and each.tag == tag and not self._is_outdated(each)
            for each in calls
        )

    def _is_outdated(self, message: Message) -> bool:
        """Whether a newer header exists. Roots activated by this message now could lack
        registrations made since.
        """
        return (
            isinstance(message, ReplicaActivation)
            and message.number < self.spice.levels.header(message.tag).number
        )

    def call(
        self, message: ReplicaActivation | VetoRequest | ItemOffer, timeout_us: int = NEVER_US
    ) -> None:
        if len(self.open_calls) < CALLS_MAX:
            self.open_calls[message.token] = OwnerCall(message, self.host.now_us + timeout_us)
            self.on_retry_call(RetryCall(message.token))

    @handles(RetryCall)
    def on_retry_call(self, alarm: RetryCall) -> None:
        call, recovery = self.open_calls.get(alarm.token), self._recoveries.get(alarm.token)
        if recovery is not None:
            self.spice.traversals.give_up(recovery.task)
        if call is None:
            return
        message, is_over = (
            call.message,
            self.host.now_us > call.until_us or self._is_outdated(call.message),
        )
        if is_over or not (
            isinstance(message, ItemOffer) or self.surface.answers(address_of(message.tag))
        ):
            del self.open_calls[alarm.token]  # if the root has another owner, that owner continues
            return
        self.spice.timer_wheel.schedule(call.next_wait_us(), alarm)
        self.surface.send(message)

    def answer_call(self, reply: Address, token: int, part: Tract, veto: bool = False) -> None:
        """Acknowledge a call for the part within the own tract."""
        ack = CallAck(token, intersect(part, self.surface.committed), veto)
        if reply == self.address:
            self.on_call_ack(reply, ack)
        else:
            self.host.send(reply, ack)

    @handles(CallAck)
    def on_call_ack(self, sender: Address, ack: CallAck) -> None:
        call = self.open_calls.get(ack.token)
        if (
            call is None
            or self.host.now_us > call.until_us
            or (ack.veto and isinstance(call.message, ItemOffer))
        ):
            return
        complete = call.confirm_part(ack.part)
        if ack.veto or complete:
            del self.open_calls[ack.token]
        if complete and not ack.veto and not isinstance(call.message, ItemOffer):
            self.spice.replicas.on_all_answered(call.message)

    # --- offers

    def on_tract_lost(self, tract: Tract) -> None:
        items = tuple(
            cut(each, tract)
            for each in self.spice.pack(tract)
            if each.key not in (UNRECOVERED_KEY, DOUBTFUL_KEY)
        )
        self.spice.drop(tract)
        self._offer(tract, (), CAST_US)
        for start in range(0, len(items), OFFER_ITEMS):
            offered = items[start : start + OFFER_ITEMS]
            self._offer(places(offered), offered)

    def _offer(self, tract: Tract, items: tuple[Item, ...], timeout_us: int = NEVER_US) -> None:
        token = self.spice.stores.next_token()
        self.call(ItemOffer(RouteHeader(tract), items, self.address, token), timeout_us)

    def on_offer(self, part: Tract, offer: ItemOffer) -> None:
        """Merge offered items, back them up, then acknowledge, so that the sender can drop them. An
        offer without items says that its sender claimed the tract of this peer.
        """
        if not offer.items:
            self.spice.registrations.register_all_again()
            self.answer_call(offer.reply, offer.token, part)
            return
        mine = [each for each in offer.items if intersect(part, (each.low, each.high))]
        for item in mine:
            self.spice.unite(item, part, False)
        names = {each.key for each in mine}
        accepted = tuple(each for each in self.spice.pack(self.surface.tract) if each.key in names)
        labels = [label_of(each.key) for each in accepted]
        originals = dict.fromkeys(tag for _, tag, root, _, _ in labels if root == address_of(tag))
        self.surface.replicate(accepted, partial(self._on_offer_backed_up, offer, part, originals))

    def _on_offer_backed_up(self, offer: ItemOffer, part: Tract, originals: Iterable[str]) -> None:
        self.spice.settled()
        if self.settings.live:
            self.spice.replicas.on_foreign_items(originals)
        self.answer_call(offer.reply, offer.token, part)

    # --- recovery of lost registries

    def lost(self, tract: Tract) -> None:
        """No copy is left of the registries of this own tract: ask their consumers to register
        again.
        """
        if tract := subtract(tract, self.spice.registries.unrecovered):
            self.surface.replicate(
                (self.spice.registries.set_unrecovered(tract, True),), lambda: None
            )
            self._last_lost_us = self.host.now_us
            self._lost_since_us = self._lost_since_us if self._lost else self.host.now_us
            self._lost = unite(self._lost, tract)
            self.on_recovery_due(RecoveryDue())

    @handles(RecoveryDue)
    def on_recovery_due(self, alarm: RecoveryDue) -> None:
        """Recover all lost tracts with one traversal. While owners around this peer are missing, as
        after a power cut, a traversal could not reach every owner, and would wait on its way.
        """
        self._lost = intersect(self._lost, self.spice.registries.unrecovered)
        is_late = self.host.now_us - self._lost_since_us > RECOVERY_WAIT_US
        if self._lost and (self.surface.is_whole or is_late):
            lost, self._lost = self._lost, EMPTY
            self._request_reregistration(lost, RECOVERY_TRIES, self._last_lost_us)
        elif self._lost:
            self.spice.timer_wheel.schedule_once(RECOVERY_POLL_US, alarm)

    def _request_reregistration(self, lost: Tract, tries: int, lost_us: int) -> None:
        traversal = ReregisterRequest(
            RouteHeader(WHOLE),
            "",
            address_of(""),
            0,
            lost,
            self.address,
            self.spice.stores.next_token(),
            max(0, self.host.now_us - lost_us),
        )
        task = TraversalTask(self.host.now_us, traversal)
        self._recoveries[traversal.number] = Recovery(task, tries - 1, lost_us)
        self.spice.timer_wheel.schedule(CAST_US, RetryCall(traversal.number))
        self.spice.traversals.send_up(task, traversal)
        self.spice.traversals.finish_one(task)

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        """The tract is recovered, or a peer could not be reached and the traversal is repeated."""
        traversal = task.traversal
        assert isinstance(traversal, ReregisterRequest)
        recovery = self._recoveries.get(traversal.number)
        if recovery is None or recovery.task is not task:
            return
        del self._recoveries[traversal.number]
        left = intersect(traversal.lost, self.spice.registries.unrecovered)
        if left and not is_covered and recovery.tries:
            self._request_reregistration(left, recovery.tries, recovery.lost_us)
        elif left:
            uncertain_us = OWED_US if task.tally.uncertain or not is_covered else UNCERTAIN_US
            changed = (
                self.spice.registries.set_unrecovered(left, False),
                self.spice.registries.mark_uncertain(left, self.host.now_us + uncertain_us),
            )
            self.surface.replicate(changed, lambda: None)
            self.spice.traversals.retry_waiting()
