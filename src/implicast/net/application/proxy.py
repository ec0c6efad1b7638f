"""A proxy: runs members on behalf of light clients that are offline at times, move, or cannot be
reached.

A light client has its own key and runs no peer. It gives each of its proxies a stand-in: a key that
the authority admitted for this purpose, and a description signed by the client. The proxy runs a
node for the stand-in, in its own process and with its own database. To a design the stand-in is a
member like any other, and its inbox is as durable.

The client fetches new notices with a cursor from any of its proxies, and drops those that it
already has by their id. It fetches large payloads from the proxy like any node. Casts of the client
are made by the stand-in (`proxy_casts.py`).

    DIR/clients/NAME/       the stand-in's folder, a node folder
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cryptography.exceptions import InvalidSignature
from msgspec import Meta

from implicast.language.attributes import Schema
from implicast.language.parse import description
from implicast.net.application.inbox import Payloads
from implicast.net.application.proxy_casts import ProxyCastRequest, ProxyCasts, StandInNode
from implicast.net.config import NodeConfig, address_of, text_of, write_config
from implicast.net.errors import IdentityError
from implicast.net.identity.credentials import write_atomically
from implicast.net.storage.files import make_private_folder
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.frames import Hello
from implicast.net.transport.services import Services
from implicast.peer.contract import Address, CastId, Message, Name
from implicast.peer.errors import ImplicastError, RemoteError
from implicast.peer.fields import Count, Digest, Micros, Payload, Text, Token

log = logging.getLogger("implicast")

CLIENTS_MAX = 100
"""Clients that one proxy serves."""
RETENTION_US = 30 * 86_400 * 1_000_000
"""Notices that the client has not fetched are kept for 30 days."""
FETCH_MAX = 64
FETCH_BYTES = 512 << 10
Pem = Annotated[bytes, Meta(max_length=8_192)]


class StandInRequest(Message):
    """A client asks the proxy to run a stand-in with this description. A higher number replaces a
    lower one.
    """

    wire = 0x0E20
    key: Pem
    certificate: Pem
    enrolment: Pem
    """Key file of designs whose overlay has its own authority (`enrolment.py`); else empty."""
    text: Text
    number: Token
    signature: Digest

    def body(self) -> bytes:
        """The bytes that the client signs."""
        return b"stand in" + msgspec.msgpack.encode((self.certificate, self.text, self.number))


class StandInReply(Message):
    """The proxy runs the stand-in, or `refused` says why not."""

    wire = 0x0E21
    number: Token
    refused: Text = ""


class FetchInbox(Message):
    """Asks for the notices after the cursor; the client has stored all up to it."""

    wire = 0x0E22
    token: Token
    cursor: Micros


class HeldNotice(Message):
    """One notice in the stand-in's inbox."""

    cast: CastId
    arrived_us: Micros
    carried: Payload


class InboxBatch(Message):
    wire = 0x0E23
    token: Token
    notices: Annotated[tuple[HeldNotice, ...], Meta(max_length=FETCH_MAX)]
    left: Count
    """Number of further notices."""


@dataclass(frozen=True, slots=True)
class ProxyHost:
    """The node that a proxy is part of, as its stand-ins are configured."""

    directory: Path
    config: NodeConfig
    address: Address
    schema: Schema | None


NodeOpener = Callable[[Path], AbstractAsyncContextManager[StandInNode]]


