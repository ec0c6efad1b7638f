"""What a node's peer delivers to its application: written down, and told to those who wait for it.

A receipt may count this very node: it is told when all that was delivered before it can be read.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from implicast.net.logs import log_event
from implicast.peer.contract import Message
from implicast.peer.events import Notice, Outlived, Settled

if TYPE_CHECKING:
    from implicast.net.node import Node


class Deliveries:
    """Takes the events of one peer."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._told_later: deque[tuple[Settled, asyncio.Future[None]]] = deque()

    def safe(self, events: list[Message]) -> "asyncio.Future[None] | None":
        """What the peer delivered. Notices are committed before anything leaves that the same input sent."""
        node = self._node
        driver, store = node.driver, node.store
        hold, settled = driver.careful, []
        for event in events:
            log_event(event)
            if isinstance(event, Notice):
                node.counters["delivered"] += 1
                store.notice(event.cast, "", event.payload, store.arrival_us(driver.host.now_us))
                node.payloads.noticed(event.payload)
                hold = True
            elif isinstance(event, Settled):
                store.settled(event, driver.host.now_us)
                settled.append(event)
            else:
                self._hear(event)
        safe = self._commit() if hold else None
        for event in settled:
            self._settle(event, safe or driver.unsafe())
        return safe

    def _commit(self) -> "asyncio.Future[None]":
        if self._node.driver.careful:
            self._node.store.touch()
        return self._node.store.commit()

    def _hear(self, event: Message) -> None:
        self._node.awaited.hear(event)
        self._node.subscriptions.hear(event)
        if isinstance(event, Outlived):
            self._node.live(event.incarnation)

    def _settle(self, settled: Settled, safe: "asyncio.Future[None] | None") -> None:
        """Tell it, in turn, when what was delivered before is safe."""
        if safe is None and not self._told_later:
            self._hear(settled)
        else:
            self._told_later.append((settled, safe or self._told_later[-1][1]))
            self._told_later[-1][1].add_done_callback(self._tell_in_turn)

    def _tell_in_turn(self, safe: "asyncio.Future[None]") -> None:
        while self._told_later and self._told_later[0][1].done():
            self._hear(self._told_later.popleft()[0])
