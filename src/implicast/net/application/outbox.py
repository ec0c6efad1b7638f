"""Requests of a node's application: casts within the rate limit, complaints, estimates.

A cast is committed to the node's database before the peer receives it. A node that restarts resumes
the casts in its database (`bootstrap.py`).
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from implicast.language.attributes import Schema
from implicast.language.parse import parse
from implicast.language.target import Target
from implicast.net.application.driver import Driver
from implicast.net.application.events import PeerEvents, Receipt, Receipts
from implicast.net.application.inbox import Payloads
from implicast.net.errors import NodeError
from implicast.net.identity.own import OwnIdentity
from implicast.net.observation.cast_meter import CastMeter
from implicast.net.storage.durable_state import StateWriter
from implicast.net.storage.store import Store
from implicast.peer.bucket import Bucket
from implicast.peer.contract import CastId
from implicast.peer.events import Estimated, Settled
from implicast.peer.expiry import CLOCK_BOUND_US, LIFETIME_MAX_US
from implicast.peer.memory import Recent

REPEATS_MAX = 1_000
"""Casts that a publisher repeats for members that have lost them; the newest ones."""
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


@dataclass(frozen=True, slots=True)
class CastLimits:
    """The rate of casts that the application may make, and the attributes that targets may use."""

    casts_per_s: float
    casts_burst: float
    schema: Schema | None


class Outbox:
    """Makes the casts of one node."""

    def __init__(
        self,
        identity: OwnIdentity,
        driver: Driver,
        store: Store,
        state: StateWriter,
        payloads: Payloads,
        events: PeerEvents,
        receipts: Receipts,
        limits: CastLimits,
        meter: CastMeter,
    ) -> None:
        self._identity, self._driver, self._store, self._state = identity, driver, store, state
        self._payloads, self._events, self._receipts = payloads, events, receipts
        self._limits, self._meter = limits, meter
        self.bucket = Bucket(limits.casts_per_s, limits.casts_burst, time.monotonic())
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
        payload = self._payloads.carried(payload, name)
        complete = self._events.expect_receipt(cast)
        accepted = self._accept(cast, wanted, payload, verified, lifetime_us)
        refusal = await asyncio.shield(accepted)
        if refusal:
            raise NodeError(f"the cast was refused: {refusal}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._events.forget(cast)
        self._payloads.watch(cast, payload)
        return self._receipts.of(cast)

    def upcoming_cast(self) -> CastId:
        """The id of the next cast: after all casts that wait for their commit."""
        upcoming = self._driver.member().upcoming_cast()
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
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        now_us = self._driver.tick()
        until_us = now_us + lifetime_us
        self._store.cast(cast, target, payload, now_us, until_us)
        self._state.note_neighbours()  # a restarted node resumes the cast with them
        self._accepted[cast] = started
        self._meter.begin(cast)
        self._store.commit().add_done_callback(
            lambda committed: self._start(cast, target, payload, verified, until_us)
        )
        return started

    def _start(
        self, cast: CastId, target: Target, payload: bytes, verified: bool, until_us: int
    ) -> None:
        """Pass a committed cast to the peer. Commits end in order, so casts start in the order of
        their serial numbers.
        """
        started = self._accepted.pop(cast)
        if self._driver.stopped:
            started.set_exception(NodeError("the node stopped; it resumes the cast when it starts"))
            started.exception()  # the caller may have gone
            return
        before = self._events.refusals
        if self._driver.member().upcoming_cast() == cast:
            verb = "cast_verified" if verified else "cast"
            self._driver.call(verb, target, payload, until_us)
        else:  # the peer has advanced its incarnation since
            self._driver.call("carry_on", cast, target, payload, until_us)
        refused = self._events.refusals > before
        started.set_result(self._events.refused[-1].reason if refused else "")

    def resume(self) -> None:
        """Resume the unsettled casts of earlier incarnations that have not expired, and end those
        that have.
        """
        self.end_expired(0)
        for incarnation, serial, target, payload, until_us in list(self._store.unsettled()):
            cast = CastId(self._identity.name, incarnation, serial)
            if incarnation != self._identity.incarnation and self._driver.tick() < until_us:
                self._driver.call("carry_on", cast, target, payload, until_us)

    def repeatable(self, since_us: int) -> list[tuple[CastId, Target, bytes, int]]:
        """The settled casts made since a time (less the bound of clock offsets) that have not
        expired, at most `REPEATS_MAX`: identity, target, payload, expiry.
        """
        rows = self._store.settled_since(
            since_us - CLOCK_BOUND_US, self._driver.tick(), REPEATS_MAX
        )
        return [
            (CastId(self._identity.name, incarnation, serial), target, payload, until_us)
            for incarnation, serial, target, payload, until_us in rows
        ]

    def repeat(self, cast: CastId, target: Target, payload: bytes, until_us: int) -> None:
        """Make a cast again under its old identity, for members that have lost it."""
        if not self._driver.stopped:
            self._driver.call("carry_on", cast, target, payload, until_us)

    def end_expired(self, grace_us: int) -> None:
        """End the unsettled casts whose expiry passed more than `grace_us` ago: their receipt
        becomes final, with open members counted as unreachable.
        """
        now_us = self._driver.tick()
        for incarnation, serial in self._store.expired(now_us - grace_us):
            cast = CastId(self._identity.name, incarnation, serial)
            last = self._store.receipt(incarnation, serial) or Settled(cast, 0)
            self._store.settled(last.at_expiry(), now_us)
            self._events.on_event(last.at_expiry())

    def complain(self, cast: CastId) -> bool:
        """Send a complaint about a received cast (see `Node.complain`)."""
        self._driver.member()
        return bool(self._driver.call("complain", cast))

    async def estimate(self, target: str, wait: float) -> Estimated | None:
        """The estimated number of members that a target selects; None if the design gives no
        estimate.
        """
        self._driver.member()
        token = self._driver.call("estimate", self._read(target))
        return await self._events.estimate(token, wait) if token else None

    def _read(self, text: str) -> Target:
        found = self._targets.get(text)
        if found is None:
            found = self._targets[text] = parse(text, self._limits.schema)
        return found

    def spend(self) -> None:
        """Take one cast from the rate limit; `NodeError` if the limit is exceeded."""
        if not self.bucket.take(time.monotonic()):
            raise NodeError(
                f"{self.bucket.rate_per_s:g} casts per second are allowed, after a burst of "
                f"{self.bucket.burst:g}; try again in a moment"
            )
