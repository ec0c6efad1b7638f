"""The other direction on a node: it subscribes with a target, and publishes what a description says.

In designs that turn the roles round (`chord-pubsub`, `opchord-pubsub`, `centralised`). What matches arrives in the
same inbox as casts. A peer keeps its subscriptions through a crash; here is kept how the application worded them.
"""

import asyncio
import contextlib
from typing import Protocol

import msgspec

from implicast.language.attributes import Schema
from implicast.language.parse import description, parse
from implicast.net.driver import Driver
from implicast.net.receipt import Awaited, Receipt
from implicast.net.store import Store
from implicast.peer.contract import CastId, Message, Peer
from implicast.peer.errors import LocalError
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

KEY = "subscriptions"


class SubscriptionError(LocalError):
    """What was asked cannot be done; the text says why."""


class Subscribing(Protocol):
    """What subscriptions need of their node."""

    peer: Peer | None
    driver: Driver
    store: Store
    awaited: Awaited
    schema: Schema | None

    def receipt(self, cast: CastId) -> Receipt: ...

    async def safe(self) -> None: ...


class Subscriptions:
    """What one node has subscribed to."""

    def __init__(self, node: Subscribing) -> None:
        self._node = node
        self._answers: dict[tuple[type[Message], int], asyncio.Event] = {}

    def all(self) -> dict[int, str]:
        """By number, as they were worded."""
        packed = self._node.store.get(KEY)
        return msgspec.msgpack.decode(packed, type=dict[int, str]) if packed else {}

    async def subscribe(self, target: str, wait: float) -> int:
        wanted = parse(target, self._node.schema)
        number: int = self._ask("subscribe", wanted)
        self._write({**self.all(), number: target})
        await self._answered(Subscribed, number, wait, "the subscription was not complete")
        await self._node.safe()
        return number

    async def unsubscribe(self, number: int, wait: float) -> None:
        known = self.all()
        if number not in known:
            there = ", ".join(f"{each} ({text})" for each, text in known.items()) or "none"
            raise SubscriptionError(f"there is no subscription {number}; there are: {there}")
        self._ask("unsubscribe", number)
        del known[number]
        self._write(known)
        await self._answered(
            Unsubscribed, number, wait, "the subscription was not forgotten by all"
        )
        await self._node.safe()

    async def publish(self, text: str, payload: bytes, wait: float) -> Receipt:
        """The receipt tells how many subscribers were notified, as far as the design tells it."""
        said = description(text, self._node.schema)
        cast = self._peer().upcoming_cast()
        complete = self._node.awaited.casting(cast)
        self._ask("publish", said, payload)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._node.awaited.forget(cast)
        return self._node.receipt(cast)

    def hear(self, event: Message) -> None:
        if isinstance(event, Subscribed | Unsubscribed):
            self._answers.setdefault((type(event), event.number), asyncio.Event()).set()

    def _peer(self) -> Subscriber:
        if not isinstance(self._node.peer, Subscriber):
            raise SubscriptionError(
                "this design has no subscriptions; centralised, chord-pubsub and opchord-pubsub do"
            )
        return self._node.peer

    def _ask(self, verb: str, *arguments: object) -> int:
        self._peer()
        before = self._node.awaited.refusals
        number = self._node.driver.ask(verb, *arguments)
        if self._node.awaited.refusals > before:
            raise SubscriptionError(f"{verb} was refused: {self._node.awaited.refused[-1].reason}")
        return number if isinstance(number, int) else 0

    async def _answered(
        self, kind: type[Message], number: int, wait: float, otherwise: str
    ) -> None:
        answer = self._answers.setdefault((kind, number), asyncio.Event())
        try:
            async with asyncio.timeout(wait):
                await answer.wait()
        except TimeoutError:
            raise SubscriptionError(f"{otherwise} within {wait:.0f} s; it goes on") from None
        finally:
            self._answers.pop((kind, number), None)

    def _write(self, known: dict[int, str]) -> None:
        self._node.store.put_now(KEY, msgspec.msgpack.encode(known))
