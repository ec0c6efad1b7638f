"""Members served for light clients: those that sleep, move, and cannot be reached.

A light client has its own key and no peer. It hands each of its proxies a stand-in: a key that the authority admitted
for this purpose, and a description signed by the client. The proxy runs a node for it, in its own process and with its
own file; so a proxy is nothing new to a design, and whatever the stand-in took is safe as in any inbox. The client
fetches what has arrived with a cursor, from any of its proxies, and drops by its id what it has already; large payloads
it fetches from the proxy as nodes do from each other. What it casts is an errand (`errands.py`).

    DIR/clients/NAME/       the stand-in's folder, a node's like any other
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from msgspec import Meta

from implicast.language.parse import description
from implicast.net.config import NodeConfig, address_of, text_of, write_config
from implicast.net.credentials import put
from implicast.net.errands import CastFor, Errands
from implicast.net.frames import Hello
from implicast.net.identity import IdentityError
from implicast.peer.contract import CastId, Message, Name
from implicast.peer.errors import ImplicastError, RemoteError
from implicast.peer.fields import Count, Digest, Micros, Payload, Text, Token

if TYPE_CHECKING:
    from implicast.net.node import Node

log = logging.getLogger("implicast")

CLIENTS_MAX = 100
"""Clients that one proxy serves."""
KEPT_US = 30 * 86_400 * 1_000_000
"""Notices that no client has fetched are kept for 30 days."""
FETCH_MAX = 64
FETCH_BYTES = 512 << 10
Pem = Annotated[bytes, Meta(max_length=8_192)]


class Enlist(Message):
    """A client asks to be stood in for, under this description. A higher number replaces a lower one."""

    wire = 0x0E20
    key: Pem
    certificate: Pem
    enrolment: Pem
    """For designs with places of their own (`enrolment.py`); else empty."""
    text: Text
    number: Token
    signature: Digest

    def body(self) -> bytes:
        """What the client signs."""
        return b"stand in" + msgspec.msgpack.encode((self.certificate, self.text, self.number))


class Enlisted(Message):
    """The proxy stands in for the client; or says why not."""

    wire = 0x0E21
    number: Token
    refused: Text = ""


class Fetch(Message):
    """Whatever has arrived after the cursor; what is up to it the client has for good."""

    wire = 0x0E22
    token: Token
    cursor: Micros


class Held(Message):
    """One cast that the stand-in took."""

    cast: CastId
    arrived_us: Micros
    carried: Payload


class Fetched(Message):
    wire = 0x0E23
    token: Token
    notices: Annotated[tuple[Held, ...], Meta(max_length=FETCH_MAX)]
    left: Count
    """How many more there are."""


class Proxy:
    """The stand-ins of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._base = node.directory / "clients"
        self._standing: dict[Name, Node] = {}
        self._tasks: dict[Name, asyncio.Task[None]] = {}
        node.services.offer(Enlist, self._on_enlist)
        node.services.offer(Fetch, self._on_fetch)
        node.services.offer(CastFor, self._on_cast_for)
        self._errands = Errands(node)
        node.payloads.blobs.beside = lambda: [
            each.payloads.blobs for each in self._standing.values()
        ]

    def resume(self) -> None:
        """Stand in again for those who were served before this node fell."""
        for folder in sorted(self._base.glob("*/enlisted")):
            told = msgspec.msgpack.decode(folder.read_bytes(), type=Enlist)
            self._stand_in(bytes.fromhex(folder.parent.name), told)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def clients(self) -> int:
        return len(self._tasks)

    # --- what clients ask

    def _on_enlist(self, hello: Hello, told: Enlist) -> None:
        refused = self._objection(hello, told)
        if not refused and self._newer(hello.name, told):
            self._note(hello.name, told)
            self._stand_in(hello.name, told)
        self._node.services.send(hello.address, Enlisted(told.number, refused))

    def _objection(self, hello: Hello, told: Enlist) -> str:
        """Why this client is not served; empty: it is."""
        public = self._node.carrier.key_of(hello.address)
        if public is None:
            return "without TLS nobody can be stood in for"
        if hello.name not in self._tasks and len(self._tasks) >= CLIENTS_MAX:
            return f"this proxy serves {CLIENTS_MAX} clients already"
        try:
            public.verify(told.signature, told.body())
            description(told.text, self._node.schema)
        except InvalidSignature:
            return "the description was not signed by the client's key"
        except ImplicastError as error:
            return str(error)
        return ""

    def _newer(self, name: Name, told: Enlist) -> bool:
        try:
            before = msgspec.msgpack.decode(
                (self._base / name.hex() / "enlisted").read_bytes(), type=Enlist
            )
        except (OSError, msgspec.MsgspecError):
            return True
        return told.number > before.number

    def _note(self, name: Name, told: Enlist) -> None:
        """The stand-in's folder: as this node's own, with the client's delegated key."""
        folder, own = self._base / name.hex(), self._node.config
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        host, _ = address_of(own.listen)
        config = NodeConfig(
            own.network,
            own.design,
            "member",
            text_of((host, 0)),
            "",
            [text_of(self._node.address)],
            dict(own.parameters),
            own.infrastructure,
            casts_per_s=own.casts_per_s,
            rate_per_s=own.rate_per_s,
        )
        if not (folder / "node.toml").exists():
            write_config(folder, config)
        for file, data in (
            ("node.key", told.key),
            ("node.pem", told.certificate),
            ("enrolment", told.enrolment),
        ):
            if data:
                put(folder / file, data)
                (folder / file).chmod(0o600)
        put(folder / "authority.pem", (self._node.directory / "authority.pem").read_bytes())
        put(folder / "enlisted", msgspec.msgpack.encode(told))

    def _stand_in(self, name: Name, told: Enlist) -> None:
        standing = self._standing.get(name)
        if standing is not None:
            self._node.background(_described(standing, told.text))
        elif name not in self._tasks:
            self._tasks[name] = asyncio.ensure_future(self._attend(name, told.text))

    async def _attend(self, name: Name, text: str) -> None:
        """Run the stand-in's node as long as this one runs."""
        from implicast.net.node import Node

        while True:
            try:
                async with Node.open(self._base / name.hex()) as node:
                    self._standing[name] = node
                    await node.join()
                    await _described(node, text)
                    await node.left.wait()
                    return
            except ImplicastError as error:
                log.warning("the stand-in of %s: %s", name.hex()[:8], error)
            finally:
                self._standing.pop(name, None)
            await asyncio.sleep(5.0)

    def _of(self, hello: Hello) -> "Node":
        """The stand-in of a client."""
        standing = self._standing.get(hello.name)
        if standing is None:
            raise RemoteError(f"{hello.name.hex()} is not served here")
        return standing

    def _on_cast_for(self, hello: Hello, errand: CastFor) -> None:
        self._errands.begin(hello, errand, self._of(hello))

    def _on_fetch(self, hello: Hello, fetch: Fetch) -> None:
        standing = self._of(hello)
        store, now_us = standing.store, standing.driver.tick()
        store.write(
            "update notices set done_us = ? where done_us is null and arrived_us <= ?",
            (now_us, fetch.cursor),
        )
        store.write("delete from notices where arrived_us < ?", (now_us - KEPT_US,))
        rows = store.inbox(open_only=False, after_us=fetch.cursor, most=FETCH_MAX * 4)
        given: list[Held] = []
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
                Held(CastId(bytes(publisher), incarnation, serial), arrived_us, bytes(carried))
            )
        left = len(rows) - len(given[:FETCH_MAX])
        self._node.services.send(
            hello.address, Fetched(fetch.token, tuple(given[:FETCH_MAX]), left)
        )


async def _described(node: "Node", text: str) -> None:
    """Say of the stand-in what the client says of itself, until it is complete."""
    if node.said is None or str(node.said) != str(description(text, node.schema)):
        with contextlib.suppress(ImplicastError):
            await node.describe(text, wait=120.0)


def delegated(folder: Path, number: int) -> tuple[bytes, bytes, bytes]:
    """The key, certificate and enrolment of a client's stand-in, from the client's folder."""
    base = folder / f"standin{number}"
    try:
        enrolment = (base / "enrolment").read_bytes() if (base / "enrolment").exists() else b""
        return (base / "node.key").read_bytes(), (base / "node.pem").read_bytes(), enrolment
    except OSError:
        how = "`implicast authority issue --client` makes two"
        raise IdentityError(f"{folder} has no stand-in {number}: {how}") from None
