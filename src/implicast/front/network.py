"""A network in one process, whose time moves by itself: the same peers as on a real one, in the
deterministic world.

    net = Network("dht")
    ann = net.peer("samba, football", name="ann")
    bob = net.peer("jazz, football", name="bob")
    receipt = net.cast("(samba | jazz) & football", b"hi", by=ann)
    receipt.reached                  # ('ann', 'bob')
    bob.inbox()                      # [Message(publisher='ann', ...)]

Every verb runs the world until it is at rest, so that what follows finds it done. The names are
those of the live API.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from implicast.casting.designs import design
from implicast.front.trace import Step, Trace
from implicast.language.attributes import Schema
from implicast.language.parameters import Setting
from implicast.language.parse import description, parse
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId
from implicast.peer.contract import Message as Event
from implicast.peer.errors import LocalError
from implicast.peer.events import Joined, Left, Refused, Registered, Settled, Withdrawn
from implicast.peer.member import Member
from implicast.world.journal import JOIN, LEAVE, REGISTER, WITHDRAW
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

LATENCY_MS = 20.0
INTRODUCERS = 3


class NotDone(LocalError):
    """What was asked for was refused, or no peer answered."""


@dataclass(frozen=True, slots=True)
class Message:
    """A cast that this peer received."""

    publisher: str
    target: str
    payload: bytes
    at_ms: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a cast."""

    target: str
    expected: int
    """Members that were selected: notified, declined, unreachable and open add up to it."""
    notified: int
    declined: int
    unreachable: int
    open: int
    uncertain: int
    """Regions of the overlay whose members are not known; the receipt is complete only if it is 0.
    """
    reached: tuple[str, ...]
    """Who was told, in the order of arrival."""
    messages: int
    """What it cost, confirmations included."""
    hops: float
    """Messages on the way to a member, on average."""
    latency_ms: float
    """Until the last member was told."""

    def _repr_html_(self) -> str:
        cells = {
            "reached": ", ".join(self.reached) or "no member",
            "expected": self.expected,
            "messages": self.messages,
            "hops": f"{self.hops:.1f}",
            "latency": f"{self.latency_ms:.0f} ms",
        }
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in cells.items())
        return (
            f"<table><caption>cast to <code>{_escaped(self.target)}</code></caption>{rows}</table>"
        )


class Peer:
    """One member of a `Network`, in the hands of its user."""

    def __init__(self, network: "Network", address: int, name: str) -> None:
        self._network, self._address, self.name = network, address, name

    def __repr__(self) -> str:
        said = self._network.member(self._address).description
        return f"<Peer {self.name}: {said or 'nothing said'}>"

    def describe(self, text: str) -> None:
        """Say what this peer is, in place of what it said before."""
        self._network.describe(self._address, text)

    def withdraw(self) -> None:
        """Withdraw the registration: no later cast selects this peer."""
        self._network.withdraw(self._address)

    def cast(self, target: str, payload: bytes = b"") -> Receipt:
        return self._network.cast(target, payload, by=self)

    def inbox(self) -> list[Message]:
        """What has arrived, oldest first."""
        return list(self._network.inboxes[self._address])

    def leave(self) -> None:
        self._network.leave(self._address)

    @property
    def address(self) -> int:
        return self._address


class _Carrier:
    """Every two hosts are equally far apart."""

    def __init__(self, latency_ms: float) -> None:
        self._latency_us = int(latency_ms * 1000)

    def latency_us(self, a: int, b: int) -> int:
        return self._latency_us if a != b else 0


