"""Brokers and clients of a kind world: Listing 2 of the thesis (chapter 6).

A broker keeps its own clients' descriptions in an inverted index and, for each neighbour, a Bloom filter of the tags
registered beyond it (`overlay/backbone`). A cast goes from broker to broker wherever the filters let it, never back,
and from each broker to its own selected clients. Excluded tags and predicates cannot be seen in a filter: they are left
to the broker's index.

A description is complete when the whole backbone routes by it. One that is replaced or withdrawn leaves the index at
once; its tags stay in the filters until the next generation, which costs messages but never a wrong notice. Left out:
brokers that die (`alive.py`).
"""

from typing import Any

from implicast.casting.broker.messages import (
    Again,
    Forward,
    Got,
    Here,
    Notify,
    Probe,
    Publish,
    Register,
    Repeat,
    Stored,
)
from implicast.casting.inbox import Inbox, Seen
from implicast.language.index import Index
from implicast.language.parameters import Parameters
from implicast.language.target import Description, Target
from implicast.overlay.backbone.backbone import Backbone
from implicast.peer.contract import Address, CastId, Host, Message, Part, Peer, handles
from implicast.peer.events import Joined, Left, Registered, Withdrawn
from implicast.peer.member import Member
from implicast.peer.pending import Pending

PATIENCE_US = 5_000_000
"""How long a client waits for its broker: a registration crosses the backbone and back."""
REPEAT_US = 2_000_000
REPEATS_MAX = 10
"""A hop of a cast that is not confirmed is repeated every two seconds, ten times; then the receiver counts as gone."""
GONE_LEAST = 64
"""Fewer tags gone than this are not worth a new generation of filters."""

Hop = Publish | Forward | Notify


class Hops(Part):
    """Carries casts one hop; with `acknowledge`, repeats each hop until it is confirmed."""

    __slots__ = ("_open", "acknowledge")

    def __init__(self, address: Address, host: Host, acknowledge: bool) -> None:
        super().__init__(address, host)
        self.acknowledge = acknowledge
        self._open: Pending[tuple[Address, CastId], tuple[Hop, int]] = Pending(host, Repeat(), REPEAT_US)

    def send(self, to: Address, hop: Hop, left: int = REPEATS_MAX) -> None:
        if self.acknowledge and left:
            self._open.ask((to, hop.cast), (hop, left))
        self.host.send(to, hop)

    def confirm(self, sender: Address, hop: Hop) -> None:
        if self.acknowledge:
            self.host.send(sender, Got(hop.cast))

    @handles(Got)
    def on_got(self, sender: Address, got: Got) -> None:
        self._open.answer((sender, got.cast))

    @handles(Repeat)
    def on_repeat(self, alarm: Repeat) -> None:
        for (to, _), (hop, left) in self._open.due():
            self.send(to, hop, left - 1)


