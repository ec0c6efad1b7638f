"""Requests that are sent until they are answered: retries, timeouts, giving up.

    self.requests = Requests(address, host)
    self.requests.topic("claim", RetryPolicy(500_000, times=5), lost=self._claim_lost)
    self.requests.ask("claim", neighbour.name, neighbour.address, Claim(me))
    ...
    if self.requests.answered("claim", neighbour.name) is not None: ...  # in the answer's handler

A pending request is a value: topic, key, destination, message, number of attempts, time of the next
attempt. An answer removes it. After `times` attempts without an answer it is lost, and the topic's
`lost` callback is called. Retries, and all upkeep requests, wait while the peer's budget for repair
is spent (`backoff.py`). One alarm serves all requests of a peer. Alarms cannot be cancelled; one
that fires early finds nothing due.

With `assurance=receipts` every hop of a message is a request, so this code is hot. A compiled twin
(`_requests.pyx`) is used where the package was built; `OpenRequests` is its reference.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from implicast.peer.backoff import RepairBudget, backed_off_us
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.space.built import built

_BUILT = built("peer._requests")
PENDING_MAX = 65_536
"""Pending requests of one peer. `ask` returns False beyond this; the caller has to try again later.
"""


class RetryPolicy(NamedTuple):
    """When a request is repeated, and when it is given up."""

    first_us: int
    times: int
    """Attempts in all; then the request is lost."""
    factor: float = 1.0
    """Ratio of each wait to the previous one."""
    most_us: int = 1 << 62
    """Upper bound of a wait."""

    def wait_us(self, attempts: int) -> int:
        """The wait after attempt number `attempts`; the first attempt is number 1."""
        if self.factor == 1.0:
            return self.first_us
        return backed_off_us(self.first_us, attempts - 1, self.most_us, self.factor)


class RequestTimeout(Message):
    """Fires when at least one request may be due for its next attempt."""


class UpkeepRequestTimeout(Message):
    """Fires when at least one upkeep request may be due for its next attempt."""

    upkeep: ClassVar[bool] = True


class OverlayRequestTimeout(Message):
    """Fires when at least one request of the overlay may be due for its next attempt."""


class PendingRequest(msgspec.Struct):
    """One request that awaits an answer. A msgspec struct, because several are made for every hop
    and a struct costs a third of a dataclass with slots.
    """

    to: Address
    message: Message
    context: Any
    attempts: int
    due_us: int
    started_us: int

    def record_attempt(self, due_us: int) -> None:
        """Count one more attempt, whose answer is due at `due_us`."""
        self.attempts += 1
        self.due_us = due_us

    def start(self, now_us: int) -> None:
        """The first attempt is sent now."""
        self.started_us = now_us

    def defer(self, until_us: int) -> None:
        """Send no further attempt before `until_us`, then start counting attempts anew."""
        self.attempts, self.due_us = 0, until_us

    def reset_attempts(self) -> None:
        """Count attempts as if only the first had been sent."""
        self.attempts = 1


OnLost = Callable[[Any, PendingRequest], None]
"""Called with the key and the request when the last attempt stays unanswered."""
RequestKey = tuple[str, Hashable]
OnRoundTrip = Callable[[Address, int], None]
Topics = dict[str, tuple[int, RetryPolicy, OnLost]]
"""By topic: the first wait (computed once, since most requests are answered within it), the policy,
and the callback for lost requests.
"""


def _ignore_loss(key: Any, request: PendingRequest) -> None:
    """Default callback of a topic: a lost request is only removed."""


class OpenRequests:
    """Pending requests of one peer and their alarm. Reference for the compiled twin."""

    __slots__ = (
        "_alarm",
        "_alarm_us",
        "_bound",
        "_budget",
        "_due",
        "_free_us",
        "_host",
        "_is_upkeep",
        "_open",
        "_round_trip_us",
        "_serial",
        "_topics",
    )

    def __init__(
        self,
        host: Host,
        alarm: Message,
        topics: Topics,
        pending: dict[RequestKey, PendingRequest],
        bound: int,
        round_trip_us: OnRoundTrip,
        budget: RepairBudget,
    ) -> None:
        self._budget, self._is_upkeep = budget, alarm.upkeep
        self._free_us = 0
        self._host, self._alarm, self._bound, self._round_trip_us = (
            host,
            alarm,
            bound,
            round_trip_us,
        )
        self._topics, self._open = topics, pending
        self._due: list[tuple[int, int, RequestKey]] = []
        self._serial = 0
        self._alarm_us = -1

    def ask(
        self, topic: str, key: Hashable, to: Address, message: Message, context: Any = None
    ) -> bool:
        """Send a message and repeat it until it is answered. Replaces a pending request with the
        same topic and key. Returns False, and sends nothing, when `bound` requests are pending.
        """
        request_key, host, pending = (topic, key), self._host, self._open
        if len(pending) >= self._bound and request_key not in pending:
            return False
        now_us = host.now_us
        if self._is_upkeep and not self._budget.take(now_us):
            self._free_us = self._budget.next_us(now_us)
            pending[request_key] = PendingRequest(to, message, context, 0, now_us, now_us)
            self._schedule(now_us, request_key)
            return True
        due_us = now_us + self._topics[topic][0]
        pending[request_key] = PendingRequest(to, message, context, 1, due_us, now_us)
        self._schedule(due_us, request_key)
        host.send(to, message)
        return True

    def open(self, topic: str, key: Hashable) -> PendingRequest | None:
        """The pending request with this topic and key, if any."""
        return self._open.get((topic, key))

    def answered(self, topic: str, key: Hashable) -> PendingRequest | None:
        """Remove and return the request that an answer belongs to; None if it is not pending. The
        round-trip time is reported only if there was a single attempt (Karn's rule).
        """
        request = self._open.pop((topic, key), None)
        if request is not None and request.attempts == 1:
            self._round_trip_us(request.to, self._host.now_us - request.started_us)
        return request

    def postpone(self, topic: str, key: Hashable, wait_us: int) -> None:
        """The other peer is working on the answer: wait `wait_us` before the next attempt and count
        attempts anew.
        """
        request = self._open.get((topic, key))
        if request is not None:
            request.defer(self._host.now_us + wait_us)
            self._schedule(request.due_us, (topic, key))

    def resend_due(self) -> None:
        """Repeat every request that is due, and give up those that used all attempts."""
        now_us, due = self._host.now_us, self._due
        if now_us >= self._alarm_us:
            self._alarm_us = -1
        while due and due[0][0] <= now_us:
            due_us, _, request_key = due[0]
            request = self._open.get(request_key)
            is_due = request is not None and request.due_us == due_us
            if is_due and not self._may_go_on(request_key, now_us):
                break
            heappop(due)
            if request is not None and is_due:
                self._resend(request_key, request)
        self._arm()

    def _may_go_on(self, request_key: RequestKey, now_us: int) -> bool:
        """Whether a request that is due is lost, or may be sent again within the budget."""
        if self._open[request_key].attempts >= self._topics[request_key[0]][1].times:
            return True
        if self._budget.take(now_us):
            return True
        self._free_us = self._budget.next_us(now_us)
        return False

    def _resend(self, request_key: RequestKey, request: PendingRequest) -> None:
        _, policy, lost = self._topics[request_key[0]]
        if request.attempts >= policy.times:
            del self._open[request_key]
            lost(request_key[1], request)
            return
        if request.due_us == request.started_us:  # it waited for the budget
            request.start(self._host.now_us)
        request.record_attempt(self._host.now_us + policy.wait_us(request.attempts + 1))
        self._schedule(request.due_us, request_key)
        self._host.send(request.to, request.message)

    def _schedule(self, due_us: int, request_key: RequestKey) -> None:
        self._serial += 1
        heappush(self._due, (due_us, self._serial, request_key))
        if not 0 <= self._alarm_us <= due_us:  # an alarm at or before `due_us` is already armed
            self._arm()

    def _arm(self) -> None:
        due, is_open = self._due, self._open.get
        while due:
            due_us, _, request_key = due[0]
            request = is_open(request_key)
            if request is not None and request.due_us == due_us:
                due_us = max(due_us, self._free_us)
                if self._alarm_us < 0 or due_us < self._alarm_us:
                    self._alarm_us = due_us
                    self._host.after(max(0, due_us - self._host.now_us), self._alarm)
                return
            heappop(due)  # stale: answered or postponed since


class AskMethod(Protocol):
    """Signature of `OpenRequests.ask`."""

    def __call__(
        self, topic: str, key: Hashable, to: Address, message: Message, context: Any = None
    ) -> bool: ...


class AbstractRequests(Part):
    """Topics and pending requests of one peer.

    The methods needed for every request are those of `OpenRequests`, compiled where that was built:
    a run with receipts takes 5 % less time (`bench/designs.py`).
    """

    __slots__ = ("_open", "_topics", "answered", "ask", "open", "postpone", "resend_due")
    alarm: ClassVar[Message]
    ask: AskMethod
    open: Callable[[str, Hashable], PendingRequest | None]
    answered: Callable[[str, Hashable], PendingRequest | None]
    postpone: Callable[[str, Hashable, int], None]
    resend_due: Callable[[], None]

    def __init__(
        self,
        address: Address,
        host: Host,
        bound: int = PENDING_MAX,
        round_trip_us: OnRoundTrip | None = None,
        budget: RepairBudget | None = None,
    ) -> None:
        """`round_trip_us`: called with the destination and the round-trip time of each request that
        was answered at the first attempt. `budget`: for retries and upkeep requests; request tables
        of one peer may share it.
        """
        super().__init__(address, host)
        self._topics: Topics = {}
        self._open: dict[RequestKey, PendingRequest] = {}
        kind = OpenRequests if _BUILT is None else _BUILT.OpenRequests
        verbs: OpenRequests = kind(
            host,
            self.alarm,
            self._topics,
            self._open,
            bound,
            round_trip_us or _ignore_round_trip,
            budget or RepairBudget(),
        )
        self.ask, self.open, self.answered = verbs.ask, verbs.open, verbs.answered
        self.postpone, self.resend_due = verbs.postpone, verbs.resend_due

    def __len__(self) -> int:
        return len(self._open)

    def topic(self, topic: str, policy: RetryPolicy, lost: OnLost = _ignore_loss) -> None:
        """Declare a topic: its retry policy, and the callback for requests that are lost."""
        self._topics[topic] = policy.wait_us(1), policy, lost

    def pending_keys(self, topic: str) -> list[Any]:
        """Keys of the pending requests of a topic, in the order in which they were first asked."""
        return [key for each, key in self._open if each == topic]

    def note_progress(self, topic: str, key: Hashable) -> None:
        """The other peer reports progress: count attempts as if only the first had been sent."""
        request = self._open.get((topic, key))
        if request is not None:
            request.reset_attempts()

    def drop(self, topic: str, key: Hashable) -> None:
        """Remove a request that no longer needs an answer."""
        self._open.pop((topic, key), None)


class Requests(AbstractRequests):
    """Requests on behalf of the application or of other peers."""

    __slots__ = ()
    alarm = RequestTimeout()

    @handles(RequestTimeout)
    def on_request_timeout(self, alarm: RequestTimeout) -> None:
        self.resend_due()


class UpkeepRequests(AbstractRequests):
    """Requests of periodic upkeep. They have an alarm of their own, so that their messages count as
    upkeep in measurements and a simulation does not wait for them to end.
    """

    __slots__ = ()
    alarm = UpkeepRequestTimeout()

    @handles(UpkeepRequestTimeout)
    def on_upkeep_request_timeout(self, alarm: UpkeepRequestTimeout) -> None:
        self.resend_due()


class OverlayRequests(AbstractRequests):
    """Requests of an overlay whose upper layer has requests of its own."""

    __slots__ = ()
    alarm = OverlayRequestTimeout()

    @handles(OverlayRequestTimeout)
    def on_overlay_request_timeout(self, alarm: OverlayRequestTimeout) -> None:
        self.resend_due()


def _ignore_round_trip(to: Address, took_us: int) -> None:
    """Default for peers that do not measure round-trip times."""
