"""Notifies the members that a cast selects, one by one, and counts their answers.

A peer that has resolved a target (a server, a broker, a publisher that has fetched lists, the
holder of a registry) passes the selected members to a `Notifier`. With receipts each member
acknowledges with an outcome. A member that does not answer is notified again for 40 s, longer than
the pauses and partitions that a design has to survive; then it counts as unreachable. It is given
up sooner if another member listed at the same address answers a repeat: a member that lost its disk
comes back under a new name, and its old name stays listed until the lease ends. Without receipts
each member is notified once, and nothing is counted (`UncountedNotifier`).

The member's side is `Receiver`.
"""

from collections import deque
from collections.abc import Callable, Sequence

from implicast.casting.coverage import CastTally
from implicast.casting.inbox import Inbox, Outcome
from implicast.language.target import Target
from implicast.peer.contract import (
    Address,
    CastId,
    Contact,
    Host,
    Incarnation,
    Message,
    Name,
    Part,
    handles,
)
from implicast.peer.fields import Payload
from implicast.peer.member import Fitting
from implicast.peer.policy import Policy
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.peer.signing import UNSIGNED, Signing, signed_by
from implicast.peer.site import Site

NOTIFY = "notify-members"
RETRY = RetryPolicy(2_000_000, times=21)
"""An attempt every 2 s, for 40 s."""
AT_ONCE_MAX = 4_096
"""Members notified at the same time; the others of a large group wait in a queue."""


class Notification(Message):
    """Base of messages that notify a member of a cast. The member answers with `NotifyAck`."""

    after_commit = False
    cast: CastId


class Notify(Notification):
    """Notifies a member of a cast that selects it."""

    wire = 0x0101
    target: Target
    payload: Payload


@signed_by("by")
class NotifyAck(Message):
    """The member `by` acknowledges a notification, with the outcome."""

    wire = 0x0102
    reports_notices = True
    cast: CastId
    by: Name
    outcome: Outcome


class NotifyAgain(Notification):
    """Notifies a member of a cast that its publisher continues in the incarnation `again`.
    Acknowledgements of earlier incarnations do not count for it.
    """

    wire = 0x0105
    target: Target
    payload: Payload
    again: Incarnation


@signed_by("by")
class NotifyAgainAck(NotifyAck):
    """The member `by` acknowledges a notification of the incarnation `again`."""

    wire = 0x0106
    again: Incarnation


OnFinished = Callable[[CastId, CastTally], None]


