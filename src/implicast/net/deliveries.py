"""Stores the events that a peer delivers and passes them to the waiting callers.

A receipt may count this node among the notified. So a receipt is passed on only when all earlier
notices are committed and can be read.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from implicast.net.logs import log_event
from implicast.peer.contract import Message
from implicast.peer.events import IncarnationAdvanced, Notice, Settled

if TYPE_CHECKING:
    from implicast.net.node import Node


class Deliveries:
    """Processes the events of one peer."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._waiting_receipts: deque[tuple[Settled, asyncio.Future[None]]] = deque()

    def commit_events(self, events: list[Message]) -> "asyncio.Future[None] | None":
        """Store events. Returns a future that is done when they are committed, or None if the
        input's messages need not wait: only notices, and everything in a `commit_first` node, must
        wait.
        """
        node = self._node
        driver, store = node.driver, node.store
        hold, settled = driver.commit_first, []
        for event in events:
            log_event(event)
            if isinstance(event, Notice):
                node.counters["delivered"] += 1
                arrival_us = store.arrival_us(driver.host.now_us)
                store.notice(event.cast, "", event.payload, arrival_us, event.until_us)
                node.payloads.noticed(event.payload)
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
        if self._node.driver.commit_first:
            self._node.store.touch()
        return self._node.store.commit()

    def _dispatch(self, event: Message) -> None:
        self._node.events.on_event(event)
        self._node.subscriptions.on_event(event)
        if isinstance(event, IncarnationAdvanced):
            self._node.set_incarnation(event.incarnation)

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
