"""Receipts of casts, and the events for which the application waits."""

import asyncio
from dataclasses import dataclass
from typing import Any

from implicast.peer.contract import CastId, Incarnation, Message, Version
from implicast.peer.events import (
    Estimated,
    IncarnationAdvanced,
    Joined,
    Left,
    Refused,
    Registered,
    Settled,
    Slowed,
    Withdrawn,
)
from implicast.peer.memory import Recent

RECEIPTS_MAX = 4_096
"""Receipts kept in memory. Older ones are read from the database."""
REFUSED_MAX = 64


@dataclass(frozen=True, slots=True)
class Receipt:
    """The known result of a cast. Always expected = notified + declined + unreachable + open.

    `uncertain` counts regions of the overlay whose members are not known. It stands outside the sum.
    """

    cast: CastId
    expected: int
    notified: int
    declined: int
    unreachable: int
    open: int
    silent: tuple[str, ...]
    """Names of some unreachable members."""
    known: bool
    """False if no result has arrived yet."""
    uncertain: int = 0

    @classmethod
    def of(cls, cast: CastId, settled: Settled | None) -> "Receipt":
        if settled is None:
            return cls(cast, 0, 0, 0, 0, 0, (), False)
        counts = (
            settled.expected,
            settled.notified,
            settled.declined,
            settled.unreachable,
            settled.open,
        )
        silent = tuple(name.hex() for name in settled.silent)
        return cls(cast, *counts, silent, True, settled.uncertain)

    @property
    def complete(self) -> bool:
        """Whether every selected member is counted: nothing is open and no region uncertain."""
        return self.known and not self.open and not self.uncertain

    def described(self) -> dict[str, Any]:
        named = f"{self.cast.publisher.hex()}.{self.cast.incarnation}.{self.cast.serial}"
        counts = {
            each: getattr(self, each)
            for each in ("expected", "notified", "declined", "unreachable", "open", "uncertain")
        }
        return {"cast": named, **counts, "silent": list(self.silent), "complete": self.complete}


class PeerEvents:
    """The events that a peer has delivered, and the callers that wait for them."""

    def __init__(self) -> None:
        self.joined, self.left, self.registered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.receipts: Recent[CastId, Settled] = Recent(RECEIPTS_MAX)
        self.refused: list[Refused] = []
        self.refusals = 0
        self.version: Version = 0
        """Version of the description to which `registered` refers."""
        self.outlived: Incarnation = 0
        """The incarnation with which the node continued after others knew a later one; 0 if that
        has not happened.
        """
        self.slowed_us = 0
        """Time until which peers decline this node's casts to large groups, because of complaints.
        """
        self._settled: dict[CastId, asyncio.Event] = {}
        self._estimates: dict[int, asyncio.Future[Estimated]] = {}

    def expect_registration(self, version: Version) -> None:
        """A registration of this version starts."""
        self.registered.clear()
        self.version = version

    def expect_receipt(self, cast: CastId) -> asyncio.Event:
        """An event that is set when the receipt of a cast is complete."""
        return self._settled.setdefault(cast, asyncio.Event())

    def forget(self, cast: CastId) -> None:
        self._settled.pop(cast, None)

    async def estimate(self, token: int, wait: float) -> Estimated | None:
        future = self._estimates[token] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(wait):
                found: Estimated = await future
                return found
        except TimeoutError:
            return None
        finally:
            self._estimates.pop(token, None)

    def _settle(self, event: Settled) -> None:
        self.receipts[event.cast] = event
        if event.cast in self._settled and not event.open:
            self._settled[event.cast].set()

    def on_event(self, event: Message) -> None:
        if isinstance(event, Settled):
            self._settle(event)
        elif isinstance(event, Slowed):
            self.slowed_us = max(self.slowed_us, event.until_us)
        elif isinstance(event, Registered | Withdrawn):
            if event.version >= self.version:
                self.registered.set()
        elif isinstance(event, IncarnationAdvanced):
            self.outlived, self.version = event.incarnation, event.version
        elif isinstance(event, Joined):
            self.joined.set()
        elif isinstance(event, Left):
            self.left.set()
        elif isinstance(event, Estimated) and event.token in self._estimates:
            self._estimates[event.token].set_result(event)
        elif isinstance(event, Refused):
            self.refused = [*self.refused[1 - REFUSED_MAX :], event]
            self.refusals += 1
