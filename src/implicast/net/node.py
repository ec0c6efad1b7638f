"""One node: a peer, its connections and its database file. This is the API for applications.

async with Node.open("lab/ann") as node:
    await node.describe("gpu, eu")
    receipt = await node.cast("gpu & eu", b"hello", wait=5.0)
    async for message in node.inbox():
        ...
        await message.done()

A node has four layers, each in a folder of its own and built in this order: `storage` (files),
`transport` (connections), `identity` (name, certificate, revocations), `application` (the peer and
what the application uses). A part is handed the parts that it needs; no part knows the node.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Self

import msgspec

from implicast.net.application.events import Receipt
from implicast.net.application.inbox import InboxMessage
from implicast.net.application.layer import ApplicationLayer
from implicast.net.application.outbox import lifetime_of
from implicast.net.application.proxy import Proxy, ProxyHost
from implicast.net.config import NodeConfig, address_of, read_config, software, text_of
from implicast.net.errors import NodeError
from implicast.net.identity.layer import IdentityLayer
from implicast.net.identity.own import OwnIdentity
from implicast.net.parts import NodeParts
from implicast.net.settings import NodeSettings
from implicast.net.storage.durable_state import prune
from implicast.net.storage.layer import StorageLayer
from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.net.transport.layer import TransportLayer
from implicast.net.transport.tls import contexts
from implicast.peer.contract import Address, CastId, Name
from implicast.peer.events import Estimated
from implicast.peer.expiry import CLOCK_BOUND_US

__all__ = ["InboxMessage", "Node", "NodeError", "Receipt"]

STATE_WRITE_S = 2.0
"""Seconds between two writes of the peer's durable state. A write happens only if the state
changed.
"""
RELOADABLE = ("keep_s", "rate_per_s", "ttl_s", "payload_max", "authority", "log", "log_format")
"""Keys of `node.toml` whose new values a running node can take."""
KEY_FILES = ("node.key", "node.pem", "authority.pem")


class Node(NodeParts):
    """A peer on the network. Use `async with Node.open(...)`."""

    proxy: Proxy | None = None

    def __init__(self, directory: Path, config: NodeConfig) -> None:
        self.settings = NodeSettings(directory, config)
        self.directory, self.config, self.design = directory, config, self.settings.design
        self.schema = self.settings.schema
        self.address: Address = address_of(config.advertise or config.listen)
        self.record: Path | None = None
        """File to which the node writes all inputs of its peer, for `replay-node`; None: it writes
        no record.
        """
        self.started = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs = self._crashed = False

    # --- start and stop

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        directory: str | Path,
        config: NodeConfig | None = None,
        record: Path | None = None,
        **changes: Any,
    ) -> AsyncIterator[Self]:
        """Open the node of a folder. `changes` (listen, join, ...) override the values of its
        `node.toml`.
        """
        where = Path(directory).expanduser()
        found = config if config is not None else read_config(where)
        node = cls(where, msgspec.structs.replace(found, **changes))
        node.record = record
        await node.start()
        try:
            yield node
        finally:
            await node.stop()

    async def start(self) -> None:
        """Build the layers, one after the other, and run the peer."""
        settings, config = self.settings, self.config
        self.storage = StorageLayer(self.directory, self.design, config.role)
        own = OwnIdentity(self.directory, self.store, settings.has_key)
        self.name: Name = own.name
        tls = None if config.plain else contexts(*map(self.directory.joinpath, KEY_FILES))
        self.transport = TransportLayer(self._hello, self._on_hello, tls, config.rate_per_s)
        self.identity = IdentityLayer(
            settings, own, self.store, self.transport, tls, self.expel_from_overlay
        )
        address = await self.transport.listen(config.listen)
        self.address = self.address if config.advertise else address
        self.application = ApplicationLayer(
            settings, self.storage, self.transport, self.identity, self.address, self.background
        )
        self._runs = True
        self.application.run(self.record)
        self.background(self._write_state_periodically())
        self.background(self.identity.heartbeats.run(self.pool))
        if config.proxy:
            self._start_proxy()
        if self.credentials is not None:
            self.background(
                self.credentials.watch(self.services, self.clock, lambda: config.authority)
            )

    def reload(self, config: NodeConfig) -> tuple[list[str], list[str]]:
        """Take new values of `RELOADABLE` keys, and read certificate and revocation list again.
        Returns the keys that changed, and those whose new values need a restart.
        """
        differ = [
            each.name
            for each in msgspec.structs.fields(NodeConfig)
            if getattr(config, each.name) != getattr(self.config, each.name)
        ]
        changed = [each for each in differ if each in RELOADABLE]
        for each in changed:
            setattr(self.config, each, getattr(config, each))
        self.pool.limit(self.config.rate_per_s)
        if self.credentials is not None:
            self.credentials.check_folder()
        return changed, [each for each in differ if each not in RELOADABLE]

    def _start_proxy(self) -> None:
        self.proxy = Proxy(
            ProxyHost(self.directory, self.config, self.address, self.schema),
            self.services,
            self.pool,
            self.payloads,
            Node.open,
            self.background,
        )
        self.proxy.resume()

    def _on_hello(self, hello: Hello) -> None:
        self.identity.on_hello(hello)

    def expel_from_overlay(self, names: set[Name]) -> None:
        """Expel revoked names from the overlay, if this node runs the overlay's authority peer."""
        if self._runs:
            self.application.expel_from_overlay(names)

    async def join(self, introducers: list[str] | None = None) -> None:
        """Join the network through `introducers` (default: `join` of the configuration) and through
        the neighbours of the previous run. Without any address the node starts a new network.
        """
        given = introducers if introducers is not None else self.config.join
        await self.application.membership.join([*given, *self.storage.states.neighbours()])

    def crash(self) -> None:
        """Simulate a crash, for tests: the node writes and sends nothing from now on."""
        self._crashed = True
        self.driver.stop()
        self.store.abandon()
        self.pool.abort()

    async def stop(self) -> None:
        """Stop without leaving the overlay. Pending writes are committed, so that the node can
        restart.
        """
        self.payloads.transfers.stop()
        if self.proxy is not None:
            await self.proxy.stop()
        for task in list(self._tasks):
            task.cancel()
        if not self._crashed:
            self.application.state.note_neighbours()
            self.application.state.write()
        self.application.close(write_journal=not self._crashed)
        await self.pool.close()
        self.store.close()

    async def leave(self) -> None:
        """Hand the data stored for other peers over to them and leave the network for good."""
        await self.application.membership.leave()

    # --- operations of the application

    async def describe(self, text: str, wait: float = 30.0) -> None:
        """Register this node's description. Returns once every later cast that selects it reaches
        this node.
        """
        await self.application.membership.describe(text, wait)

    async def cast(
        self,
        target: str,
        payload: bytes = b"",
        wait: float = 5.0,
        name: str = "",
        verified: bool = False,
        expires_s: float | None = None,
    ) -> Receipt:
        """Send a payload to all members that the target selects.

        The cast is committed to the outbox before its first message is sent, so it reaches all
        members that it selects or none, also if this node is killed and restarts. When this
        returns, the receipt may still be incomplete. `wait` is the time in seconds to wait for a
        complete receipt after the commit. With `verified`, this node itself checks the
        registrations of the selected members, in designs that show them to the publisher.
        `expires_s`: seconds after which no peer sends the cast and no member takes it, at most 30
        days; without it `ttl_s` of the configuration holds.

        A payload of more than 32 KiB is stored at this node, and the receivers fetch it from here;
        `name` is the file name they see.
        """
        lifetime_us = lifetime_of(self.config.ttl_s if expires_s is None else expires_s)
        return await self.application.outbox.cast(
            target, payload, wait, name, verified, lifetime_us
        )

    def upcoming_cast(self) -> CastId:
        """The id of the next cast. An application that stores it first can look the cast up in the
        outbox after a crash.
        """
        return self.application.outbox.upcoming_cast()

    async def complain(self, cast: CastId) -> bool:
        """Send a signed complaint about an unwanted cast to the peer that delivered it.

        Returns False if no peer can receive the complaint: the design has no peer between publisher
        and reader, or the cast is too old.
        """
        return self.application.outbox.complain(cast)

    def slowed_until_us(self) -> int | None:
        """The time until which this node's casts to large groups are declined because of
        complaints, in microseconds since 1970; None if they are not declined.
        """
        until_us = self.events.slowed_us
        return until_us if until_us > self.driver.tick() else None

    def receipt(self, cast: CastId) -> Receipt:
        return self.application.receipts.of(cast)

    async def estimate(self, target: str, wait: float = 5.0) -> Estimated | None:
        """The estimated number of members that a target selects; None if the design gives no
        estimate.
        """
        return await self.application.outbox.estimate(target, wait)

    async def subscribe(self, target: str, wait: float = 30.0) -> int:
        """Subscribe to everything that is published with a description that the target selects.
        Returns the number of the subscription.
        """
        return await self.subscriptions.subscribe(target, wait)

    async def unsubscribe(self, number: int, wait: float = 30.0) -> None:
        await self.subscriptions.unsubscribe(number, wait)

    async def publish(self, text: str, payload: bytes = b"", wait: float = 5.0) -> Receipt:
        """Notify all members that subscribed to things of this description."""
        self.application.outbox.spend()
        payload = self.payloads.carried(payload, "")
        await self.application.outbox.until_started()
        return await self.subscriptions.publish(text, payload, wait)

    async def inbox(self, follow: bool = True) -> AsyncIterator[InboxMessage]:
        """Yield the messages that have arrived and are not done, oldest first. With `follow`,
        continue with messages as they arrive.
        """
        async for message in self.application.inbox.follow(follow):
            yield message

    async def done(self, cast: CastId) -> None:
        """Mark a message of the inbox as done."""
        await self.application.done(cast)

    def status(self) -> dict[str, Any]:
        """The node's status as printable values."""
        return {
            "name": self.name.hex(),
            "address": text_of(self.address),
            "design": self.design.name,
            "role": self.config.role,
            "network": self.config.network,
            "software": software(),
            **self.identity.status(),
            **self.application.status(),
            **self.transport.status(),
            **self.storage.status(),
            "clients": self.proxy.clients if self.proxy is not None else 0,
            "up_s": round(time.monotonic() - self.started, 1),
        }

    def peers(self) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name.hex(),
                "address": text_of(each.address),
                "life": each.incarnation,
                "queued": self.pool.queued(each.address),
            }
            for each in self.pool.connected_nodes()
        ]

    # --- internal

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            self.settings.network,
            self.settings.digest,
            self.name,
            self.address,
            self.incarnation,
            self.clock.now_us(),
            software(),
            self.revocations.number,
        )

    async def commit_state(self) -> None:
        """Write the peer's durable state and wait until it is committed."""
        await self.application.state.commit()

    async def _write_state_periodically(self) -> None:
        while True:
            await asyncio.sleep(STATE_WRITE_S)
            self.application.state.write()
            self.application.state.note_neighbours()
            if self.driver.journal is not None:
                self.driver.journal.note_storage(self.driver.host.now_us)
            if self.store.dirty:
                now_us = self.driver.host.now_us
                prune(self.store, now_us, before_us=now_us - int(self.config.keep_s * 1e6))
                await self.store.committed()
            self.application.outbox.end_expired(CLOCK_BOUND_US)

    def background(self, what: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that is cancelled when the node stops."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
