"""Brings a node into its network: it joins, registers its description, resumes unfinished casts of
earlier incarnations, and leaves.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from implicast.language.attributes import Schema
from implicast.language.parse import description
from implicast.language.target import Description
from implicast.net.application.driver import Driver
from implicast.net.application.events import PeerEvents
from implicast.net.application.outbox import Outbox
from implicast.net.config import address_of, text_of
from implicast.net.errors import NodeError
from implicast.net.identity.own import OwnIdentity
from implicast.net.identity.revocation import Revocations
from implicast.net.storage.durable_state import StateWriter
from implicast.net.transport.clock import REFUSE_S, Clock
from implicast.net.transport.connection_pool import ConnectionPool

JOIN_S = 60.0
LEAVE_S = 30.0


class Admission:
    """Whether the network lets this node in, and why it does not."""

    def __init__(
        self, identity: OwnIdentity, clock: Clock, revocations: Revocations, pool: ConnectionPool
    ) -> None:
        self._identity, self._clock = identity, clock
        self._revocations, self._pool = revocations, pool

    def check(self) -> None:
        """Raises `NodeError` if the node's clock is too far off or the node is revoked."""
        off_s = self._clock.offset_s
        if abs(off_s) >= REFUSE_S:
            raise NodeError(
                f"{self._clock.describe_offset(off_s)}: set the machine's clock and restart"
            )
        if self.revoked:
            raise NodeError("this node was revoked: its authority must admit a new key")

    @property
    def revoked(self) -> bool:
        return self._identity.name in self._revocations.names

    @property
    def last_refusal(self) -> str:
        """The end of a sentence that says why another node was last refused; may be empty."""
        return f"; {self._pool.last_refusal}" if self._pool.last_refusal else ""

    async def until(self, event: asyncio.Event) -> None:
        """Wait for an event. Raises `NodeError` as soon as the node is not admitted."""
        while not event.is_set():
            self.check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await event.wait()
        self.check()


class NodeMembership:
    """Joins, describes and leaves for one node."""

    def __init__(
        self,
        driver: Driver,
        state: StateWriter,
        events: PeerEvents,
        admission: Admission,
        outbox: Outbox,
        schema: Schema | None,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        described: Description | None,
    ) -> None:
        """`described`: the description in the node's durable state. `spawn` runs a coroutine until
        the node stops.
        """
        self._driver, self._state, self._events = driver, state, events
        self._admission, self._outbox, self._schema = admission, outbox, schema
        self._spawn = spawn
        self.description = described

    async def join(self, addresses: list[str]) -> None:
        """Join through these addresses. Without any, the node starts a new network."""
        own = self._driver.address
        others = [each for each in map(address_of, addresses) if each != own]
        self._driver.member()
        self._driver.call("join", tuple(dict.fromkeys(others)))
        self._spawn(self._resume())
        try:
            async with asyncio.timeout(JOIN_S):
                await self._admission.until(self._events.joined)
        except TimeoutError:
            raise NodeError(
                f"this node could not join within {JOIN_S:.0f} s: tried "
                f"{', '.join(map(text_of, others)) or 'no address'}{self._admission.last_refusal}"
            ) from None
        self._register_again()

    def _register_again(self) -> None:
        """Register the description of the previous incarnation, unless the peer has done so
        already.
        """
        member = self._driver.member()
        if self.description is not None and not member.version:
            self._events.expect_registration(member.upcoming_version())
            self._driver.call("register", self.description)

    async def _resume(self) -> None:
        """Resume the unsettled casts of earlier incarnations, once this node has joined."""
        await self._events.joined.wait()
        self._driver.member()
        self._outbox.resume()

    async def describe(self, text: str, wait: float) -> None:
        """Register a description (see `Node.describe`)."""
        described = description(text, self._schema)
        member = self._driver.member()
        self.description = described
        self._events.expect_registration(member.upcoming_version())
        self._driver.call("register", described)
        self._state.write()
        try:
            async with asyncio.timeout(wait):
                await self._admission.until(self._events.registered)
            self._state.note_neighbours()
            await self._state.commit()
        except TimeoutError:
            raise NodeError(
                f"the registration was not complete within {wait:.0f} s; it continues"
            ) from None

    async def leave(self) -> None:
        """Hand over the data stored for other peers and leave (see `Node.leave`)."""
        self._driver.member()
        self._driver.call("leave")
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._events.left.wait()
        except TimeoutError:
            raise NodeError(
                f"no peer took over the data of this node within {LEAVE_S:.0f} s"
            ) from None