class Proxy:
    """The stand-ins that one node runs."""

    def __init__(
        self,
        host: ProxyHost,
        services: Services,
        pool: ConnectionPool,
        payloads: Payloads,
        open_node: NodeOpener,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`open_node` runs the node of a folder while the context is entered. `spawn` runs a
        coroutine until the proxy's node stops.
        """
        self._host, self._services, self._pool = host, services, pool
        self._open_node, self._spawn = open_node, spawn
        self._base = host.directory / "clients"
        self.stand_ins: dict[Name, StandInNode] = {}
        self._tasks: dict[Name, asyncio.Task[None]] = {}
        services.register(StandInRequest, self._on_stand_in_request)
        services.register(FetchInbox, self._on_fetch)
        services.register(ProxyCastRequest, self._on_cast_request)
        self._proxy_casts = ProxyCasts(services, payloads, host.config.payload_max, spawn)
        payloads.blobs.other_stores = lambda: [
            each.payloads.blobs for each in self.stand_ins.values()
        ]

    def resume(self) -> None:
        """Restart the stand-ins of the previous run."""
        for folder in sorted(self._base.glob("*/enlisted")):
            request = msgspec.msgpack.decode(folder.read_bytes(), type=StandInRequest)
            self._start_stand_in(bytes.fromhex(folder.parent.name), request)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def clients(self) -> int:
        return len(self._tasks)

    # --- requests of clients

    def _on_stand_in_request(self, hello: Hello, request: StandInRequest) -> None:
        refused = self._refusal(hello, request)
        if not refused and self._is_newer(hello.name, request):
            self._write_folder(hello.name, request)
            self._start_stand_in(hello.name, request)
        self._services.send(hello.address, StandInReply(request.number, refused))

    def _refusal(self, hello: Hello, request: StandInRequest) -> str:
        """Why the proxy does not serve this client; empty if it does."""
        public = self._pool.key_of(hello.name)
        if public is None:
            return "a proxy needs TLS to run stand-ins"
        if hello.name not in self._tasks and len(self._tasks) >= CLIENTS_MAX:
            return f"this proxy serves {CLIENTS_MAX} clients already"
        try:
            public.verify(request.signature, request.body())
            description(request.text, self._host.schema)
        except InvalidSignature:
            return "the description was not signed by the client's key"
        except ImplicastError as error:
            return str(error)
        return ""

    def _is_newer(self, name: Name, request: StandInRequest) -> bool:
        try:
            before = msgspec.msgpack.decode(
                (self._base / name.hex() / "enlisted").read_bytes(), type=StandInRequest
            )
        except (OSError, msgspec.MsgspecError):
            return True
        return request.number > before.number

    def _write_folder(self, name: Name, request: StandInRequest) -> None:
        """Write the stand-in's folder: a configuration like this node's own, and the key that the
        client provided.
        """
        folder, own = self._base / name.hex(), self._host.config
        make_private_folder(self._base)
        make_private_folder(folder)
        host, _ = address_of(own.listen)
        config = NodeConfig(
            own.network,
            own.design,
            "member",
            text_of((host, 0)),
            "",
            [text_of(self._host.address)],
            dict(own.parameters),
            own.infrastructure,
            casts_per_s=own.casts_per_s,
            rate_per_s=own.rate_per_s,
        )
        if not (folder / "node.toml").exists():
            write_config(folder, config)
        for file, data in (
            ("node.key", request.key),
            ("node.pem", request.certificate),
            ("enrolment", request.enrolment),
        ):
            if data:
                write_atomically(folder / file, data)
        write_atomically(
            folder / "authority.pem", (self._host.directory / "authority.pem").read_bytes()
        )
        write_atomically(folder / "enlisted", msgspec.msgpack.encode(request))

    def _start_stand_in(self, name: Name, request: StandInRequest) -> None:
        stand_in = self.stand_ins.get(name)
        if stand_in is not None:
            self._spawn(_describe(stand_in, request.text))
        elif name not in self._tasks:
            self._tasks[name] = asyncio.ensure_future(self._serve(name, request.text))

    async def _serve(self, name: Name, text: str) -> None:
        """Run the stand-in's node while this node runs; restart it after errors."""
        while True:
            try:
                async with self._open_node(self._base / name.hex()) as node:
                    self.stand_ins[name] = node
                    await node.join()
                    await _describe(node, text)
                    await node.left.wait()
                    return
            except ImplicastError as error:
                log.warning("the stand-in of %s: %s", name.hex()[:8], error)
            finally:
                self.stand_ins.pop(name, None)
            await asyncio.sleep(5.0)

    def _stand_in_of(self, hello: Hello) -> StandInNode:
        """The stand-in of a client."""
        stand_in = self.stand_ins.get(hello.name)
        if stand_in is None:
            raise RemoteError(f"{hello.name.hex()} is not served here")
        return stand_in

    def _on_cast_request(self, hello: Hello, request: ProxyCastRequest) -> None:
        self._proxy_casts.start_cast(hello, request, self._stand_in_of(hello))

    def _on_fetch(self, hello: Hello, fetch: FetchInbox) -> None:
        stand_in = self._stand_in_of(hello)
        store, now_us = stand_in.store, stand_in.driver.tick()
        store.write(
            "update notices set done_us = ? where done_us is null and arrived_us <= ?",
            (now_us, fetch.cursor),
        )
        store.write("delete from notices where arrived_us < ?", (now_us - RETENTION_US,))
        rows = store.inbox(open_only=False, after_us=fetch.cursor, most=FETCH_MAX * 4)
        given: list[HeldNotice] = []
        size = 0
        for publisher, incarnation, serial, carried, _, arrived_us, _ in rows:
            size += len(carried)
            if (
                given
                and arrived_us > given[-1].arrived_us
                and (size > FETCH_BYTES or len(given) >= FETCH_MAX // 2)
            ):
                break
            given.append(
                HeldNotice(
                    CastId(bytes(publisher), incarnation, serial), arrived_us, bytes(carried)
                )
            )
        left = len(rows) - len(given[:FETCH_MAX])
        self._services.send(hello.address, InboxBatch(fetch.token, tuple(given[:FETCH_MAX]), left))


async def _describe(node: StandInNode, text: str) -> None:
    """Register the client's description for the stand-in, unless it is registered already."""
    if node.description is None or str(node.description) != str(description(text, node.schema)):
        with contextlib.suppress(ImplicastError):
            await node.describe(text, wait=120.0)


def delegated(folder: Path, number: int) -> tuple[bytes, bytes, bytes]:
    """Key, certificate and enrolment of a client's stand-in, from the client's folder."""
    base = folder / f"standin{number}"
    try:
        enrolment = (base / "enrolment").read_bytes() if (base / "enrolment").exists() else b""
        return (base / "node.key").read_bytes(), (base / "node.pem").read_bytes(), enrolment
    except OSError:
        how = "`implicast authority issue --client` creates two"
        raise IdentityError(f"{folder} has no stand-in {number}: {how}") from None
