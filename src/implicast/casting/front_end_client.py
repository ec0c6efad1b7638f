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

from dataclasses import dataclass

from implicast.casting.client_registry import (
    KeepAlive,
    KeepAliveAck,
    Register,
    RegisterAck,
    RegisterOutdated,
)
from implicast.casting.complaints import Complain
from implicast.casting.notifier import Acknowledge, Receiver
from implicast.casting.open_casts import (
    DRY,
    ESTIMATES,
    CastProgress,
    CastsSentOnce,
    FrontEndRequest,
    OpenCasts,
    Publish,
)
from implicast.language.target import Description, Target
from implicast.peer.backoff import RepairBudget
from implicast.peer.contract import Address, CastId, Message, StandingAlarm, Version, handles
from implicast.peer.events import Left, Registered, Withdrawn
from implicast.peer.member import Member
from implicast.peer.requests import Requests, RetryPolicy
from implicast.peer.site import Site

REGISTER = "register"
REGISTER_RETRY = RetryPolicy(2_000_000, times=1 << 30)
KEEP_ALIVE_RETRY_US = 1_000_000
"""Wait before an unanswered keep-alive is repeated."""


class KeepAliveDue(StandingAlarm):
    """Fires when a client should send a keep-alive, or one is unanswered."""


@dataclass(frozen=True, slots=True)
class ClientState:
    """State of a client that has joined: its front end, and the description that it has registered
    there.
    """

    front_end: Address
    registered: Description | None = None


PARTS = {"requests": Requests, "receiver": Receiver, "open_casts": OpenCasts}


class FrontEndClient(Member, parts=PARTS):
    """A member and its front end, which is None while the member looks for one."""

    __slots__ = (
        "_acked_us",
        "_complete",
        "_estimates",
        "_keep_alive_armed",
        "_unanswered",
        "front_end",
        "keep_alive_us",
        "leaving",
        "open_casts",
        "receiver",
        "requests",
    )

    def __init__(
        self,
        site: Site,
        front_end: Address | None,
        keep_alive_us: int,
        acknowledge: Acknowledge,
    ) -> None:
        """`keep_alive_us`: interval between keep-alives."""
        super().__init__(site)
        self.front_end = front_end
        self.requests = Requests(site.address, site.host, budget=RepairBudget.of(site.parameters))
        self.requests.topic(REGISTER, REGISTER_RETRY)
        self.receiver = Receiver(site, self.policy, self.fit, acknowledge)
        self.open_casts = (OpenCasts if site.assured else CastsSentOnce)(
            site.address, site.host, site.name, self.requests, lambda: self.front_end
        )
        self.keep_alive_us = keep_alive_us if site.watched else 0
        self.leaving = False
        self._complete = 0
        self._estimates = 0
        self._keep_alive_armed, self._acked_us, self._unanswered = False, -self.keep_alive_us, 0

    def restore(self, state: ClientState) -> None:
        """Begin as a client that has joined and registered, as a preloaded network needs it."""
        self.front_end = state.front_end
        if state.registered is not None:
            self._complete = self.describe(state.registered)
            self.start_keep_alive()
            self.host.deliver(Registered(self.version))

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

    # --- requests to the front end

    def attach(self, front_end: Address) -> None:
        """Use this front end: send it the registration and all open casts."""
        self.front_end = front_end
        self._unanswered = 0
        if self.description is not None and not self.version:
            self.register(self.description)  # from an earlier incarnation
        elif self.description is not None or self.version > self._complete:
            self.send_description()
        self.open_casts.attach(front_end)

    def detach(self) -> None:
        """The front end is lost: stop all requests to it."""
        self.front_end = None
        self.requests.drop(REGISTER, 0)
        self.open_casts.detach()

    def send_description(self) -> None:
        """Register the newest description until it is acknowledged."""
        self.start_keep_alive()
        if self.front_end is not None:
            register = self.signing.sign_message(
                Register(self.name, self.version, self.description)
            )
            self.requests.ask(REGISTER, 0, self.front_end, register)

    def request_cast(self, request: FrontEndRequest) -> CastId:
        """Ask the front end to forward a cast."""
        self.start_keep_alive()
        return self.open_casts.request(request)

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


KINDS: tuple[type[Message], ...] = (
    Register,
    RegisterAck,
    RegisterOutdated,
    KeepAlive,
    KeepAliveAck,
    Publish,
    CastProgress,
)