class Client(Member, parts={"hops": Hops}):
    """A member: it knows the brokers' addresses and, once it has joined, which of them is nearest."""

    __slots__ = ("broker", "brokers", "hops", "inbox", "leaving", "unanswered", "unsent")

    def __init__(
        self, address: Address, host: Host, brokers: list[int], broker: Address | None, acknowledge: bool
    ) -> None:
        super().__init__(address, host)
        self.brokers, self.broker = brokers, broker
        self.hops = Hops(address, host, acknowledge)
        self.inbox = Inbox(self)
        self.unanswered: Pending[str | int, Message] = Pending(host, Again(), PATIENCE_US)
        self.unsent: list[Message] = []
        """What the application asked for before the nearest broker was known."""
        self.leaving = False

    def join(self, introducers: tuple[Address, ...]) -> None:
        if self.broker is not None:
            self.host.deliver(Joined())
        else:
            self._probe()

    def leave(self) -> None:
        self.leaving = True
        self.withdraw()

    def register(self, description: Description) -> None:
        self._tell(description)

    def withdraw(self) -> None:
        self._tell(None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        self._send(Publish(cast, target, payload))
        return cast

    def holdings(self) -> Any:
        return (self.broker, self.description)

    def _probe(self) -> None:
        self.unanswered.ask("probe", Probe())
        for broker in self.brokers:
            self.host.send(broker, Probe())

    def _tell(self, description: Description | None) -> None:
        self.description = description
        version = self.next_version()
        self._register(Register(version, description))

    def _register(self, register: Register) -> None:
        self.unanswered.ask(register.version, register)
        self._send(register)

    def _send(self, message: Message) -> None:
        if self.broker is None:
            self.unsent.append(message)
        elif isinstance(message, Publish):
            self.hops.send(self.broker, message)
        else:
            self.host.send(self.broker, message)

    @handles(Here)
    def on_here(self, sender: Address, here: Here) -> None:
        if self.broker is not None:
            return
        self.unanswered.answer("probe")
        self.broker = sender
        waiting, self.unsent = self.unsent, []
        for message in waiting:
            self._send(message)
        self.host.deliver(Joined())

    @handles(Stored)
    def on_stored(self, sender: Address, stored: Stored) -> None:
        request = self.unanswered.answer(stored.version)
        if not isinstance(request, Register):
            return
        if request.description is not None:
            self.host.deliver(Registered(stored.version))
            return
        self.host.deliver(Withdrawn(stored.version))
        if self.leaving:
            self.host.deliver(Left())

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.hops.confirm(sender, notify)
        self.inbox.take(notify.cast, notify.target, notify.payload)

    @handles(Again)
    def on_again(self, alarm: Again) -> None:
        for _, request in self.unanswered.due():
            if isinstance(request, Probe) and self.broker is None:
                self._probe()
            elif isinstance(request, Register) and request.version == self.version:
                self.unanswered.ask(request.version, request)
                if self.broker is not None:  # otherwise it is still among the unsent
                    self._send(request)


class Broker(Peer, parts={"hops": Hops, "backbone": Backbone}):
    """Serves its clients as a server would, and is one node of the backbone."""

    __slots__ = ("backbone", "covering", "gone", "hops", "index", "seen", "versions")
    role = "broker"

    def __init__(
        self, address: int, host: Host, neighbours: tuple[int, ...], root: int, parameters: Parameters
    ) -> None:
        super().__init__(address, host)
        self.index: Index[Address] = Index()
        self.versions: dict[Address, int] = {}
        self.covering: dict[Address, int] = {}
        """Clients whose newest description the backbone does not route by yet."""
        self.gone = 0
        self.seen = Seen()
        self.hops = Hops(address, host, bool(parameters["acknowledge"]))
        self.backbone = Backbone(
            address,
            host,
            neighbours,
            root,
            int(parameters["expected_tags"]),
            float(parameters["routing_error"]),
            self.index.tags,
            self._covered,
        )

    def holdings(self) -> Any:
        clients = [(client, self.index.description(client)) for client in self.index]
        return (clients, self.backbone.holdings())

    @handles(Probe)
    def on_probe(self, sender: Address, probe: Probe) -> None:
        self.host.send(sender, Here())

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        known = self.versions.get(sender, 0)
        if register.version > known:
            self._store(sender, register)
        elif register.version == known and sender not in self.covering:
            self.host.send(sender, Stored(register.version))

    def _store(self, client: Address, register: Register) -> None:
        self.versions[client] = register.version
        before = self.index.remove(client)
        if register.description is not None:
            self.index.add(client, register.description)
            self.covering[client] = register.version
            self.backbone.say(register.description.tags, (client, register.version))
        else:
            self.covering.pop(client, None)
            self.host.send(client, Stored(register.version))
        if before is not None:
            self._lose(before)

    def _lose(self, before: Description) -> None:
        """Count tags that no client holds any more; when they are many, ask for filters without them."""
        self.gone += sum(not self.index.count(tag) for tag in before.tags)
        if self.gone > max(GONE_LEAST, len(self.index.tags()) // 2):
            self.gone = 0
            self.backbone.forget()

    def _covered(self, token: tuple[Address, int]) -> None:
        client, version = token
        if self.covering.get(client) == version:
            del self.covering[client]
            self.host.send(client, Stored(version))

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        self._carry(sender, publish)

    @handles(Forward)
    def on_forward(self, sender: Address, forward: Forward) -> None:
        self._carry(sender, forward)

    def _carry(self, sender: Address, hop: Publish | Forward) -> None:
        """Listing 2, `handle_cast`: own selected clients, and neighbours whose filter passes; never back."""
        self.hops.confirm(sender, hop)
        if not self.seen.first(hop.cast):
            return
        notify = Notify(hop.cast, hop.target, hop.payload)
        for client in self.index.select(hop.target):
            self.hops.send(client, notify)
        forward = Forward(hop.cast, hop.target, hop.payload)
        for neighbour in self.backbone.neighbours:
            if neighbour != sender and self.backbone.leads(neighbour, hop.target):
                self.hops.send(neighbour, forward)
