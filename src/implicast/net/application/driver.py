"""The host of one peer on a network: real time, real timers, real sockets; one input at a time.

The events that an input delivers to the application are committed before any dependent message of
that input is sent. So a peer acknowledges a notification only when the notice is durable, also if
the notification is repeated. An input without events is delayed only in its acknowledgements.
Messages that do not depend on durable state (`Message.after_commit` is false) are never delayed.
The peer receives a cast of the application only when the cast is committed (`outbox.py`).

A message that cannot be decoded, or that is not for this role, is counted and dropped. An exception
in a handler is a bug: it is counted and logged, and the node continues.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from implicast.casting.notifier import NotifyAck, NotifyAgainAck
from implicast.net.application.record import READS, VERBS, RecordedInput, Recorder, digest_of
from implicast.net.errors import NodeError
from implicast.net.identity.signing import PendingSignature
from implicast.net.observation.journal import Cause, JournalWriter, ReceivedRow
from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import Hello
from implicast.peer.changes import Changes
from implicast.peer.contract import Address, Message, Peer
from implicast.peer.errors import RemoteError
from implicast.peer.member import Member
from implicast.peer.signing import SignedMessage
from implicast.peer.wire import MESSAGE_BYTES_MAX, Codec

log = logging.getLogger("implicast")

ACK_KINDS = (NotifyAck.wire, NotifyAgainAck.wire)
"""Wire numbers of the messages that acknowledge a notification."""
HeldOutput = tuple[list[tuple[Address, Message]], Cause]
"""Messages that one input sent, and the input's cause."""
CommitEvents = Callable[[list[Message]], "asyncio.Future[None] | None"]
"""Takes the events that an input delivered. Returns a future that is done when they are committed,
or None if nothing needs to be awaited.
"""
MessageObserver = Callable[[bool, Address, Message], None]
"""Called with each message: True if it was received, the other node's address, the message."""


def _waits_for_commit(message: Message) -> bool:
    return message.after_commit


def reports_notices(message: Message) -> bool:
    """True if the message reports or counts notices, signed or not."""
    return (
        message.reports_notices
        or isinstance(message, PendingSignature)
        or (isinstance(message, SignedMessage) and message.kind in ACK_KINDS)
    )


def _signed(message: Message) -> Message:
    return message.signed() if type(message) is PendingSignature else message


class NetHost:
    """The `Host` that a peer sees."""

    __slots__ = ("_arm", "address", "events", "now_us", "out", "rng")

    def __init__(self, arm: Callable[[int, Message], None], address: Address, seed: int) -> None:
        """`arm` sets an alarm."""
        self._arm = arm
        self.address = address
        self.rng = Random(seed)
        self.now_us = 0
        self.out: list[tuple[Address, Message]] = []
        self.events: list[Message] = []

    def send(self, to: Address, message: Message) -> None:
        self.out.append((to, message))

    def after(self, delay_us: int, alarm: Message) -> None:
        self._arm(delay_us, alarm)

    def deliver(self, event: Message) -> None:
        self.events.append(event)

    def take(self) -> tuple[list[tuple[Address, Message]], list[Message]]:
        """What the peer has sent and delivered since the last call."""
        out, events = self.out, self.events
        if out:
            self.out = []
        if events:
            self.events = []
        return out, events


