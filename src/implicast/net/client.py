"""A light client: its own key, its own inbox, no peer. Its proxies hear for it while it sleeps.

    async with Client.open("ann", ["a.example:7070", "b.example:7070"], network="lab") as client:
        await client.describe("gpu, eu")
        receipt = await client.cast("gpu & eu", b"hello")
        for held, payload in await client.fetch():
            ...

What was fetched is committed here before the proxy is told; a cast that comes from both proxies, or again, is dropped
by its id. It is handed out again, also after a crash, until the next `fetch` or the end. A client that moves to another
proxy takes its file with it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from pathlib import Path
from secrets import randbits
from typing import Self

import msgspec

from implicast.net.blobs import HOLDERS, INLINE_MAX, Blobs, Reference, referring, unwrapped, wrapped
from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.config import address_of, text_of
from implicast.net.counters import Counters
from implicast.net.errands import CastFor, CastTaken
from implicast.net.frames import PROTOCOL, Hello
from implicast.net.identity import contexts, name_in, name_of_key, own_key
from implicast.net.proxy import Enlist, Enlisted, Fetch, Fetched, Held, delegated
from implicast.net.receipt import Receipt
from implicast.net.services import Services
from implicast.net.store import Store
from implicast.net.transfer import Transfers
from implicast.peer.contract import NAME_BYTES, Address, CastId, Contact
from implicast.peer.errors import LocalError

ANSWER_S = 10.0
CAST_S = 30.0
"""How long a proxy may take for an errand; afterwards it is asked again when the client wakes."""
FILES_S = 60.0
"""How long a client waits for large payloads when it fetches; those that are not here then come the next time."""
Answer = Enlisted | Fetched | CastTaken
Errand = tuple[str, str, bytes]
"""The proxy that has it, the target, what the cast carries."""


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
        self._network = blake2b(
            network.encode(), person=b"network", digest_size=NAME_BYTES
        ).digest()
        self.clock = Clock(time.monotonic)
        tls = contexts(*(directory / each for each in ("node.key", "node.pem", "authority.pem")))
        self.services = Services(self.counters)
        self.carrier = Carrier(self._hello, lambda *told: None, self.counters, *tls, name_in)
        self.services.carrier = self.carrier
        self.carrier.served = self.services.receive
        self.services.offer(Enlisted, lambda hello, told: self._answered(hello, told.number, told))
        self.services.offer(Fetched, lambda hello, told: self._answered(hello, told.token, told))
        self.services.offer(CastTaken, lambda hello, told: self._answered(hello, told.number, told))
        self._asked: dict[tuple[Address, int], asyncio.Future[Answer]] = {}
        self._given: list[CastId] = []
        """Handed out, and not done yet."""
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
            client.transfers_stop()
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
            told = Enlist(
                key, certificate, enrolment, text, number, self._key.sign(unsigned.body())
            )
            answer = await self._ask(proxy, number, told)
            if not isinstance(answer, Enlisted) or answer.refused:
                said = answer.refused if isinstance(answer, Enlisted) else "does not answer"
                refused.append(f"{text_of(proxy)}: {said}")
        if len(refused) == len(self.proxies):
            raise ClientError("no proxy stands in for this client: " + "; ".join(refused))
        return len(self.proxies) - len(refused)

    async def fetch(self, wait: float = FILES_S) -> list[tuple[Held, bytes]]:
        """What is new at any proxy, oldest first, with its payload: each once. `wait`: so long for large payloads."""
        self._done()
        answered = 0
        for proxy in self.proxies:
            async for batch in self._batches(proxy):
                answered += 1
                for each in batch:
                    self._note(each)
                await self.store.committed()
        if not answered:
            raise ClientError("no proxy answers: " + ", ".join(map(text_of, self.proxies)))
        await self._fetch_files(wait)
        found = [
            (each, payload) for each in self._open() if (payload := self._payload(each)) is not None
        ]
        self._given = [each.cast for each, _ in found]
        return found

    def _done(self) -> None:
        """What was handed out is not handed out again."""
        for cast in self._given:
            self.store.done(cast, self.clock.now_us())
        self._given = []

    def _open(self) -> list[Held]:
        return [
            Held(CastId(bytes(publisher), incarnation, serial), arrived_us, bytes(carried))
            for publisher, incarnation, serial, carried, _, arrived_us, _ in self.store.inbox()
        ]

    def _payload(self, held: Held) -> bytes | None:
        """None: it is being fetched."""
        carried = unwrapped(held.carried)
        if isinstance(carried, bytes):
            return carried
        return self.blobs.read(carried.root) if self.blobs.whole(carried.root) else None

    def file(self, held: Held) -> Path | None:
        """Where a large payload lies; it stays there."""
        carried = unwrapped(held.carried)
        return self.blobs.path(carried.root) if isinstance(carried, Reference) else None

    async def _fetch_files(self, wait: float) -> None:
        """Large payloads, from the proxies: whoever cast them may be asleep, and is not known here."""
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

    def transfers_stop(self) -> None:
        """What was handed out is done; what is being fetched is fetched on when the client wakes again."""
        self._done()
        self._transfers.stop()

    async def cast(self, target: str, payload: bytes = b"", name: str = "") -> Receipt:
        """Let a proxy cast this: the first that answers. `ClientError`: none does, or it refuses.

        The errand is written down before it leaves. When no answer comes the same proxy is asked again by `errands`,
        now or when the client wakes: it becomes one cast.
        """
        carried = wrapped(payload)
        if len(payload) > INLINE_MAX:
            carried = referring(self._transfers.publish(payload, name, []))
        proxy = await self._awake()
        number = randbits(62)
        self._put_errand(number, (text_of(proxy), target, carried))
        return await self._run_errand(number, proxy, target, carried)

    async def errands(self) -> list[Receipt]:
        """Ask again for what was cast and not answered; the receipts that came. One that is refused is given up."""
        found = []
        for number, (proxy, target, carried) in self._errands().items():
            with contextlib.suppress(ClientError):
                found.append(await self._run_errand(number, address_of(proxy), target, carried))
        return found

    async def _run_errand(
        self, number: int, proxy: Address, target: str, carried: bytes
    ) -> Receipt:
        answer = await self._ask(proxy, number, CastFor(number, target, carried), CAST_S)
        if not isinstance(answer, CastTaken):
            raise ClientError(
                f"{text_of(proxy)} has not said what became of the cast; it is asked again when the "
                "client wakes"
            )
        self._put_errand(number, None)
        if answer.refused:
            raise ClientError(f"{text_of(proxy)} did not cast: {answer.refused}")
        return answer.receipt()

    async def _awake(self) -> Address:
        """The first proxy that answers."""
        for proxy in self.proxies:
            token = randbits(62)
            cursor = int.from_bytes(self.store.get(f"cursor {text_of(proxy)}") or b"", "big")
            if isinstance(await self._ask(proxy, token, Fetch(token, cursor)), Fetched):
                return proxy
        raise ClientError("no proxy answers: " + ", ".join(map(text_of, self.proxies)))

    def _errands(self) -> dict[int, Errand]:
        return msgspec.msgpack.decode(self.store.get("errands") or b"\x80", type=dict[int, Errand])

    def _put_errand(self, number: int, errand: Errand | None) -> None:
        """Safe when this returns; None: it is answered."""
        open_ = self._errands()
        if errand is None:
            open_.pop(number, None)
        else:
            open_[number] = errand
        self.store.put_now("errands", msgspec.msgpack.encode(open_))

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

    def _note(self, held: Held) -> None:
        """Once, whoever has it."""
        self.store.notice(held.cast, "", held.carried, held.arrived_us)

    async def _ask(
        self,
        proxy: Address,
        token: int,
        question: Enlist | Fetch | CastFor,
        wait_s: float | None = None,
    ) -> Answer | None:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[proxy, token] = future
        self.services.send(proxy, question)
        try:
            async with asyncio.timeout(ANSWER_S if wait_s is None else wait_s):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop((proxy, token), None)

    def _answered(self, hello: Hello, token: int, told: Answer) -> None:
        future = self._asked.get((hello.address, token))
        if future is not None and not future.done():
            future.set_result(told)

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
