"""Requests of a node's application: casts within the rate limit, complaints, estimates.

A cast is committed to the node's database before the peer receives it. A node that restarts resumes
the casts in its database (`bootstrap.py`).
"""

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
from implicast.peer.events import Estimated, Settled
from implicast.peer.expiry import LIFETIME_MAX_US
from implicast.peer.memory import Recent

if TYPE_CHECKING:
    from implicast.net.node import Node


TARGETS_MAX = 64
"""Parsed targets that a node caches. Most targets are used more than once."""


def lifetime_of(seconds: float) -> int:
    """A lifetime of a cast in microseconds; `NodeError` if it is too long or not positive."""
    if not 0 < seconds * 1e6 <= LIFETIME_MAX_US:
        raise NodeError(
            f"a cast cannot expire after {seconds:g} s: more than 0 s and at most "
            f"{LIFETIME_MAX_US // 1_000_000} s (30 days) are possible"
        )
    return int(seconds * 1e6)


class Outbox:
    """Makes the casts of one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.bucket = Bucket(node.config.casts_per_s, node.config.casts_burst, time.monotonic())
        self._targets: Recent[str, Target] = Recent(TARGETS_MAX)
        self._accepted: dict[CastId, asyncio.Future[str]] = {}
        """Casts that wait for their commit, in the order of their serial numbers."""

    async def cast(
        self, target: str, payload: bytes, wait: float, name: str, verified: bool, lifetime_us: int
    ) -> Receipt:
        """Send a payload to all members that the target selects (see `Node.cast`)."""
        wanted = self._read(target)
        cast = self.upcoming_cast()
        self.spend()
        payload = self._node.payloads.carried(payload, name)
        complete = self._node.events.expect_receipt(cast)
        accepted = self._accept(cast, wanted, payload, verified, lifetime_us)
        refusal = await asyncio.shield(accepted)
        if refusal:
            raise NodeError(f"the cast was refused: {refusal}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._node.events.forget(cast)
        self._node.payloads.cast(cast, payload)
        return self._node.receipt(cast)

    def upcoming_cast(self) -> CastId:
        """The id of the next cast: after all casts that wait for their commit."""
        upcoming = self._node.member().upcoming_cast()
        last = next(reversed(self._accepted), None)
        if last is None or last.incarnation != upcoming.incarnation:
            return upcoming
        return CastId(last.publisher, last.incarnation, last.serial + 1)

    async def until_started(self) -> None:
        """Wait until all accepted casts are committed and passed to the peer. Afterwards the peer
        numbers the next cast.
        """
        while self._accepted:
            await asyncio.wait(self._accepted.values())

    def _accept(
        self, cast: CastId, target: Target, payload: bytes, verified: bool, lifetime_us: int
    ) -> "asyncio.Future[str]":
        """Write a cast into the outbox, and pass it to the peer when it is committed. The peer
        sends no message of a cast that is not on disk, so after a crash a cast reaches all members
        that it selects, or none.

        The future is done when the peer has the cast. Its result is the reason of a refusal; empty
        if the peer accepted the cast. The cast is made also if the caller does not wait.
        """
        node = self._node
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        now_us = node.driver.tick()
        until_us = now_us + lifetime_us
        node.store.cast(cast, target, payload, now_us, until_us)
        node.state_store.note_neighbours(node.pool)  # a restarted node resumes the cast with them
        self._accepted[cast] = started
        node.store.commit().add_done_callback(
            lambda committed: self._start(cast, target, payload, verified, until_us)
        )
        return started

    def _start(
        self, cast: CastId, target: Target, payload: bytes, verified: bool, until_us: int
    ) -> None:
        """Pass a committed cast to the peer. Commits end in order, so casts start in the order of
        their serial numbers.
        """
        node, started = self._node, self._accepted.pop(cast)
        if node.driver.stopped:
            started.set_exception(NodeError("the node stopped; it resumes the cast when it starts"))
            started.exception()  # the caller may have gone
            return
        before = node.events.refusals
        if node.member().upcoming_cast() == cast:
            verb = "cast_verified" if verified else "cast"
            node.driver.call(verb, target, payload, until_us)
        else:  # the peer has advanced its incarnation since
            node.driver.call("carry_on", cast, target, payload, until_us)
        refused = node.events.refusals > before
        started.set_result(node.refused[-1].reason if refused else "")

    def resume(self) -> None:
        """Resume the unsettled casts of earlier incarnations that have not expired, and end those
        that have.
        """
        node = self._node
        self.end_expired(0)
        for incarnation, serial, target, payload, until_us in list(node.store.unsettled()):
            cast = CastId(node.name, incarnation, serial)
            if incarnation != node.incarnation and node.driver.tick() < until_us:
                node.driver.call("carry_on", cast, target, payload, until_us)

    def end_expired(self, grace_us: int) -> None:
        """End the unsettled casts whose expiry passed more than `grace_us` ago: their receipt
        becomes final, with open members counted as unreachable.
        """
        node = self._node
        now_us = node.driver.tick()
        for incarnation, serial in node.store.expired(now_us - grace_us):
            cast = CastId(node.name, incarnation, serial)
            last = node.store.receipt(incarnation, serial) or Settled(cast, 0)
            node.store.settled(last.at_expiry(), now_us)
            node.events.on_event(last.at_expiry())

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
