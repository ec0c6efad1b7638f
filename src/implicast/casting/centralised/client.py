"""A member of CENTRALISED. It knows only the server, where it registers its description and its
subscriptions.
"""

from implicast.casting.central_subscriptions import (
    EventNotify,
    OwnSubscription,
    PublishEvent,
    Subscribe,
    SubscribeAck,
)
from implicast.casting.client_registry import KeepAliveAck
from implicast.casting.front_end_client import FrontEndClient
from implicast.casting.notifier import Acks, acknowledge_nothing
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Incarnation, Message, handles
from implicast.peer.events import Joined
from implicast.peer.lease import renewal_us
from implicast.peer.member import DurableState
from implicast.peer.name import version_of
from implicast.peer.requests import RetryPolicy
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

SUBSCRIBE = "subscribe"
RETRY = RetryPolicy(2_000_000, times=1 << 30)


class DurableClient(DurableState):
    """Durable state of a client, with its subscriptions."""

    subscriptions: tuple[OwnSubscription, ...] = ()


class CentralisedClient(FrontEndClient, Subscriber):
    """Registers, casts and subscribes through the server."""

    __slots__ = ("_last", "subscriptions")

    def __init__(self, site: Site) -> None:
        (server,) = site.infrastructure["server"]
        durable: DurableClient | None = site.durable_state
        keep_alive_us = renewal_us(int(float(site.parameters["lease_s"]) * 1e6))
        acknowledge = Acks(site).acknowledge if site.assured else acknowledge_nothing
        super().__init__(site, server, keep_alive_us, acknowledge)
        self.subscriptions = {
            each.subscription: each for each in (durable.subscriptions if durable else ())
        }
        self._last = max(self.subscriptions, default=0)
        self.requests.topic(SUBSCRIBE, RETRY)

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.host.deliver(Joined())
        assert self.front_end is not None, "there is one server, always the same"
        self.attach(self.front_end)
        self._send_subscriptions()

    def leave(self) -> None:
        for number in list(self.subscriptions):
            self.unsubscribe(number)
        super().leave()

    def subscribe(self, target: Target) -> int:
        self.start_keep_alive()
        self._last += 1
        self._set_subscription(self._last, 1, target)
        return self._last

    def update(self, number: int, target: Target | None) -> None:
        if number in self.subscriptions:
            self._set_subscription(number, self.subscriptions[number].version + 1, target)

    def unsubscribe(self, number: int) -> None:
        self.update(number, None)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        return self.request_cast(
            PublishEvent(cast, description, self.seal(cast, description, payload))
        )

    def durable_state(self) -> DurableClient:
        return DurableClient(
            self.durable_member(self.receiver.inbox.seen.blocks()),
            tuple(self.subscriptions.values()),
        )

    # --- subscriptions

    def _set_subscription(self, number: int, version: int, target: Target | None) -> None:
        if target is None:
            del self.subscriptions[number]
        else:
            self.subscriptions[number] = OwnSubscription(number, version, target)
        self._send_subscription(number, version, target)

    def _send_subscription(self, number: int, version: int, target: Target | None) -> None:
        assert self.front_end is not None, "there is one server, always the same"
        subscribe = Subscribe(self.name, self.incarnation, number, version, target)
        self.requests.ask(
            SUBSCRIBE, number, self.front_end, self.signing.sign_message(subscribe), subscribe
        )

    def _send_subscriptions(self) -> None:
        """Send all subscriptions: the server does not know them, or only those of an earlier
        incarnation.
        """
        for each in self.subscriptions.values():
            self._send_subscription(each.subscription, each.version, each.target)

    @handles(SubscribeAck)
    def on_subscribe_ack(self, sender: Address, durable: SubscribeAck) -> None:
        request = self.requests.open(SUBSCRIBE, durable.subscription)
        if request is None or sender != self.front_end:
            return
        subscribe = request.context
        assert isinstance(subscribe, Subscribe), "this topic has no other requests"
        if durable.incarnation > self.incarnation and not self.signing.signed:
            self._advance_beyond(durable.incarnation)
        elif (durable.incarnation, durable.version) == (subscribe.incarnation, subscribe.version):
            self.requests.answered(SUBSCRIBE, durable.subscription)
            number, gone = subscribe.subscription, subscribe.target is None
            self.host.deliver(
                Unsubscribed(number) if gone else Subscribed(number, subscribe.version)
            )

    def _advance_beyond(self, incarnation: Incarnation) -> None:
        """The server has a subscription of a later incarnation, which this member's disk does not
        know.
        """
        if incarnation > self.incarnation:
            self.advance_incarnation(version_of(incarnation, 0))
            self._send_subscriptions()

    def on_own_statement(self, message: Message) -> None:
        if isinstance(message, Subscribe):
            self._advance_beyond(message.incarnation)
        else:
            super().on_own_statement(message)

    @handles(KeepAliveAck)
    def on_keep_alive_ack(self, sender: Address, ack: KeepAliveAck) -> None:
        super().on_keep_alive_ack(sender, ack)
        if sender == self.front_end and ack.subscriptions < len(self.subscriptions):
            self._send_subscriptions()

    @handles(EventNotify)
    def on_event_notify(self, sender: Address, event: EventNotify) -> None:
        """Deliver only what a subscription selects now; its target may have changed in the
        meantime.
        """
        fits = any(each.target.selects(event.description) for each in self.subscriptions.values())
        outcome = self.receiver.inbox.admit(event.cast, event.description, event.payload, fits)
        self.receiver.acknowledge(sender, event.cast, outcome)
