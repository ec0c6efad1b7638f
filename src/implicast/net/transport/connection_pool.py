"""The connections of a node: one for each other node, used in both directions and kept while in
use.

A message to an address uses the connection to it. If there is none, the pool dials, and the message
waits in a bounded queue. A message that cannot be sent is dropped and counted; the peer is not
informed, since its protocol handles loss by timeouts.

Both sides first send a hello. No message is decoded before each side has checked that the other
belongs to the same network. With TLS the name in the hello must equal the name in the certificate.
Connections of revoked names are closed before anything is read, and a connection is closed when its
certificate expires.

A route belongs to a name: messages to an address are sent to the node that a dialled connection
has reached there. The address in the hello of an accepted connection is only a hint.
"""

import asyncio
import errno
import logging
import ssl
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from implicast.net.config import text_of
from implicast.net.errors import NodeError
from implicast.net.storage.commit_scheduler import scheduler_of
from implicast.net.transport.connection import Connection, OnMessage, OnService, SendQueue, SharedIo
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import HEADER, MESSAGE, Hello
from implicast.net.transport.refusal import refusal_of
from implicast.net.transport.tls import Tls, key_in
from implicast.peer.bucket import Bucket
from implicast.peer.contract import Address, Name
from implicast.peer.errors import RemoteError
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

DIAL_S = 10.0
DIALS_MAX = 256
"""Addresses dialled at once. Messages to further addresses are dropped meanwhile."""
IDLE_S = 300.0
CONNECTIONS_MAX = 256
"""Connections kept. Beyond this number the least recently used ones are closed."""
HELLOS_PENDING_MAX = 64
"""Connections whose hello is outstanding. Further accepted ones are closed at once."""
HANDSHAKES_MAX = 1_024
"""Connections in their TLS handshake. Beyond this number the oldest is closed."""
LOGGED_PER_S = 0.2
"""Refused connections that are logged per second, after a burst of five."""
PROVEN_MAX = 4_096
"""Addresses whose owner is remembered. A forgotten one is dialled again."""
READ_BYTES = 64 << 10
"""Size of the read buffer in bytes."""
BACK_OFF_S = (0.1, 10.0)
RATE_PER_S = 2_000
"""Messages per second that one connection may send, after a burst of the same number. Further ones
are dropped.
"""

OnHello = Callable[[Hello], None]
"""Called with the hello of a node that has connected."""
OwnHello = Callable[[], Hello]
NameReader = Callable[[ssl.SSLObject | ssl.SSLSocket | None], Name | None]


def _listen_error(error: OSError) -> str:
    taken = "another program uses this port; stop it, or choose another port with --listen"
    return taken if error.errno == errno.EADDRINUSE else error.strerror or str(error)


