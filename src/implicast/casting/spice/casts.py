"""Publishing casts, finding a registry of one tag of each term, and notifying the selected
consumers.

Thesis section 8.1.3 and Listing 12; without limits it is Listing 5. A cast is routed to the nearest
root of the deepest level. If no replica is there, it goes to the next lower level, and at last to
the original root. It stops at the first replica that it meets on its route. With receipts a cast
ends when its traversals are covered and each member found has answered or has stayed silent through
all retries.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import (
    Notification,
    Notify,
    NotifyAck,
    NotifyAgain,
    NotifyAgainAck,
)
from implicast.casting.spice.homes import address_of, nearest_root
from implicast.casting.spice.messages import (
    CastRequest,
    CoverageReport,
    RepeatCoverageReport,
    RepeatedCastRequest,
)
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.registry import Record, Registry, fits
from implicast.casting.spice.settings import CAST_US
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.language.target import Target
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, CastId, Contact, Incarnation, Message, Name, handles
from implicast.peer.events import Estimated, Refused, Settled
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest, RetryPolicy
from implicast.space.tract import EMPTY, Tract, contains

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
TAGS_MAX = 64
"""Maximum number of tags of a term that `choose=rarest` compares."""


NotificationKey = tuple[CastId, Name, Incarnation | None]
"""Cast, member and, for a repeated cast, the `again` number of its traversal."""


class CheckCast(Message):
    """Fires every `CHECK_CAST_US` until a publisher's cast has ended."""

    cast: CastId


