"""Connections to other nodes: one for each pair, used in both directions, kept while they are used.

A message for an address goes over the connection to it; where there is none the carrier dials and the message waits
in a bounded queue. Whatever cannot be carried is dropped and counted: engines know silence, and nothing else. A
connection says hello first; until both have done so, and each has found the other to belong to the same network, no
byte reaches the codec. Over TLS the name in the hello must be the one in the certificate; the connection of a name
that was revoked is closed before anything is read, and one whose certificate expires is closed then.
"""

import asyncio
import errno
import ssl
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from implicast.net.counters import Counters
from implicast.net.errors import NodeError
from implicast.net.frames import HEADER, MESSAGE, PROTOCOL, Hello
from implicast.net.identity import key_in
from implicast.net.link import Link, Queue
from implicast.net.tls import Tls
from implicast.net.turn import turn_of
from implicast.peer.contract import Address, Name
from implicast.peer.errors import RemoteError

DIAL_S = 10.0
DIALS_MAX = 256
"""Addresses that are dialled at a time; what is for others meanwhile is dropped."""
IDLE_S = 300.0
LINKS_MAX = 256
"""Connections kept; beyond, the one used least recently is closed."""
HANDSHAKES_MAX = 64
"""Connections of others that have not said hello yet; more are closed at once."""
SHAKING_MAX = 1_024
"""Connections whose handshake is not done; beyond, the oldest is closed."""
READ_BYTES = 64 << 10
"""Bytes read at a time."""
BACK_OFF_S = (0.1, 10.0)
RATE_PER_S = 2_000
"""Messages that one connection may send in a second, over a burst of as many; what exceeds it is dropped."""

Arrived = Callable[[Hello, bytes, int], None]
"""Told who sent a message, the message, and what caused it."""
Served = Callable[[Hello, bytes], None]
"""Told who sent a message to the node itself, and the message."""
Greeted = Callable[[Hello], None]
"""Told who has said hello."""
Says = Callable[[], Hello]
Peerless = Callable[[ssl.SSLObject | ssl.SSLSocket | None], Name | None]


def _reason(error: OSError) -> str:
    taken = "another program has this port; stop it, or name another with --listen"
    return taken if error.errno == errno.EADDRINUSE else error.strerror or str(error)


