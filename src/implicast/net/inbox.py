"""The inbox of a node as its application sees it: one message for each cast, with its complete
payload.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from implicast.net.blobs import INLINE_MAX, Blobs, Reference, referring, unwrapped, wrapped
from implicast.net.transfer import EXTRA_HOLDERS_S, Transfers
from implicast.peer.contract import CastId, Contact

if TYPE_CHECKING:
    from implicast.net.node import Node


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A message in the inbox. The node hands it out again, also after a crash, until it is marked
    done.
    """

    node: "Node"
    cast: CastId
    payload: bytes
    arrived_us: int
    name: str = ""
    """File name of a large payload."""
    path: Path | None = None
    """File that holds a large payload. It stays at least until the message is done."""

    async def done(self) -> None:
        await self.node.done(self.cast)


class Payloads:
    """Converts between the payloads of the application and the bytes that casts carry."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.blobs = Blobs(node.directory)
        self.transfers = Transfers(self.blobs, node.services, self._contact, self._arrived)

    def _contact(self) -> Contact:
        return Contact(self._node.name, self._node.address)

    def _arrived(self) -> None:
        self._node.wake_readers()

    def carried(self, payload: bytes, name: str) -> bytes:
        """The bytes that a cast carries for a payload: the payload itself, or a reference to the
        copy stored here.
        """
        if len(payload) <= INLINE_MAX:
            return wrapped(payload)
        most = self._node.config.payload_max
        return referring(
            self.transfers.publish(payload, name, self._node.pool.connected_nodes(), most)
        )

    def cast(self, cast: CastId, carried: bytes) -> None:
        """Ask extra holders to store the cast's large payload if not all receivers have fetched it
        after `EXTRA_HOLDERS_S`.
        """
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self._node.background(self._ask_extra_holders_later(cast, reference))

    async def _ask_extra_holders_later(self, cast: CastId, reference: Reference) -> None:
        await asyncio.sleep(EXTRA_HOLDERS_S)
        have = self.transfers.served.get(reference.root, {})
        if len(have) < self._node.receipt(cast).expected:
            self.transfers.ask_extra_holders(reference)

    def noticed(self, carried: bytes) -> None:
        """Start to fetch the large payload to which an arriving cast refers."""
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self.transfers.fetch(reference, self._node.config.payload_max)

    def resume(self) -> None:
        """Resume interrupted fetches, and evict payloads beyond the storage limit."""
        needed: set[bytes] = set()
        for row in self._node.store.inbox():
            reference = unwrapped(bytes(row[3]))
            if isinstance(reference, Reference):
                needed.add(reference.root)
                self.transfers.fetch(reference, self._node.config.payload_max)
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
        carried = self._node.store.carried(cast.incarnation, cast.serial)
        reference = unwrapped(carried) if carried is not None else b""
        if isinstance(reference, bytes):
            return None
        have = len(self.transfers.served.get(reference.root, {}))
        return {"have": have, "expected": self._node.receipt(cast).expected, "size": reference.size}

    def _too_large(self, reference: Reference) -> bool:
        return reference.size > self._node.config.payload_max


class InboxReader:
    """Hands out the messages that are not done."""

    def __init__(self, node: "Node", payloads: Payloads) -> None:
        self._node, self._payloads = node, payloads

    async def follow(self, on: bool) -> AsyncIterator[InboxMessage]:
        """Yield messages, oldest first; with `on`, continue as they arrive. A message whose payload
        is being fetched is yielded when the payload is complete.
        """
        after_us, given = 0, set[CastId]()
        waiting: dict[CastId, tuple[bytes, int]] = {}
        while True:
            for publisher, incarnation, serial, carried, _, arrived_us, _ in self._node.store.inbox(
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
                yield InboxMessage(self._node, cast, payload, arrived_us, name, path)
            if ready:
                continue  # more messages may have arrived while the caller processed these
            if not on:
                return
            await self._node.until_arrived()
