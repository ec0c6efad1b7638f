"""Receipts of casts, the events that a peer delivers, and the callers that wait for them.

A receipt may count this node among the notified. So a receipt is passed on only when all earlier
notices are committed and can be read.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from implicast.net.application.driver import Driver
from implicast.net.observation.logs import log_event
from implicast.net.storage.store import Store
from implicast.net.transport.counters import Counters
from implicast.peer.contract import CastId, Incarnation, Message, Version
from implicast.peer.events import (
    Estimated,
    IncarnationAdvanced,
    Joined,
    Left,
    Notice,
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


class Receipts:
    """The newest receipt of each cast of this node, from memory or from the database."""

    def __init__(self, events: PeerEvents, store: Store) -> None:
        self._events, self._store = events, store

    def settled(self, cast: CastId) -> Settled | None:
        written = self._events.receipts.get(cast)
        return written or self._store.receipt(cast.incarnation, cast.serial)

    def of(self, cast: CastId) -> Receipt:
        return Receipt.of(cast, self.settled(cast))


EventListener = Callable[[Message], None]
"""Called with each event that the peer delivers, except notices."""


class Deliveries:
    """Stores the events of one peer and passes them on."""

    def __init__(
        self,
        driver: Driver,
        store: Store,
        counters: Counters,
        noticed: Callable[[bytes], None],
        listeners: Sequence[EventListener],
    ) -> None:
        """`noticed` is called with the bytes that each arriving cast carries."""
        self._driver, self._store, self._counters = driver, store, counters
        self._noticed = noticed
        self._listeners = tuple(listeners)
        self._waiting_receipts: deque[tuple[Settled, asyncio.Future[None]]] = deque()

    def commit_events(self, events: list[Message]) -> "asyncio.Future[None] | None":
        """Store events. Returns a future that is done when they are committed, or None if the
        input's messages need not wait: only notices, and everything in a `commit_first` node, must
        wait.
        """
        driver, store = self._driver, self._store
        hold, settled = driver.commit_first, []
        for event in events:
            log_event(event)
            if isinstance(event, Notice):
                self._counters["delivered"] += 1
                arrival_us = store.arrival_us(driver.host.now_us)
                store.notice(event.cast, "", event.payload, arrival_us, event.until_us)
                self._noticed(event.payload)
                hold = True
            elif isinstance(event, Settled):
                store.settled(event, driver.host.now_us)
                settled.append(event)
            else:
                self._dispatch(event)
        safe = self._commit() if hold else None
        for event in settled:
            self._dispatch_receipt(event, safe or driver.pending_commit())
        return safe

    def _commit(self) -> "asyncio.Future[None]":
        if self._driver.commit_first:
            self._store.touch()
        return self._store.commit()

    def _dispatch(self, event: Message) -> None:
        for listener in self._listeners:
            listener(event)

    def _dispatch_receipt(self, settled: Settled, safe: "asyncio.Future[None] | None") -> None:
        """Pass a receipt on, in order, once the notices delivered before it are committed."""
        if safe is None and not self._waiting_receipts:
            self._dispatch(settled)
        else:
            self._waiting_receipts.append((settled, safe or self._waiting_receipts[-1][1]))
            self._waiting_receipts[-1][1].add_done_callback(self._dispatch_waiting)

    def _dispatch_waiting(self, safe: "asyncio.Future[None]") -> None:
        while self._waiting_receipts and self._waiting_receipts[0][1].done():
            self._dispatch(self._waiting_receipts.popleft()[0])
