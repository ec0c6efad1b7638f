"""Server and clients of a kind world, as in the thesis: nobody dies, and notifications are sent once.

The server answers a cast from an inverted index, never by scanning. A member that describes itself anew may be told by
the server of a cast that its newest description no longer fits, or hear of one cast twice when messages are repeated;
members drop both.
"""

from typing import Any

from implicast.casting.central_subscriptions import Announce, Desk, SubscriptionServer
from implicast.casting.centralised.messages import Accepted, Again, Notify, Publish, Register, Stored
from implicast.casting.inbox import Inbox
from implicast.language.index import Index
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, CastId, Host, Message, Peer, handles
from implicast.peer.events import Joined, Left, Registered, Withdrawn
from implicast.peer.pending import Pending
from implicast.peer.subscriber import Subscriber

RETRY_US = 2_000_000
"""Patience with the server before a request is sent again."""


class Client(Subscriber, parts={"desk": Desk}):
    """A member: all it knows is the server."""

    __slots__ = ("acknowledge", "desk", "inbox", "server", "unanswered")

    def __init__(self, address: Address, host: Host, server: Address, acknowledge: bool) -> None:
        super().__init__(address, host)
        self.server = server
        self.acknowledge = acknowledge
        self.inbox = Inbox(self)
        self.desk = Desk(address, host, server)
        self.unanswered: Pending[int | CastId, Message] = Pending(host, Again(), RETRY_US)

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.host.deliver(Joined())

    def leave(self) -> None:
        self.withdraw()
        for number in list(self.desk.subscriptions):
            self.desk.unsubscribe(number)
        self.host.deliver(Left())

    def register(self, description: Description) -> None:
        self._tell(description)

    def withdraw(self) -> None:
        self._tell(None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        self._ask(cast, Publish(cast, target, payload), again=self.acknowledge)
        return cast

    def subscribe(self, target: Target) -> int:
        return self.desk.subscribe(target)

    def update(self, number: int, target: Target) -> None:
        self.desk.update(number, target)

    def unsubscribe(self, number: int) -> None:
        self.desk.unsubscribe(number)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        self.host.send(self.server, Announce(cast, description, payload))
        return cast

    def holdings(self) -> Any:
        return (self.server,)

    def _tell(self, description: Description | None) -> None:
        self.description = description
        version = self.next_version()
        self._ask(version, Register(version, description), again=True)

    def _ask(self, key: int | CastId, request: Message, again: bool) -> None:
        if again:
            self.unanswered.ask(key, request)
        self.host.send(self.server, request)

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        request = self.unanswered.answer(stored.version)
        if isinstance(request, Register):
            done = Registered if request.description is not None else Withdrawn
            self.host.deliver(done(stored.version))

    @handles(Accepted)
    def on_accepted(self, sender: Address, accepted: Accepted) -> None:
        self.unanswered.answer(accepted.cast)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.inbox.take(notify.cast, notify.target, notify.payload)

    @handles(Again)
    def on_again(self, alarm: Again) -> None:
        for key, request in self.unanswered.due():
            if not isinstance(request, Register) or request.version == self.version:
                self._ask(key, request, again=True)


class Server(Peer, parts={"subscriptions": SubscriptionServer}):
    """Keeps all descriptions and resolves all casts."""

    __slots__ = ("acknowledge", "index", "subscriptions", "versions")
    role = "server"

    def __init__(self, address: Address, host: Host, acknowledge: bool) -> None:
        super().__init__(address, host)
        self.acknowledge = acknowledge
        self.index: Index[Address] = Index()
        self.versions: dict[Address, int] = {}
        self.subscriptions = SubscriptionServer(address, host)

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        if register.version > self.versions.get(sender, 0):
            self.versions[sender] = register.version
            self.index.remove(sender)
            if register.description is not None:
                self.index.add(sender, register.description)
        self.host.send(sender, Stored(register.version))

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        notify = Notify(publish.cast, publish.target, publish.payload)
        for member in self.index.select(publish.target):
            self.host.send(member, notify)
        if self.acknowledge:
            self.host.send(sender, Accepted(publish.cast))

    def holdings(self) -> Any:
        described = [(member, self.index.description(member)) for member in self.index]
        return [*described, *self.subscriptions.holdings()]
