"""Publish/subscribe through one server, as the yardstick: the server keeps every subscription, matches every event and
sends one copy to each subscriber that matches.

Two shares of peers, one for members and one for the server, so that `centralised.py` only has to name them.
"""

from typing import Any

from implicast.casting.inbox import Seen
from implicast.casting.standing import StandingTargets
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Host, Message, Part, handles
from implicast.peer.events import Notice
from implicast.peer.pending import Pending
from implicast.peer.subscriber import Subscribed, Unsubscribed

RETRY_US = 2_000_000
"""Patience with the server before a request is sent again."""


class Subscribe(Message):
    """A member words a subscription, anew or for the first time; `None`: it wants it no more."""

    number: int
    version: int
    target: Target | None


class SubscriptionKept(Message):
    """The server has this wording."""

    number: int
    version: int


class Announce(Message):
    """A member asks the server to tell whoever subscribed to things of this description."""

    cast: CastId
    description: Description
    payload: bytes


class Matched(Message):
    """The server tells a subscriber."""

    cast: CastId
    description: Description
    payload: bytes


class SubscribeLate(Message):
    """Rings when the server has not answered for a while."""


SUBSCRIPTION_KINDS: tuple[type, ...] = (Subscribe, SubscriptionKept, Announce, Matched)


class Desk(Part):
    """A member's own subscriptions."""

    __slots__ = ("_last", "_seen", "_unanswered", "server", "subscriptions")

    def __init__(self, address: Address, host: Host, server: Address) -> None:
        super().__init__(address, host)
        self.server = server
        self.subscriptions: dict[int, tuple[int, Target]] = {}
        self._last = 0
        self._seen: Seen | None = None
        self._unanswered: Pending[int, Subscribe] = Pending(host, SubscribeLate(), RETRY_US)

    def subscribe(self, target: Target) -> int:
        self._last += 1
        self._word(self._last, 1, target)
        return self._last

    def update(self, number: int, target: Target) -> None:
        if number in self.subscriptions:
            self._word(number, self.subscriptions[number][0] + 1, target)

    def unsubscribe(self, number: int) -> None:
        if number in self.subscriptions:
            version, _ = self.subscriptions.pop(number)
            self._ask(Subscribe(number, version + 1, None))

    def _word(self, number: int, version: int, target: Target) -> None:
        self.subscriptions[number] = (version, target)
        self._ask(Subscribe(number, version, target))

    def _ask(self, request: Subscribe) -> None:
        self._unanswered.ask(request.number, request)
        self.host.send(self.server, request)

    @handles(SubscriptionKept)
    def on_kept(self, sender: Address, kept: SubscriptionKept) -> None:
        request = self._unanswered.get(kept.number)
        if request is None or request.version != kept.version:
            return
        self._unanswered.answer(kept.number)
        if request.target is None:
            self.host.deliver(Unsubscribed(kept.number))
        else:
            self.host.deliver(Subscribed(kept.number, kept.version))

    @handles(SubscribeLate)
    def on_late(self, alarm: SubscribeLate) -> None:
        for _, request in self._unanswered.due():
            self._ask(request)

    @handles(Matched)
    def on_matched(self, sender: Address, matched: Matched) -> None:
        """At most once, and only what some subscription asks for now: it may have been reworded meanwhile."""
        if not any(target.selects(matched.description) for _, target in self.subscriptions.values()):
            return
        if self._seen is None:
            self._seen = Seen()
        if self._seen.first(matched.cast):
            self.host.deliver(Notice(matched.cast, matched.payload))


class SubscriptionServer(Part):
    """Everybody's subscriptions, at the server."""

    __slots__ = ("_standing", "_versions")

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self._standing: StandingTargets[tuple[Address, int]] = StandingTargets()
        self._versions: dict[tuple[Address, int], int] = {}

    @handles(Subscribe)
    def on_subscribe(self, sender: Address, subscribe: Subscribe) -> None:
        key = (sender, subscribe.number)
        if subscribe.version > self._versions.get(key, 0):
            self._versions[key] = subscribe.version
            if subscribe.target is None:
                self._standing.remove(key)
            else:
                self._standing.put(key, subscribe.target)
        self.host.send(sender, SubscriptionKept(subscribe.number, subscribe.version))

    @handles(Announce)
    def on_announce(self, sender: Address, announce: Announce) -> None:
        matched = Matched(announce.cast, announce.description, announce.payload)
        subscribers = dict.fromkeys(owner for owner, _ in self._standing.matching(announce.description))
        for subscriber in subscribers:
            self.host.send(subscriber, matched)

    def holdings(self) -> Any:
        return [(*key, target) for key, target in self._standing.items()]
