"""Subscriptions of a node: it subscribes with a target and publishes with a description.

This works in designs that swap the roles of target and description (`chord-pubsub`,
`opchord-pubsub`, `centralised`). Matching publications arrive in the same inbox as casts. The
peer's durable state holds the subscriptions; the node's database holds the text with which the
application made them.
"""

import asyncio
import contextlib

import msgspec

from implicast.language.attributes import Schema
from implicast.language.parse import description, parse
from implicast.net.application.driver import Driver
from implicast.net.application.events import PeerEvents, Receipt, Receipts
from implicast.net.storage.durable_state import StateWriter
from implicast.net.storage.store import Store
from implicast.peer.contract import Message
from implicast.peer.errors import LocalError
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

KEY = "subscriptions"


class SubscriptionError(LocalError):
    """The request cannot be carried out; the text says why."""


class NodeSubscriptions:
    """The subscriptions of one node."""

    def __init__(
        self,
        driver: Driver,
        store: Store,
        state: StateWriter,
        events: PeerEvents,
        receipts: Receipts,
        schema: Schema | None,
    ) -> None:
        self._driver, self._store, self._state = driver, store, state
        self._events, self._receipts, self._schema = events, receipts, schema
        self._answers: dict[tuple[type[Message], int], asyncio.Event] = {}

    def all(self) -> dict[int, str]:
        """The texts of all subscriptions, by number."""
        packed = self._store.get(KEY)
        return msgspec.msgpack.decode(packed, type=dict[int, str]) if packed else {}

    async def subscribe(self, target: str, wait: float) -> int:
        wanted = parse(target, self._schema)
        number: int = self._ask("subscribe", wanted)
        self._write({**self.all(), number: target})
        await self._answered(Subscribed, number, wait, "the subscription was not complete")
        await self._state.commit()
        return number

    async def unsubscribe(self, number: int, wait: float) -> None:
        known = self.all()
        if number not in known:
            there = ", ".join(f"{each} ({text})" for each, text in known.items()) or "none"
            raise SubscriptionError(f"there is no subscription {number}; there are: {there}")
        self._ask("unsubscribe", number)
        del known[number]
        self._write(known)
        await self._answered(Unsubscribed, number, wait, "the cancellation was not complete")
        await self._state.commit()

    async def publish(self, text: str, payload: bytes, wait: float) -> Receipt:
        """Publish a payload. The receipt says how many subscribers were notified, as far as the
        design knows.
        """
        described = description(text, self._schema)
        cast = self._peer().upcoming_cast()
        complete = self._events.expect_receipt(cast)
        self._ask("publish", described, payload)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await complete.wait()
        self._events.forget(cast)
        return self._receipts.of(cast)

    def on_event(self, event: Message) -> None:
        if isinstance(event, Subscribed | Unsubscribed):
            self._answers.setdefault((type(event), event.number), asyncio.Event()).set()

    def _peer(self) -> Subscriber:
        if not isinstance(self._driver.peer, Subscriber):
            raise SubscriptionError(
                "this design has no subscriptions; centralised, chord-pubsub and opchord-pubsub do"
            )
        return self._driver.peer

    def _ask(self, verb: str, *arguments: object) -> int:
        self._peer()
        before = self._events.refusals
        number = self._driver.call(verb, *arguments)
        if self._events.refusals > before:
            raise SubscriptionError(f"{verb} was refused: {self._events.refused[-1].reason}")
        return number if isinstance(number, int) else 0

    async def _answered(
        self, kind: type[Message], number: int, wait: float, otherwise: str
    ) -> None:
        answer = self._answers.setdefault((kind, number), asyncio.Event())
        try:
            async with asyncio.timeout(wait):
                await answer.wait()
        except TimeoutError:
            raise SubscriptionError(f"{otherwise} within {wait:.0f} s; it continues") from None
        finally:
            self._answers.pop((kind, number), None)

    def _write(self, known: dict[int, str]) -> None:
        self._store.put_now(KEY, msgspec.msgpack.encode(known))
