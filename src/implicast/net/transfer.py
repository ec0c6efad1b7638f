"""Large payloads from node to node: asked for chunk by chunk, from the publisher, from its deputies, from each other.

A reader asks a holder for the leaves, then for chunks, a few at a time, each from a holder at random; one that does not
answer is passed over for a while. The publisher notes who has the payload whole and names those to later readers. A
group pays for the payload once per reader. Only when readers are missing for long does the publisher ask its two
deputies to fetch it too, so that three hold it while it sleeps.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Annotated

from msgspec import Meta

from implicast.net.blobs import (
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
from implicast.net.frames import Hello
from implicast.net.services import Services
from implicast.peer.contract import Address, Contact, Message
from implicast.peer.errors import RemoteError
from implicast.peer.fields import COUNT_MAX, Count
from implicast.peer.memory import Recent

log = logging.getLogger("implicast")

AT_ONCE = 2
"""Transfers at a time."""
WINDOW = 4
"""Chunks of one transfer that are asked for at a time."""
PATIENCE_S = 5.0
"""How long a holder may take for one chunk."""
BACK_OFF_S = (0.5, 30.0)
OTHERS_MAX = 8
SERVED_MAX = 256
"""Payloads of which a publisher knows who has them."""
DEPUTIES_S = 10.0
"""When not all have it after this time, deputies hold it too."""
CHUNKS_MAX = BLOB_MAX // CHUNK_BYTES


class LeavesWanted(Message):
    wire = 0x0E10
    root: Root


class LeavesGiven(Message):
    """The leaves, and who else has the payload."""

    wire = 0x0E11
    root: Root
    leaves: Annotated[bytes, Meta(max_length=4 * CHUNKS_MAX * DIGEST_BYTES)]
    others: Annotated[tuple[Contact, ...], Meta(max_length=OTHERS_MAX)]


class ChunkWanted(Message):
    wire = 0x0E12
    root: Root
    number: Count


class ChunkGiven(Message):
    wire = 0x0E13
    root: Root
    number: Count
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]


class NotHeld(Message):
    """The answer of one that does not have it."""

    wire = 0x0E14
    root: Root
    number: Count


class HasIt(Message):
    """A reader has the payload whole."""

    wire = 0x0E15
    root: Root


class HoldIt(Message):
    """A publisher asks a deputy to fetch and hold a payload."""

    wire = 0x0E16
    reference: Reference


Asked = tuple[bytes, int]
LEAVES = COUNT_MAX
"""Stands for the leaves where a chunk has its number."""


class Transfers:
    """Fetches and gives."""

    def __init__(
        self,
        blobs: Blobs,
        services: Services,
        self_contact: Callable[[], Contact],
        arrived: Callable[[], None],
    ) -> None:
        """`arrived` is called when a payload is whole."""
        self._blobs, self._services, self._contact, self._arrived = (
            blobs,
            services,
            self_contact,
            arrived,
        )
        self._places = asyncio.Semaphore(AT_ONCE)
        self._asked: dict[Asked, tuple[Address, asyncio.Future[Message]]] = {}
        self._fetching: dict[bytes, asyncio.Task[None]] = {}
        self.progress: dict[bytes, tuple[int, int]] = {}
        """Of what is being fetched: chunks here, chunks in all."""
        self.served: Recent[bytes, dict[bytes, Contact]] = Recent(SERVED_MAX)
        """Of what was published here: who has it whole."""
        self.given_bytes = 0
        self._chance = Random()
        services.offer(LeavesWanted, self._on_leaves_wanted)
        services.offer(ChunkWanted, self._on_chunk_wanted)
        services.offer(LeavesGiven, self._on_answer)
        services.offer(ChunkGiven, self._on_answer)
        services.offer(NotHeld, self._on_answer)
        services.offer(HasIt, self._on_has_it)
        services.offer(HoldIt, self._on_hold_it)

    # --- giving

    def publish(
        self, data: bytes, name: str, deputies: list[Hello], most: int = BLOB_MAX
    ) -> Reference:
        """Keep a payload, ready to be fetched."""
        root, size = self._blobs.add(data, most)
        self.served.put(root, {})
        near = self._chance.sample(deputies, min(HOLDERS - 1, len(deputies)))
        holders = (self._contact(), *(Contact(each.name, each.address) for each in near))
        return Reference(root, size, holders, name[:200])

    def ask_deputies(self, reference: Reference) -> None:
        """Let three hold it."""
        for each in reference.holders[1:]:
            self._services.send(each.address, HoldIt(reference))

    def _on_leaves_wanted(self, hello: Hello, wanted: LeavesWanted) -> None:
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
        self._services.send(hello.address, LeavesGiven(wanted.root, b"".join(leaves), others))

    def _on_chunk_wanted(self, hello: Hello, wanted: ChunkWanted) -> None:
        data = self._blobs.chunk(wanted.root, wanted.number)
        if data is None:
            self._services.send(hello.address, NotHeld(wanted.root, wanted.number))
        else:
            self.given_bytes += len(data)
            self._services.send(hello.address, ChunkGiven(wanted.root, wanted.number, data))

    def _on_has_it(self, hello: Hello, has: HasIt) -> None:
        if has.root in self.served and len(self.served[has.root]) < 4096:
            self.served[has.root][hello.name] = Contact(hello.name, hello.address)

    def _on_hold_it(self, hello: Hello, hold: HoldIt) -> None:
        if hold.reference.holders and hold.reference.holders[0].name == hello.name:
            self.fetch(hold.reference)

    # --- fetching

    def fetch(self, reference: Reference, most: int = BLOB_MAX) -> None:
        """Fetch a payload in the background, unless it is here or too large."""
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
        """Until it is whole; again and again, ever more slowly."""
        wait_s, most_s = BACK_OFF_S
        while not self._blobs.whole(reference.root):
            try:
                async with self._places:
                    await self._try(reference)
            except (RemoteError, BlobError, TimeoutError, OSError) as error:
                log.debug("%s is not here yet: %r", reference.root.hex()[:8], error)
                await asyncio.sleep(wait_s * (0.5 + self._chance.random()))
                wait_s = min(most_s, 2 * wait_s)
        self.progress.pop(reference.root, None)
        self._tell_publisher(reference)
        self._arrived()

    def _tell_publisher(self, reference: Reference) -> None:
        """That it is here whole; the publisher may be this node itself."""
        own = self._contact()
        if reference.holders and reference.holders[0].name != own.name:
            self._services.send(reference.holders[0].address, HasIt(reference.root))
        elif reference.root in self.served:
            self.served[reference.root][own.name] = own

    async def _try(self, reference: Reference) -> None:
        given, holder = await self._leaves(reference)
        leaves = tuple(
            given.leaves[at : at + DIGEST_BYTES] for at in range(0, len(given.leaves), DIGEST_BYTES)
        )
        if len(leaves) != reference.chunks or root_of(leaves, reference.size) != reference.root:
            raise RemoteError(f"{holder} gives leaves of something else")
        have = self._blobs.begin(reference, leaves)
        missing = [number for number in range(len(leaves)) if number not in have]
        self._chance.shuffle(missing)
        sources = [holder, *(each.address for each in given.others)]
        self.progress[reference.root] = (len(have), len(leaves))
        workers = [self._work(reference, leaves, missing, sources) for _ in range(WINDOW)]
        await asyncio.gather(*workers)
        if missing:
            raise RemoteError("no holder is left")
        self._blobs.finish(reference)

    async def _leaves(self, reference: Reference) -> tuple[LeavesGiven, Address]:
        for each in reference.holders:
            answer = await self._ask(
                (reference.root, LEAVES), each.address, LeavesWanted(reference.root)
            )
            if isinstance(answer, LeavesGiven):
                return answer, each.address
        raise RemoteError("none of the holders has it")

    async def _work(
        self,
        reference: Reference,
        leaves: tuple[bytes, ...],
        missing: list[int],
        sources: list[Address],
    ) -> None:
        """Take one chunk after the other from the list of those that are missing, while there are sources."""
        while missing and sources:
            number, source = missing.pop(), self._chance.choice(sources)
            answer = await self._ask(
                (reference.root, number), source, ChunkWanted(reference.root, number)
            )
            if isinstance(answer, ChunkGiven) and leaves_of(iter((answer.data,))) == (
                leaves[number],
            ):
                self._blobs.put(reference, number, answer.data)
                done, of = self.progress[reference.root]
                self.progress[reference.root] = (done + 1, of)
            else:
                missing.append(number)
                if source in sources:
                    sources.remove(source)

    async def _ask(self, key: Asked, to: Address, question: Message) -> Message | None:
        """The answer of one holder; None when it does not come."""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked[key] = (to, future)
        self._services.send(to, question)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop(key, None)

    def _on_answer(self, hello: Hello, given: LeavesGiven | ChunkGiven | NotHeld) -> None:
        number = LEAVES if isinstance(given, LeavesGiven) else given.number
        to, future = self._asked.get((given.root, number), (None, None))
        if future is not None and not future.done() and to == hello.address:
            future.set_result(given)
