"""The inbox of a node as its application sees it: one message for each cast, with its complete
payload.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from implicast.net.application.events import Receipts
from implicast.net.application.transfer import EXTRA_HOLDERS_S, Transfers
from implicast.net.config import NodeConfig
from implicast.net.storage.blobs import INLINE_MAX, Blobs, Reference, referring, unwrapped, wrapped
from implicast.net.storage.store import Store
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.peer.contract import CastId


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message in the inbox. The node hands it out again, also after a crash, until it is marked
    done.
    """

    cast: CastId
    payload: bytes
    arrived_us: int
    name: str = ""
    """File name of a large payload."""
    path: Path | None = None
    """File that holds a large payload. It stays at least until the message is done."""
    mark_done: Callable[[CastId], Awaitable[None]] = field(kw_only=True, repr=False)

    async def done(self) -> None:
        await self.mark_done(self.cast)


class Arrivals:
    """Wakes the tasks that wait for new messages in the inbox."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()

    def wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def wait(self) -> None:
        await self._arrived.wait()


class Payloads:
    """Converts between the payloads of the application and the bytes that casts carry."""

    def __init__(
        self,
        blobs: Blobs,
        transfers: Transfers,
        store: Store,
        receipts: Receipts,
        pool: ConnectionPool,
        config: NodeConfig,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`spawn` runs a coroutine until the node stops."""
        self.blobs, self.transfers = blobs, transfers
        self._store, self._receipts, self._pool = store, receipts, pool
        self._config, self._spawn = config, spawn

    def carried(self, payload: bytes, name: str) -> bytes:
        """The bytes that a cast carries for a payload: the payload itself, or a reference to the
        copy stored here.
        """
        if len(payload) <= INLINE_MAX:
            return wrapped(payload)
        near = self._pool.connected_nodes()
        return referring(self.transfers.publish(payload, name, near, self._config.payload_max))

    def watch(self, cast: CastId, carried: bytes) -> None:
        """Ask extra holders to store the cast's large payload if not all receivers have fetched it
        after `EXTRA_HOLDERS_S`.
        """
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self._spawn(self._ask_extra_holders_later(cast, reference))

    async def _ask_extra_holders_later(self, cast: CastId, reference: Reference) -> None:
        await asyncio.sleep(EXTRA_HOLDERS_S)
        have = self.transfers.served.get(reference.root, {})
        if len(have) < self._receipts.of(cast).expected:
            self.transfers.ask_extra_holders(reference)

    def noticed(self, carried: bytes) -> None:
        """Start to fetch the large payload to which an arriving cast refers."""
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self.transfers.fetch(reference, self._config.payload_max)

    def resume(self) -> None:
        """Resume interrupted fetches, and evict payloads beyond the storage limit."""
        needed: set[bytes] = set()
        for row in self._store.inbox():
            reference = unwrapped(bytes(row[3]))
            if isinstance(reference, Reference):
                needed.add(reference.root)
                self.transfers.fetch(reference, self._config.payload_max)
        self.blobs.evict(needed)

    def ready(self, carried: bytes) -> bool:
        """True if the payload is complete. A payload larger than `payload_max` is never fetched and
        counts as complete and empty.
        """
        reference = unwrapped(carried)
        return (
            isinstance(reference, bytes)
            or self._too_large(reference)
            or self.blobs.whole(reference.root)
        )

    def whole(self, carried: bytes) -> tuple[bytes, str, Path | None]:
        """The payload; for a large one also its file name and its file."""
        reference = unwrapped(carried)
        if isinstance(reference, bytes):
            return reference, "", None
        if self._too_large(reference):
            return b"", reference.name, None
        return self.blobs.read(reference.root), reference.name, self.blobs.path(reference.root)

    def fetched(self, cast: CastId) -> dict[str, int] | None:
        """For a cast of this node: how many receivers have fetched its large payload; None if it
        has none.
        """
        carried = self._store.carried(cast.incarnation, cast.serial)
        reference = unwrapped(carried) if carried is not None else b""
        if isinstance(reference, bytes):
            return None
        have = len(self.transfers.served.get(reference.root, {}))
        return {"have": have, "expected": self._receipts.of(cast).expected, "size": reference.size}

    def _too_large(self, reference: Reference) -> bool:
        return reference.size > self._config.payload_max


class InboxReader:
    """Hands out the messages that are not done."""

    def __init__(
        self,
        store: Store,
        payloads: Payloads,
        arrivals: Arrivals,
        mark_done: Callable[[CastId], Awaitable[None]],
    ) -> None:
        self._store, self._payloads, self._arrivals = store, payloads, arrivals
        self._mark_done = mark_done

    async def follow(self, on: bool) -> AsyncIterator[InboxMessage]:
        """Yield messages, oldest first; with `on`, continue as they arrive. A message whose payload
        is being fetched is yielded when the payload is complete.
        """
        after_us, given = 0, set[CastId]()
        waiting: dict[CastId, tuple[bytes, int]] = {}
        while True:
            for publisher, incarnation, serial, carried, _, arrived_us, _ in self._store.inbox(
                after_us=after_us - 1
            ):
                cast = CastId(bytes(publisher), incarnation, serial)
                if cast not in given:
                    given.add(cast)
                    waiting[cast] = (bytes(carried), arrived_us)
                after_us = max(after_us, arrived_us)
            ready = [
                (cast, *each) for cast, each in waiting.items() if self._payloads.ready(each[0])
            ]
            for cast, carried, arrived_us in ready:
                del waiting[cast]
                payload, name, path = self._payloads.whole(carried)
                yield InboxMessage(cast, payload, arrived_us, name, path, mark_done=self._mark_done)
            if ready:
                continue  # more messages may have arrived while the caller processed these
            if not on:
                return
            await self._arrivals.wait()
