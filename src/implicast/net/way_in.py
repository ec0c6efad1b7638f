"""The way into a network: a node joins, says again what it had said, and carries on with the casts of earlier lives."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from implicast.net.clock import REFUSE_S
from implicast.net.config import address_of, text_of
from implicast.net.errors import NodeError
from implicast.peer.contract import CastId

if TYPE_CHECKING:
    from implicast.net.node import Node

JOIN_S = 60.0


class WayIn:
    """How one node comes to be part of its network."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def join(self, introducers: list[str] | None = None) -> None:
        """Become part of the network, through addresses given or known from last time; none: be the first."""
        node = self._node
        given = introducers if introducers is not None else node.config.join
        addresses = [
            each
            for each in map(address_of, [*given, *node.keep.neighbours()])
            if each != node.address
        ]
        self._node.member()
        self._node.driver.ask("join", tuple(dict.fromkeys(addresses)))
        self._node.background(self._resume())
        try:
            async with asyncio.timeout(JOIN_S):
                await self.until(self._node.joined)
        except TimeoutError:
            parted = f"; {self._node.carrier.parted}" if self._node.carrier.parted else ""
            raise NodeError(
                f"nobody let this node in within {JOIN_S:.0f} s: tried "
                f"{', '.join(map(text_of, addresses)) or 'nobody'}{parted}"
            ) from None
        self._say_again()

    async def until(self, event: asyncio.Event) -> None:
        """Wait, as long as the node's clock and the authority allow it to begin; a `NodeError` when they do not."""
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
                f"{clock.said(clock.offset_s)}: set the machine's clock, then start again"
            )
        if self._node.name in self._node.revocations.names:
            raise NodeError("this node was revoked: its authority must admit a new key")

    def _say_again(self) -> None:
        """What the node had said before it fell is said again under its new life, where its peer has not done so."""
        member = self._node.member()
        if self._node.said is not None and not member.version:
            self._node.awaited.registering(member.upcoming_version())
            self._node.driver.ask("register", self._node.said)

    async def _resume(self) -> None:
        """Casts of an earlier life that nobody has settled are carried on, once this node is in."""
        await self._node.joined.wait()
        self._node.member()
        now_us = self._node.driver.tick()
        for incarnation, serial, target, payload, until_us in list(self._node.store.unsettled()):
            cast = CastId(self._node.name, incarnation, serial)
            if incarnation != self._node.incarnation and now_us < until_us:
                self._node.driver.ask("carry_on", cast, target, payload)
