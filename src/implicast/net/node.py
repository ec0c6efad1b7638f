"""One node: a peer, its connections and its database file. This is the API for applications.

async with Node.open("lab/ann") as node:
    await node.describe("gpu, eu")
    receipt = await node.cast("gpu & eu", b"hello", wait=5.0)
    async for message in node.inbox():
        ...
        await message.done()
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from implicast.casting.designs import OWN_POLICY, Design, design
from implicast.language.attributes import Schema
from implicast.language.parameters import Setting
from implicast.language.parse import description
from implicast.language.target import Description
from implicast.net.bootstrap import Bootstrap
from implicast.net.clock import Clock
from implicast.net.config import NodeConfig, address_of, read_config, software, text_of
from implicast.net.connection_pool import ConnectionPool
from implicast.net.counters import Counters
from implicast.net.credentials import CertificateRenewed, Credentials
from implicast.net.deliveries import Deliveries
from implicast.net.driver import Driver
from implicast.net.durable_state import DurableStateStore
from implicast.net.errors import NodeError
from implicast.net.frames import PROTOCOL, Hello
from implicast.net.heartbeat import NodeHeartbeats
from implicast.net.identity import contexts, name_in, root_key
from implicast.net.inbox import InboxMessage, InboxReader, Payloads
from implicast.net.outbox import Outbox, lifetime_of
from implicast.net.private_files import make_private_folder, tighten
from implicast.net.proxy import Proxy
from implicast.net.receipt import PeerEvents, Receipt
from implicast.net.record import Recorder
from implicast.net.remembered import prune
from implicast.net.revocation import Revocations, RevocationsKnown, RevokedNames
from implicast.net.services import Services
from implicast.net.signing import expel, load_grant, signing_of
from implicast.net.startup import header_of, journal_of, own_name, peer_of
from implicast.net.status import status_of
from implicast.net.store import Store
from implicast.net.subscriptions import NodeSubscriptions
from implicast.peer.contract import NAME_BYTES, Address, CastId, Incarnation, Name, Peer
from implicast.peer.events import Estimated, Refused
from implicast.peer.expiry import CLOCK_BOUND_US
from implicast.peer.member import Member
from implicast.peer.name import next_incarnation
from implicast.peer.signing import UNSIGNED, Signing
from implicast.peer.wire import Codec

__all__ = ["InboxMessage", "Node", "NodeError", "Receipt"]

log = logging.getLogger("implicast")

STATE_WRITE_S = 2.0
"""Seconds between two writes of the peer's durable state. A write happens only if the state
changed.
"""
NETWORK_DEFAULTS: Mapping[str, Setting] = {"signed": True, "signatures": "ed25519"}
"""Design parameters whose default on a network differs from their default in the simulator."""
LEAVE_S = 30.0


class Node:
    """A peer on the network. Use `async with Node.open(...)`."""

    services: Services
    payloads: Payloads
    proxy: Proxy | None = None

    driver: Driver
    store: Store
    heartbeats: NodeHeartbeats

    def __init__(self, directory: Path, config: NodeConfig) -> None:
        self.directory, self.config = directory, config
        self.design: Design = design(config.design)
        self.parameters: Mapping[str, Setting] = self.design.settle(
            {
                **NETWORK_DEFAULTS,
                "casts_per_s": config.casts_per_s,
                "casts_burst": config.casts_burst,
                **config.parameters,
            }
        )
        given = str(self.parameters.get("schema") or "")
        self.schema = Schema.read(given) if given else None
        """The attributes that descriptions and targets may use; None if the network has no schema.
        """
        self.subscriptions = NodeSubscriptions(self)
        self.counters = Counters()
        self.signing: Signing = UNSIGNED
        self.network = blake2b(
            config.network.encode(), person=b"network", digest_size=NAME_BYTES
        ).digest()
        self.address: Address = address_of(config.advertise or config.listen)
        self.description: Description | None = None
        self.events = PeerEvents()
        self.peer: Peer | None = None
        self.record: Path | None = None
        """File to which the node writes all inputs of its peer, for `replay-node`; None: it writes
        no record.
        """
        self.started = time.monotonic()
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._crashed = False
        self.outbox, self._bootstrap = Outbox(self), Bootstrap(self)

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
        make_private_folder(self.directory)
        tighten(self.directory)
        self.store = Store(self.directory / "node.db")
        self.store.after_commit = self.wake_readers
        self.state_store = DurableStateStore(self.store, self.design, self.config.role)
        self.name = own_name(self)
        self.set_incarnation(
            next_incarnation(
                int.from_bytes(self.store.get("life") or b"", "big"), Random(secrets.randbits(64))
            )
        )
        codec = Codec(self.design.kinds)
        agreed = {name: value for name, value in self.parameters.items() if name not in OWN_POLICY}
        self.digest = codec.digest(self.design.name, agreed)
        tls = (
            None
            if self.config.plain
            else contexts(
                *(self.directory / each for each in ("node.key", "node.pem", "authority.pem"))
            )
        )
        server_tls, client_tls = tls or (None, None)
        self.credentials = None if tls is None else Credentials(self.directory, tls)
        self.clock = Clock(time.monotonic)
        self.pool = ConnectionPool(
            self._hello,
            lambda hello, body, cause: None,
            self.counters,
            server_tls,
            client_tls,
            None if tls is None else name_in,
            self.config.rate_per_s,
        )
        self._serve(root_key(self.directory / "authority.pem") if tls is not None else None)
        host, port = address_of(self.config.listen)
        port = await self.pool.listen(host, port)
        if not self.config.advertise:
            self.address = (host, port)
        commit_first = self.config.role != "member"
        self.driver = Driver(
            self.address,
            codec,
            self.counters,
            secrets.randbits(64),
            Deliveries(self).commit_events,
            commit_first,
            self.clock,
        )
        self.driver.tick()
        self.driver.pool, self.pool.on_message = self.pool, self.driver.receive
        state: Any = self.state_store.read()
        self.description = (
            state.member.description if state is not None and self.config.role == "member" else None
        )
        self.signing = signing_of(
            self.directory, self.parameters, self.driver.host, self.address, self.network, late=True
        )
        expel(self.signing, self.pool.banned)
        self.peer = peer_of(self, state)
        if self.record is not None:
            self.driver.recorder = Recorder(self.record)
            self.driver.recorder.write(header_of(self, state))
        if self.config.journal:
            self.driver.journal = journal_of(self)
        self.driver.run(self.peer)
        self.expel_from_overlay(self.pool.banned)
        if commit_first:
            self.store.before_commit = partial(self.state_store.write, self.driver)
        self.background(self._write_state_periodically())
        self.background(self.heartbeats.run(self.pool))
        self.payloads.resume()
        self.proxy = Proxy(self) if self.config.proxy else None
        if self.proxy is not None:
            self.proxy.resume()
        if self.credentials is not None:
            self.background(self.credentials.watch(self))

    def _serve(self, root: Ed25519PublicKey | None) -> None:
        """Register the handlers of messages that the node answers itself, without its peer."""
        self.services = Services(self.counters)
        self.services.pool = self.pool
        self.revocations = Revocations(
            root, self.store, self._ban, self.services.send, self.pool.connected_nodes
        )
        self.services.register(RevocationsKnown, self.revocations.on_known)
        self.services.register(RevokedNames, self.revocations.on_list)
        self.heartbeats = NodeHeartbeats(self.services, self.clock, self.revocations)
        if self.credentials is not None:
            self.services.register(CertificateRenewed, self.credentials.on_renewed)
        self.payloads = Payloads(self)
        self._inbox_reader = InboxReader(self, self.payloads)
        self.pool.on_service = self.services.receive
        self.pool.on_hello = self._on_hello

    def _ban(self, names: set[Name]) -> None:
        """Close the connections of revoked names and reject everything that these names sign."""
        self.pool.ban(names)
        expel(self.signing, names)
        self.expel_from_overlay(names)

    def expel_from_overlay(self, names: set[Name]) -> None:
        """Expel revoked names from the overlay, if this node runs the overlay's authority peer: the
        peer assigns them no positions and announces the expulsion to its members.
        """
        if self.config.role == "authority" and self.peer is not None:
            for name in sorted(names):
                self.driver.call("expel", name)

    def reload_signing(self) -> None:
        """Sign with the rights of the certificate that is in the folder now."""
        load_grant(self.signing, self.directory, self.parameters)

    def _on_hello(self, hello: Hello) -> None:
        self.clock.compare(hello.name, hello.now_us)
        self.revocations.on_number(hello, hello.revocations)

    async def join(self, introducers: list[str] | None = None) -> None:
        """Join the network through `introducers` (default: `join` of the configuration) and through
        the neighbours of the previous run. Without any address the node starts a new network.
        """
        await self._bootstrap.join(introducers)

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
            self.state_store.note_neighbours(self.pool)
            self.state_store.write(self.driver)
        self.driver.stop()
        if self.driver.recorder is not None:
            self.driver.recorder.close()
        if self.driver.journal is not None and not self._crashed:
            self.driver.journal.close()
        await self.pool.close()
        self.store.close()

    async def leave(self) -> None:
        """Hand the data stored for other peers over to them and leave the network for good."""
        self.member()
        self.driver.call("leave")
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.left.wait()
        except TimeoutError:
            raise NodeError(
                f"no peer took over the data of this node within {LEAVE_S:.0f} s"
            ) from None

    @property
    def joined(self) -> asyncio.Event:
        return self.events.joined

    @property
    def left(self) -> asyncio.Event:
        return self.events.left

    @property
    def registered(self) -> asyncio.Event:
        """Set once every later cast that selects this node's description reaches this node."""
        return self.events.registered

    @property
    def refused(self) -> list[Refused]:
        """The most recent requests that the network refused."""
        return self.events.refused

    # --- operations of the application

    async def describe(self, text: str, wait: float = 30.0) -> None:
        """Register this node's description. Returns once every later cast that selects it reaches
        this node.
        """
        described = description(text, self.schema)
        member = self.member()
        self.description = described
        self.events.expect_registration(member.upcoming_version())
        self.driver.call("register", described)
        self.state_store.write(self.driver)
        try:
            async with asyncio.timeout(wait):
                await self._bootstrap.until(self.registered)
            self.state_store.write(self.driver)
            self.state_store.note_neighbours(self.pool)
            await self.store.committed()
        except TimeoutError:
            raise NodeError(
                f"the registration was not complete within {wait:.0f} s; it continues"
            ) from None

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
        return await self.outbox.cast(target, payload, wait, name, verified, lifetime_us)

    def upcoming_cast(self) -> CastId:
        """The id of the next cast. An application that stores it first can look the cast up in the
        outbox after a crash.
        """
        return self.outbox.upcoming_cast()

    async def complain(self, cast: CastId) -> bool:
        """Send a signed complaint about an unwanted cast to the peer that delivered it.

        Returns False if no peer can receive the complaint: the design has no peer between publisher
        and reader, or the cast is too old.
        """
        return self.outbox.complain(cast)

    def slowed_until_us(self) -> int | None:
        """The time until which this node's casts to large groups are declined because of
        complaints, in microseconds since 1970; None if they are not declined.
        """
        until_us = self.events.slowed_us
        return until_us if until_us > self.driver.tick() else None

    def receipt(self, cast: CastId) -> Receipt:
        return Receipt.of(
            cast,
            self.events.receipts.get(cast) or self.store.receipt(cast.incarnation, cast.serial),
        )

    async def estimate(self, target: str, wait: float = 5.0) -> Estimated | None:
        """The estimated number of members that a target selects; None if the design gives no
        estimate.
        """
        return await self.outbox.estimate(target, wait)

    async def subscribe(self, target: str, wait: float = 30.0) -> int:
        """Subscribe to everything that is published with a description that the target selects.
        Returns the number of the subscription.
        """
        return await self.subscriptions.subscribe(target, wait)

    async def unsubscribe(self, number: int, wait: float = 30.0) -> None:
        await self.subscriptions.unsubscribe(number, wait)

    async def publish(self, text: str, payload: bytes = b"", wait: float = 5.0) -> Receipt:
        """Notify all members that subscribed to things of this description."""
        self.outbox.spend()
        payload = self.payloads.carried(payload, "")
        await self.outbox.until_started()
        return await self.subscriptions.publish(text, payload, wait)

    async def inbox(self, follow: bool = True) -> AsyncIterator[InboxMessage]:
        """Yield the messages that have arrived and are not done, oldest first. With `follow`,
        continue with messages as they arrive.
        """
        async for message in self._inbox_reader.follow(follow):
            yield message

    async def done(self, cast: CastId) -> None:
        self.store.done(cast, self.driver.tick())
        await self.store.committed()

    def status(self) -> dict[str, Any]:
        """The node's status as printable values."""
        return status_of(self)

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

    def member(self) -> Member:
        """The peer of a node with role `member`; `NodeError` for other roles."""
        if not isinstance(self.peer, Member):
            raise NodeError(
                f"this node is a {self.config.role}: only members register descriptions and cast"
            )
        return self.peer

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            self.network,
            self.digest,
            self.name,
            self.address,
            self.incarnation,
            self.clock.now_us(),
            software(),
            self.revocations.number,
        )

    async def commit_state(self) -> None:
        """Write the peer's durable state and wait until it is committed."""
        self.state_store.write(self.driver)
        await self.store.committed()

    def wake_readers(self) -> None:
        """Wake the tasks that wait for new messages in the inbox."""
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def until_arrived(self) -> None:
        await self._arrived.wait()

    def set_incarnation(self, incarnation: Incarnation) -> None:
        """Continue as this incarnation. The number is committed before this returns."""
        self.incarnation = incarnation
        self.store.put_now("life", self.incarnation.to_bytes(8, "big"))

    async def _write_state_periodically(self) -> None:
        while True:
            await asyncio.sleep(STATE_WRITE_S)
            self.state_store.write(self.driver)
            self.state_store.note_neighbours(self.pool)
            if self.driver.journal is not None:
                self.driver.journal.note_storage(self.driver.host.now_us)
            if self.store.dirty:
                prune(self.store, self.driver.host.now_us)
                await self.store.committed()
            self.outbox.end_expired(CLOCK_BOUND_US)

    def background(self, what: Any) -> None:
        """Run a coroutine as a task that is cancelled when the node stops."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
