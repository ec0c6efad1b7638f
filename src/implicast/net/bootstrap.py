"""Brings a node into its network: it joins, registers its stored description again, and resumes
unfinished casts of earlier incarnations.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from implicast.net.clock import REFUSE_S
from implicast.net.config import address_of, text_of
from implicast.net.errors import NodeError

if TYPE_CHECKING:
    from implicast.net.node import Node

JOIN_S = 60.0


class Bootstrap:
    """Joins one node to its network."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def join(self, introducers: list[str] | None = None) -> None:
        """Join through `introducers` (default: `join` of the configuration) and the stored
        neighbours. Without any address the node starts a new network.
        """
        node = self._node
        given = introducers if introducers is not None else node.config.join
        addresses = [
            each
            for each in map(address_of, [*given, *node.state_store.neighbours()])
            if each != node.address
        ]
        self._node.member()
        self._node.driver.call("join", tuple(dict.fromkeys(addresses)))
        self._node.background(self._resume())
        try:
            async with asyncio.timeout(JOIN_S):
                await self.until(self._node.joined)
        except TimeoutError:
            last_refusal = (
                f"; {self._node.pool.last_refusal}" if self._node.pool.last_refusal else ""
            )
            raise NodeError(
                f"this node could not join within {JOIN_S:.0f} s: tried "
                f"{', '.join(map(text_of, addresses)) or 'no address'}{last_refusal}"
            ) from None
        self._register_again()

    async def until(self, event: asyncio.Event) -> None:
        """Wait for an event. Raises `NodeError` if the node's clock is too far off or the node is
        revoked.
        """
        while not event.is_set():
            self._allowed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await event.wait()

        self._allowed()

    def _allowed(self) -> None:
        clock = self._node.clock
        if abs(clock.offset_s) >= REFUSE_S:
            raise NodeError(
                f"{clock.describe_offset(clock.offset_s)}: set the machine's clock and restart"
            )
        if self._node.name in self._node.revocations.names:
            raise NodeError("this node was revoked: its authority must admit a new key")

    def _register_again(self) -> None:
        """Register the description of the previous incarnation, unless the peer has done so
        already.
        """
        member = self._node.member()
        if self._node.description is not None and not member.version:
            self._node.events.expect_registration(member.upcoming_version())
            self._node.driver.call("register", self._node.description)

    async def _resume(self) -> None:
        """Resume the unsettled casts of earlier incarnations, once this node has joined."""
        await self._node.joined.wait()
        self._node.member()
        self._node.outbox.resume()
