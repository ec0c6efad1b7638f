"""Heartbeats between nodes: each node periodically exchanges its clock and the number of its
revocation list with a few random neighbours.
"""

import asyncio
from random import Random
from typing import Protocol

from implicast.net.transport.clock import Clock
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.frames import Hello
from implicast.net.transport.services import Services
from implicast.peer.contract import Message
from implicast.peer.fields import Micros, Token

HEARTBEAT_S = 5.0
AT_ONCE = 3
"""Neighbours that receive a heartbeat in each round."""


class NodeHeartbeat(Message):
    """Asks for the receiver's clock and announces the number of the sender's revocation list."""

    wire = 0x0E03

    asked_us: Micros
    revocations: Token


class NodeHeartbeatAck(Message):
    """Returns the receiver's clock and the number of its revocation list."""

    wire = 0x0E04

    asked_us: Micros
    now_us: Micros
    revocations: Token


class NumberedList(Protocol):
    """The numbered list that heartbeats announce: the revocation list."""

    @property
    def number(self) -> int: ...

    def on_number(self, hello: Hello, number: int) -> None: ...


class NodeHeartbeats:
    """Sends heartbeats and answers those of other nodes."""

    def __init__(self, services: Services, clock: Clock, revocations: NumberedList) -> None:
        self._services, self._clock, self._revocations = services, clock, revocations
        self._chance = Random()
        services.register(NodeHeartbeat, self._on_heartbeat)
        services.register(NodeHeartbeatAck, self._on_ack)

    async def run(self, pool: ConnectionPool) -> None:
        """Send a round about every `HEARTBEAT_S` seconds until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_S * (0.5 + self._chance.random()))
            self.send_round(pool)

    def send_round(self, pool: ConnectionPool) -> None:
        near = pool.connected_nodes()
        for each in self._chance.sample(near, min(AT_ONCE, len(near))):
            self._services.send(
                each.address, NodeHeartbeat(self._clock.now_us(), self._revocations.number)
            )

    def _on_heartbeat(self, hello: Hello, heartbeat: NodeHeartbeat) -> None:
        ack = NodeHeartbeatAck(heartbeat.asked_us, self._clock.now_us(), self._revocations.number)
        self._services.send(hello.address, ack)
        self._revocations.on_number(hello, heartbeat.revocations)

    def _on_ack(self, hello: Hello, ack: NodeHeartbeatAck) -> None:
        waited_us = self._clock.now_us() - ack.asked_us
        # A later ack belongs to no recent heartbeat and would give a wrong offset.
        if 0 <= waited_us <= 10_000_000:
            self._clock.compare(hello.name, ack.now_us, waited_us)
        self._revocations.on_number(hello, ack.revocations)
