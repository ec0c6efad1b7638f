"""The inbox of a node as its application sees it: a note for each cast that arrived, with its payload whole."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from implicast.net.blobs import INLINE_MAX, Blobs, Reference, referring, unwrapped, wrapped
from implicast.net.transfer import DEPUTIES_S, Transfers
from implicast.peer.contract import CastId, Contact

if TYPE_CHECKING:
    from implicast.net.node import Node


@dataclass(frozen=True, slots=True)
class Note:
    """A message in the inbox. It is handed out again, also after a crash, until it is done."""

    node: "Node"
    cast: CastId
    payload: bytes
    arrived_us: int
    name: str = ""
    """What the file was called, of a large payload."""
    path: Path | None = None
    """Where a large payload lies; it stays there until the note is done."""

    async def done(self) -> None:
        await self.node.done(self.cast)


class Payloads:
    """Between what an application sends and gets, and what casts carry."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.blobs = Blobs(node.directory)
        self.transfers = Transfers(self.blobs, node.services, self._contact, self._arrived)

    def _contact(self) -> Contact:
        return Contact(self._node.name, self._node.address)

    def _arrived(self) -> None:
        self._node.wake_readers()

    def carried(self, payload: bytes, name: str) -> bytes:
        """What a cast carries for this payload: itself, or a reference under which it is kept here."""
        if len(payload) <= INLINE_MAX:
            return wrapped(payload)
        most = self._node.config.payload_max
        return referring(self.transfers.publish(payload, name, self._node.carrier.links(), most))

    def cast(self, cast: CastId, carried: bytes) -> None:
        """A cast is on its way: when not all have fetched what it refers to after a while, deputies hold it too."""
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self._node.background(self._look_after(cast, reference))

    async def _look_after(self, cast: CastId, reference: Reference) -> None:
        await asyncio.sleep(DEPUTIES_S)
        have = self.transfers.served.get(reference.root, {})
        if len(have) < self._node.receipt(cast).expected:
            self.transfers.ask_deputies(reference)

    def noticed(self, carried: bytes) -> None:
        """A cast has arrived: what it refers to is fetched."""
        reference = unwrapped(carried)
        if isinstance(reference, Reference):
            self.transfers.fetch(reference, self._node.config.payload_max)

    def resume(self) -> None:
        """What was being fetched when the node fell is fetched on; what is too much is deleted."""
        needed: set[bytes] = set()
        for row in self._node.store.inbox():
            reference = unwrapped(bytes(row[3]))
            if isinstance(reference, Reference):
                needed.add(reference.root)
                self.transfers.fetch(reference, self._node.config.payload_max)
        self.blobs.tidy(needed)

    def ready(self, carried: bytes) -> bool:
        """Is the payload here? One that is larger than this node takes is never fetched, and counts as empty."""
        reference = unwrapped(carried)
        return (
            isinstance(reference, bytes)
            or self._too_large(reference)
            or self.blobs.whole(reference.root)
        )

    def whole(self, carried: bytes) -> tuple[bytes, str, Path | None]:
        """The payload, and of a large one its name and place."""
        reference = unwrapped(carried)
        if isinstance(reference, bytes):
            return reference, "", None
        if self._too_large(reference):
            return b"", reference.name, None
        return self.blobs.read(reference.root), reference.name, self.blobs.path(reference.root)

    def fetched(self, cast: CastId) -> dict[str, int] | None:
        """Of a cast of this node: how many have its large payload whole; None if it has none."""
        carried = self._node.store.carried(cast.incarnation, cast.serial)
        reference = unwrapped(carried) if carried is not None else b""
        if isinstance(reference, bytes):
            return None
        have = len(self.transfers.served.get(reference.root, {}))
        return {"have": have, "expected": self._node.receipt(cast).expected, "size": reference.size}

    def _too_large(self, reference: Reference) -> bool:
        return reference.size > self._node.config.payload_max


class Notes:
    """Hands out what has arrived and is not done."""

    def __init__(self, node: "Node", payloads: Payloads) -> None:
        self._node, self._payloads = node, payloads

    async def follow(self, on: bool) -> AsyncIterator[Note]:
        """Oldest first; then, if `on`, as they arrive. One whose payload is being fetched comes when it is whole."""
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
                yield Note(self._node, cast, payload, arrived_us, name, path)
            if ready:
                continue  # more may have come while these were being read
            if not on:
                return
            await self._node.until_arrived()
