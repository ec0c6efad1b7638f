"""BROKER: assembles clients at their nearest brokers and brokers on their tree, and checks the
brokers' state.
"""

from collections.abc import Iterable, Mapping, Sequence

from implicast.casting.broker import Broker, BrokerClient
from implicast.casting.broker.broker import BrokerState
from implicast.casting.client_registry import ClientEntry
from implicast.casting.designs import Design
from implicast.casting.front_end_client import ClientState
from implicast.overlay.backbone.tree import spanning_tree
from implicast.overlay.backbone.views import FIRST_EPOCH, View
from implicast.peer.contract import Address, Peer, in_order
from implicast.peer.errors import ParameterError
from implicast.world.plan import Plan
from implicast.world.populations.backbone import objections as backbone_objections
from implicast.world.populations.filters import whole_filters
from implicast.world.populations.nearest_brokers import nearest_broker, nearest_brokers, wide_tree
from implicast.world.populations.population import (
    LazyPeers,
    Population,
    entries,
    registration,
)

MANY = 256
"""Number of brokers from which on the tree is computed in columns. The tree is the same; 300
brokers on one router take 0.02 s instead of 0.35 s.
"""
Registered = dict[Address, list[ClientEntry]]
"""By broker, the entries of its registered clients."""


def assemble(plan: Plan) -> list[Peer]:
    """Clients at their nearest brokers, brokers on their tree, without registrations."""
    brokers = _brokers(plan, _states(plan, {}))
    clients: list[Peer] = []
    for address in range(plan.peers):
        client = BrokerClient(plan.site(address))
        client.restore(ClientState(nearest_broker(plan, address)))
        clients.append(client)
    return [*clients, *brokers]


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Enter every client at its broker, and set every filter to the tags beyond its link."""
    registered: Registered = {}
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, BrokerClient), "members come first"
        assert client.front_end is not None, "an assembled client has its broker"
        registered.setdefault(client.front_end, []).append(registration(client, description))
        client.restore(ClientState(client.front_end, description))
    states = _states(plan, registered)
    for broker in population[plan.peers :]:
        assert isinstance(broker, Broker), "brokers come last"
        broker.restore(states[broker.address])


def _states(plan: Plan, registered: Registered) -> dict[Address, BrokerState]:
    """By broker, its state when these clients are registered; empty: when none is."""
    tree: Mapping[Address, tuple[Address, ...]] = dict(_tree(plan).items())
    room, error = int(plan.parameters["expected_tags"]), float(plan.parameters["routing_error"])
    views = {
        broker: View(FIRST_EPOCH, min(tree, key=in_order), neighbours, room)
        for broker, neighbours in tree.items()
    }
    if not registered:
        return {broker: BrokerState(view) for broker, view in views.items()}
    tags = {broker: _tags(registered.get(broker, ())) for broker in tree}
    filters = whole_filters(tree, tags, room, error)
    return {
        broker: BrokerState(view, registered.get(broker, ()), filters[broker])
        for broker, view in views.items()
    }


def _tags(clients: Iterable[ClientEntry]) -> list[str]:
    return sorted({tag for each in clients if each.description for tag in each.description.tags})


def _tree(plan: Plan) -> dict[int, tuple[int, ...]]:
    """By broker, its neighbours."""
    brokers = plan.roles["broker"]
    if not brokers:
        raise ParameterError("broker: there are no hosts for brokers")
    if len(brokers) < MANY or len(plan.router) < plan.peers:
        return spanning_tree(brokers, lambda a, b: plan.latency_us(a, b) + plan.latency_us(b, a))
    return wide_tree(brokers, plan.router, plan.latency_us)


def _brokers(plan: Plan, states: Mapping[Address, BrokerState]) -> list[Broker]:
    return [Broker(plan.site(each, "broker"), states[each]) for each in plan.roles["broker"]]


class BrokerClients(LazyPeers):
    """Lazy clients; brokers are made at once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._nearest_brokers = nearest_brokers(plan)
        registered: Registered = {}
        for entry, front_end in zip(entries(plan), self._nearest_brokers, strict=True):
            registered.setdefault(front_end, []).append(entry)
        brokers = _brokers(plan, _states(plan, registered))
        self._brokers = {broker.address: broker for broker in brokers}
        self._client_bytes = super().stored_bytes(0)

    def make(self, address: int) -> Peer:
        if address >= self._plan.peers:
            return self._brokers[address]
        client = BrokerClient(self._plan.site(address))
        registered = self._plan.descriptions[address]
        client.restore(ClientState(self._nearest_brokers[address], registered))
        return client

    def stored_bytes(self, address: int) -> int:
        """Clients store nothing for others: each has the size of the first."""
        return super().stored_bytes(address) if address >= self._plan.peers else self._client_bytes


def objections(population: Sequence[Peer]) -> list[str]:
    """Check that the backbone is a tree, every filter covers the tags beyond its link, and brokers
    know their clients.
    """
    brokers = {peer.address: peer for peer in population if isinstance(peer, Broker)}
    if not brokers:
        return ["there is no broker left"]
    found = backbone_objections(
        {address: broker.backbone for address, broker in brokers.items()},
        {address: broker.clients.index.held() for address, broker in brokers.items()},
    )
    for client in (peer for peer in population if isinstance(peer, BrokerClient) and peer.settled):
        broker = brokers.get(client.front_end) if client.front_end is not None else None
        if broker is None or broker.clients.index.description(client.name) != client.description:
            found.append(
                f"broker {client.front_end} does not know what its client {client.address} is"
            )
    return found


def population(design: Design) -> Population:
    return Population(assemble, objections, preload, BrokerClients)
