"""One connection to another node: frames in and out, within bounds, once both have said hello; over TLS, once its
handshake is done.

Frames are written once per turn of the loop, not one by one, and what came is read into one buffer that all connections
of a node share: nothing is left in it when the next one reads.
"""

import asyncio
import ssl
from typing import TYPE_CHECKING
from typing import cast as typed

from implicast.net.frames import HELLO, MESSAGE, Frame, Frames, Hello, hello_frame, read_hello
from implicast.net.identity import expires_s
from implicast.net.tls import Tls
from implicast.peer.bucket import Bucket
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError

if TYPE_CHECKING:
    from implicast.net.carrier import Carrier

QUEUE_BYTES = 4 << 20
QUEUE_FRAMES = 4_096
"""What may wait for one receiver; more is dropped."""
SHAKE_S = 10.0
"""Within this time the handshake of a connection is done, ..."""
HELLO_S = 3.0
"""... and within this time after it the other side has said hello, or it is closed."""
LINGER_S = 10.0
"""What was said before a connection is closed may go out for so long; one who does not read it is cut off."""


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


class Link(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, carrier: "Carrier", dialled: Address | None, tls: Tls | None = None) -> None:
        self.carrier, self.dialled = carrier, dialled
        self.hello: Hello | None = None
        self.used = 0.0
        self.until_s: float | None = None
        """When the certificate of the other side expires, in seconds since 1970; None without one."""
        self._frames = Frames()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._tls = tls
        self._writable = True
        self._bytes = 0
        self._bucket = Bucket(carrier.rate_per_s, carrier.rate_per_s, carrier.loop.time())

    # --- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typed(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=256 << 10)
        self.used = self.carrier.loop.time()
        if self._tls is None:
            self._begin()
        else:
            self.carrier.shaking(self)
            self.carrier.loop.call_later(SHAKE_S, self._shake_late, self._tls)
            self._tls.shake()
            self._transport.write(self._tls.unsent())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.carrier.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.carrier.turn.reads += 1
        data = self.carrier.buffer[:nbytes]
        if self._tls is None:
            self.came(bytes(data))
        else:
            self._unseal(self._tls, data)

    def _unseal(self, tls: Tls, data: memoryview) -> None:
        """Read what came over TLS; whoever is refused by it, or ends it, is parted from."""
        shaken = tls.shaken
        try:
            said = tls.feed(data)
        except ssl.SSLError:
            self.close()
            return
        if tls.shaken and not shaken:
            self._begin()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if unsent := tls.unsent():
            transport.write(unsent)
        if said:
            self.came(said)
        if tls.over:
            self.close()

    def _begin(self) -> None:
        """The connection is there: say hello, if there is room for it."""
        if not self.carrier.admit(self):
            self.abort()
            return
        self.until_s = expires_s(self.tls())
        self._write(hello_frame(self.carrier.says()))
        self.carrier.loop.call_later(HELLO_S, self._hello_late)

    def came(self, data: bytes) -> None:
        """Read what came."""
        carrier = self.carrier
        carrier.counters["bytes_received"] += len(data)
        try:
            frames = self._frames.feed(data)
            if self.hello is None and frames:
                flags, _, body = frames.pop(0)
                self._greet(flags, body)
            if frames:
                self._hear(frames)
        except RemoteError as error:
            carrier.refuse(self, error)

    def _hear(self, frames: list[Frame]) -> None:
        carrier, hello = self.carrier, typed(Hello, self.hello)
        if carrier.rate_per_s:
            frames = self._allowed(frames)
        carrier.counters["received"] += len(frames)
        arrived, has_part = carrier.arrived, bool(hello.digest)
        for flags, cause, body in frames:
            if flags == MESSAGE and has_part:
                arrived(hello, body, cause)
            elif flags == MESSAGE:
                raise RemoteError("a message of one that has no part in the design")
            elif flags == HELLO:
                raise RemoteError("a second hello")
            else:
                carrier.served(hello, body)

    def _allowed(self, frames: list[Frame]) -> list[Frame]:
        """Those that the connection may send; a quick one loses the last."""
        now_s, take = self.carrier.loop.time(), self._bucket.take
        allowed = [each for each in frames if take(now_s)]
        self.carrier.counters["limited"] += len(frames) - len(allowed)
        return allowed

    @property
    def queued(self) -> int:
        """Bytes that wait to be written."""
        return self._bytes + (
            self._transport.get_write_buffer_size() if self._transport is not None else 0
        )

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.carrier.lost(self)

    # --- the carrier calls these

    def send(self, frame: bytes) -> bool:
        """Put a frame on its way; False when too much waits already."""
        out, size = self._out, self._bytes + len(frame)
        if size > QUEUE_BYTES or len(out) >= QUEUE_FRAMES:
            return False
        if not out and self._writable:
            self.carrier.flush_soon(self)
        out.append(frame)
        self._bytes = size
        return True

    def close(self) -> None:
        if self._transport is not None:
            if self._tls is not None and not self._transport.is_closing():
                self._transport.write(self._tls.farewell())
            self._transport.close()
            self.carrier.loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        return not self._out

    def tls(self) -> ssl.SSLObject | None:
        return None if self._transport is None or self._tls is None else self._tls.object

    def flush(self) -> None:
        """Write what waits."""
        out, transport = self._out, self._transport
        if out and transport is not None and self._writable and not transport.is_closing():
            data = b"".join(out) if len(out) > 1 else out[0]
            carrier, tls = self.carrier, self._tls
            self.used = carrier.loop.time()
            out.clear()
            self._bytes = 0
            carrier.counters["bytes_sent"] += len(data)
            transport.write(data if tls is None else tls.sealed(data))

    def _write(self, data: bytes) -> None:
        assert self._transport is not None, "there is a connection"
        self._transport.write(data if self._tls is None else self._tls.sealed(data))

    def _greet(self, flags: int, body: bytes) -> None:
        if flags != HELLO:
            raise RemoteError("the first frame is no hello")
        hello = read_hello(body)
        self.carrier.check(self, hello)
        self.hello = hello
        self.carrier.opened(self, hello)

    def _shake_late(self, tls: Tls) -> None:
        if not tls.shaken:
            self.abort()

    def _hello_late(self) -> None:
        if self.hello is None:
            self.abort()
