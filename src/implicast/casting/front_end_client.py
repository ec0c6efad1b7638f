"""A member served by a front end (a server or a broker): it registers there and asks it to forward
casts.

With receipts
- a registration is repeated until it is acknowledged, a cast until it has a final answer;
- the member sends keep-alives, and registers again what the front end does not know: the front end
  may have dropped the member's lease, lost its memory, or be another one.

After a restart a member registers the description from its disk under its new incarnation. If the
disk was an old copy, the front end knows a later incarnation and says so; the member then takes an
incarnation above it.
"""

from implicast.casting.central_subscriptions import PublishEvent
from implicast.casting.client_registry import ClientEntry
from implicast.casting.complaints import Complain, Slowing
from implicast.casting.front_end_messages import (
    DRY,
    CastProgress,
    KeepAlive,
    KeepAliveAck,
    KeepAliveDue,
    Publish,
    Register,
    RegisterAck,
    RegisterOutdated,
)
from implicast.casting.notifier import Receiver
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Message, Version, handles
from implicast.peer.events import Estimated, Left, Refused, Registered, Settled, Slowed, Withdrawn
from implicast.peer.expiry import expiry_of
from implicast.peer.member import Member
from implicast.peer.requests import PendingRequest, Requests, RetryPolicy
from implicast.peer.signing import SignedMessage
from implicast.peer.site import Site

REGISTER, CAST = "register", "cast"
REGISTER_RETRY = RetryPolicy(2_000_000, times=1 << 30)
CAST_RETRY = RetryPolicy(2_000_000, times=60, factor=1.1)
"""About a hundred minutes, with growing waits."""
CAST_REPEATED_US = 6_600_000_000
"""Longer than a client asks for one cast. Only casts that expire sooner need an alarm."""
KEEP_ALIVE_RETRY_US = 1_000_000
"""Wait before an unanswered keep-alive is repeated."""
OPEN_CASTS_MAX = 4_096
"""Casts that may await an answer; further ones are refused."""
ESTIMATES = 1 << 47
"""Serials from here on identify estimates, not casts."""

FrontEndRequest = Publish | PublishEvent


class OpenCastExpires(Message):
    """Fires when a cast expires that may still be open then."""

    cast: CastId


