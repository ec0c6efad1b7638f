"""One connection to another node. It carries frames in both directions, within bounds, after both
sides have sent a hello; with TLS the handshake comes first.

Frames are written once per iteration of the event loop. All connections of a node read into one
shared buffer, which is empty again before the next one reads.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar
from typing import cast as typed

from implicast.net.storage.commit_scheduler import CommitScheduler
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import (
    HELLO,
    MESSAGE,
    Frame,
    Frames,
    Hello,
    hello_frame,
    read_hello,
)
from implicast.net.transport.tls import Tls, expires_s
from implicast.peer.bucket import Bucket
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError

OnMessage = Callable[[Hello, bytes, int], None]
"""Called with the sender's hello, a message for the peer and its serial number."""
OnService = Callable[[Hello, bytes], None]
"""Called with the sender's hello and a message for the node itself."""
QUEUE_BYTES = 4 << 20
QUEUE_FRAMES = 4_096
"""Bounds of the frames that wait for one receiver. Further frames are dropped."""
HANDSHAKE_S = 10.0
"""Seconds for the TLS handshake. The connection is closed when they are over."""
HELLO_S = 3.0
"""Seconds after the handshake for the hello of the other side. The connection is closed when they
are over.
"""
LINGER_S = 10.0
"""Seconds in which a closing connection may still send its pending output. Then it is aborted."""