class Carrier:
    """All connections of one node."""

    def __init__(
        self,
        says: Says,
        arrived: Arrived,
        counters: Counters,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        named: Peerless | None = None,
        rate_per_s: float = RATE_PER_S,
    ) -> None:
        """`named` reads the name in a certificate; without TLS the hello is believed."""
        self.says, self.arrived, self.counters = says, arrived, counters
        self.rate_per_s = rate_per_s
        self.loop = asyncio.get_running_loop()
        self.turn = turn_of(self.loop)
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Where connections read what came, one after the other."""
        self.served: Served = lambda hello, body: None
        self.greeted: Greeted = lambda hello: None
        self.banned: set[Name] = set()
        """Names that were revoked."""
        self.parted = ""
        """The last sentence with which this node and another one parted."""
        self._server_tls, self._client_tls, self._named = server_tls, client_tls, named
        self._links: dict[Address, Link] = {}
        """By address, the one over which messages go."""
        self._open: dict[Link, None] = {}
        """All that there are: two nodes that dial each other at once have two."""
        self._shaking: dict[Link, None] = {}
        """Those whose handshake is not done, oldest first."""
        self._young: dict[Link, None] = {}
        """Accepted, and have not said hello yet."""
        self._waiting: dict[Address, Queue] = {}
        """By address that is being dialled, what is to be said there."""
        self._unwritten: list[Link] = []
        """Those with frames to be written at the end of this turn of the loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._failures: dict[Address, int] = {}
        self._not_before: dict[Address, float] = {}
        self._closing = False

    async def listen(self, host: str, port: int) -> int:
        """Accept connections; the port, which is chosen where 0 is given. A port that was left a moment ago may
        still be taken: it is tried for a while."""
        for attempt in range(40):
            try:
                self._server = await self.loop.create_server(
                    lambda: Link(self, None, self._tls(accepts=True)), host, port, backlog=256
                )
                break
            except OSError as error:
                if attempt == 39 or not port or error.errno not in (errno.EADDRINUSE, None):
                    raise NodeError(
                        f"{host}:{port} cannot be listened at: {_reason(error)}"
                    ) from None
                await asyncio.sleep(0.25)
        assert self._server is not None
        self._tasks.add(asyncio.create_task(self._tidy()))
        return int(self._server.sockets[0].getsockname()[1])

    def send(self, to: Address, body: bytes, cause: int, flags: int = MESSAGE) -> None:
        """Carry a message; silence is the only sign of loss."""
        frame = HEADER.pack(len(body), flags, cause) + body
        link = self._links.get(to)
        if link is not None:
            self.counters["sent" if link.send(frame) else "dropped_queue"] += 1
            return
        if self.loop.time() < self._not_before.get(to, 0.0):
            self.counters["dropped_unreachable"] += 1
            return
        queue = self._waiting.get(to)
        if queue is None and len(self._waiting) < DIALS_MAX:
            queue = self._waiting[to] = Queue()
            task = asyncio.create_task(self._dial(to))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if queue is None or not queue.put(frame):
            self.counters["dropped_queue"] += 1

    async def close(self) -> None:
        self._closing = True
        if self._server is not None:
            self._server.close()
        for link in [*self._open, *self._shaking]:
            link.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        """Break all connections at once, and accept no more."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for link in [*self._open, *self._shaking]:
            link.abort()

    def ban(self, names: set[Name]) -> None:
        """Close the connections of these names, and accept them no more; others are welcome again."""
        self.banned = set(names)
        for link in list(self._open):
            if link.hello is not None and link.hello.name in names:
                link.abort()

    def queued(self, address: Address) -> int:
        """Bytes that wait to be written to an address."""
        link = self._links.get(address)
        waiting = self._waiting[address].size if address in self._waiting else 0
        return waiting + (link.queued if link is not None else 0)

    def links(self) -> list[Hello]:
        """The nodes that this one is connected with; an office and light clients, which run no peer, do not count."""
        return [
            link.hello
            for link in self._links.values()
            if link.hello is not None and link.hello.digest
        ]

    def key_of(self, address: Address) -> Ed25519PublicKey | None:
        """The public key in the certificate of the one who is connected at an address."""
        link = self._links.get(address)
        tls = link.tls() if link is not None else None
        return key_in(tls) if tls is not None else None

    # --- links call these

    def flush_soon(self, link: Link) -> None:
        """Write what waits for this connection when all that has come is worked off."""
        if not self._unwritten:
            self.turn.flush_soon(self._flush)
        self._unwritten.append(link)

    def _flush(self) -> None:
        links, self._unwritten = self._unwritten, []
        for link in links:
            link.flush()

    def shaking(self, link: Link) -> None:
        """A handshake begins."""
        self._shaking[link] = None
        if len(self._shaking) > SHAKING_MAX:
            oldest = next(iter(self._shaking))
            del self._shaking[oldest]
            oldest.abort()

    def admit(self, link: Link) -> bool:
        """May this connection begin?"""
        self._shaking.pop(link, None)
        if link.dialled is None:
            self.counters["accepted"] += 1
            if len(self._young) >= HANDSHAKES_MAX or self._closing:
                self.counters["refused_strangers"] += 1
                return False
        if self.banned and self._named is not None and self._named(link.tls()) in self.banned:
            self.counters["refused_strangers"] += 1
            return False
        self._young[link] = self._open[link] = None
        return True

    def check(self, link: Link, hello: Hello) -> None:
        """`RemoteError` with a sentence for those who do not belong here."""
        own = self.says()
        said = None
        if hello.protocol != PROTOCOL:
            said = f"speaks version {hello.protocol} of the protocol, this node {PROTOCOL}"
        elif hello.network != own.network:
            said = "belongs to another network"
        elif hello.digest != own.digest and hello.digest and own.digest:
            said = f"runs another design, other parameters or another version ({hello.software or 'unknown'})"
        elif hello.name in self.banned:
            said = "was revoked"
        elif hello.address == own.address and hello.name != own.name:
            said = "says that it is where this node is"
        elif self._named is not None and self._named(link.tls()) != hello.name:
            said = "has a certificate of another name"
        if said is not None:
            self.counters["refused_strangers"] += 1
            self.parted = f"{hello.address} {said}"
            raise RemoteError(self.parted)

    def opened(self, link: Link, hello: Hello) -> None:
        """Both have said hello: whatever waits can go."""
        self._young.pop(link, None)
        address = hello.address
        if self._prefers(link, self._links.get(address)):
            self._links[address] = link
        self._failures.pop(address, None)
        self._not_before.pop(address, None)
        for frame in self._waiting.pop(address, Queue()).frames:
            self.counters["sent" if link.send(frame) else "dropped_queue"] += 1
        if link.dialled is not None and link.dialled != address:
            self._waiting.pop(link.dialled, None)
        self.greeted(hello)

    def _prefers(self, link: Link, before: Link | None) -> bool:
        """Is this the connection for its address from now on? One that was dialled there is not pushed aside by one
        of another name that only says that it is there."""
        if before is None or before.hello is None or link.hello is None or link.dialled is not None:
            return True
        return before.idle if before.hello.name == link.hello.name else before.dialled is None

    def refuse(self, link: Link, error: RemoteError) -> None:
        self.counters["refused_frames"] += 1
        link.abort()

    def lost(self, link: Link) -> None:
        self._shaking.pop(link, None)
        self._young.pop(link, None)
        self._open.pop(link, None)
        if link.hello is not None and self._links.get(link.hello.address) is link:
            del self._links[link.hello.address]
        if link.dialled is not None and link.hello is None:
            self._unreachable(link.dialled)

    # --- inside

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
                await self.loop.create_connection(
                    lambda: Link(self, to, self._tls(accepts=False)), *to
                )
        except (
            OSError,
            ValueError,
        ):  # nobody there, not in time, not of this network; or no name of a host
            self._unreachable(to)

    def _unreachable(self, to: Address) -> None:
        """Nobody answers: what waits is dropped, and for a while nothing is tried."""
        self.counters["dropped_unreachable"] += len(self._waiting.pop(to, Queue()).frames)
        failures = self._failures[to] = self._failures.get(to, 0) + 1
        low_s, high_s = BACK_OFF_S
        self._not_before[to] = self.loop.time() + min(high_s, low_s * 2 ** min(failures - 1, 16))
        while len(self._failures) > LINKS_MAX:
            oldest = next(iter(self._failures))
            del self._failures[oldest]
            self._not_before.pop(oldest, None)

    async def _tidy(self) -> None:
        """Close connections that have not been used for long, and the least used of too many."""
        while True:
            await asyncio.sleep(IDLE_S / 20)
            old_s = self.loop.time() - IDLE_S
            in_order = sorted(self._open, key=lambda link: link.used)
            surplus = max(0, len(in_order) - LINKS_MAX)
            self._close_expired()
            for number, link in enumerate(in_order):
                if link.idle and (number < surplus or link.used < old_s):
                    link.close()

    def _close_expired(self) -> None:
        now_s = time.time()
        for link in list(self._open):
            if link.until_s is not None and link.until_s < now_s:
                self.counters["refused_strangers"] += 1
                link.abort()
