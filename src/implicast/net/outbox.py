"""Requests of a node's application: casts within the rate limit, complaints, estimates."""

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
"""Parsed targets that a node caches. Most targets are used more than once."""


class Outbox:
    """Makes the casts of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.bucket = Bucket(node.config.casts_per_s, node.config.casts_burst, time.monotonic())
        self._targets: Recent[str, Target] = Recent(TARGETS_MAX)

    async def cast(
        self, target: str, payload: bytes, wait: float, name: str, verified: bool
    ) -> Receipt:
        """Send a payload to all members that the target selects (see `Node.cast`)."""
        wanted = self._read(target)
        member = self._node.member()
        self.spend()
        payload = self._node.payloads.carried(payload, name)
        cast = member.upcoming_cast()
        before = self._node.events.refusals
        now_us = self._node.driver.tick()
        complete = self._node.events.expect_receipt(cast)
        self._node.store.cast(
            cast, wanted, payload, now_us, now_us + int(self._node.config.ttl_s * 1e6)
        )
        self._node.driver.call("cast_verified" if verified else "cast", wanted, payload)
        await self._node.store.committed()
        if self._node.events.refusals > before:
            raise NodeError(f"the cast was refused: {self._node.refused[-1].reason}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._node.events.forget(cast)
        self._node.payloads.cast(cast, payload)
        return self._node.receipt(cast)

    def complain(self, cast: CastId) -> bool:
        """Send a complaint about a received cast (see `Node.complain`)."""
        self._node.member()
        return bool(self._node.driver.call("complain", cast))

    async def estimate(self, target: str, wait: float) -> Estimated | None:
        """The estimated number of members that a target selects; None if the design gives no
        estimate.
        """
        self._node.member()
        token = self._node.driver.call("estimate", self._read(target))
        return await self._node.events.estimate(token, wait) if token else None

    def _read(self, text: str) -> Target:
        found = self._targets.get(text)
        if found is None:
            found = self._targets[text] = parse(text, self._node.schema)
        return found

    def spend(self) -> None:
        """Take one cast from the rate limit; `NodeError` if the limit is exceeded."""
        if not self.bucket.take(time.monotonic()):
            raise NodeError(
                f"{self.bucket.rate_per_s:g} casts per second are allowed, after a burst of "
                f"{self.bucket.burst:g}; try again in a moment"
            )
