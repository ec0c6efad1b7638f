"""Publishing casts, finding a registry of one tag of each term, and notifying the selected
consumers.

Thesis section 8.1.3 and Listing 12; without limits it is Listing 5. A cast is routed to the nearest
root of the deepest level. If no replica is there, it goes to the next lower level, and at last to
the original root. It stops at the first replica that it meets on its route. With receipts a cast
ends when its traversals are covered and each member found has answered or has stayed silent through
all retries.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from implicast.casting.complaints import ComplaintLog
from implicast.casting.inbox import Outcome
from implicast.casting.notifier import (
    Notification,
    Notify,
    NotifyAck,
    NotifyAgain,
    NotifyAgainAck,
)
from implicast.casting.spice.complaints import Complaints
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.finder import RegistryFinder
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.part import SpicePart, Tools
from implicast.casting.spice.receiver import SpiceReceiver
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import Record, Registry, fits
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.traversal_messages import (
    CastRequest,
    CoverageReport,
    RepeatCoverageReport,
    RepeatedCastRequest,
    Traversal,
)
from implicast.casting.spice.traversal_state import TraversalTask, TraversalUser
from implicast.casting.spice.traversals import Traversals
from implicast.language.target import Target
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, handles
from implicast.peer.events import Estimated, Refused, Settled
from implicast.peer.memory import Recent
from implicast.peer.policy import Policy
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.space.tract import EMPTY, Tract

COUNT_ONLY = "asked"
"""Signature context of a count-only cast. A signed count-only cast cannot be replayed as a real
one.
"""
NOTIFY, NOTIFY_SILENT = "notify", "notify the silent"
NOTIFY_RETRY = RetryPolicy(500_000, times=13, factor=1.35)
"""Retries of a notification over 40 s, longer than the freezes and partitions that a cast has to
survive.
"""
SILENT_RETRY = RetryPolicy(500_000, times=3, factor=2.0)
"""Retries to a member that has lately stayed silent through `NOTIFY_RETRY`."""
COUNTED_MAX = 8_192
"""Maximum number of remembered acknowledgements; the oldest is forgotten."""
SILENT_MAX = 4_096
"""Maximum number of members remembered as silent; the oldest is forgotten."""
CHECK_CAST_US = 3_000_000
"""Interval at which a publisher checks whether a cast has exceeded its lifetime."""
RECOUNTS = 3
"""Maximum number of recounts of a cast whose members were notified by more than one peer."""
PUBLISHING_MAX = 65_536
"""Maximum number of open casts of one publisher. Further casts are refused."""


NotificationKey = tuple[CastId, Name, Incarnation | None]
"""Cast, member and, for a repeated cast, the `again` number of its traversal."""


class CheckCast(Message):
    """Fires every `CHECK_CAST_US` until a publisher's cast has ended."""

    cast: CastId


