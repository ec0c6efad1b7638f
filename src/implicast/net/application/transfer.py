"""Transfers large payloads between nodes in chunks: from the publisher, from extra holders, and
from other readers.

A reader asks a holder for the leaves, then for chunks, a few at once, each from a random holder. A
holder that does not answer is not asked again in the same attempt. The publisher learns which
readers have the complete payload and names them to later readers. Each reader receives the payload
once. If readers are still missing after `EXTRA_HOLDERS_S`, the publisher asks two more nodes to
fetch the payload, so that three nodes hold it if the publisher goes offline.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Annotated

from msgspec import Meta

from implicast.net.storage.blobs import (
    BLOB_MAX,
    CHUNK_BYTES,
    DIGEST_BYTES,
    HOLDERS,
    BlobError,
    Blobs,
    Reference,
    Root,
    leaves_of,
    root_of,
)
from implicast.net.transport.frames import Hello
from implicast.net.transport.services import Services
from implicast.peer.contract import Address, Contact, Message
from implicast.peer.errors import RemoteError
from implicast.peer.fields import COUNT_MAX, Count
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

AT_ONCE = 2
"""Payloads fetched at once."""
WINDOW = 4
"""Chunks of one payload requested at once."""
CHUNK_TIMEOUT_S = 5.0
"""Seconds that a holder may take for one chunk."""
BACK_OFF_S = (0.5, 30.0)
OTHERS_MAX = 8
SERVED_MAX = 256
"""Published payloads for which the publisher tracks who has them."""
EXTRA_HOLDERS_S = 10.0
"""Seconds after which extra holders are asked to fetch a payload that not all receivers have."""
CHUNKS_MAX = BLOB_MAX // CHUNK_BYTES


class LeavesRequest(Message):
    wire = 0x0E10
    root: Root


class LeavesReply(Message):
    """The leaves of a payload, and other nodes that have it complete."""

    wire = 0x0E11
    root: Root
    leaves: Annotated[bytes, Meta(max_length=4 * CHUNKS_MAX * DIGEST_BYTES)]
    others: Annotated[tuple[Contact, ...], Meta(max_length=OTHERS_MAX)]


class ChunkRequest(Message):
    wire = 0x0E12
    root: Root
    number: Count


class ChunkReply(Message):
    wire = 0x0E13
    root: Root
    number: Count
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class NotHeld(Message):
    """Negative answer: the node does not have the payload."""

    wire = 0x0E14
    root: Root
    number: Count


class PayloadComplete(Message):
    """A reader tells the publisher that it has the complete payload."""

    wire = 0x0E15
    root: Root


class HoldRequest(Message):
    """A publisher asks an extra holder to fetch and store a payload."""

    wire = 0x0E16
    reference: Reference


RequestKey = tuple[bytes, int]
LEAVES = COUNT_MAX
"""Takes the place of a chunk number in requests for the leaves."""


class Transfers:
    """Fetches payloads and serves them to other nodes."""

    def __init__(
        self,
        blobs: Blobs,
        services: Services,
        self_contact: Callable[[], Contact],
        arrived: Callable[[], None],
    ) -> None:
        """`arrived` is called when a payload is complete."""
        self._blobs, self._services, self._contact, self._arrived = (
            blobs,
            services,
            self_contact,
            arrived,
        )
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asked: dict[RequestKey, tuple[Address, asyncio.Future[Message]]] = {}
        self._fetching: dict[bytes, asyncio.Task[None]] = {}
        self.progress: dict[bytes, tuple[int, int]] = {}
        """For each payload being fetched: chunks here, chunks in all."""
        self.served: Recent[bytes, dict[bytes, Contact]] = Recent(SERVED_MAX)
        """For each payload published here: the nodes that have it complete."""
        self.served_bytes = 0
        self._chance = Random()
        services.register(LeavesRequest, self.on_leaves_request)
        services.register(ChunkRequest, self.on_chunk_request)
        services.register(LeavesReply, self._on_answer)
        services.register(ChunkReply, self._on_answer)
        services.register(NotHeld, self._on_answer)
        services.register(PayloadComplete, self.on_payload_complete)
        services.register(HoldRequest, self.on_hold_request)

    # --- serving

    def publish(
        self, data: bytes, name: str, candidates: list[Hello], most: int = BLOB_MAX
    ) -> Reference:
        """Store a payload and return the reference under which it can be fetched."""
        root, size = self._blobs.add(data, most)
        self.served.put(root, {})
        near = self._chance.sample(candidates, min(HOLDERS - 1, len(candidates)))
        holders = (self._contact(), *(Contact(each.name, each.address) for each in near))
        return Reference(root, size, holders, name[:200])

    def ask_extra_holders(self, reference: Reference) -> None:
        """Ask the other holders in the reference to fetch the payload."""
        for each in reference.holders[1:]:
            self._services.send(each.address, HoldRequest(reference))

    def on_leaves_request(self, hello: Hello, wanted: LeavesRequest) -> None:
        leaves = self._blobs.leaves(wanted.root) if self._blobs.whole(wanted.root) else None
        if leaves is None:
            self._services.send(hello.address, NotHeld(wanted.root, LEAVES))
            return
        known = [
            each
            for each in self.served.get(wanted.root, {}).values()
            if each.address != hello.address
        ]
        others = tuple(self._chance.sample(known, min(OTHERS_MAX, len(known))))
        self._services.send(hello.address, LeavesReply(wanted.root, b"".join(leaves), others))

    def on_chunk_request(self, hello: Hello, wanted: ChunkRequest) -> None:
        data = self._blobs.chunk(wanted.root, wanted.number)
        if data is None:
            self._services.send(hello.address, NotHeld(wanted.root, wanted.number))
        else:
            self.served_bytes += len(data)
            self._services.send(hello.address, ChunkReply(wanted.root, wanted.number, data))

    def on_payload_complete(self, hello: Hello, has: PayloadComplete) -> None:
        if has.root in self.served and len(self.served[has.root]) < 4096:
            self.served[has.root][hello.name] = Contact(hello.name, hello.address)

    def on_hold_request(self, hello: Hello, hold: HoldRequest) -> None:
        if hold.reference.holders and hold.reference.holders[0].name == hello.name:
            self.fetch(hold.reference)

    # --- fetching

    def fetch(self, reference: Reference, most: int = BLOB_MAX) -> None:
        """Fetch a payload in the background, unless it is here or larger than `most` bytes."""
        if reference.size > most or reference.root in self._fetching:
            return
        if self._blobs.whole(reference.root):
            self._tell_publisher(reference)
            return
        task = asyncio.ensure_future(self._fetch(reference))
        self._fetching[reference.root] = task
        task.add_done_callback(lambda _: self._fetching.pop(reference.root, None))

    def stop(self) -> None:
        for task in list(self._fetching.values()):
            task.cancel()

    async def _fetch(self, reference: Reference) -> None:
        """Fetch until the payload is complete, with exponential back-off between attempts."""
        wait_s, most_s = BACK_OFF_S
        while not self._blobs.whole(reference.root):
            try:
                async with self._places:
                    await self._try_fetch(reference)
            except (RemoteError, BlobError, TimeoutError, OSError) as error:
                log.debug("%s is not complete yet: %r", reference.root.hex()[:8], error)
                await asyncio.sleep(wait_s * (0.5 + self._chance.random()))
                wait_s = min(most_s, 2 * wait_s)
        self.progress.pop(reference.root, None)
        self._tell_publisher(reference)
        self._arrived()

    def _tell_publisher(self, reference: Reference) -> None:
        """Tell the publisher that the payload is complete here. The publisher may be this node."""
        own = self._contact()
        if reference.holders and reference.holders[0].name != own.name:
            self._services.send(reference.holders[0].address, PayloadComplete(reference.root))
        elif reference.root in self.served:
            self.served[reference.root][own.name] = own

    async def _try_fetch(self, reference: Reference) -> None:
        given, holder = await self._leaves(reference)
        leaves = tuple(
            given.leaves[at : at + DIGEST_BYTES] for at in range(0, len(given.leaves), DIGEST_BYTES)
        )
        if len(leaves) != reference.chunks or root_of(leaves, reference.size) != reference.root:
            raise RemoteError(f"{holder} sent the leaves of another payload")
        have = self._blobs.begin_fetch(reference, leaves)
        missing = [number for number in range(len(leaves)) if number not in have]
        self._chance.shuffle(missing)
        sources = [holder, *(each.address for each in given.others)]
        self.progress[reference.root] = (len(have), len(leaves))
        workers = [self._fetch_chunks(reference, leaves, missing, sources) for _ in range(WINDOW)]
        await asyncio.gather(*workers)
        if missing:
            raise RemoteError("no holder of the missing chunks is left")
        self._blobs.finish_fetch(reference)

    async def _leaves(self, reference: Reference) -> tuple[LeavesReply, Address]:
        for each in reference.holders:
            answer = await self._ask(
                (reference.root, LEAVES), each.address, LeavesRequest(reference.root)
            )
            if isinstance(answer, LeavesReply):
                return answer, each.address
        raise RemoteError("no holder has the payload")

    async def _fetch_chunks(
        self,
        reference: Reference,
        leaves: tuple[bytes, ...],
        missing: list[int],
        sources: list[Address],
    ) -> None:
        """Fetch missing chunks, one after the other, while there are sources."""
        while missing and sources:
            number, source = missing.pop(), self._chance.choice(sources)
            answer = await self._ask(
                (reference.root, number), source, ChunkRequest(reference.root, number)
            )
            if isinstance(answer, ChunkReply) and leaves_of(iter((answer.data,))) == (
                leaves[number],
            ):
                self._blobs.put_chunk(reference, number, answer.data)
                done, of = self.progress[reference.root]
                self.progress[reference.root] = (done + 1, of)
            else:
                missing.append(number)
                if source in sources:
                    sources.remove(source)

    async def _ask(self, key: RequestKey, to: Address, request: Message) -> Message | None:
        """Send a request to one holder and return its answer; None after `CHUNK_TIMEOUT_S`."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked[key] = (to, future)
        self._services.send(to, request)
        try:
            async with asyncio.timeout(CHUNK_TIMEOUT_S):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop(key, None)

    def _on_answer(self, hello: Hello, given: LeavesReply | ChunkReply | NotHeld) -> None:
        number = LEAVES if isinstance(given, LeavesReply) else given.number
        to, future = self._asked.get((given.root, number), (None, None))
        if future is not None and not future.done() and to == hello.address:
            future.set_result(given)
