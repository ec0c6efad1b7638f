"""The open casts of a client: those it asks its front end to forward, until the answer is final.

`OpenCasts` repeats each request until the front end has answered with a receipt in which nothing is
open, and makes the receipt final when the cast expires. `CastsSentOnce` keeps only the requests
that wait for a front end, and those for an estimate.
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from implicast.casting.central_subscriptions import PublishEvent
from implicast.casting.complaints import Slowing
from implicast.casting.coverage import SILENT_MAX
from implicast.language.target import Target
from implicast.peer.contract import Address, CastId, Host, Message, Name, Part, handles
from implicast.peer.events import Estimated, Refused, Settled, Slowed
from implicast.peer.expiry import expiry_of
from implicast.peer.fields import Count, Payload, Token
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy

CAST = "cast"
DRY = "dry"
"""Part of the signed text of a request that only counts, so that it cannot be replayed as a cast.
"""
CAST_RETRY = RetryPolicy(2_000_000, times=60, factor=1.1)
"""About a hundred minutes, with growing waits."""
CAST_REPEATED_US = 6_600_000_000
"""Longer than a client asks for one cast. Only casts that expire sooner need an alarm."""
OPEN_CASTS_MAX = 4_096
"""Casts that may await an answer; further ones are refused."""
ESTIMATES = 1 << 47
"""Serials from here on identify estimates, not casts."""


class Publish(Message):
    """A client asks to forward a cast. `dry`: only count the members it would reach."""

    wire = 0x0206
    cast: CastId
    target: Target
    payload: Payload
    dry: bool = False


class CastProgress(Message):
    """Counts of a cast, final when none is open.

    To a client: for all brokers. To a broker: for all brokers on the sender's side of the link, in
    this view.
    """

    wire = 0x0207
    reports_notices = True
    cast: CastId
    epoch: Token
    notified: Count
    unreachable: Count
    declined: Count
    open: Count
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()
    uncertain: Count = 0
    """Front ends that may lack registrations of selected members."""


FrontEndRequest = Publish | PublishEvent


class OpenCastExpires(Message):
    """Fires when a cast expires that may still be open then."""

    cast: CastId


class OpenCasts(Part):
    """Requests to forward a cast, by cast. They go to the present front end of the client."""

    __slots__ = ("_front_end", "_name", "_partial", "_requests", "casts")
    messages_per_member = 2
    """A notification and its acknowledgement."""

    def __init__(
        self,
        address: Address,
        host: Host,
        name: Name,
        requests: Requests,
        front_end: Callable[[], Address | None],
    ) -> None:
        """`name`: that of the client. `front_end`: its present one; None while it looks for one."""
        super().__init__(address, host)
        self._name, self._requests, self._front_end = name, requests, front_end
        requests.topic(CAST, CAST_RETRY, self._on_request_lost)
        self.casts: dict[CastId, FrontEndRequest] = {}
        """Requests without a final answer."""
        self._partial: dict[CastId, Settled] | None = None
        """Receipts so far of open casts that expire soon; None if there are none."""

    def request(self, request: FrontEndRequest) -> CastId:
        """Ask the front end to forward a cast. Refused when too many are open."""
        if len(self.casts) >= OPEN_CASTS_MAX:
            reason = f"{OPEN_CASTS_MAX} casts await an answer already; wait for some of them"
            self.host.deliver(Refused("cast", reason))
            return request.cast
        front_end = self._front_end()
        self._open(request, front_end)
        if front_end is not None:
            self._send(front_end, request)
        return request.cast

    def attach(self, front_end: Address) -> None:
        """Send all open casts to a new front end."""
        for request in list(self.casts.values()):
            self._send(front_end, request)

    def detach(self) -> None:
        """The front end is lost: stop all requests to it."""
        for cast in self.casts:
            self._requests.drop(CAST, cast)

    # --- what differs without receipts

    def _send(self, front_end: Address, request: FrontEndRequest) -> None:
        self._requests.ask(CAST, request.cast, front_end, request)

    def _open(self, request: FrontEndRequest, front_end: Address | None) -> None:
        """A request stays open until it has a final answer or its cast expires."""
        self.casts[request.cast] = request
        left_us = expiry_of(request.payload) - self.host.now_us
        if not request.dry and left_us < CAST_REPEATED_US:
            self._partial = self._partial or {}
            self._partial[request.cast] = Settled(request.cast, 0)
            self.host.after(max(0, left_us), OpenCastExpires(request.cast))

    # --- answers, and their absence

    @handles(OpenCastExpires)
    def on_open_cast_expires(self, alarm: OpenCastExpires) -> None:
        """The cast is asked for no more. Its receipt becomes final."""
        last = self._partial.pop(alarm.cast, None) if self._partial is not None else None
        if last is not None and self.casts.pop(alarm.cast, None) is not None:
            self._requests.drop(CAST, alarm.cast)
            self.host.deliver(last.at_expiry())

    def _on_request_lost(self, cast: CastId, request: PendingRequest) -> None:
        self.casts.pop(cast, None)
        self.host.deliver(Refused("cast", "no server or broker has answered for a hundred minutes"))

    @handles(CastProgress)
    def on_cast_progress(self, sender: Address, progress: CastProgress) -> None:
        request = self.casts.get(progress.cast)
        if sender != self._front_end() or request is None:
            return
        if not progress.open:
            del self.casts[progress.cast]
            self._requests.answered(CAST, progress.cast)
        if request.dry:
            messages = (1 + progress.notified) * self.messages_per_member
            number = progress.cast.serial - ESTIMATES
            self.host.deliver(Estimated(number, progress.notified, messages))
            return
        counts = (progress.notified, progress.unreachable, progress.declined, progress.open)
        settled = Settled(progress.cast, *counts, progress.silent, progress.uncertain)
        if self._partial is not None and progress.cast in self._partial:
            self._partial[progress.cast] = settled
        self.host.deliver(settled)

    @handles(Slowing)
    def on_slowing(self, sender: Address, slowing: Slowing) -> None:
        if sender == self._front_end() and slowing.cast.publisher == self._name:
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))


class CastsSentOnce(OpenCasts):
    """Sends each cast once, as soon as there is a front end."""

    __slots__ = ()
    messages_per_member = 1

    def attach(self, front_end: Address) -> None:
        super().attach(front_end)
        self.casts.clear()

    def _send(self, front_end: Address, request: FrontEndRequest) -> None:
        self.host.send(front_end, request)

    def _open(self, request: FrontEndRequest, front_end: Address | None) -> None:
        if request.dry or front_end is None:
            self.casts[request.cast] = request