class Notifier(Part):
    """Notifications of one peer that are in progress."""

    __slots__ = (
        "_ended",
        "_in_flight",
        "_is_ours",
        "_requests",
        "_signing",
        "_waiting",
        "casts",
        "sharing_address",
    )

    def __init__(
        self,
        address: Address,
        host: Host,
        requests: Requests,
        ended: OnFinished,
        signing: Signing = UNSIGNED,
        is_ours: Callable[[Name], bool] = lambda name: True,
    ) -> None:
        """`ended` is called once for every cast, when no member is open.
        `is_ours`: whether a member that does not answer can only be reached by this peer. One that
        another peer may have notified makes the receipt uncertain.
        """
        super().__init__(address, host)
        self._requests, self._ended = requests, ended
        self._signing, self._is_ours = signing, is_ours
        self._in_flight = 0
        self._waiting: deque[tuple[Contact, CastId, Message]] | None = None
        """Created when needed: most members never notify so many."""
        self.casts: dict[CastId, CastTally] = {}
        self.sharing_address: dict[CastId, dict[Address, list[Name]]] = {}
        """Of casts in progress, the members that are listed at the same address. At most one of
        them can be running there.
        """
        requests.topic(NOTIFY, RETRY, self._on_request_lost)

    def notify_members(
        self, notification: Notification, members: Sequence[Contact], here: Outcome | None = None
    ) -> None:
        """Notify these members of a cast, once for each cast. `here`: the outcome at this peer
        itself.
        """
        self.notify_each(notification.cast, [(member, notification) for member in members], here)

    def notify_each(
        self, cast: CastId, messages: Sequence[tuple[Contact, Message]], here: Outcome | None = None
    ) -> None:
        """Notify each member with a message of its own."""
        self.casts[cast] = tally = CastTally(len(messages) + (here is not None))
        if together := _sharing_address([member for member, _ in messages]):
            self.sharing_address[cast] = together
        for member, message in messages:
            self._ask(member, cast, message)
        if here is not None:
            tally.count(here)
        if not tally.open:
            self._end(cast, tally)

    def _ask(self, member: Contact, cast: CastId, message: Message) -> None:
        key = (cast, member.name)
        if self._in_flight < AT_ONCE_MAX and self._requests.ask(
            NOTIFY, key, member.address, message
        ):
            self._in_flight += 1
        else:
            self._waiting = self._waiting or deque()
            self._waiting.append((member, cast, message))

    @handles(NotifyAck)
    def on_notify_ack(self, sender: Address, ack: NotifyAck) -> None:
        """A member whose memory is full is notified again. An answer from another address than the
        member's is ignored.
        """
        key = (ack.cast, ack.by)
        request = self._requests.open(NOTIFY, key)
        if request is None:
            self._drop_displaced(sender, ack)
            return
        if request.to != sender or ack.outcome == Outcome.FULL or not self._signing.verifies(ack):
            return
        self._requests.answered(NOTIFY, key)
        self._count(ack.cast, ack.by, ack.outcome)

    def _drop_displaced(self, sender: Address, ack: NotifyAck) -> None:
        """A member that has acknowledged before received a repeat, which was meant for another
        member listed at its address. Members there that did not answer two attempts are gone.
        """
        listed = (
            self.sharing_address[ack.cast].get(sender, ())
            if ack.cast in self.sharing_address
            else ()
        )
        if ack.by not in listed or not self._signing.verifies(ack):
            return
        for name in listed:
            request = self._requests.open(NOTIFY, (ack.cast, name))
            if request is not None and request.attempts > 1:
                self._requests.drop(NOTIFY, (ack.cast, name))
                self._count(ack.cast, name, None)

    def _on_request_lost(self, key: tuple[CastId, Name], request: PendingRequest) -> None:
        cast, name = key
        is_ours, tally = self._is_ours(name), self.casts.get(cast)
        if not is_ours and tally is not None:
            tally.mark_uncertain()
        self._count(cast, name, None if is_ours else Outcome.ELSEWHERE)

    def _count(self, cast: CastId, name: Name, outcome: Outcome | None) -> None:
        self._in_flight -= 1
        tally = self.casts.get(cast)
        if tally is not None:
            tally.count(outcome, name)
            if not tally.open:
                self._end(cast, tally)
        if self._waiting:
            self._ask(*self._waiting.popleft())

    def _end(self, cast: CastId, tally: CastTally) -> None:
        del self.casts[cast]
        self.sharing_address.pop(cast, None)
        self._ended(cast, tally)


class UncountedNotifier(Notifier):
    """Notifies each member once, and counts nothing. `ended` is never called."""

    __slots__ = ()

    def notify_each(
        self, cast: CastId, messages: Sequence[tuple[Contact, Message]], here: Outcome | None = None
    ) -> None:
        for member, message in messages:
            self.host.send(member.address, message)


def _sharing_address(members: Sequence[Contact]) -> dict[Address, list[Name]]:
    """By address, the members that share it with others."""
    if len({member.address for member in members}) == len(members):
        return {}
    found: dict[Address, list[Name]] = {}
    for member in members:
        found.setdefault(member.address, []).append(member.name)
    return {address: names for address, names in found.items() if len(names) > 1}


Acknowledge = Callable[[Address, CastId, Outcome], None]
"""Tells the peer that notified a member of a cast of the outcome."""


class Acks:
    """Acknowledgements of one member."""

    __slots__ = ("_host", "_name", "_signing")

    def __init__(self, site: Site) -> None:
        self._name, self._host, self._signing = site.name, site.host, site.signing

    def acknowledge(self, to: Address, cast: CastId, outcome: Outcome) -> None:
        self._host.send(to, self._signing.sign_message(NotifyAck(cast, self._name, outcome)))


def acknowledge_nothing(to: Address, cast: CastId, outcome: Outcome) -> None:
    """For a member without receipts."""


class Receiver(Part):
    """The member's side: delivers what its description fits, once, and acknowledges it."""

    __slots__ = ("acknowledge", "inbox")

    def __init__(
        self, site: Site, policy: Policy, fit: Callable[[Target], Fitting], acknowledge: Acknowledge
    ) -> None:
        super().__init__(site.address, site.host)
        self.inbox, self.acknowledge = Inbox(site, policy, fit), acknowledge

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        outcome = self.inbox.take(notify.cast, notify.target, notify.payload)
        self.acknowledge(sender, notify.cast, outcome)
