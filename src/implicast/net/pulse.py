"""The pulse between nodes: some neighbours at a time are asked the time, and told which list of the revoked one has."""

import asyncio
from random import Random

from implicast.net.carrier import Carrier
from implicast.net.clock import Clock
from implicast.net.frames import Hello
from implicast.net.revocation import Revocations
from implicast.net.services import Services
from implicast.peer.contract import Message
from implicast.peer.fields import Micros, Token

PULSE_S = 5.0
AT_ONCE = 3
"""Neighbours asked at each pulse."""


class Pulse(Message):
    """What time is it, and which list have you?"""

    wire = 0x0E03

    asked_us: Micros
    revocations: Token


class PulseAnswer(Message):
    """The time of the one who was asked, and its list."""

    wire = 0x0E04

    asked_us: Micros
    now_us: Micros
    revocations: Token


class Pulses:
    """Sends and answers them."""

    def __init__(self, services: Services, clock: Clock, revocations: Revocations) -> None:
        self._services, self._clock, self._revocations = services, clock, revocations
        self._chance = Random()
        services.offer(Pulse, self._asked)
        services.offer(PulseAnswer, self._answered)

    async def beat(self, carrier: Carrier) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(PULSE_S * (0.5 + self._chance.random()))
            self.once(carrier)

    def once(self, carrier: Carrier) -> None:
        near = carrier.links()
        for each in self._chance.sample(near, min(AT_ONCE, len(near))):
            self._services.send(each.address, Pulse(self._clock.now_us(), self._revocations.number))

    def _asked(self, hello: Hello, pulse: Pulse) -> None:
        answer = PulseAnswer(pulse.asked_us, self._clock.now_us(), self._revocations.number)
        self._services.send(hello.address, answer)
        self._revocations.known(hello, pulse.revocations)

    def _answered(self, hello: Hello, answer: PulseAnswer) -> None:
        waited_us = self._clock.now_us() - answer.asked_us
        if 0 <= waited_us <= 10_000_000:  # else it answers nothing that was asked lately
            self._clock.compare(hello.name, answer.now_us, waited_us)
        self._revocations.known(hello, answer.revocations)