class Casts(SpicePart):
    """Publishes casts, and notifies the members of registries stored here."""

    __slots__ = ("_counted", "_earlier_reports", "_silent", "publishing")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._silent: Recent[Name, None] = Recent(SILENT_MAX)
        self._counted: Recent[NotificationKey, None] = Recent(COUNTED_MAX)
        """Members counted for a cast. A member met again is not counted again."""
        self.publishing: dict[CastId, TraversalTask] = {}
        """Own casts that have not ended."""
        self._earlier_reports: dict[CastId, list[CoverageReport]] = {}
        """Reports of casts that are being recounted. The report with the most notified members
        holds, since no traversal counts a member twice.
        """
        if self.settings.assured:
            spice.requests.topic(NOTIFY, NOTIFY_RETRY, self._on_silent)
            spice.requests.topic(NOTIFY_SILENT, SILENT_RETRY, self._on_silent)

    # --- publishing

    def publish(
        self, cast: CastId, target: Target, payload: bytes, count_only: bool = False
    ) -> None:
        if not all(term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term without a positive tag has no rendezvous"))
            return
        if len(self.publishing) >= PUBLISHING_MAX:
            self.host.deliver(Refused("cast", f"{PUBLISHING_MAX} casts have not ended"))
            return
        first = CastRequest(
            RouteHeader(EMPTY), cast, target, 0, "", 0, 0, 0, payload, (), count_only
        )
        if cast.incarnation != self.spice.incarnation and self.settings.assured:
            first = _repeated(first, self.spice.incarnation)
        if self.settings.assured or count_only:
            self.host.after(CHECK_CAST_US, CheckCast(cast))
        self._send_out(first, self.host.now_us)

    def _send_out(self, first: CastRequest, begun_us: int) -> None:
        """Send the cast to a registry of each term. With receipts a task collects the coverage. It
        is given up `CAST_US` after `begun_us`.
        """
        task = None
        if self.settings.assured or first.count_only:
            task = self.publishing[first.cast] = TraversalTask(begun_us, first)
        for term, conjunction in enumerate(first.target.terms):
            cast_term = replace(first, term=term)
            self.spice.traversals.send_up(
                task, self._addressed(cast_term, conjunction.has[0], self.spice.levels.depth)
            )
        if task is not None:
            self.spice.traversals.finish_one(task)

    @handles(CheckCast)
    def on_check_cast(self, alarm: CheckCast) -> None:
        task = self.publishing.get(alarm.cast)
        if task is not None and self.host.now_us - task.begun_us >= CAST_US:
            self.spice.traversals.give_up(task)
        elif task is not None:
            self.host.after(CHECK_CAST_US, alarm)

    def on_traversal_end(self, task: TraversalTask, is_covered: bool) -> None:
        """If the cast is this peer's own, report the outcome to the application."""
        if not is_covered:
            task.add_report(CoverageReport(0, uncertain=1))
        cast, tally = task.traversal, task.tally
        assert isinstance(cast, CastRequest)
        if is_covered and self.spice.complaints_seen is not None and not cast.count_only:
            self.spice.complaints_seen.complaint_log.count(cast.cast, tally.notified)
        if self.publishing.get(cast.cast) is not task:
            if is_covered:
                self.spice.containers.gather_if_shrunken(task)
            return
        before = self._earlier_reports.pop(cast.cast, [])
        if (
            is_covered
            and isinstance(tally, RepeatCoverageReport)
            and not cast.count_only
            and len(before) < RECOUNTS
        ):
            self._earlier_reports[cast.cast] = [*before, tally]
            self._recount(cast, task.begun_us)
            return
        tally = max([tally, *before], key=lambda each: each.notified)
        del self.publishing[cast.cast]
        if cast.count_only:
            self.host.deliver(
                Estimated(cast.cast.serial, tally.notified, 2 * (tally.hops + tally.notified))
            )
        else:
            self.host.deliver(
                Settled(
                    cast.cast,
                    tally.notified,
                    tally.unreachable,
                    tally.declined,
                    0,
                    tally.silent,
                    tally.uncertain,
                )
            )

    def _recount(self, cast: CastRequest, begun_us: int) -> None:
        """Count the cast again: members were notified by peers whose reports may be lost. Members
        acknowledge again and do not deliver it twice.
        """
        again = getattr(cast, "again", self.spice.incarnation) + 1
        self._send_out(_repeated(cast, again), begun_us)

    # --- finding a registry

    def _addressed(self, cast: CastRequest, tag: str, level: int) -> CastRequest:
        """The cast, routed to the nearest root of a level."""
        address = address_of(tag)
        root = (
            nearest_root(address, level, self.surface.centre)
            if level and self.surface.tract
            else address
        )
        return replace(cast, way=RouteHeader((root, root + 1)), tag=tag, level=level, root=root)

    def seek(self, cast: CastRequest) -> tuple[CastRequest, bool]:
        """The next destination of a cast that looks for a registry, and whether it has found one
        here.

        A peer learns from passing casts how deep a level to start from.
        """
        if self.settings.live and cast.level > self.spice.levels.depth:
            self.spice.levels.learn_depth(cast.level)
        while True:
            root = self._root_here(cast.tag)
            if root is None and not self._is_known(cast.root):
                return cast, False
            if root is None and cast.level:
                cast = self._addressed(
                    cast, cast.tag, min(cast.level, self.settings.deepest + 1) - 1
                )
                continue
            root = cast.root if root is None else root
            complaints_seen = self.spice.complaints_seen
            if (
                self.settings.live
                and not cast.count_only
                and (
                    complaints_seen is None or not complaints_seen.complaint_log.declines(cast.cast)
                )
            ):
                self.spice.replicas.count_cast(
                    cast.tag, root
                )  # a declined cast does not call for more replicas
            other = self._rarer(cast, root) if self.settings.rarest else None
            if other is None:
                return replace(cast, way=RouteHeader((root, root + 1)), root=root), True
            cast = other

    def _root_here(self, tag: str) -> int | None:
        """A local root at which a cast may stop."""
        for root in self.spice.registries.local_roots.get(tag, ()):
            if self._is_known(root) and (
                not self.settings.live or self.spice.levels.is_ready(tag, root)
            ):
                return root
        return None

    def _is_known(self, root: int) -> bool:
        """Whether this peer answers for the root and its registries are complete there."""
        return self.surface.answers(root) and not contains(self.spice.registries.unrecovered, root)

    def _rarer(self, cast: CastRequest, root: int) -> CastRequest | None:
        """A better tag than one with a closed registry: the term's next untried tag, or the one
        with the smallest registry once all are tried.
        """
        registry = self.spice.registries.by_key.get((cast.tag, root, 0))
        tags = cast.target.terms[cast.term].has[:TAGS_MAX]
        seen = dict(cast.tried)
        if registry is None or not registry.closed or len(seen) == len(tags):
            return None
        seen[cast.tag] = len(registry.records) + registry.passed_up
        tag = next((each for each in tags if each not in seen), None) or min(
            tags, key=lambda each: (seen[each], each)
        )
        if tag == cast.tag:
            return None
        return replace(
            self._addressed(cast, tag, self.spice.levels.depth), tried=tuple(seen.items())
        )

    # --- notifying

    def notify_selected(
        self, task: TraversalTask | None, cast: CastRequest, registry: Registry, part: Tract
    ) -> None:
        selected = registry.selected(cast.target, cast.term, part, self.host.now_us)
        if not selected:
            return
        if not self.spice.policy.allows_audience(len(selected)) and not cast.count_only:
            for _ in selected:
                self._count(task, Outcome.BLOCKED)
            return
        notification = _notification(task, cast)
        for member in selected:
            self.notify(task, cast, member, notification)

    def visit_records(
        self, task: TraversalTask, registry: Registry, records: Sequence[Record]
    ) -> None:
        cast = task.traversal
        for each in records:
            if isinstance(cast, CastRequest) and fits(
                each, cast.target, cast.term, self.host.now_us
            ):
                self.notify(task, cast, each.entry.member, _notification(task, cast))

    def notify(
        self,
        task: TraversalTask | None,
        cast: CastRequest,
        member: Contact,
        notification: Notification,
    ) -> None:
        complaints_seen = self.spice.complaints_seen
        if cast.count_only:
            assert task is not None
            task.add_report(CoverageReport(0, notified=1))
        elif complaints_seen is not None and not complaints_seen.complaint_log.admit_member(
            cast.cast, member.name, member.address
        ):
            self._count(task, Outcome.BLOCKED)
        elif member.name == self.spice.name:
            outcome = self.spice.receiver.inbox.take(cast.cast, cast.target, cast.payload)
            if isinstance(cast, RepeatedCastRequest):
                outcome = self.spice.receiver.outcome_for(
                    self.address, cast.cast, cast.again, outcome
                )
                if outcome == Outcome.TAKEN and not self._counted.once(
                    _notification_key(notification, member.name), None
                ):
                    outcome = (
                        Outcome.REPEAT
                    )  # the own record has moved from one notch to another at this peer
            self._count(task, outcome)
        elif member.address == self.address:
            pass  # an earlier peer at this address: it no longer exists
        elif task is None:
            self.host.send(member.address, notification)
        else:
            self._notify_until_ack(task, member, notification)

    def _notify_until_ack(
        self, task: TraversalTask, member: Contact, notification: Notification
    ) -> None:
        """Notify a member until it acknowledges. Several tasks may wait for one acknowledgement."""
        key = _notification_key(notification, member.name)
        known = self.spice.requests.open(NOTIFY, key) or self.spice.requests.open(
            NOTIFY_SILENT, key
        )
        if known is not None:
            if task not in known.context:
                known.context.append(task)
                task.add_pending()
            return
        topic = NOTIFY_SILENT if member.name in self._silent else NOTIFY
        if self.spice.requests.ask(topic, key, member.address, notification, [task]):
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
        requests, signing = self.spice.requests, self.spice.signing
        topic = NOTIFY if (request := requests.open(NOTIFY, key)) is not None else NOTIFY_SILENT
        request = request or requests.open(topic, key)
        if (
            request is None
            or request.to != sender
            or ack.outcome == Outcome.FULL
            or not signing.verifies(ack)
        ):
            return
        requests.answered(topic, key)
        self._silent.pop(ack.by, None)
        outcome = ack.outcome if self._counted.once(key, None) else Outcome.REPEAT
        for task in request.context:
            self._count(task, outcome)
            outcome = Outcome.REPEAT  # counted once, even if several tasks met the member
            self.spice.traversals.finish_one(task)

    def _on_silent(self, key: NotificationKey, request: PendingRequest) -> None:
        self._silent.put(key[1], None)
        request.context[0].add_report(CoverageReport(0, unreachable=1, silent=(key[1],)))
        for task in request.context:
            self.spice.traversals.finish_one(task)


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
