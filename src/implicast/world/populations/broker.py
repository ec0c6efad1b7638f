"""BROKER: clients at their nearest brokers and brokers on their tree at once, and what brokers must know."""

from collections.abc import Sequence

from implicast.casting.broker import Broker, BrokerClient
from implicast.casting.designs import Design
from implicast.overlay.backbone.tree import spanning_tree
from implicast.peer.contract import Peer
from implicast.peer.errors import ParameterError
from implicast.world.plan import Plan
from implicast.world.populations.backbone import objections as backbone_objections
from implicast.world.populations.filters import assemble_filters
from implicast.world.populations.population import Population, Sleepers, entries
from implicast.world.populations.stations import station_of, stations, wide_tree

MANY = 256
"""Brokers from which on their tree is grown in columns: the same tree (of 300 on one router in 0.02 s, not in 0.35)."""


def assemble(plan: Plan) -> list[Peer]:
    """Clients at their nearest brokers, brokers on their tree; nothing is registered yet."""
    brokers = _brokers(plan)
    clients: list[Peer] = [
        BrokerClient(plan.site(each), station_of(plan, each)) for each in range(plan.peers)
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


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """Every broker knows its clients, and every filter what lies beyond it."""
    brokers = {peer.address: peer for peer in population if isinstance(peer, Broker)}
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, BrokerClient), "members come first"
        assert client.station is not None, "an assembled client has its broker"
        brokers[client.station].roster.keep(client.enrol(description))
    assemble_filters({address: broker.backbone for address, broker in brokers.items()})


class BrokerClients(Sleepers):
    """Clients of which most have only heard, or nothing at all; all brokers are awake."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._brokers = {broker.address: broker for broker in _brokers(plan)}
        self._stations = stations(plan)
        for entry, station in zip(entries(plan), self._stations, strict=True):
            self._brokers[station].roster.keep(entry)
        assemble_filters({address: broker.backbone for address, broker in self._brokers.items()})
        self._client_bytes = super().stored_bytes(0)

    def make(self, address: int) -> Peer:
        if address >= self._plan.peers:
            return self._brokers[address]
        client = BrokerClient(self._plan.site(address), self._stations[address])
        client.enrol(self._plan.descriptions[address])
        return client

    def stored_bytes(self, address: int) -> int:
        """Clients keep nothing for others: each as much as the first."""
        return super().stored_bytes(address) if address >= self._plan.peers else self._client_bytes


def objections(population: Sequence[Peer]) -> list[str]:
    """The backbone is a tree, every filter covers what lies beyond it, and brokers know their clients."""
    brokers = {peer.address: peer for peer in population if isinstance(peer, Broker)}
    if not brokers:
        return ["there is no broker left"]
    found = backbone_objections(
        {address: broker.backbone for address, broker in brokers.items()},
        {address: broker.roster.index.held() for address, broker in brokers.items()},
    )
    for client in (peer for peer in population if isinstance(peer, BrokerClient) and peer.settled):
        broker = brokers.get(client.station) if client.station is not None else None
        if broker is None or broker.roster.index.description(client.name) != client.description:
            found.append(
                f"broker {client.station} does not know what its client {client.address} is"
            )
    return found


def population(design: Design) -> Population:
    return Population(assemble, objections, enrol, BrokerClients)
