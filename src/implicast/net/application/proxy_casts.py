"""Casts that a proxy makes for its light clients, in the name of their stand-ins.

A client numbers its requests. It stores each request and the proxy it goes to before it sends the
request, and repeats it to the same proxy until it receives a result. The stand-in stores the number
in the same commit as the cast. So a request becomes exactly one cast, however often it is repeated
and whichever side crashes in between. The proxy fetches a large payload from the client before it
casts.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from implicast.language.attributes import Schema
from implicast.language.target import Description
from implicast.net.application.driver import Driver
from implicast.net.application.events import Receipt
from implicast.net.application.inbox import Payloads
from implicast.net.storage.blobs import Reference, unwrapped
from implicast.net.storage.store import Store
from implicast.net.transport.frames import Hello
from implicast.net.transport.services import Services
from implicast.peer.contract import CastId, Message, Name
from implicast.peer.errors import ImplicastError, RemoteError
from implicast.peer.fields import Count, Payload, Text, Token
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

FETCH_S = 120.0
"""Seconds that a proxy tries to fetch a large payload from its client before it fails the request.
"""
RUNNING_MAX = 64
"""Requests of all clients in progress at once. The proxy does not answer further ones; clients
repeat them.
"""
PROXY_CASTS_MAX = 1_000
"""Requests of one client that the stand-in remembers. Older ones have been answered."""
CASTS_KEY = "errands made"
"""Key of the casts made, in the stand-in's database. Existing files use it: do not change it."""
WAIT_S = 5.0
"""Seconds that a proxy waits for a complete receipt before it answers."""


class ProxyCastRequest(Message):
    """A client asks its proxy to make a cast, or for the result if the cast was made already."""

    wire = 0x0E24
    number: Token
    target: Text
    carried: Payload


class ProxyCastResult(Message):
    """Result of a request: the cast's receipt so far, or the reason why the proxy did not cast."""

    wire = 0x0E25
    number: Token
    refused: Text
    cast: CastId | None = None
    expected: Count = 0
    notified: Count = 0
    declined: Count = 0
    unreachable: Count = 0
    open: Count = 0
    known: bool = False
    uncertain: Count = 0

    @classmethod
    def of(cls, number: int, receipt: Receipt) -> "ProxyCastResult":
        return cls(
            number,
            "",
            receipt.cast,
            receipt.expected,
            receipt.notified,
            receipt.declined,
            receipt.unreachable,
            receipt.open,
            receipt.known,
            receipt.uncertain,
        )

    def receipt(self) -> Receipt:
        assert self.cast is not None, "a refused request has no receipt"
        return Receipt(
            self.cast,
            self.expected,
            self.notified,
            self.declined,
            self.unreachable,
            self.open,
            (),
            self.known,
            self.uncertain,
        )


class StandInNode(Protocol):
    """The node that a proxy runs for a client."""

    name: Name
    schema: Schema | None

    @property
    def description(self) -> Description | None: ...

    @property
    def store(self) -> Store: ...

    @property
    def driver(self) -> Driver: ...

    @property
    def payloads(self) -> Payloads: ...

    @property
    def left(self) -> asyncio.Event: ...

    async def join(self) -> None: ...

    async def describe(self, text: str, wait: float = ...) -> None: ...

    async def cast(
        self, target: str, payload: bytes = ..., wait: float = ..., name: str = ...
    ) -> Receipt: ...

    def upcoming_cast(self) -> CastId: ...

    def receipt(self, cast: CastId) -> Receipt: ...


class ProxyCasts:
    """The casts that one proxy makes for its clients."""

    def __init__(
        self,
        services: Services,
        payloads: Payloads,
        payload_max: int,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._services, self._payloads = services, payloads
        self._payload_max, self._spawn = payload_max, spawn
        self._running: set[tuple[bytes, int]] = set()
        self._made: dict[Name, Recent[int, CastId]] = {}
        """By stand-in and request number: the cast that the request became. Committed together with
        the cast.
        """

    def start_cast(self, hello: Hello, request: ProxyCastRequest, stand_in: StandInNode) -> None:
        key = (hello.name, request.number)
        if len(self._running) >= RUNNING_MAX:
            raise RemoteError("too many casts in progress")
        if key not in self._running:
            self._running.add(key)
            self._spawn(self._run(hello, request, stand_in))

    async def _run(self, hello: Hello, request: ProxyCastRequest, stand_in: StandInNode) -> None:
        try:
            answer = ProxyCastResult.of(request.number, await self._receipt(request, stand_in))
        except (ImplicastError, TimeoutError) as error:
            answer = ProxyCastResult(
                request.number, str(error) or "the payload could not be fetched from the client"
            )
        finally:
            self._running.discard((hello.name, request.number))
        self._services.send(hello.address, answer)

    async def _receipt(self, request: ProxyCastRequest, stand_in: StandInNode) -> Receipt:
        """The receipt of the request's cast. Makes the cast unless an earlier copy of the request
        has made it.
        """
        made = self._casts_of(stand_in)
        if request.number in made:
            return stand_in.receipt(made[request.number])
        payload, name = await self._payload(request)
        made[request.number] = stand_in.upcoming_cast()
        _write(stand_in, made)
        # `cast` runs without a pause up to its commit, so the number and the cast are in the same
        # commit.
        try:
            return await stand_in.cast(request.target, payload, WAIT_S, name)
        except ImplicastError:
            made.pop(request.number, None)
            _write(stand_in, made)
            await stand_in.store.committed()
            raise

    def _casts_of(self, stand_in: StandInNode) -> Recent[int, CastId]:
        if stand_in.name not in self._made:
            written = stand_in.store.get(CASTS_KEY)
            found = self._made[stand_in.name] = Recent(PROXY_CASTS_MAX)
            for number, cast in (
                msgspec.msgpack.decode(written, type=list[tuple[int, CastId]]) if written else ()
            ):
                found[number] = cast
        return self._made[stand_in.name]

    async def _payload(self, request: ProxyCastRequest) -> tuple[bytes, str]:
        """The payload to be cast, and the name of its file."""
        reference = unwrapped(request.carried)
        if not isinstance(reference, Reference):
            return reference, ""
        payloads = self._payloads
        payloads.transfers.fetch(reference, self._payload_max)
        async with asyncio.timeout(FETCH_S):
            while not payloads.blobs.whole(reference.root):
                await asyncio.sleep(0.05)
        return payloads.blobs.read(reference.root), reference.name


def _write(stand_in: StandInNode, made: Recent[int, CastId]) -> None:
    stand_in.store.put(CASTS_KEY, msgspec.msgpack.encode(list(made.items())))
