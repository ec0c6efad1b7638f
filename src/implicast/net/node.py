"""One node: a peer, its connections, its file. The API that people use.

async with Node.open("lab/ann") as node:
    await node.describe("gpu, eu")
    receipt = await node.cast("gpu & eu", b"hello", wait=5.0)
    async for note in node.inbox():
        ...
        await note.done()
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
from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.config import NodeConfig, address_of, read_config, software, text_of
from implicast.net.counters import Counters
from implicast.net.credentials import Credentials, Renewed
from implicast.net.deliveries import Deliveries
from implicast.net.driver import Driver
from implicast.net.errors import NodeError
from implicast.net.frames import PROTOCOL, Hello
from implicast.net.identity import contexts, name_in, root_key
from implicast.net.keep import Keep
from implicast.net.notes import Note, Notes, Payloads
from implicast.net.origin import journal_of, opening_of, own_name, peer_of
from implicast.net.proxy import Proxy
from implicast.net.pulse import Pulses
from implicast.net.receipt import Awaited, Receipt
from implicast.net.record import Recorder
from implicast.net.revocation import Revocations, RevocationsKnown, RevokedNames
from implicast.net.sending import Sending
from implicast.net.services import Services
from implicast.net.speech import expel, renew, words_of
from implicast.net.status import status_of
from implicast.net.store import Store
from implicast.net.subscriptions import Subscriptions
from implicast.net.way_in import WayIn
from implicast.peer.contract import NAME_BYTES, Address, CastId, Incarnation, Name, Peer
from implicast.peer.events import Estimated, Refused
from implicast.peer.member import Member
from implicast.peer.name import next_incarnation
from implicast.peer.wire import Codec
from implicast.peer.words import BELIEVED, Words

__all__ = ["Node", "NodeError", "Note", "Receipt"]

log = logging.getLogger("implicast")

KEEP_S = 2.0
"""How often what the peer keeps is written, when it has changed."""
ON_A_NETWORK: Mapping[str, Setting] = {"signed": True, "signatures": "ed25519"}
"""Parameters of designs that have other defaults here than in the world."""
LEAVE_S = 30.0


class Node:
    """A peer on the network. Use `async with Node.open(...)`."""

    services: Services
    payloads: Payloads
    proxy: Proxy | None = None

    driver: Driver
    store: Store
    pulses: Pulses

    def __init__(self, directory: Path, config: NodeConfig) -> None:
        self.directory, self.config = directory, config
        self.design: Design = design(config.design)
        self.parameters: Mapping[str, Setting] = self.design.settle(
            {
                **ON_A_NETWORK,
                "casts_per_s": config.casts_per_s,
                "casts_burst": config.casts_burst,
                **config.parameters,
            }
        )
        given = str(self.parameters.get("schema") or "")
        self.schema = Schema.read(given) if given else None
        """Which attributes there are, where the network has agreed on it."""
        self.subscriptions = Subscriptions(self)
        self.counters = Counters()
        self.words: Words = BELIEVED
        self.network = blake2b(
            config.network.encode(), person=b"network", digest_size=NAME_BYTES
        ).digest()
        self.address: Address = address_of(config.advertise or config.listen)
        self.said: Description | None = None
        self.awaited = Awaited()
        self.peer: Peer | None = None
        self.record: Path | None = None
        """Where all inputs are written, to be replayed."""
        self.started = time.monotonic()
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._crashed = False
        self.sending, self._way_in = Sending(self), WayIn(self)

    # --- beginning and ending

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        directory: str | Path,
        config: NodeConfig | None = None,
        record: Path | None = None,
        **changes: Any,
    ) -> AsyncIterator[Self]:
        """A node from its folder; `changes` (listen, join, ...) in place of what its file says."""
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
        self.store = Store(self.directory / "node.db")
        self.store.after = self.wake_readers
        self.keep = Keep(self.store, self.design, self.config.role)
        self.name = own_name(self)
        self.live(
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
        self.carrier = Carrier(
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
        port = await self.carrier.listen(host, port)
        if not self.config.advertise:
            self.address = (host, port)
        careful = self.config.role != "member"
        self.driver = Driver(
            self.address,
            codec,
            self.counters,
            secrets.randbits(64),
            Deliveries(self).safe,
            careful,
            self.clock,
        )
        self.driver.tick()
        self.driver.carrier, self.carrier.arrived = self.carrier, self.driver.receive
        kept: Any = self.keep.read()
        self.said = (
            kept.member.description if kept is not None and self.config.role == "member" else None
        )
        self.words = words_of(
            self.directory, self.parameters, self.driver.host, self.address, self.network, late=True
        )
        expel(self.words, self.carrier.banned)
        self.peer = peer_of(self, kept)
        if self.record is not None:
            self.driver.recorder = Recorder(self.record)
            self.driver.recorder.write(opening_of(self, kept))
        if self.config.journal:
            self.driver.journal = journal_of(self)
        self.driver.run(self.peer)
        self._strike_off(self.carrier.banned)
        if careful:
            self.store.before = partial(self.keep.write, self.driver)
        self.background(self._keep_often())
        self.background(self.pulses.beat(self.carrier))
        self.payloads.resume()
        self.proxy = Proxy(self) if self.config.proxy else None
        if self.proxy is not None:
            self.proxy.resume()
        if self.credentials is not None:
            self.background(self.credentials.watch(self))

    def _serve(self, root: Ed25519PublicKey | None) -> None:
        """What the node answers itself."""
        self.services = Services(self.counters)
        self.services.carrier = self.carrier
        self.revocations = Revocations(
            root, self.store, self._ban, self.services.send, self.carrier.links
        )
        self.services.offer(RevocationsKnown, self.revocations.on_known)
        self.services.offer(RevokedNames, self.revocations.on_list)
        self.pulses = Pulses(self.services, self.clock, self.revocations)
        if self.credentials is not None:
            self.services.offer(Renewed, self.credentials.on_renewed)
        self.payloads = Payloads(self)
        self.notes = Notes(self, self.payloads)
        self.carrier.served = self.services.receive
        self.carrier.greeted = self._greeted

    def _ban(self, names: set[Name]) -> None:
        """These belong to the network no more: their connections are closed, and their words count for nothing."""
        self.carrier.ban(names)
        expel(self.words, names)
        self._strike_off(names)

    def _strike_off(self, names: set[Name]) -> None:
        """The node that plays the authority of an overlay gives them no places any more, and tells its members so."""
        if self.config.role == "authority" and self.peer is not None:
            for name in sorted(names):
                self.driver.ask("expel", name)

    def speak_anew(self) -> None:
        """There is a new certificate: speak with what it says."""
        renew(self.words, self.directory, self.parameters)

    def _greeted(self, hello: Hello) -> None:
        self.clock.compare(hello.name, hello.now_us)
        self.revocations.known(hello, hello.revocations)

    async def join(self, introducers: list[str] | None = None) -> None:
        """Become part of the network, through addresses given or known from last time; none: be the first."""
        await self._way_in.join(introducers)

    def crash(self) -> None:
        """For trials: from now on nothing is written, and nothing is said."""
        self._crashed = True
        self.driver.stop()
        self.store.abandon()
        self.carrier.abort()

    async def stop(self) -> None:
        """As a crash, but what there is to write is written."""
        self.payloads.transfers.stop()
        if self.proxy is not None:
            await self.proxy.stop()
        for task in list(self._tasks):
            task.cancel()
        if not self._crashed:
            self.keep.note_neighbours(self.carrier)
            self.keep.write(self.driver)
        self.driver.stop()
        if self.driver.recorder is not None:
            self.driver.recorder.close()
        if self.driver.journal is not None and not self._crashed:
            self.driver.journal.close()
        await self.carrier.close()
        self.store.close()

    async def leave(self) -> None:
        """Hand over what is kept for others, and go for good."""
        self.member()
        self.driver.ask("leave")
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.left.wait()
        except TimeoutError:
            raise NodeError(
                f"nobody took over what this node keeps within {LEAVE_S:.0f} s"
            ) from None

    @property
    def joined(self) -> asyncio.Event:
        return self.awaited.joined

    @property
    def left(self) -> asyncio.Event:
        return self.awaited.left

    @property
    def registered(self) -> asyncio.Event:
        """Set while every later cast that selects what this node says will arrive."""
        return self.awaited.registered

    @property
    def refused(self) -> list[Refused]:
        """The last things that the network declined."""
        return self.awaited.refused

    # --- the application's verbs

    async def describe(self, text: str, wait: float = 30.0) -> None:
        """Say what this node is, and wait until every later cast that selects it will arrive."""
        said = description(text, self.schema)
        member = self.member()
        self.said = said
        self.awaited.registering(member.upcoming_version())
        self.driver.ask("register", said)
        self.keep.write(self.driver)
        try:
            async with asyncio.timeout(wait):
                await self._way_in.until(self.registered)
            self.keep.write(self.driver)
            self.keep.note_neighbours(self.carrier)
            await self.store.committed()
        except TimeoutError:
            raise NodeError(
                f"the description was not complete within {wait:.0f} s; it goes on"
            ) from None

    async def cast(
        self,
        target: str,
        payload: bytes = b"",
        wait: float = 5.0,
        name: str = "",
        verified: bool = False,
    ) -> Receipt:
        """Send to whoever the target describes. The cast is safe when this returns; the receipt may still fill.
        `verified`: this node checks the registrations of those selected itself, in designs that show them to it.

        A payload of more than 32 KiB is kept here, and those who get the cast fetch it; `name` is a name for its file.
        """
        return await self.sending.cast(target, payload, wait, name, verified)

    def upcoming_cast(self) -> CastId:
        """How the next cast will be called: whoever writes it down first can ask the outbox after a crash."""
        return self.member().upcoming_cast()

    async def complain(self, cast: CastId) -> bool:
        """A cast that came was not for this node's owner: say so, signed, to the peer that told it.

        False where nobody can be told: the design has no keeper between publisher and reader, or it is too long ago.
        """
        return self.sending.complain(cast)

    def slowed_until_us(self) -> int | None:
        """Until when this node's casts to large groups are declined, as too many complained; None: they are not."""
        until_us = self.awaited.slowed_us
        return until_us if until_us > self.driver.tick() else None

    def receipt(self, cast: CastId) -> Receipt:
        return Receipt.of(
            cast,
            self.awaited.receipts.get(cast) or self.store.receipt(cast.incarnation, cast.serial),
        )

    async def estimate(self, target: str, wait: float = 5.0) -> Estimated | None:
        """About how many a target selects; None where the design cannot tell."""
        return await self.sending.estimate(target, wait)

    async def subscribe(self, target: str, wait: float = 30.0) -> int:
        """Hear of whatever is published with a description that the target selects; the subscription's number."""
        return await self.subscriptions.subscribe(target, wait)

    async def unsubscribe(self, number: int, wait: float = 30.0) -> None:
        await self.subscriptions.unsubscribe(number, wait)

    async def publish(self, text: str, payload: bytes = b"", wait: float = 5.0) -> Receipt:
        """Tell whoever subscribed to things of this description."""
        self.sending.spend()
        payload = self.payloads.carried(payload, "")
        return await self.subscriptions.publish(text, payload, wait)

    async def inbox(self, follow: bool = True) -> AsyncIterator[Note]:
        """What has arrived and is not done, oldest first; then, if it is followed, what arrives."""
        async for note in self.notes.follow(follow):
            yield note

    async def done(self, cast: CastId) -> None:
        self.store.done(cast, self.driver.tick())
        await self.store.committed()

    def status(self) -> dict[str, Any]:
        """What there is to know about this node."""
        return status_of(self)

    def peers(self) -> list[dict[str, Any]]:
        return [
            {
                "name": each.name.hex(),
                "address": text_of(each.address),
                "life": each.incarnation,
                "queued": self.carrier.queued(each.address),
            }
            for each in self.carrier.links()
        ]

    # --- inside

    def member(self) -> Member:
        """The peer, of a node that takes part."""
        if not isinstance(self.peer, Member):
            raise NodeError(
                f"this node is a {self.config.role}: it neither describes itself nor casts"
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

    async def safe(self) -> None:
        """When what the peer keeps is on disk."""
        self.keep.write(self.driver)
        await self.store.committed()

    def wake_readers(self) -> None:
        """There may be something new in the inbox."""
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def until_arrived(self) -> None:
        await self._arrived.wait()

    def live(self, incarnation: Incarnation) -> None:
        """Go on in this life."""
        self.incarnation = incarnation
        self.store.put_now("life", self.incarnation.to_bytes(8, "big"))

    async def _keep_often(self) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            self.keep.write(self.driver)
            self.keep.note_neighbours(self.carrier)
            if self.driver.journal is not None:
                self.driver.journal.note_storage(self.driver.host.now_us)
            if self.store.dirty:
                self.store.prune()
                await self.store.committed()

    def background(self, what: Any) -> None:
        """Let something go on until it ends or the node does."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
