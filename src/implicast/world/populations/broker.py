"""BROKER: assembles clients at their nearest brokers and brokers on their tree, and checks the
brokers' state.
"""

from collections.abc import Sequence

from implicast.casting.broker import Broker, BrokerClient
from implicast.casting.designs import Design
from implicast.overlay.backbone.tree import spanning_tree
from implicast.peer.contract import Peer
from implicast.peer.errors import ParameterError
from implicast.world.plan import Plan
from implicast.world.populations.backbone import objections as backbone_objections
from implicast.world.populations.filters import assemble_filters
from implicast.world.populations.nearest_brokers import nearest_broker, nearest_brokers, wide_tree
from implicast.world.populations.population import LazyPeers, Population, entries

MANY = 256
"""Number of brokers from which on the tree is computed in columns. The tree is the same; 300
brokers on one router take 0.02 s instead of 0.35 s.
"""


def assemble(plan: Plan) -> list[Peer]:
    """Clients at their nearest brokers, brokers on their tree, without registrations."""
    brokers = _brokers(plan)
    clients: list[Peer] = [
        BrokerClient(plan.site(each), nearest_broker(plan, each)) for each in range(plan.peers)
    ]
    return [*clients, *brokers]


def _brokers(plan: Plan) -> list[Broker]:
    brokers = plan.roles["broker"]
    if not brokers:
        raise ParameterError("broker: there are no hosts for brokers")
    if len(brokers) < MANY or len(plan.router) < plan.peers:
        neighbours = spanning_tree(
            brokers, lambda a, b: plan.latency_us(a, b) + plan.latency_us(b, a)
        )
    else:
        neighbours = wide_tree(brokers, plan.router, plan.latency_us)
    return [Broker(plan.site(broker, "broker"), neighbours[broker]) for broker in brokers]


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Enter every client at its broker, and set every filter to the tags beyond its link."""
    brokers = {peer.address: peer for peer in population if isinstance(peer, Broker)}
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, BrokerClient), "members come first"
        assert client.front_end is not None, "an assembled client has its broker"
        brokers[client.front_end].clients.keep(client.preload(description))
    assemble_filters({address: broker.backbone for address, broker in brokers.items()})


class BrokerClients(LazyPeers):
    """Lazy clients; brokers are made at once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._brokers = {broker.address: broker for broker in _brokers(plan)}
        self._nearest_brokers = nearest_brokers(plan)
        for entry, front_end in zip(entries(plan), self._nearest_brokers, strict=True):
            self._brokers[front_end].clients.keep(entry)
        assemble_filters({address: broker.backbone for address, broker in self._brokers.items()})
        self._client_bytes = super().stored_bytes(0)

    def make(self, address: int) -> Peer:
        if address >= self._plan.peers:
            return self._brokers[address]
        client = BrokerClient(self._plan.site(address), self._nearest_brokers[address])
        client.preload(self._plan.descriptions[address])
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