class Driver:
    """Runs one peer."""

    def __init__(
        self,
        address: Address,
        codec: Codec,
        counters: Counters,
        seed: int,
        role: str,
        clock: Clock,
        pool: ConnectionPool,
    ) -> None:
        """`codec` covers all message kinds of the design."""
        self.address = address
        self.host = NetHost(self.arm, address, seed)
        self.peer: Peer | None = None
        self.role = role
        self.commit_first = role != "member"
        """Send an input's messages only after its state changes are committed, also if it delivered
        no event.
        """
        self._pool = pool
        self.recorder: Recorder | None = None
        self.journal: JournalWriter | None = None
        self.observer: MessageObserver | None = None
        self._codec = self.own_codec = codec
        self.counters = counters
        self._commit_events: CommitEvents = lambda events: None
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._serial = self._sent = 0
        self._cause: Cause = (0, False, 0)
        """The cause of the current input: a message, a call of the application, or the start of the
        node.
        """
        self._commit_awaited: asyncio.Future[None] | None = None
        self._held: list[HeldOutput] = []
        """Messages to be sent when `_commit_awaited` is done."""
        self.seed = seed
        self.stopped = False

    def run(self, peer: Peer, commit_events: CommitEvents) -> None:
        """Pass all inputs to this peer from now on. Message kinds that its role does not handle
        fail to decode.
        """
        self.peer, self._commit_events = peer, commit_events
        understood = set(type(peer).kinds())
        self.own_codec = Codec(kind for kind in self._codec.kinds if kind in understood)
        self._outputs()

    def observe(self, observer: MessageObserver | None) -> None:
        """Call `observer` with every message received or sent from now on; None: stop."""
        self.observer = observer

    def member(self) -> Member:
        """The peer of a node with role `member`; `NodeError` for other roles."""
        if not isinstance(self.peer, Member):
            raise NodeError(
                f"this node is a {self.role}: only members register descriptions and cast"
            )
        return self.peer

    # --- inputs

    def tick(self) -> int:
        """Advance and return the time of the next input, in microseconds since 1970. The wall clock
        is read once at start; afterwards the monotonic clock counts.
        """
        host, now_us = self.host, self._clock.now_us()
        if now_us > host.now_us:
            host.now_us = now_us
        return host.now_us

    def receive(self, hello: Hello, body: bytes, sender_serial: int) -> None:
        peer = self.peer
        if self.stopped or peer is None:
            return
        try:
            message = self.own_codec.decode(body)
        except RemoteError:
            self.counters["refused_frames"] += 1
            return
        self.tick()
        sender = hello.address
        if self.observer is not None:
            self.observer(True, sender, message)
        if self.journal is not None:
            self.journal.write(
                ReceivedRow(
                    self._serial + 1, self.host.now_us, hello.name, hello.incarnation, sender_serial
                )
            )
        self._serial = serial = self._serial + 1
        self._cause = (serial, False, self.host.now_us)
        try:
            peer.receive(sender, message)
        except Exception as error:
            self._on_handler_error(error, "m", sender)
        if self.recorder is not None:
            self._record("m", sender, "", body)
        if self.host.out or self.host.events:
            self._outputs()

    def call(self, verb: str, *arguments: Any) -> Any:
        """Call a verb of the peer for the application and return its result."""
        assert verb in VERBS, f"{verb} is not a verb of an application"
        self.tick()
        if self.journal is not None and isinstance(self.peer, Member):
            self.journal.on_verb(self._serial + 1, self.host.now_us, verb, arguments, self.peer)
        return self._handle(getattr(self.peer, verb), arguments, "v", verb, arguments)

    def read_peer(self, what: str) -> Any:
        """Call a read method of the peer. A peer may clean up its state while it is read, so the
        record treats the call as an input.
        """
        assert what in READS, f"{what} is not a read method of a peer"
        found = getattr(self.peer, READS[what])() if self.peer is not None else None
        if self.recorder is not None:
            self.recorder.write(
                RecordedInput("k", self.host.now_us, None, what, b"", digest_of([]))
            )
        return found

    def durable_state(self) -> Message | None:
        """The peer's durable state."""
        found: Message | None = self.read_peer("kept")
        return found

    def changes(self) -> Changes | None:
        """The changes of the durable state since the last call."""
        found: Changes | None = self.read_peer("changes")
        return found

    def arm(self, delay_us: int, alarm: Message) -> None:
        origin, upkeep, _ = self._cause
        self._loop.call_later(
            max(0, delay_us) / 1e6, self._wake, alarm, origin, upkeep or alarm.upkeep
        )

    def _wake(self, alarm: Message, origin: int, upkeep: bool) -> None:
        if not self.stopped and self.peer is not None:
            self.tick()
            name = type(alarm).__name__
            self._handle(
                self.peer.wake, (alarm,), "a", name, alarm, (origin, upkeep, self.host.now_us)
            )

    def stop(self) -> None:
        self.stopped = True

    def _handle(
        self,
        handle: Callable[..., Any],
        arguments: tuple[Any, ...],
        kind: str,
        what: str,
        value: Any,
        cause: Cause | None = None,
    ) -> Any:
        """Process one input that comes from the node itself: a verb or an alarm. `receive` does the
        same for messages. An alarm has the `cause` of the input that set it.
        """
        self._serial = serial = self._serial + 1
        self._cause = cause or (serial, False, self.host.now_us)
        result = None
        try:
            result = handle(*arguments)
        except Exception as error:
            self._on_handler_error(error, kind, None)
        if self.recorder is not None:
            self._record(kind, None, what, msgspec.msgpack.encode(value))
        if self.host.out or self.host.events:
            self._outputs()
        return result

    def _on_handler_error(self, error: Exception, kind: str, sender: Address | None) -> None:
        """Count an exception of a handler: a `RemoteError` as a refused message, anything else as a
        bug.
        """
        if isinstance(error, RemoteError):
            self.counters["refused_frames"] += 1
        else:
            self.counters["broken"] += 1
            log.error(
                "a handler raised an exception for an input of kind %s from %s",
                kind,
                sender,
                exc_info=error,
            )

    def _record(self, kind: str, sender: Address | None, what: str, packed: bytes) -> None:
        assert self.recorder is not None, "inputs are recorded"
        self.recorder.write(
            RecordedInput(kind, self.host.now_us, sender, what, packed, self.sent_digest())
        )

    def sent_digest(self) -> bytes:
        """Digest of the messages that the current input has sent so far."""
        return digest_of(
            [(to, self._codec.encode(_signed(message))) for to, message in self.host.out]
        )

    def _outputs(self) -> None:
        out, events = self.host.take()
        if self.journal is not None:
            self.journal.on_events(self._cause, events)
        safe = self._commit_events(events) if events or (self.commit_first and out) else None
        waits = _waits_for_commit
        if (
            safe is None
            # An earlier notice may not be committed yet: no message may report or count it before.
        ):
            safe, waits = self._commit_awaited, reports_notices
        if safe is None or safe.done():
            self._send(out, self._cause)
        else:
            self._send([each for each in out if not waits(each[1])], self._cause)
            self._hold(safe, [each for each in out if waits(each[1])])

    def _hold(self, safe: "asyncio.Future[None]", out: list[tuple[Address, Message]]) -> None:
        """Delay messages until a commit is done. All messages that wait for the same commit are
        sent together.
        """
        if safe is not self._commit_awaited:
            self._commit_awaited, self._held = safe, []
            safe.add_done_callback(partial(self._release, self._held))
        self._held.append((out, self._cause))

    def pending_commit(self) -> "asyncio.Future[None] | None":
        """A future that is done when all events so far are committed; None if they are."""
        return (
            None
            if self._commit_awaited is None or self._commit_awaited.done()
            else self._commit_awaited
        )

    def _release(self, held: list[HeldOutput], safe: "asyncio.Future[None]") -> None:
        """Send the delayed messages, now that the commit is done."""
        if not self.stopped and not safe.cancelled():
            for out, cause in held:
                self._send(out, cause)

    def _send(self, out: list[tuple[Address, Message]], cause: Cause) -> None:
        """Send messages. Each one carries its serial number among all messages of this incarnation;
        receivers write it into their journals.
        """
        pool = self._pool
        last: Message | None = None
        body, encode, observer, journal = b"", self._codec.encode, self.observer, self.journal
        for to, message in out:
            if type(message) is PendingSignature:
                message = message.signed()
            if message is not last:
                last, body = message, encode(message)
            self._sent = sent = self._sent + 1
            if observer is not None:
                observer(False, to, message)
            if journal is not None:
                journal.on_sent(sent, cause, to, message, len(body))
            if len(body) <= MESSAGE_BYTES_MAX:
                pool.send(to, body, sent)
            else:
                self.counters["dropped_queue"] += 1
