"""One connection to another node: frames in and out, within bounds, once both have said hello.

Frames are written once per turn of the loop, not one by one.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING
from typing import cast as typed

from implicast.net.frames import HELLO, MESSAGE, Frames, Hello, hello_frame, read_hello
from implicast.peer.bucket import Bucket
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError

if TYPE_CHECKING:
    from implicast.net.carrier import Carrier

QUEUE_BYTES = 4 << 20
QUEUE_FRAMES = 4_096
"""What may wait for one receiver; more is dropped."""
HELLO_S = 3.0
"""Within this time a connection has said hello, or is closed."""


class Queue:
    """What waits for one receiver, within bounds."""

    __slots__ = ("frames", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0

    def put(self, frame: bytes) -> bool:
        """False when too much waits already."""
        if self.size + len(frame) > QUEUE_BYTES or len(self.frames) >= QUEUE_FRAMES:
            return False
        self.frames.append(frame)
        self.size += len(frame)
        return True


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, carrier: "Carrier", dialled: Address | None) -> None:
        self.carrier, self.dialled = carrier, dialled
        self.hello: Hello | None = None
        self.used = 0.0
        self._frames = Frames()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._bytes = 0
        self._bucket = Bucket(carrier.rate_per_s, carrier.rate_per_s, carrier.loop.time())

    # --- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typed(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=256 << 10)
        self.used = self.carrier.loop.time()
        if not self.carrier.admit(self):
            self.abort()
            return
        self._transport.write(hello_frame(self.carrier.says()))
        self.carrier.loop.call_later(HELLO_S, self._hello_late)

    def data_received(self, data: bytes) -> None:
        self.carrier.counters["bytes_received"] += len(data)
        try:
            for flags, cause, body in self._frames.feed(data):
                if self.hello is None:
                    self._greet(flags, body)
                elif flags == HELLO:
                    raise RemoteError("a second hello")
                elif self._allowed():
                    self.carrier.counters["received"] += 1
                    if flags != MESSAGE:
                        self.carrier.served(self.hello, body)
                    elif self.hello.digest:
                        self.carrier.arrived(self.hello, body, cause)
                    else:
                        raise RemoteError("a message of one that has no part in the design")
        except RemoteError as error:
            self.carrier.refuse(self, error)

    def _allowed(self) -> bool:
        allowed = self._bucket.take(self.carrier.loop.time())
        self.carrier.counters["limited"] += not allowed
        return allowed

    @property
    def queued(self) -> int:
        """Bytes that wait to be written."""
        return self._bytes + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.carrier.lost(self)

    # --- the carrier calls these

    def send(self, frame: bytes) -> bool:
        """Put a frame on its way; False when too much waits already."""
        if self._bytes + len(frame) > QUEUE_BYTES or len(self._out) >= QUEUE_FRAMES:
            return False
        self.used = self.carrier.loop.time()
        if not self._out and self._writable:
            self.carrier.loop.call_soon(self._flush)
        self._out.append(frame)
        self._bytes += len(frame)
        return True

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        return not self._out

    def tls(self) -> ssl.SSLObject | None:
        return None if self._transport is None else self._transport.get_extra_info("ssl_object")

    def _flush(self) -> None:
        if self._out and self._transport is not None and self._writable and not self._transport.is_closing():
            data = b"".join(self._out)
            self._out.clear()
            self._bytes = 0
            self.carrier.counters["bytes_sent"] += len(data)
            self._transport.write(data)

    def _greet(self, flags: int, body: bytes) -> None:
        if flags != HELLO:
            raise RemoteError("the first frame is no hello")
        hello = read_hello(body)
        self.carrier.check(self, hello)
        self.hello = hello
        self.carrier.opened(self, hello)

    def _hello_late(self) -> None:
        if self.hello is None:
            self.abort()