class Casts(SpicePart, TraversalUser):
    """Publishes casts, and notifies the members of registries stored here."""

    __slots__ = (
        "_complaint_log",
        "_complaints",
        "_containers",
        "_counted",
        "_counts_all",
        "_earlier_reports",
        "_finder",
        "_name",
        "_policy",
        "_receiver",
        "_registries",
        "_requests",
        "_silent",
        "_traversals",
        "publishing",
        "swift",
    )

    def __init__(
        self,
        tools: Tools,
        name: Name,
        policy: Policy,
        requests: Requests,
        receiver: SpiceReceiver,
        registries: Registries,
        traversals: Traversals,
        containers: Containers,
        finder: RegistryFinder,
        complaints: Complaints,
        complaint_log: ComplaintLog,
    ) -> None:
        super().__init__(tools)
        self._name, self._policy, self._requests, self._receiver = name, policy, requests, receiver
        self._registries, self._traversals, self._containers = registries, traversals, containers
        self._finder, self._complaints, self._complaint_log = finder, complaints, complaint_log
        self._counts_all = tools.settings.assured
        """Without receipts only count-only casts leave state at the peers that they pass."""
        self._silent: Recent[Name, None] = Recent(SILENT_MAX)
        self._counted: Recent[NotificationKey, None] = Recent(COUNTED_MAX)
        """Members counted for a cast. A member met again is not counted again."""
        self.publishing: dict[CastId, TraversalTask] = {}
        """Own casts that have not ended."""
        self._earlier_reports: dict[CastId, list[CoverageReport]] = {}
        """Reports of casts that are being recounted. The report with the most notified members
        holds, since no traversal counts a member twice.
        """
        self.swift: Any = None
        """The compiled handler of casts, or None; the compiled event loop may call it directly."""
        requests.topic(NOTIFY, NOTIFY_RETRY, self._on_silent)
        requests.topic(NOTIFY_SILENT, SILENT_RETRY, self._on_silent)

    # --- arrival

    @handles(CastRequest, RepeatedCastRequest)
    def on_cast(self, sender: Address, cast: CastRequest) -> None:
        if self.swift is not None and self.swift.go(cast):
            return
        if cast.term >= len(cast.target.terms) or not cast.target.terms[cast.term].has:
            return
        about = (COUNT_ONLY, cast.target) if cast.count_only else cast.target
        payload, now_us = cast.payload, self.host.now_us
        if self.signing.verified_payload(cast.cast, about, payload, now_us) is None:
            return
        if self.counts(cast):
            self._traversals.begin_branch(sender, cast)
        else:
            self._traversals.forward(None, cast)

    def use_compiled(self, kind: Any) -> None:
        """Let compiled code forward casts without receipts. None: no longer, so that each cast is
        checked against the complaint log.

        `Traversals` is the reference implementation, and handles every case that the compiled code
        does not: notch 0, a peer whose committed tract is not one interval, and parts for which no
        neighbour is nearer.
        """
        if kind is not None:
            kinds = (CastRequest, RouteHeader, Notify, address_of)
            parts = (self.surface, self._registries, self._traversals, self.settings)
            self.swift = kind(*parts, self._name, self.notify, *kinds)
        elif self.swift is not None:
            self.swift.stop()

    def counts(self, cast: CastRequest) -> bool:
        """Whether every hop of a cast is acknowledged, with a coverage report."""
        return self._counts_all or cast.count_only

    # --- publishing

    def publish(
        self,
        cast: CastId,
        target: Target,
        payload: bytes,
        incarnation: Incarnation,
        count_only: bool = False,
    ) -> None:
        """Publish a cast. `incarnation`: that of this member, which may continue a cast of an
        earlier one.
        """
        if not all(term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
            return
        if len(self.publishing) >= PUBLISHING_MAX:
            self.host.deliver(Refused("cast", f"{PUBLISHING_MAX} casts have not ended"))
            return
        nowhere = RouteHeader(EMPTY)
        first = CastRequest(nowhere, cast, target, 0, "", 0, 0, 0, payload, (), count_only)
        if not self.counts(first):
            self._send_terms(None, first)
            return
        if cast.incarnation != incarnation:
            first = _repeated(first, incarnation)
        self.host.after(CHECK_CAST_US, CheckCast(cast))
        self._send_out(first, self.host.now_us)

    def _send_out(self, first: CastRequest, begun_us: int) -> None:
        """Send the cast to a registry of each term. A task collects the coverage. It is given up
        `CAST_US` after `begun_us`.
        """
        task = self.publishing[first.cast] = TraversalTask(begun_us, first)
        self._send_terms(task, first)
        self._traversals.finish_one(task)

    def _send_terms(self, task: TraversalTask | None, first: CastRequest) -> None:
        depth = self._registries.levels.depth
        for term, conjunction in enumerate(first.target.terms):
            cast = self._finder.address_to(replace(first, term=term), conjunction.has[0], depth)
            self._traversals.send_up(task, cast)

    @handles(CheckCast)
    def on_check_cast(self, alarm: CheckCast) -> None:
        task = self.publishing.get(alarm.cast)
        if task is not None and self.host.now_us - task.begun_us >= CAST_US:
            self._traversals.give_up(task)
        elif task is not None:
            self.host.after(CHECK_CAST_US, alarm)

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        """If the cast is this peer's own, report the outcome to the application."""
        if not is_covered:
            task.add_report(CoverageReport(0, uncertain=1))
        cast, tally = task.traversal, task.tally
        assert isinstance(cast, CastRequest)
        if is_covered and not cast.count_only:
            self._complaint_log.count(cast.cast, tally.notified)
        if self.publishing.get(cast.cast) is not task:
            if is_covered:
                self._containers.gather_if_shrunken(task)
            return
        before = self._earlier_reports.pop(cast.cast, [])
        may_recount = is_covered and not cast.count_only and len(before) < RECOUNTS
        if may_recount and isinstance(tally, RepeatCoverageReport):
            self._earlier_reports[cast.cast] = [*before, tally]
            self._recount(cast, task.begun_us)
            return
        del self.publishing[cast.cast]
        for each in before:
            tally = each if each.notified > tally.notified else tally
        self._report_end(cast, tally)

    def _report_end(self, cast: CastRequest, tally: CoverageReport) -> None:
        if cast.count_only:
            messages = 2 * (tally.hops + tally.notified)
            self.host.deliver(Estimated(cast.cast.serial, tally.notified, messages))
            return
        counts = (tally.notified, tally.unreachable, tally.declined, 0)
        self.host.deliver(Settled(cast.cast, *counts, tally.silent, tally.uncertain))

    def _recount(self, cast: CastRequest, begun_us: int) -> None:
        """Count the cast again: members were notified by peers whose reports may be lost. Members
        acknowledge again and do not deliver it twice.
        """
        again = getattr(cast, "again", cast.cast.incarnation) + 1
        self._send_out(_repeated(cast, again), begun_us)

    def seek(self, traversal: Traversal) -> tuple[CastRequest, bool]:
        assert isinstance(traversal, CastRequest)
        return self._finder.seek(traversal)

    # --- notifying

    def enters(self, task: TraversalTask | None, traversal: Traversal) -> bool:
        assert isinstance(traversal, CastRequest)
        return not self._complaints.refuses(task, traversal)

    def visit(
        self, task: TraversalTask | None, traversal: Traversal, registry: Registry, part: Tract
    ) -> None:
        cast = traversal
        assert isinstance(cast, CastRequest)
        selected = registry.selected(cast.target, cast.term, part, self.host.now_us)
        if selected and not (self._policy.allows_audience(len(selected)) or cast.count_only):
            for _ in selected:
                self._count(task, Outcome.BLOCKED)
        elif selected:
            notification = _notification(task, cast)
            for member in selected:
                self.notify(task, cast, member, notification)

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        cast = task.traversal
        assert isinstance(cast, CastRequest)
        for each in records:
            if fits(each, cast.target, cast.term, self.host.now_us):
                self.notify(task, cast, each.entry.member, _notification(task, cast))

    def notify(
        self,
        task: TraversalTask | None,
        cast: CastRequest,
        member: Contact,
        notification: Notification,
    ) -> None:
        if cast.count_only:
            assert task is not None
            task.add_report(CoverageReport(0, notified=1))
        elif not self._complaint_log.admit_member(cast.cast, member.name, member.address):
            self._count(task, Outcome.BLOCKED)
        elif member.name == self._name:
            self._count(task, self._notify_here(cast, _notification_key(notification, self._name)))
        elif member.address == self.address:
            pass  # an earlier peer at this address: it no longer exists
        elif task is None:
            self.host.send(member.address, notification)
        else:
            self._notify_until_ack(task, member, notification)

    def _notify_here(self, cast: CastRequest, key: NotificationKey) -> Outcome:
        outcome = self._receiver.inbox.take(cast.cast, cast.target, cast.payload)
        if isinstance(cast, RepeatedCastRequest):
            outcome = self._receiver.outcome_for(self.address, cast.cast, cast.again, outcome)
            if outcome == Outcome.TAKEN and not self._counted.once(key, None):
                return Outcome.REPEAT  # the record has moved from one notch to another here
        return outcome

    def _notify_until_ack(
        self, task: TraversalTask, member: Contact, notification: Notification
    ) -> None:
        """Notify a member until it acknowledges. Several tasks may wait for one acknowledgement."""
        key = _notification_key(notification, member.name)
        known = self._requests.open(NOTIFY, key) or self._requests.open(NOTIFY_SILENT, key)
        if known is not None:
            if task not in known.context:
                known.context.append(task)
                task.add_pending()
            return
        topic = NOTIFY_SILENT if member.name in self._silent else NOTIFY
        if self._requests.ask(topic, key, member.address, notification, [task]):
            task.add_pending()
        else:
            task.add_report(CoverageReport(0, unreachable=1, silent=(member.name,)))

    def _count(self, task: TraversalTask | None, outcome: Outcome) -> None:
        if task is not None:
            task.count_outcome(outcome)

    @handles(NotifyAck, NotifyAgainAck)
    def on_notify_ack(self, sender: Address, ack: NotifyAck) -> None:
        """Count an acknowledgement. A member whose inbox is full is notified again. An
        acknowledgement from another address than the member's is ignored.
        """
        key = _notification_key(ack, ack.by)
        requests = self._requests
        topic = NOTIFY if (request := requests.open(NOTIFY, key)) is not None else NOTIFY_SILENT
        request = request or requests.open(topic, key)
        if (
            request is None
            or request.to != sender
            or ack.outcome == Outcome.FULL
            or not self.signing.verifies(ack)
        ):
            return
        requests.answered(topic, key)
        self._silent.pop(ack.by, None)
        outcome = ack.outcome if self._counted.once(key, None) else Outcome.REPEAT
        for task in request.context:
            self._count(task, outcome)
            outcome = Outcome.REPEAT  # counted once, even if several tasks met the member
            self._traversals.finish_one(task)

    def _on_silent(self, key: NotificationKey, request: PendingRequest) -> None:
        self._silent.put(key[1], None)
        request.context[0].add_report(CoverageReport(0, unreachable=1, silent=(key[1],)))
        for task in request.context:
            self._traversals.finish_one(task)


def _repeated(cast: CastRequest, again: Incarnation) -> RepeatedCastRequest:
    """The cast as it leaves its publisher once more."""
    return RepeatedCastRequest(
        RouteHeader(EMPTY), cast.cast, cast.target, 0, "", 0, 0, 0, cast.payload, again=again
    )


def _notification(task: TraversalTask | None, cast: CastRequest) -> Notification:
    """The notification for the members of a cast."""
    if task is not None and isinstance(cast, RepeatedCastRequest):
        return NotifyAgain(cast.cast, cast.target, cast.payload, cast.again)
    return Notify(cast.cast, cast.target, cast.payload)


def _notification_key(notification: Notification | NotifyAck, name: Name) -> NotificationKey:
    return notification.cast, name, getattr(notification, "again", None)
