"""What a node's peer delivers to its application: written down, and told to those who wait for it."""

import asyncio
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

    def safe(self, events: list[Message]) -> "asyncio.Future[None] | None":
        """What the peer delivered. Notices are committed before anything leaves that the same input sent."""
        hold = self._node.driver.careful
        for event in events:
            log_event(event)
            if isinstance(event, Notice):
                self._node.counters["delivered"] += 1
                arrived_us = self._node.store.arrival_us(self._node.driver.host.now_us)
                self._node.store.notice(event.cast, "", event.payload, arrived_us)
                self._node.payloads.noticed(event.payload)
                hold = True
            else:
                self._hear(event)
        if not hold:
            return None
        if self._node.driver.careful:
            self._node.store.touch()
        return self._node.store.commit()

    def _hear(self, event: Message) -> None:
        self._node.awaited.hear(event)
        self._node.subscriptions.hear(event)
        if isinstance(event, Settled):
            self._node.store.settled(event, self._node.driver.host.now_us)
        elif isinstance(event, Outlived):
            self._node.live(event.life)
