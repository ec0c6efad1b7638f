"""A light client: it has its own key and inbox but runs no peer. Its proxies receive casts for it
while it is offline.

    async with Client.open("ann", ["a.example:7070", "b.example:7070"], network="lab") as client:
        await client.describe("gpu, eu")
        receipt = await client.cast("gpu & eu", b"hello")
        for held, payload in await client.fetch():
            ...

Fetched notices are committed here before the proxy is informed. A cast that both proxies deliver,
or one delivers twice, is dropped by its id. The client hands a notice out again, also after a
crash, until the next `fetch` or until it is closed. A client that moves to another proxy takes its
database with it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from secrets import randbits
from typing import Self

import msgspec

from implicast.net.application.events import Receipt
from implicast.net.application.proxy import (
    FetchInbox,
    HeldNotice,
    InboxBatch,
    StandInReply,
    StandInRequest,
    delegated,
)
from implicast.net.application.proxy_casts import ProxyCastRequest, ProxyCastResult
from implicast.net.application.transfer import Transfers
from implicast.net.config import address_of, text_of
from implicast.net.identity.keys import name_of_key, own_key
from implicast.net.settings import network_id
from implicast.net.storage.blobs import (
    HOLDERS,
    INLINE_MAX,
    Blobs,
    Reference,
    referring,
    unwrapped,
    wrapped,
)
from implicast.net.storage.files import make_private_folder, tighten
from implicast.net.storage.store import Store
from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.net.transport.services import Services
from implicast.net.transport.tls import contexts, name_in
from implicast.peer.contract import Address, CastId, Contact
from implicast.peer.errors import LocalError

ANSWER_S = 10.0
PENDING_KEY = "errands"
"""Key of the pending casts in `client.db`. Existing files use it, so it must not change."""
CAST_S = 30.0
"""Seconds to wait for the result of a cast. Afterwards the client repeats the request when it next
goes online.
"""
FILES_S = 60.0
"""Seconds that `fetch` waits for large payloads. The missing ones are returned by a later `fetch`.
"""
Answer = StandInReply | InboxBatch | ProxyCastResult
PendingCast = tuple[str, str, bytes]
"""A cast without result: its proxy, the target, the bytes that the cast carries."""


class ClientError(LocalError):
    """No proxy serves this client; the text says why."""


class Client:
    """One light client, online."""

    def __init__(self, directory: Path, proxies: Sequence[str], network: str) -> None:
        self.directory = directory
        self.proxies: list[Address] = [address_of(each) for each in proxies]
        self.counters = Counters()
        make_private_folder(directory)
        tighten(directory)
        self.store = Store(directory / "client.db")
        self._key = own_key(directory / "node.key")
        self.name = name_of_key(self._key.public_key())
        self._network = network_id(network)
        self.clock = Clock(time.monotonic)
        tls = contexts(*(directory / each for each in ("node.key", "node.pem", "authority.pem")))
        self.pool = ConnectionPool(self._hello, lambda *answer: None, self.counters, *tls, name_in)
        self.services = Services(self.counters, self.pool)
        self.pool.serve(self.services.receive)
        self.services.register(
            StandInReply, lambda hello, answer: self._answered(hello, answer.number, answer)
        )
        self.services.register(
            InboxBatch, lambda hello, answer: self._answered(hello, answer.token, answer)
        )
        self.services.register(
            ProxyCastResult, lambda hello, answer: self._answered(hello, answer.number, answer)
        )
        self._asked: dict[tuple[Address, int], asyncio.Future[Answer]] = {}
        self.handed_out: list[CastId] = []
        """Casts that were handed out and are not marked done."""
        self.blobs = Blobs(directory)
        own = Contact(self.name, (self.name.hex(), 0))
        self._transfers = Transfers(self.blobs, self.services, lambda: own, lambda: None)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, directory: str | Path, proxies: Sequence[str], network: str
    ) -> AsyncIterator[Self]:
        client = cls(Path(directory).expanduser(), proxies, network)
        try:
            yield client
        finally:
            client.stop_transfers()
            await client.pool.close()
            client.store.close()

    async def describe(self, text: str) -> int:
        """Send the signed description to all proxies. Returns how many accepted it; `ClientError`
        if none did.
        """
        number = int.from_bytes(self.store.get("number") or b"", "big") + 1
        self.store.put_now("number", number.to_bytes(8, "big"))
        refused: list[str] = []
        for rank, proxy in enumerate(self.proxies):
            key, certificate, enrolment = delegated(self.directory, rank)
            unsigned = StandInRequest(key, certificate, enrolment, text, number, b"")
            request = StandInRequest(
                key, certificate, enrolment, text, number, self._key.sign(unsigned.body())
            )
            answer = await self._ask(proxy, number, request)
            if not isinstance(answer, StandInReply) or answer.refused:
                reason = answer.refused if isinstance(answer, StandInReply) else "does not answer"
                refused.append(f"{text_of(proxy)}: {reason}")
        if len(refused) == len(self.proxies):
            raise ClientError("no proxy runs a stand-in for this client: " + "; ".join(refused))
        return len(self.proxies) - len(refused)

    async def fetch(self, wait: float = FILES_S) -> list[tuple[HeldNotice, bytes]]:
        """Fetch the new notices from all proxies, each once, oldest first, with payloads. `wait`
        limits the time for large payloads, in seconds.
        """
        self._done()
        answered = 0
        for proxy in self.proxies:
            async for batch in self._batches(proxy):
                answered += 1
                for each in batch:
                    self._store_notice(each)
                await self.store.committed()
        if not answered:
            raise ClientError("no proxy answers: " + ", ".join(map(text_of, self.proxies)))
        await self._fetch_files(wait)
        found = [
            (each, payload) for each in self._open() if (payload := self._payload(each)) is not None
        ]
        self.handed_out = [each.cast for each, _ in found]
        return found

    def _done(self) -> None:
        """Mark the notices that were handed out as done."""
        for cast in self.handed_out:
            self.store.done(cast, self.clock.now_us())
        self.handed_out = []

    def _open(self) -> list[HeldNotice]:
        return [
            HeldNotice(CastId(bytes(publisher), incarnation, serial), arrived_us, bytes(carried))
            for publisher, incarnation, serial, carried, _, arrived_us, _ in self.store.inbox()
        ]

    def _payload(self, held: HeldNotice) -> bytes | None:
        """The payload; None while it is being fetched."""
        carried = unwrapped(held.carried)
        if isinstance(carried, bytes):
            return carried
        return self.blobs.read(carried.root) if self.blobs.whole(carried.root) else None

    def file(self, held: HeldNotice) -> Path | None:
        """The file of a large payload; None for a small one. The file stays."""
        carried = unwrapped(held.carried)
        return self.blobs.path(carried.root) if isinstance(carried, Reference) else None

    async def _fetch_files(self, wait: float) -> None:
        """Fetch large payloads from the proxies: their publishers may be offline, and the client
        has no contact with them.
        """
        wanted = [
            each for held in self._open() if isinstance(each := unwrapped(held.carried), Reference)
        ]
        for each in wanted:
            near = tuple(Contact(self.name, proxy) for proxy in self.proxies)
            self._transfers.fetch(Reference(each.root, each.size, near[:HOLDERS], each.name))
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline and not all(
            self.blobs.whole(each.root) for each in wanted
        ):
            await asyncio.sleep(0.05)

    def stop_transfers(self) -> None:
        """Mark the notices that were handed out as done and stop all fetches. They resume when the
        client next goes online.
        """
        self._done()
        self._transfers.stop()

    async def cast(self, target: str, payload: bytes = b"", name: str = "") -> Receipt:
        """Let a proxy make this cast: the first one that answers. `ClientError` if none answers or
        it refuses.

        The request is stored before it is sent. If no result comes, `retry_pending_casts` repeats
        the request to the same proxy. However often it is repeated, it becomes one cast.
        """
        carried = wrapped(payload)
        if len(payload) > INLINE_MAX:
            carried = referring(self._transfers.publish(payload, name, []))
        proxy = await self._first_answering()
        number = randbits(62)
        self._put_pending(number, (text_of(proxy), target, carried))
        return await self._run_cast(number, proxy, target, carried)

    async def retry_pending_casts(self) -> list[Receipt]:
        """Repeat the requests without result and return the receipts that arrive. A refused request
        is given up.
        """
        found = []
        for number, (proxy, target, carried) in self._pending_casts().items():
            with contextlib.suppress(ClientError):
                found.append(await self._run_cast(number, address_of(proxy), target, carried))
        return found

    async def _run_cast(self, number: int, proxy: Address, target: str, carried: bytes) -> Receipt:
        answer = await self._ask(proxy, number, ProxyCastRequest(number, target, carried), CAST_S)
        if not isinstance(answer, ProxyCastResult):
            raise ClientError(
                f"{text_of(proxy)} sent no result for the cast; the client repeats the request "
                "when it next goes online"
            )
        self._put_pending(number, None)
        if answer.refused:
            raise ClientError(f"{text_of(proxy)} did not cast: {answer.refused}")
        return answer.receipt()

    async def _first_answering(self) -> Address:
        """The first proxy that answers."""
        for proxy in self.proxies:
            token = randbits(62)
            cursor = int.from_bytes(self.store.get(f"cursor {text_of(proxy)}") or b"", "big")
            if isinstance(await self._ask(proxy, token, FetchInbox(token, cursor)), InboxBatch):
                return proxy
        raise ClientError("no proxy answers: " + ", ".join(map(text_of, self.proxies)))

    def _pending_casts(self) -> dict[int, PendingCast]:
        return msgspec.msgpack.decode(
            self.store.get(PENDING_KEY) or b"\x80", type=dict[int, PendingCast]
        )

    def _put_pending(self, number: int, pending: PendingCast | None) -> None:
        """Store a request; None deletes it. Durable when this returns."""
        open_ = self._pending_casts()
        if pending is None:
            open_.pop(number, None)
        else:
            open_[number] = pending
        self.store.put_now(PENDING_KEY, msgspec.msgpack.encode(open_))

    async def _batches(self, proxy: Address) -> AsyncIterator[tuple[HeldNotice, ...]]:
        """All notices that a proxy holds after the cursor. The cursor advances when a batch is
        committed here.
        """
        key = f"cursor {text_of(proxy)}"
        while True:
            cursor = int.from_bytes(self.store.get(key) or b"", "big")
            token = randbits(62)
            answer = await self._ask(proxy, token, FetchInbox(token, cursor))
            if not isinstance(answer, InboxBatch):
                return
            yield answer.notices
            if not answer.notices:
                return
            self.store.put_now(key, answer.notices[-1].arrived_us.to_bytes(8, "big"))

    def _store_notice(self, held: HeldNotice) -> None:
        """Add a notice to the inbox; repeats are ignored."""
        self.store.notice(held.cast, "", held.carried, held.arrived_us)

    async def _ask(
        self,
        proxy: Address,
        token: int,
        request: StandInRequest | FetchInbox | ProxyCastRequest,
        wait_s: float | None = None,
    ) -> Answer | None:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[proxy, token] = future
        self.services.send(proxy, request)
        try:
            async with asyncio.timeout(ANSWER_S if wait_s is None else wait_s):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop((proxy, token), None)

    def _answered(self, hello: Hello, token: int, answer: Answer) -> None:
        future = self._asked.get((hello.address, token))
        if future is not None and not future.done():
            future.set_result(answer)

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            self._network,
            b"",
            self.name,
            (self.name.hex(), 0),
            1,
            self.clock.now_us(),
            "client",
        )
