"""A light client: its own key, its own inbox, no peer. Its proxies hear for it while it sleeps.

    async with Client.open("ann", ["a.example:7070", "b.example:7070"], network="lab") as client:
        await client.describe("gpu, eu")
        for note in await client.fetch():
            ...

What was fetched is committed here before the proxy is told; a cast that comes from both proxies, or again, is dropped
by its id. A client that moves to another proxy takes its file with it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from pathlib import Path
from secrets import randbits
from typing import Self

from implicast.net.blobs import unwrapped
from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.config import address_of, text_of
from implicast.net.counters import Counters
from implicast.net.frames import PROTOCOL, Hello
from implicast.net.identity import contexts, name_in, name_of_key, own_key
from implicast.net.proxy import Enlist, Enlisted, Fetch, Fetched, Held, delegated
from implicast.net.services import Services
from implicast.net.store import Store
from implicast.peer.contract import NAME_BYTES, Address
from implicast.peer.errors import LocalError

ANSWER_S = 10.0


class ClientError(LocalError):
    """No proxy serves this client; the text says why."""


class Client:
    """One light client, awake."""

    def __init__(self, directory: Path, proxies: Sequence[str], network: str) -> None:
        self.directory = directory
        self.proxies: list[Address] = [address_of(each) for each in proxies]
        self.counters = Counters()
        self.store = Store(directory / "client.db")
        self._key = own_key(directory / "node.key")
        self.name = name_of_key(self._key.public_key())
        self._network = blake2b(network.encode(), person=b"network", digest_size=NAME_BYTES).digest()
        self.clock = Clock(time.monotonic)
        tls = contexts(*(directory / each for each in ("node.key", "node.pem", "authority.pem")))
        self.services = Services(self.counters)
        self.carrier = Carrier(self._hello, lambda *told: None, self.counters, *tls, name_in)
        self.services.carrier = self.carrier
        self.carrier.served = self.services.receive
        self.services.offer(Enlisted, lambda hello, told: self._answered(hello, told.number, told))
        self.services.offer(Fetched, lambda hello, told: self._answered(hello, told.token, told))
        self._asked: dict[tuple[Address, int], asyncio.Future[Enlisted | Fetched]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, directory: str | Path, proxies: Sequence[str], network: str) -> AsyncIterator[Self]:
        client = cls(Path(directory).expanduser(), proxies, network)
        try:
            yield client
        finally:
            await client.carrier.close()
            client.store.close()

    async def describe(self, text: str) -> int:
        """Hand the description, signed, to all proxies; how many took it. `ClientError` when none did."""
        number = int.from_bytes(self.store.get("number") or b"", "big") + 1
        self.store.put_now("number", number.to_bytes(8, "big"))
        refused: list[str] = []
        for rank, proxy in enumerate(self.proxies):
            key, certificate, enrolment = delegated(self.directory, rank)
            unsigned = Enlist(key, certificate, enrolment, text, number, b"")
            told = Enlist(key, certificate, enrolment, text, number, self._key.sign(unsigned.body()))
            answer = await self._ask(proxy, number, told)
            if not isinstance(answer, Enlisted) or answer.refused:
                said = answer.refused if isinstance(answer, Enlisted) else "does not answer"
                refused.append(f"{text_of(proxy)}: {said}")
        if len(refused) == len(self.proxies):
            raise ClientError("no proxy stands in for this client: " + "; ".join(refused))
        return len(self.proxies) - len(refused)

    async def fetch(self) -> list[tuple[Held, bytes]]:
        """What is new at any proxy, oldest first, with its payload: each once, for ever."""
        fresh: list[Held] = []
        answered = 0
        for proxy in self.proxies:
            async for batch in self._batches(proxy):
                answered += 1
                fresh += [each for each in batch if self._first(each)]
                await self.store.committed()
        if not answered:
            raise ClientError("no proxy answers: " + ", ".join(map(text_of, self.proxies)))
        fresh.sort(key=lambda each: each.arrived_us)
        return [(each, payload if isinstance(payload := unwrapped(each.carried), bytes) else b"") for each in fresh]

    async def _batches(self, proxy: Address) -> AsyncIterator[tuple[Held, ...]]:
        """All that a proxy has after the cursor. The cursor moves when what came is committed here."""
        key = f"cursor {text_of(proxy)}"
        while True:
            cursor = int.from_bytes(self.store.get(key) or b"", "big")
            token = randbits(62)
            answer = await self._ask(proxy, token, Fetch(token, cursor))
            if not isinstance(answer, Fetched):
                return
            yield answer.notices
            if not answer.notices:
                return
            self.store.put_now(key, answer.notices[-1].arrived_us.to_bytes(8, "big"))

    def _first(self, held: Held) -> bool:
        if self.store.has(held.cast):
            return False
        self.store.notice(held.cast, "", held.carried, held.arrived_us)
        return True

    async def _ask(self, proxy: Address, token: int, question: Enlist | Fetch) -> Enlisted | Fetched | None:
        future: asyncio.Future[Enlisted | Fetched] = asyncio.get_running_loop().create_future()
        self._asked[proxy, token] = future
        self.services.send(proxy, question)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop((proxy, token), None)

    def _answered(self, hello: Hello, token: int, told: Enlisted | Fetched) -> None:
        future = self._asked.get((hello.address, token))
        if future is not None and not future.done():
            future.set_result(told)

    def _hello(self) -> Hello:
        return Hello(PROTOCOL, self._network, b"", self.name, (self.name.hex(), 0), 1, self.clock.now_us(), "client")
