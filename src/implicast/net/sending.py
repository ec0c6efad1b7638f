"""What a node's application sends: casts, within its rate; complaints, and questions how many a target selects."""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from implicast.language.parse import parse
from implicast.language.target import Target
from implicast.net.errors import NodeError
from implicast.net.receipt import Receipt
from implicast.peer.bucket import Bucket
from implicast.peer.contract import CastId
from implicast.peer.events import Estimated
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.net.node import Node


TARGETS_MAX = 64
"""Texts of targets that a node remembers as read: most are cast to more than once."""


class Sending:
    """The casts of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._bucket = Bucket(node.config.casts_per_s, node.config.casts_burst, time.monotonic())
        self._targets: Recent[str, Target] = Recent(TARGETS_MAX)

    async def cast(
        self, target: str, payload: bytes, wait: float, name: str, verified: bool
    ) -> Receipt:
        """Send to all that the target describes (`Node.cast`)."""
        wanted = self._read(target)
        member = self._node.member()
        self.spend()
        payload = self._node.payloads.carried(payload, name)
        cast = member.upcoming_cast()
        before = self._node.awaited.refusals
        now_us = self._node.driver.tick()
        complete = self._node.awaited.casting(cast)
        self._node.store.cast(
            cast, wanted, payload, now_us, now_us + int(self._node.config.ttl_s * 1e6)
        )
        self._node.driver.ask("cast_verified" if verified else "cast", wanted, payload)
        await self._node.store.committed()
        if self._node.awaited.refusals > before:
            raise NodeError(f"the cast was refused: {self._node.refused[-1].reason}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._node.awaited.forget(cast)
        self._node.payloads.cast(cast, payload)
        return self._node.receipt(cast)

    def complain(self, cast: CastId) -> bool:
        """Say that a cast that came was not for this node's owner."""
        self._node.member()
        return bool(self._node.driver.ask("complain", cast))

    async def estimate(self, target: str, wait: float) -> Estimated | None:
        """About how many a target selects; None where the design cannot tell."""
        self._node.member()
        token = self._node.driver.ask("estimate", self._read(target))
        return await self._node.awaited.estimate(token, wait) if token else None

    def _read(self, text: str) -> Target:
        found = self._targets.get(text)
        if found is None:
            found = self._targets[text] = parse(text, self._node.schema)
        return found

    def spend(self) -> None:
        """A cast from the bucket, or a `NodeError`."""
        if not self._bucket.take(time.monotonic()):
            raise NodeError(
                f"{self._bucket.rate_per_s:g} casts a second are allowed, and a burst of "
                f"{self._bucket.burst:g}; try again in a moment"
            )
