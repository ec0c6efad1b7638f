"""CENTRALISED: assembles the clients and the server, and checks the server's state."""

from collections.abc import Sequence

from implicast.casting.centralised import CentralisedClient, Server
from implicast.casting.designs import Design
from implicast.casting.front_end_client import ClientState
from implicast.peer.contract import Peer
from implicast.world.plan import Plan
from implicast.world.populations.population import LazyPeers, Population, entries, registration


def assemble(plan: Plan) -> list[Peer]:
    clients: list[Peer] = [CentralisedClient(plan.site(address)) for address in range(plan.peers)]
    return [*clients, Server(plan.site(plan.peers, "server"))]


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Enter every client at the server."""
    (server,) = (peer for peer in population if isinstance(peer, Server))
    registered = []
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, CentralisedClient), "members come first"
        registered.append(registration(client, description))
        client.restore(ClientState(server.address, description))
    server.restore(registered)


class Clients(LazyPeers):
    """Lazy clients; the server is made at once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._server = Server(plan.site(plan.peers, "server"))
        self._server.restore(entries(plan))
        self._client_bytes = super().stored_bytes(0)

    def make(self, address: int) -> Peer:
        if address == self._plan.peers:
            return self._server
        client = CentralisedClient(self._plan.site(address))
        client.restore(ClientState(self._plan.peers, self._plan.descriptions[address]))
        return client

    def stored_bytes(self, address: int) -> int:
        """Clients store nothing for others: each has the size of the first."""
        return super().stored_bytes(address) if address == self._plan.peers else self._client_bytes


def objections(population: Sequence[Peer]) -> list[str]:
    """Check that the server has the newest description of each client whose registration is
    complete, and no client beyond its lease.
    """
    found: list[str] = []
    clients = {peer.name: peer for peer in population if isinstance(peer, CentralisedClient)}
    for each in (peer for peer in population if isinstance(peer, Server)):
        for name, client in clients.items():
            if client.settled and each.clients.index.description(name) != client.description:
                found.append(f"the server does not know what {client.address} is")
        leases = each.clients.leases
        over_us = each.host.now_us - leases.lease_us * 5 // 4
        gone = [
            entry
            for name, entry in each.clients.entries.items()
            if name not in clients and (leases.heard_us(name) or 0) < over_us
        ]
        found += [
            f"the server remembers {each.contact.address}, which is gone, beyond its lease"
            for each in gone
        ]
    return found


def population(design: Design) -> Population:
    return Population(assemble, objections, preload, Clients)
