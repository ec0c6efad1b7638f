"""The transport of one node: its connections, the services between nodes, its clock."""

import ssl
import time
from typing import Any

from implicast.net.config import address_of
from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool, OnHello, OwnHello
from implicast.net.transport.counters import Counters
from implicast.net.transport.services import Services
from implicast.net.transport.tls import name_in
from implicast.peer.contract import Address


class TransportLayer:
    """Connects a node to others. It accepts connections after `listen`."""

    def __init__(
        self,
        own_hello: OwnHello,
        on_hello: OnHello,
        tls: tuple[ssl.SSLContext, ssl.SSLContext] | None,
        rate_per_s: float,
    ) -> None:
        """`tls`: the contexts for accepting and for dialling; None: without TLS. `rate_per_s`:
        messages per second that one connection may send.
        """
        self.counters = Counters()
        self.clock = Clock(time.monotonic)
        server_tls, client_tls = tls or (None, None)
        self.pool = ConnectionPool(
            own_hello,
            lambda hello, body, cause: None,
            self.counters,
            server_tls,
            client_tls,
            None if tls is None else name_in,
            rate_per_s,
        )
        self.services = Services(self.counters, self.pool)
        self.pool.serve(self.services.receive)
        self.pool.on_hello = on_hello

    async def listen(self, where: str) -> Address:
        """Accept connections, and return the address."""
        host, port = address_of(where)
        return host, await self.pool.listen(host, port)

    def status(self) -> dict[str, Any]:
        return {
            "connections": len(self.pool.connected_nodes()),
            "clock_offset_s": round(self.clock.offset_s, 3),
            "clock_jumped_s": round(self.clock.jumped_s, 3),
        }