class SendQueue:
    """Frames that wait for one receiver, within bounds."""

    __slots__ = ("frames", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0

    def put(self, frame: bytes) -> bool:
        """Add a frame; False if the queue is full."""
        if self.size + len(frame) > QUEUE_BYTES or len(self.frames) >= QUEUE_FRAMES:
            return False
        self.frames.append(frame)
        self.size += len(frame)
        return True


OneConnection = TypeVar("OneConnection", contravariant=True)


@dataclass(slots=True)
class SharedIo:
    """What all connections of one node share."""

    counters: Counters
    scheduler: CommitScheduler
    loop: asyncio.AbstractEventLoop
    buffer: memoryview
    """Read buffer; it is empty again before the next connection reads."""
    rate_per_s: float
    """Messages per second that one connection may send; 0: any number."""
    on_message: OnMessage
    on_service: OnService


class ConnectionOwner(Protocol[OneConnection]):
    """The pool that a connection belongs to."""

    @property
    def shared(self) -> SharedIo: ...

    def on_handshake(self, connection: OneConnection) -> None: ...

    def admit(self, connection: OneConnection) -> Hello | None: ...

    def check_hello(self, connection: OneConnection, hello: Hello) -> None: ...

    def on_opened(self, connection: OneConnection, hello: Hello) -> None: ...

    def on_lost(self, connection: OneConnection) -> None: ...

    def on_bad_frame(self, connection: OneConnection, error: RemoteError) -> None: ...

    def flush_soon(self, connection: OneConnection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One connection to another node."""

    def __init__(
        self, pool: ConnectionOwner["Connection"], dialled: Address | None, tls: Tls | None = None
    ) -> None:
        self._pool, self._shared, self.dialled = pool, pool.shared, dialled
        self.hello: Hello | None = None
        self.used = 0.0
        self.until_s: float | None = None
        """Expiry of the other side's certificate, in seconds since 1970; None without a
        certificate.
        """
        self._frames = Frames()
        self._out: list[bytes] = []
        self.transport: asyncio.Transport | None = None
        self._tls = tls
        self._writable = True
        self._bytes = 0
        self._bucket = Bucket(
            self._shared.rate_per_s, self._shared.rate_per_s, self._shared.loop.time()
        )

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = typed(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=256 << 10)
        self.used = self._shared.loop.time()
        if self._tls is None:
            self._start()
        else:
            self._pool.on_handshake(self)
            self._shared.loop.call_later(HANDSHAKE_S, self._handshake_timeout, self._tls)
            self._tls.handshake()
            self.transport.write(self._tls.pending_output())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._shared.scheduler.reads += 1
        data = self._shared.buffer[:nbytes]
        if self._tls is None:
            self.on_data(bytes(data))
        else:
            self._on_tls_data(self._tls, data)

    def _on_tls_data(self, tls: Tls, data: memoryview) -> None:
        """Decrypt received bytes. Closes the connection if TLS fails or the other side ends it."""
        handshake_done = tls.handshake_done
        try:
            plain = tls.feed(data)
        except ssl.SSLError:
            self.close()
            return
        if tls.handshake_done and not handshake_done:
            self._start()
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if pending_output := tls.pending_output():
            transport.write(pending_output)
        if plain:
            self.on_data(plain)
        if tls.closed_by_peer:
            self.close()

    def _start(self) -> None:
        """Send a hello, unless the pool refuses the connection."""
        own_hello = self._pool.admit(self)
        if own_hello is None:
            self.abort()
            return
        self.until_s = expires_s(self.tls())
        self._write(hello_frame(own_hello))
        self._shared.loop.call_later(HELLO_S, self._hello_timeout)

    def on_data(self, data: bytes) -> None:
        """Split received bytes into frames and process them."""
        self._shared.counters["bytes_received"] += len(data)
        try:
            frames = self._frames.feed(data)
            if self.hello is None and frames:
                flags, _, body = frames.pop(0)
                self._on_hello_frame(flags, body)
            if frames:
                self._on_frames(frames)
        except RemoteError as error:
            self._pool.on_bad_frame(self, error)

    def _on_frames(self, frames: list[Frame]) -> None:
        shared, hello = self._shared, typed(Hello, self.hello)
        if shared.rate_per_s:
            frames = self._allowed(frames)
        shared.counters["received"] += len(frames)
        on_message, runs_peer = shared.on_message, bool(hello.digest)
        for flags, serial, body in frames:
            if flags == MESSAGE and runs_peer:
                on_message(hello, body, serial)
            elif flags == MESSAGE:
                raise RemoteError("a message for the peer from a node that runs none")
            elif flags == HELLO:
                raise RemoteError("a second hello")
            else:
                shared.on_service(hello, body)

    def _allowed(self, frames: list[Frame]) -> list[Frame]:
        """The frames within the connection's rate limit. The others are dropped and counted."""
        now_s, take = self._shared.loop.time(), self._bucket.take
        allowed = [each for each in frames if take(now_s)]
        self._shared.counters["limited"] += len(frames) - len(allowed)
        return allowed

    @property
    def queued(self) -> int:
        """Bytes that wait to be written."""
        return self._bytes + (
            self.transport.get_write_buffer_size() if self.transport is not None else 0
        )

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._pool.on_lost(self)

    # --- called by the pool

    def send(self, frame: bytes) -> bool:
        """Queue a frame for sending; False if the queue is full."""
        out, size = self._out, self._bytes + len(frame)
        if size > QUEUE_BYTES or len(out) >= QUEUE_FRAMES:
            return False
        if not out and self._writable:
            self._pool.flush_soon(self)
        out.append(frame)
        self._bytes = size
        return True

    def close(self) -> None:
        if self.transport is not None:
            if self._tls is not None and not self.transport.is_closing():
                self.transport.write(self._tls.close_notify())
            self.transport.close()
            self._shared.loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @property
    def idle(self) -> bool:
        return not self._out

    def tls(self) -> ssl.SSLObject | None:
        return None if self.transport is None or self._tls is None else self._tls.object

    def flush(self) -> None:
        """Write the queued frames."""
        out, transport = self._out, self.transport
        if out and transport is not None and self._writable and not transport.is_closing():
            data = b"".join(out) if len(out) > 1 else out[0]
            shared, tls = self._shared, self._tls
            self.used = shared.loop.time()
            out.clear()
            self._bytes = 0
            shared.counters["bytes_sent"] += len(data)
            transport.write(data if tls is None else tls.encrypt(data))

    def _write(self, data: bytes) -> None:
        assert self.transport is not None, "there is a connection"
        self.transport.write(data if self._tls is None else self._tls.encrypt(data))

    def _on_hello_frame(self, flags: int, body: bytes) -> None:
        if flags != HELLO:
            raise RemoteError("the first frame is not a hello")
        hello = read_hello(body)
        self._pool.check_hello(self, hello)
        self.hello = hello
        self._pool.on_opened(self, hello)

    def _handshake_timeout(self, tls: Tls) -> None:
        if not tls.handshake_done:
            self.abort()

    def _hello_timeout(self) -> None:
        if self.hello is None:
            self.abort()
