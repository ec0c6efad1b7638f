"""Casts that a node has lost are delivered again: it asks all members, and their publishers repeat
the casts made since its last sound commit.

The repeat is an ordinary cast with its old identity and its old expiry. So only members that the
target selects receive it, and members that have it drop it. What cannot come back: casts that have
expired, casts of publishers that left or lost their own outbox, and more than `REPEATS_MAX` casts
of one publisher.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from secrets import randbits
from typing import Annotated, Any

from msgspec import Meta

from implicast.net.application.outbox import Outbox
from implicast.net.storage.loss import Loss
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.frames import Hello
from implicast.net.transport.services import Services
from implicast.peer.contract import Message
from implicast.peer.fields import Micros, Token
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

HOPS_MAX = 8
"""Nodes over which a request is forwarded."""
HEARD_MAX = 256
REPEAT_PAUSE_S = 60.0
"""A publisher repeats its casts at most this often, whoever asks."""
ASK_AFTER_S = (1.0, 10.0, 30.0)
"""Seconds after the node has joined at which it asks."""
SPACING_S = 0.05
"""Seconds between two repeated casts."""


class LostCastsRequest(Message):
    """A node has lost casts made after `since_us`: publishers repeat theirs."""

    wire = 0x0E30

    number: Token
    since_us: Micros
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)]


class Redelivery:
    """Asks for lost casts, and answers such requests."""

    def __init__(
        self,
        services: Services,
        pool: ConnectionPool,
        outbox: Outbox,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._services, self._pool, self._outbox, self._spawn = services, pool, outbox, spawn
        self._heard: Recent[int, None] = Recent(HEARD_MAX)
        self._not_before_s = 0.0
        services.register(LostCastsRequest, self._on_request)

    async def ask(self, losses: list[Loss], joined: asyncio.Event) -> None:
        """Ask for the casts since the oldest loss, a few times after the node has joined."""
        await joined.wait()
        begun_s = asyncio.get_running_loop().time()
        for after_s in ASK_AFTER_S:
            await asyncio.sleep(begun_s + after_s - asyncio.get_running_loop().time())
            number = randbits(62)
            self._heard[number] = None
            since_us = max(0, min(each.since_us for each in losses))
            self._spread(LostCastsRequest(number, since_us, HOPS_MAX))

    def _spread(self, request: LostCastsRequest) -> None:
        for each in self._pool.connected_nodes():
            self._services.send(each.address, request)

    def _on_request(self, hello: Hello, request: LostCastsRequest) -> None:
        if request.number in self._heard:
            return
        self._heard[request.number] = None
        if request.hops:
            self._spread(LostCastsRequest(request.number, request.since_us, request.hops - 1))
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._not_before_s:
            self._not_before_s = now_s + REPEAT_PAUSE_S
            self._spawn(self._repeat(request.since_us))

    async def _repeat(self, since_us: int) -> None:
        count = 0
        for cast in self._outbox.repeatable(since_us):
            self._outbox.repeat(*cast)
            count += 1
            await asyncio.sleep(SPACING_S)
        if count:
            log.warning("a member has lost casts: %d casts of this node are repeated", count)