class Network:
    """Members of one design, and whatever infrastructure it needs."""

    def __init__(
        self,
        name: str = "spice-unloaded",
        *,
        seed: int = 1,
        latency_ms: float = LATENCY_MS,
        schema: str | Schema | None = None,
        parameters: Mapping[str, Setting] | None = None,
    ) -> None:
        self.design = design(name)
        parameters = dict(parameters or {})
        self.schema = Schema.read(schema) if isinstance(schema, str) else schema
        if self.schema is not None and any(
            each.name == "schema" for each in self.design.parameters
        ):
            parameters.setdefault("schema", str(self.schema))
        settled = self.design.settle(parameters)
        carrier = _Carrier(latency_ms)
        self.trace = Trace()
        self.world = World(carrier, seed, self.trace)
        self.world.on_event, self.trace.heard = self._hear, self._arrive
        self.world.payload_of = lambda number: self._made[number][2]
        infrastructure = self.design.infrastructure(0, settled)
        plan = Plan(
            0,
            infrastructure,
            settled,
            seed,
            self.world.host,
            carrier.latency_us,
            start="joined",
            credentials=population(self.design).credentials,
        )
        self.plan = replace(plan, roles=self.design.roles(plan.peers, plan.infrastructure))
        for address in range(infrastructure):
            self.world.place(address, self.plan.new_fixture(self.design, address))
        self.peers: dict[str, Peer] = {}
        self.inboxes: dict[int, list[Message]] = {}
        self._names: dict[int, str] = {}
        self._made: list[tuple[str, str, bytes]] = []
        """Of each cast: who published it, to whom, and what it says."""
        self._events: list[tuple[int, Event]] = []
        self._settled: dict[CastId, Settled] = {}
        self._run()

    def __repr__(self) -> str:
        return f"<Network {self.design.name}: {len(self.peers)} peers>"

    def peer(self, text: str = "", name: str | None = None) -> Peer:
        """Adds a peer: it joins and registers its description."""
        address = self.plan.infrastructure + len(self.inboxes)
        chosen = name if name is not None else f"peer-{len(self.inboxes) + 1}"
        if chosen in self.peers:
            raise NotDone(f"there is a peer {chosen!r} already; choose another name")
        said = self._read(text) if text else None
        here = [peer.address for peer in self.peers.values()]
        self.world.place(address, self.plan.new_member(self.design, address))
        self._names[address], self.inboxes[address] = chosen, []
        known = tuple(here[:: max(1, len(here) // INTRODUCERS)][:INTRODUCERS])
        self._ask(
            address,
            JOIN,
            lambda: self.member(address).join(known),
            Joined,
            f"{chosen} could not join",
        )
        self.peers[chosen] = Peer(self, address, chosen)
        if said is not None:
            self._register(address, said)
        return self.peers[chosen]

    def describe(self, address: int, text: str) -> None:
        self._register(address, self._read(text))

    def withdraw(self, address: int) -> None:
        name = self._names[address]
        self._ask(
            address,
            WITHDRAW,
            lambda: self.member(address).withdraw(),
            Withdrawn,
            f"{name} could not withdraw",
        )

    def leave(self, address: int) -> None:
        """The peer hands over what it keeps for others, and goes."""
        name = self._names[address]
        self._ask(
            address, LEAVE, lambda: self.member(address).leave(), Left, f"{name} could not leave"
        )
        self.world.crash(address)
        del self.peers[name]

    def cast(
        self, target: str | Target, payload: bytes = b"", by: Peer | str | None = None
    ) -> Receipt:
        """Send a message to every member that the target describes, and wait until it is known what became of
        it.
        """
        publisher = self._publisher(by)
        wanted = parse(target, self.schema) if isinstance(target, str) else target
        number = len(self._made)
        self._made.append((publisher.name, str(target), payload))
        begun_us = self.world.now_us
        named: list[CastId] = []
        self.world.at(
            begun_us, number, lambda: named.append(self._cast(publisher, number, wanted, payload))
        )
        refused = self._run()
        if refused:
            raise NotDone(f"the cast was refused: {refused[0].reason}")
        return self._receipt(named[0], number, begun_us, str(target))

    def steps(self, cast: int = -1) -> list[Step]:
        """The messages of a cast, by its number; of the last one by default."""
        return self.trace.steps(len(self._made) + cast if cast < 0 else cast)

    def name(self, address: int) -> str:
        """Who is at an address: a peer's name, or the role of a piece of infrastructure."""
        roles = {each: role for role, addresses in self.plan.roles.items() for each in addresses}
        return self._names.get(address) or roles.get(address, str(address))

    def member(self, address: int) -> Member:
        peer = self.world.peers.get(address)
        if not isinstance(peer, Member):
            raise NotDone(f"{self.name(address)} is gone")
        return peer

    @property
    def measures(self) -> Any:
        """Messages sent and received for casts by each peer, as a pandas DataFrame (or a list
        without pandas).
        """
        rows = [self._load(address) for address in sorted(self._names)]
        try:
            import pandas as pd
        except ImportError:
            return rows
        return pd.DataFrame(rows).set_index("peer")

    # --- inside

    def _load(self, address: int) -> dict[str, Any]:
        steps = [step for cast in range(len(self._made)) for step in self.trace.steps(cast)]
        return {
            "peer": self._names[address],
            "sent": sum(step.sender == address for step in steps),
            "received": sum(step.receiver == address for step in steps),
            "notified": len(self.inboxes[address]),
        }

    def _publisher(self, by: Peer | str | None) -> Peer:
        if isinstance(by, Peer):
            return by
        if by is None:
            if not self.peers:
                raise NotDone("there is no peer that could cast: add one first, net.peer('jazz')")
            return next(iter(self.peers.values()))
        if by not in self.peers:
            raise NotDone(f"there is no peer {by!r}; there are: {', '.join(self.peers) or 'none'}")
        return self.peers[by]

    def _cast(self, publisher: Peer, number: int, target: Target, payload: bytes) -> CastId:
        member = self.member(publisher.address)
        self.world.announce(member.upcoming_cast(), number)
        return member.cast(target, payload)

    def _register(self, address: int, said: Description) -> None:
        name = self._names[address]
        self._ask(
            address,
            REGISTER,
            lambda: self.member(address).register(said),
            Registered,
            f"what {name} is could not be registered",
        )

    def _ask(
        self, address: int, purpose: int, verb: Callable[[], object], done: type[Event], failed: str
    ) -> None:
        before = len(self._events)
        self.world.at(self.world.now_us, purpose, verb)
        refused = self._run()
        if not any(
            who == address and isinstance(event, done) for who, event in self._events[before:]
        ):
            raise NotDone(f"{failed}: {refused[0].reason if refused else 'no peer answered'}")

    def _run(self) -> list[Refused]:
        """Until the world is at rest; what was refused meanwhile."""
        before = len(self._events)
        self.world.run()
        self.world.run(self.world.now_us + self.design.settling_us)
        return [event for _, event in self._events[before:] if isinstance(event, Refused)]

    def _hear(self, address: int, event: Event) -> None:
        if isinstance(event, Settled):
            self._settled[event.cast] = event
        else:
            self._events.append((address, event))

    def _arrive(self, address: int, cast: int) -> None:
        publisher, target, payload = self._made[cast]
        self.inboxes[address].append(Message(publisher, target, payload, self.world.now_us / 1000))

    def _receipt(self, cast: CastId, number: int, begun_us: int, target: str) -> Receipt:
        told = self.trace.told(number)
        settled = self._settled.get(cast) or Settled(cast, len(told))
        return Receipt(
            target=target,
            expected=settled.expected,
            notified=settled.notified,
            declined=settled.declined,
            unreachable=settled.unreachable,
            open=settled.open,
            uncertain=settled.uncertain,
            reached=tuple(self._names[peer] for _, peer, _ in told),
            messages=len(self.trace.steps(number)),
            hops=sum(depth for _, _, depth in told) / len(told) if told else 0.0,
            latency_ms=(max((time_us for time_us, _, _ in told), default=begun_us) - begun_us)
            / 1000,
        )

    def _read(self, text: str) -> Description:
        return description(text, self.schema)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