class FrontEndClient(Member, parts={"requests": Requests, "receiver": Receiver}):
    """A member and its front end, which is None while the member looks for one."""

    __slots__ = (
        "_acked_us",
        "_complete",
        "_estimates",
        "_keep_alive_armed",
        "_partial",
        "_unanswered",
        "front_end",
        "keep_alive_us",
        "leaving",
        "open_casts",
        "receiver",
        "requests",
    )

    def __init__(self, site: Site, front_end: Address | None, keep_alive_us: int) -> None:
        """`keep_alive_us`: interval between keep-alives."""
        super().__init__(site)
        self.front_end = front_end
        self.requests = Requests(site.address, site.host)
        self.requests.topic(REGISTER, REGISTER_RETRY)
        self.requests.topic(CAST, CAST_RETRY, self._cast_lost)
        self.receiver = Receiver(
            self, site.durable_state.member.seen_blocks if site.durable_state else ()
        )
        self.open_casts: dict[CastId, FrontEndRequest] = {}
        """Casts that have no final answer; without receipts, casts that wait for a front end."""
        self._partial: dict[CastId, Settled] | None = None
        """Receipts so far of open casts that expire soon; None if there are none."""
        self.keep_alive_us = keep_alive_us if site.watched else 0
        self.leaving = False
        self._complete = 0
        self._estimates = 0
        self._keep_alive_armed, self._acked_us, self._unanswered = False, -self.keep_alive_us, 0

    def leave(self) -> None:
        self.leaving = True
        self.withdraw()

    def register(self, description: Description | None) -> None:
        self.describe(description)
        self.send_description()

    def withdraw(self) -> None:
        self.register(None)

    def cast(self, target: Target, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        return self.request_cast(Publish(cast, target, self.seal(cast, target, payload, expiry_us)))

    def estimate(self, target: Target) -> int:
        self._estimates += 1
        cast = CastId(self.name, self.incarnation, ESTIMATES + self._estimates)
        self.request_cast(Publish(cast, target, self.seal(cast, (DRY, target), b""), dry=True))
        return self._estimates

    def complain(self, cast: CastId) -> bool:
        """Sent to the front end, which notifies this member."""
        if self.front_end is None:
            return False
        self.host.send(self.front_end, self.signing.sign_message(Complain(cast, self.name)))
        return True

    def preload(self, description: Description) -> ClientEntry:
        """Start registered: set the description without messages, and return the entry for the
        front end's registry.
        """
        self._complete = self.describe(description)
        self.start_keep_alive()
        self.host.deliver(Registered(self.version))
        signed = self.signing.sign_message(Register(self.name, self.version, self.description))
        return ClientEntry(
            self.contact,
            self.version,
            self.description,
            signed if isinstance(signed, SignedMessage) else None,
        )

    # --- requests to the front end

    def attach(self, front_end: Address) -> None:
        """Use this front end: send it the registration and all open casts."""
        self.front_end = front_end
        self._unanswered = 0
        if self.description is not None and not self.version:
            self.register(self.description)  # from an earlier incarnation
        elif self.description is not None or self.version > self._complete:
            self.send_description()
        waiting = list(self.open_casts.values())
        if not self.assured:
            self.open_casts.clear()
        for request in waiting:
            self._send(request)

    def detach(self) -> None:
        """The front end is lost: stop all requests to it."""
        self.front_end = None
        self.requests.drop(REGISTER, 0)
        for cast in self.open_casts:
            self.requests.drop(CAST, cast)

    def send_description(self) -> None:
        """Register the newest description until it is acknowledged."""
        self.start_keep_alive()
        if self.front_end is not None:
            register = self.signing.sign_message(
                Register(self.name, self.version, self.description)
            )
            self.requests.ask(REGISTER, 0, self.front_end, register)

    def request_cast(self, request: FrontEndRequest) -> CastId:
        """Ask the front end to forward a cast. Refused when too many are open."""
        self.start_keep_alive()
        if len(self.open_casts) >= OPEN_CASTS_MAX:
            self.host.deliver(
                Refused(
                    "cast", f"{OPEN_CASTS_MAX} casts await an answer already; wait for some of them"
                )
            )
            return request.cast
        if self.assured or self.front_end is None or request.dry:
            self.open_casts[request.cast] = request
        if self.assured and not request.dry:
            self._watch_expiry(request)
        if self.front_end is not None:
            self._send(request)
        return request.cast

    def _watch_expiry(self, request: FrontEndRequest) -> None:
        left_us = expiry_of(request.payload) - self.host.now_us
        if left_us < CAST_REPEATED_US:
            self._partial = self._partial or {}
            self._partial[request.cast] = Settled(request.cast, 0)
            self.host.after(max(0, left_us), OpenCastExpires(request.cast))

    @handles(OpenCastExpires)
    def on_open_cast_expires(self, alarm: OpenCastExpires) -> None:
        """The cast is asked for no more. Its receipt becomes final."""
        last = self._partial.pop(alarm.cast, None) if self._partial is not None else None
        if last is not None and self.open_casts.pop(alarm.cast, None) is not None:
            self.requests.drop(CAST, alarm.cast)
            self.host.deliver(last.at_expiry())

    def _send(self, request: FrontEndRequest) -> None:
        assert self.front_end is not None, "requests wait until there is a front end"
        if self.assured:
            self.requests.ask(CAST, request.cast, self.front_end, request)
        else:
            self.host.send(self.front_end, request)

    def _cast_lost(self, cast: CastId, request: PendingRequest) -> None:
        self.open_casts.pop(cast, None)
        self.host.deliver(Refused("cast", "no server or broker has answered for a hundred minutes"))

    # --- answers of the front end

    @handles(RegisterAck)
    def on_register_ack(self, sender: Address, ack: RegisterAck) -> None:
        if (
            sender != self.front_end
            or ack.version != self.version
            or not self.requests.answered(REGISTER, 0)
        ):
            return
        if ack.version > self._complete:
            self._complete = ack.version
            self.host.deliver((Withdrawn if self.description is None else Registered)(ack.version))
            if self.leaving:
                self.host.deliver(Left())

    @handles(RegisterOutdated)
    def on_register_outdated(self, sender: Address, newer: RegisterOutdated) -> None:
        """With signatures this message is ignored: the front end returns the member's own later
        registration instead (`on_own_statement`).
        """
        if sender == self.front_end and not self.signing.signed:
            self._advance_above(newer.version)

    def _advance_above(self, version: Version) -> None:
        if self.version and version > self.version:
            self.advance_incarnation(version)
            self.send_description()

    def on_own_statement(self, message: Message) -> None:
        if isinstance(message, Register):
            self._advance_above(message.version)

    @handles(CastProgress)
    def on_cast_progress(self, sender: Address, progress: CastProgress) -> None:
        request = self.open_casts.get(progress.cast)
        if sender != self.front_end or request is None:
            return
        if not progress.open:
            del self.open_casts[progress.cast]
            self.requests.answered(CAST, progress.cast)
        if request.dry:
            messages = (1 + progress.notified) * (2 if self.assured else 1)
            self.host.deliver(
                Estimated(progress.cast.serial - ESTIMATES, progress.notified, messages)
            )
        else:
            counts = (progress.notified, progress.unreachable, progress.declined, progress.open)
            settled = Settled(progress.cast, *counts, progress.silent, progress.uncertain)
            if self._partial is not None and progress.cast in self._partial:
                self._partial[progress.cast] = settled
            self.host.deliver(settled)

    @handles(Slowing)
    def on_slowing(self, sender: Address, slowing: Slowing) -> None:
        if sender == self.front_end and slowing.cast.publisher == self.name:
            self.host.deliver(Slowed(slowing.until_us, slowing.complaints, slowing.reached))

    # --- keep-alives

    @property
    def settled(self) -> bool:
        """Whether there is a description and its newest version is acknowledged."""
        return self.description is not None and self._complete == self.version

    def start_keep_alive(self) -> None:
        """Start periodic keep-alives."""
        if self.keep_alive_us and not self._keep_alive_armed:
            self._keep_alive_armed = True
            self.host.after(int(self.keep_alive_us * self.host.rng.random()), KeepAliveDue())

    @handles(KeepAliveDue)
    def on_keep_alive_due(self, alarm: KeepAliveDue) -> None:
        if self.leaving and self._complete == self.version:
            return
        left_us = self._acked_us + self.keep_alive_us - self.host.now_us
        if self.front_end is not None and not self._unanswered and left_us > 0:
            self.host.after(left_us, KeepAliveDue())
            return
        self.host.after(min(KEEP_ALIVE_RETRY_US, self.keep_alive_us), KeepAliveDue())
        if self.front_end is not None:
            self.send_keep_alive(self._unanswered)

    def send_keep_alive(self, unanswered: int) -> None:
        """Send a keep-alive. `unanswered`: how many before it had no answer."""
        assert self.front_end is not None, "a keep-alive needs a front end"
        self._unanswered += 1
        self.host.send(self.front_end, KeepAlive(self.name, self.version))

    @handles(KeepAliveAck)
    def on_keep_alive_ack(self, sender: Address, ack: KeepAliveAck) -> None:
        if sender != self.front_end:
            return
        self._unanswered, self._acked_us = 0, self.host.now_us
        if self.requests.open(REGISTER, 0) is None and ack.version != self.version:
            if ack.version > self.version:
                self.on_register_outdated(sender, RegisterOutdated(ack.version))
            elif self.description is not None:
                self.send_description()