class ConnectionPool:
    """All connections of one node."""

    def __init__(
        self,
        own_hello: OwnHello,
        on_message: OnMessage,
        counters: Counters,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        name_of: NameReader | None = None,
        rate_per_s: float = RATE_PER_S,
    ) -> None:
        """`name_of` reads the name from the certificate. Without TLS the name in the hello is not
        verified.
        """
        self._own_hello, self.counters = own_hello, counters
        self._loop = asyncio.get_running_loop()
        self.shared = SharedIo(
            counters,
            scheduler_of(self._loop),
            self._loop,
            memoryview(bytearray(READ_BYTES)),
            rate_per_s,
            on_message,
            lambda hello, body: None,
        )
        self.on_hello: OnHello = lambda hello: None
        self.banned: set[Name] = set()
        """Revoked names."""
        self.last_refusal = ""
        """Why this node last refused another one."""
        self._log_lines = Bucket(LOGGED_PER_S, 5, self._loop.time())
        self._server_tls, self._client_tls, self._name_of = server_tls, client_tls, name_of
        self._by_address: dict[Address, Connection] = {}
        """By address: the connection used for sending."""
        self._proven: Recent[Address, Name] = Recent(PROVEN_MAX)
        """By address: the name that was reached when it was last dialled."""
        self._open: dict[Connection, None] = {}
        """All open connections. Two nodes that dial each other at the same time have two."""
        self.handshaking: dict[Connection, None] = {}
        """Connections in their TLS handshake, oldest first."""
        self.awaiting_hello: dict[Connection, None] = {}
        """Connections that have not received the hello of the other side."""
        self.waiting: dict[Address, SendQueue] = {}
        """By address being dialled: the frames to be sent there."""
        self._unwritten: list[Connection] = []
        """Connections with frames to be written at the end of this iteration of the loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._failures: dict[Address, int] = {}
        self._not_before: dict[Address, float] = {}
        self._closing = False

    def handle(self, on_message: OnMessage) -> None:
        """Pass the messages for the peer to `on_message` from now on."""
        self.shared.on_message = on_message

    def serve(self, on_service: OnService) -> None:
        """Pass the messages for the node itself to `on_service` from now on."""
        self.shared.on_service = on_service

    def limit(self, rate_per_s: float) -> None:
        """Let each new connection send this many messages per second."""
        self.shared.rate_per_s = rate_per_s

    async def listen(self, host: str, port: int) -> int:
        """Accept connections and return the port; port 0 selects a free one. A port that was
        released a moment ago may still be in use, so the pool retries for 10 s.
        """
        for attempt in range(40):
            try:
                self._server = await self._loop.create_server(
                    lambda: Connection(self, None, self._tls(accepts=True)), host, port, backlog=256
                )
                break
            except OSError as error:
                if attempt == 39 or not port or error.errno not in (errno.EADDRINUSE, None):
                    raise NodeError(
                        f"cannot listen at {host}:{port}: {_listen_error(error)}"
                    ) from None
                await asyncio.sleep(0.25)
        assert self._server is not None
        self._tasks.add(asyncio.create_task(self._close_idle()))
        return int(self._server.sockets[0].getsockname()[1])

    def send(self, to: Address, body: bytes, serial: int, flags: int = MESSAGE) -> None:
        """Send a message. The caller is not informed of a loss."""
        frame = HEADER.pack(len(body), flags, serial) + body
        connection = self._by_address.get(to)
        if connection is not None:
            self.counters["sent" if connection.send(frame) else "dropped_queue"] += 1
            return
        if self._loop.time() < self._not_before.get(to, 0.0):
            self.counters["dropped_unreachable"] += 1
            return
        queue = self.waiting.get(to)
        if queue is None and len(self.waiting) < DIALS_MAX:
            queue = self.waiting[to] = SendQueue()
            task = asyncio.create_task(self._dial(to))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if queue is None or not queue.put(frame):
            self.counters["dropped_queue"] += 1

    async def close(self) -> None:
        self._closing = True
        if self._server is not None:
            self._server.close()
        for connection in [*self._open, *self.handshaking]:
            connection.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        """Abort all connections and accept no more."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for connection in [*self._open, *self.handshaking]:
            connection.abort()

    def ban(self, names: set[Name]) -> None:
        """Close the connections of these names and refuse new ones. Names that are not in the set
        are accepted again.
        """
        self.banned = set(names)
        for connection in list(self._open):
            if connection.hello is not None and connection.hello.name in names:
                connection.flush()
                connection.close()

    def queued(self, address: Address) -> int:
        """Bytes that wait to be written to an address."""
        connection = self._by_address.get(address)
        waiting = self.waiting[address].size if address in self.waiting else 0
        return waiting + (connection.queued if connection is not None else 0)

    def connected_nodes(self) -> list[Hello]:
        """The hellos of the connected nodes, one for each name. The authority service and light
        clients run no peer and are not included.
        """
        found: dict[Name, Hello] = {}
        for connection in [*self._open, *self._by_address.values()]:
            if connection.hello is not None and connection.hello.digest:
                found[connection.hello.name] = connection.hello
        return list(found.values())

    def neighbours(self) -> list[str]:
        """The addresses of the connected nodes."""
        return [text_of(each.address) for each in self.connected_nodes()]

    def key_of(self, name: Name) -> Ed25519PublicKey | None:
        """The public key in the certificate of the node of this name, while it is connected."""
        for connection in self._open:
            if connection.hello is not None and connection.hello.name == name:
                tls = connection.tls()
                return key_in(tls) if tls is not None else None
        return None

    # --- called by connections

    def flush_soon(self, connection: Connection) -> None:
        """Write the frames of this connection once the received input is processed."""
        if not self._unwritten:
            self.shared.scheduler.flush_soon(self._flush)
        self._unwritten.append(connection)

    def _flush(self) -> None:
        connections, self._unwritten = self._unwritten, []
        for connection in connections:
            connection.flush()

    def on_handshake(self, connection: Connection) -> None:
        """A TLS handshake starts."""
        self.handshaking[connection] = None
        if len(self.handshaking) > HANDSHAKES_MAX:
            oldest = next(iter(self.handshaking))
            del self.handshaking[oldest]
            oldest.abort()

    def admit(self, connection: Connection) -> Hello | None:
        """The own hello, for a connection that may send it; None if the connection is refused."""
        self.handshaking.pop(connection, None)
        if connection.dialled is None:
            self.counters["accepted"] += 1
            if len(self.awaiting_hello) >= HELLOS_PENDING_MAX or self._closing:
                self.counters["refused_strangers"] += 1
                self.counters["refused_limit"] += 1
                return None
        if (
            self.banned
            and self._name_of is not None
            and self._name_of(connection.tls()) in self.banned
        ):
            self.counters["refused_strangers"] += 1
            self.counters["refused_revoked"] += 1
            return None
        self.awaiting_hello[connection] = self._open[connection] = None
        return self._own_hello()

    def check_hello(self, connection: Connection, hello: Hello) -> None:
        """Raises `RemoteError` if the other node does not belong to this network."""
        certified = hello.name if self._name_of is None else self._name_of(connection.tls())
        kind, reason = refusal_of(self._own_hello(), hello, self.banned, certified)
        if kind:
            self._refuse(kind, f"{text_of(hello.address)} ({hello.name.hex()[:8]}) {reason}")

    def _refuse(self, kind: str, what: str) -> None:
        """Count and log a refusal, and raise it as `RemoteError`. At most `LOGGED_PER_S` lines per
        second are logged.
        """
        self.counters["refused_strangers"] += 1
        self.counters[f"refused_{kind}"] += 1
        self.last_refusal = what
        if self._log_lines.take(self._loop.time()):
            log.warning("refused a connection: %s", what)
        raise RemoteError(what)

    def on_opened(self, connection: Connection, hello: Hello) -> None:
        """Both hellos are exchanged: choose the route to the address, and send the waiting frames."""
        self.awaiting_hello.pop(connection, None)
        address, meant = hello.address, connection.dialled
        if meant is not None:
            self._failures.pop(meant, None)
            self._not_before.pop(meant, None)
            if meant == address:
                self._proven[address] = hello.name
            else:  # another name of the address; frames to it are for the node that answers there
                self._send_waiting(meant, connection)
        if self._is_proven(hello) and self._is_preferred(connection, hello):
            self._by_address[address] = connection
        route = self._by_address.get(address)
        if route is not None:
            self._send_waiting(address, route)
        self.on_hello(hello)

    def _send_waiting(self, address: Address, connection: Connection) -> None:
        for frame in self.waiting.pop(address, SendQueue()).frames:
            self.counters["sent" if connection.send(frame) else "dropped_queue"] += 1

    def _is_proven(self, hello: Hello) -> bool:
        """True if messages to the address in a hello are for the node that sent it. A member may
        claim any address. So the claim counts only if a connection dialled to that address has
        reached this name. A light client's address is its name. Without TLS there are no proofs.
        """
        return (
            self._name_of is None
            or hello.address == (hello.name.hex(), 0)
            or self._proven.get(hello.address) == hello.name
        )

    def _is_preferred(self, connection: Connection, hello: Hello) -> bool:
        """True if this connection replaces the route to its address: the present one is of another
        node or of an earlier incarnation, or this one was dialled.
        """
        before = self._by_address.get(hello.address)
        if before is None or before.hello is None or connection.dialled is not None:
            return True
        if before.hello.name != hello.name:
            return before.dialled is None
        return before.idle or before.hello.incarnation < hello.incarnation

    def on_bad_frame(self, connection: Connection, error: RemoteError) -> None:
        self.counters["refused_frames"] += 1
        connection.abort()

    def on_lost(self, connection: Connection) -> None:
        self.handshaking.pop(connection, None)
        self.awaiting_hello.pop(connection, None)
        self._open.pop(connection, None)
        if (
            connection.hello is not None
            and self._by_address.get(connection.hello.address) is connection
        ):
            del self._by_address[connection.hello.address]
        if connection.dialled is not None and connection.hello is None:
            self._unreachable(connection.dialled)

    # --- internal

    def _tls(self, accepts: bool) -> Tls | None:
        context = self._server_tls if accepts else self._client_tls
        return None if context is None else Tls(context, accepts)

    async def _dial(self, to: Address) -> None:
        if not isinstance(to, tuple):
            self._unreachable(to)
            return
        self.counters["dials"] += 1
        try:
            async with asyncio.timeout(DIAL_S):
                await self._loop.create_connection(
                    lambda: Connection(self, to, self._tls(accepts=False)), *to
                )
        except (
            OSError,
            ValueError,
        ):  # Connection refused, timeout, TLS failure, or an invalid host name.
            self._unreachable(to)

    def _unreachable(self, to: Address) -> None:
        """Drop the frames for an unreachable address and back off exponentially before it is
        dialled again.
        """
        self.counters["dropped_unreachable"] += len(self.waiting.pop(to, SendQueue()).frames)
        failures = self._failures[to] = self._failures.get(to, 0) + 1
        low_s, high_s = BACK_OFF_S
        self._not_before[to] = self._loop.time() + min(high_s, low_s * 2 ** min(failures - 1, 16))
        while len(self._failures) > CONNECTIONS_MAX:
            oldest = next(iter(self._failures))
            del self._failures[oldest]
            self._not_before.pop(oldest, None)

    async def _close_idle(self) -> None:
        """Close connections that are idle for `IDLE_S`, the least recently used ones beyond
        `CONNECTIONS_MAX`, and those with an expired certificate.
        """
        while True:
            await asyncio.sleep(IDLE_S / 20)
            old_s = self._loop.time() - IDLE_S
            in_order = sorted(self._open, key=lambda connection: connection.used)
            surplus = max(0, len(in_order) - CONNECTIONS_MAX)
            self.close_expired()
            for number, connection in enumerate(in_order):
                if connection.idle and (number < surplus or connection.used < old_s):
                    connection.close()

    def close_expired(self) -> None:
        now_s = time.time()
        for connection in list(self._open):
            if connection.until_s is not None and connection.until_s < now_s:
                self.counters["refused_strangers"] += 1
                connection.abort()
