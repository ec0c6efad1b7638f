"""The host of one peer on a network: real time, real alarms, real sends; one input at a time.

What one input delivers to the application is committed before anything leaves by which the peer stands: so a
notification is confirmed only when it is safe, however often it comes. Inputs that deliver nothing are not held up but
for such confirmations, nor are messages that promise nothing (`Message.promises`).

Whatever comes from outside and cannot be read, or is not for this role, is counted and dropped; a handler that breaks
down over a message is a bug, is counted and logged, and does not stop the node.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from implicast.casting.telling import Got, GotAgain
from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.counters import Counters
from implicast.net.frames import Hello
from implicast.net.journal import Came, Cause, JournalWriter
from implicast.net.record import LOOKS, VERBS, Input, Recorder, digest_of
from implicast.net.speech import Unsigned
from implicast.peer.changes import Changes
from implicast.peer.contract import Address, Message, Peer
from implicast.peer.errors import RemoteError
from implicast.peer.member import Member
from implicast.peer.wire import MESSAGE_BYTES_MAX, Codec
from implicast.peer.words import Said

log = logging.getLogger("implicast")

CONFIRMING = (Got.wire, GotAgain.wire)
"""Kinds that say that a notification was taken, by their numbers on the wire."""
Held = tuple[list[tuple[Address, Message]], Cause]
"""What one input sent, and what for."""
Safe = Callable[[list[Message]], "asyncio.Future[None] | None"]
"""Told what was delivered; gives what is to be awaited before anything is sent, or None."""
Watch = Callable[[bool, Address, Message], None]
"""Shown a message: whether it came or goes, from whom or to whom, and what it says."""


def _promises(message: Message) -> bool:
    return message.promises


def _confirms(message: Message) -> bool:
    """Does it say that a notification was taken, signed or not?"""
    return isinstance(message, Got | Unsigned) or (
        isinstance(message, Said) and message.kind in CONFIRMING
    )


def _signed(message: Message) -> Message:
    return message.said() if type(message) is Unsigned else message


class NetHost:
    """What one peer sees of the network."""

    __slots__ = ("_driver", "address", "now_us", "rng")

    def __init__(self, driver: "Driver", address: Address, seed: int) -> None:
        self._driver = driver
        self.address = address
        self.rng = Random(seed)
        self.now_us = 0

    def send(self, to: Address, message: Message) -> None:
        self._driver.out.append((to, message))

    def after(self, delay_us: int, alarm: Message) -> None:
        self._driver.arm(delay_us, alarm)

    def deliver(self, event: Message) -> None:
        self._driver.events.append(event)


class Driver:
    """Runs one peer."""

    def __init__(
        self,
        address: Address,
        codec: Codec,
        counters: Counters,
        seed: int,
        safe: Safe,
        careful: bool,
        clock: Clock,
    ) -> None:
        """`codec` is for all that the design says. `careful`: nothing leaves before what led to it is safe."""
        self.host = NetHost(self, address, seed)
        self.peer: Peer | None = None
        self.careful = careful
        self.carrier: Carrier | None = None
        self.out: list[tuple[Address, Message]] = []
        self.events: list[Message] = []
        self.recorder: Recorder | None = None
        self.journal: JournalWriter | None = None
        self._watch: Watch | None = None
        self._codec = self._own = codec
        self._counters, self._safe = counters, safe
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._serial = self._sent = 0
        self._cause: Cause = (0, False, 0)
        """What the present input goes back to: a message, a wish, or the beginning."""
        self._awaited: asyncio.Future[None] | None = None
        self._held: list[Held] = []
        """What waits for `_awaited`."""
        self.seed = seed
        self._stopped = False

    def run(self, peer: Peer) -> None:
        """From now on inputs go to this peer; what its role does not understand is refused while it is decoded."""
        self.peer = peer
        understood = set(type(peer).kinds())
        self._own = Codec(kind for kind in self._codec.kinds if kind in understood)
        self._outputs()

    def show(self, watch: Watch | None) -> None:
        """From now on somebody is shown every message that comes and goes."""
        self._watch = watch

    # --- inputs

    def tick(self) -> int:
        """The time of the next input: microseconds since 1970 as of the start, then by the monotonic clock."""
        host, now_us = self.host, self._clock.now_us()
        if now_us > host.now_us:
            host.now_us = now_us
        return host.now_us

    def receive(self, hello: Hello, body: bytes, cause: int) -> None:
        peer = self.peer
        if self._stopped or peer is None:
            return
        try:
            message = self._own.decode(body)
        except RemoteError:
            self._counters["refused_frames"] += 1
            return
        self.tick()
        sender = hello.address
        if self._watch is not None:
            self._watch(True, sender, message)
        if self.journal is not None:
            self.journal.write(
                Came(self._serial + 1, self.host.now_us, hello.name, hello.incarnation, cause)
            )
        self._serial = serial = self._serial + 1
        self._cause = (serial, False, self.host.now_us)
        try:
            peer.receive(sender, message)
        except Exception as error:
            self._broke(error, "m", sender)
        if self.recorder is not None:
            self._record("m", sender, "", body)
        if self.out or self.events:
            self._outputs()

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Let the application call a verb of the peer; what the verb returns."""
        assert verb in VERBS, f"{verb} is no verb of an application"
        self.tick()
        if self.journal is not None and isinstance(self.peer, Member):
            self.journal.asked(self._serial + 1, self.host.now_us, verb, arguments, self.peer)
        return self._handle(getattr(self.peer, verb), arguments, "v", verb, arguments)

    def look(self, what: str) -> Any:
        """Read something of the peer. A peer may tidy up while it is read, so a record has it like an input."""
        assert what in LOOKS, f"{what} is nothing that a node reads"
        found = getattr(self.peer, what)() if self.peer is not None else None
        if self.recorder is not None:
            self.recorder.write(Input("k", self.host.now_us, None, what, b"", digest_of([])))
        return found

    def kept(self) -> Message | None:
        """What the peer keeps."""
        found: Message | None = self.look("kept")
        return found

    def changes(self) -> Changes | None:
        """What has changed of it since it was last asked."""
        found: Changes | None = self.look("changes")
        return found

    def arm(self, delay_us: int, alarm: Message) -> None:
        origin, upkeep, _ = self._cause
        self._loop.call_later(
            max(0, delay_us) / 1e6, self._wake, alarm, origin, upkeep or alarm.upkeep
        )

    def _wake(self, alarm: Message, origin: int, upkeep: bool) -> None:
        if not self._stopped and self.peer is not None:
            self.tick()
            name = type(alarm).__name__
            self._handle(
                self.peer.wake, (alarm,), "a", name, alarm, (origin, upkeep, self.host.now_us)
            )

    def stop(self) -> None:
        self._stopped = True

    def _handle(
        self,
        handle: Callable[..., Any],
        arguments: tuple[Any, ...],
        kind: str,
        what: str,
        value: Any,
        cause: Cause | None = None,
    ) -> Any:
        """One input of the node itself, from the time it came to what leaves, as `receive` has it for those of others;
        an alarm goes back to another `cause`."""
        self._serial = serial = self._serial + 1
        self._cause = cause or (serial, False, self.host.now_us)
        result = None
        try:
            result = handle(*arguments)
        except Exception as error:
            self._broke(error, kind, None)
        if self.recorder is not None:
            self._record(kind, None, what, msgspec.msgpack.encode(value))
        if self.out or self.events:
            self._outputs()
        return result

    def _broke(self, error: Exception, kind: str, sender: Address | None) -> None:
        """A handler did not go through with an input: nonsense is refused, anything else is a bug."""
        if isinstance(error, RemoteError):
            self._counters["refused_frames"] += 1
        else:
            self._counters["broken"] += 1
            log.error(
                "a handler broke down over an input of kind %s from %s",
                kind,
                sender,
                exc_info=error,
            )

    def _record(self, kind: str, sender: Address | None, what: str, packed: bytes) -> None:
        assert self.recorder is not None, "inputs are recorded"
        self.recorder.write(Input(kind, self.host.now_us, sender, what, packed, self.sent_digest()))

    def sent_digest(self) -> bytes:
        """Of what the present input has sent so far."""
        return digest_of([(to, self._codec.encode(_signed(message))) for to, message in self.out])

    def _outputs(self) -> None:
        out, events = self.out, self.events
        if out:
            self.out = []
        if events:
            self.events = []
        if self.journal is not None:
            self.journal.heard(self._cause, events)
        safe = self._safe(events) if events or (self.careful and out) else None
        waits = _promises
        if (
            safe is None
        ):  # what came before may not be safe yet: a repeat of it is not confirmed before
            safe, waits = self._awaited, _confirms
        if safe is None or safe.done():
            self._send(out, self._cause)
        else:
            self._send([each for each in out if not waits(each[1])], self._cause)
            self._hold(safe, [each for each in out if waits(each[1])])

    def _hold(self, safe: "asyncio.Future[None]", out: list[tuple[Address, Message]]) -> None:
        """Keep back what was sent until what led to it is safe; all that waits for one commit leaves together."""
        if safe is not self._awaited:
            self._awaited, self._held = safe, []
            safe.add_done_callback(partial(self._release, self._held))
        self._held.append((out, self._cause))

    def unsafe(self) -> "asyncio.Future[None] | None":
        """Done when what was delivered so far is safe; None: it is."""
        return None if self._awaited is None or self._awaited.done() else self._awaited

    def _release(self, held: list[Held], safe: "asyncio.Future[None]") -> None:
        """What led to it is safe: it may leave."""
        if not self._stopped and not safe.cancelled():
            for out, cause in held:
                self._send(out, cause)

    def _send(self, out: list[tuple[Address, Message]], cause: Cause) -> None:
        """Every message bears its number among all that were sent in this life: by it others say what came."""
        carrier = self.carrier
        if carrier is None:
            return
        last: Message | None = None
        body, encode, watch, journal = b"", self._codec.encode, self._watch, self.journal
        for to, message in out:
            if type(message) is Unsigned:
                message = message.said()
            if message is not last:
                last, body = message, encode(message)
            self._sent = sent = self._sent + 1
            if watch is not None:
                watch(False, to, message)
            if journal is not None:
                journal.sent(sent, cause, to, message, len(body))
            if len(body) <= MESSAGE_BYTES_MAX:
                carrier.send(to, body, sent)
            else:
                self._counters["dropped_queue"] += 1
