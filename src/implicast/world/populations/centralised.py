"""CENTRALISED: its clients and its server at once, and what the server must know."""

from collections.abc import Sequence

from implicast.casting.centralised import Client, Server
from implicast.casting.designs import Design
from implicast.peer.contract import Peer
from implicast.world.plan import Plan
from implicast.world.populations.population import Population, Sleepers, entries


def assemble(plan: Plan) -> list[Peer]:
    clients: list[Peer] = [Client(plan.site(address)) for address in range(plan.peers)]
    return [*clients, Server(plan.site(plan.peers, "server"))]


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """The server knows everybody."""
    (server,) = (peer for peer in population if isinstance(peer, Server))
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, Client), "members come first"
        server.roster.keep(client.enrol(description))


class Clients(Sleepers):
    """Clients of which most have only heard, or nothing at all; the server is awake."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._server = Server(plan.site(plan.peers, "server"))
        for entry in entries(plan):
            self._server.roster.keep(entry)
        self._client_bytes = super().stored_bytes(0)

    def make(self, address: int) -> Peer:
        if address == self._plan.peers:
            return self._server
        client = Client(self._plan.site(address))
        client.enrol(self._plan.descriptions[address])
        return client

    def stored_bytes(self, address: int) -> int:
        """Clients keep nothing for others: each as much as the first."""
        return super().stored_bytes(address) if address == self._plan.peers else self._client_bytes


def objections(population: Sequence[Peer]) -> list[str]:
    """The server knows the newest description of everybody whose registration is complete, and of nobody long gone."""
    found: list[str] = []
    clients = {peer.name: peer for peer in population if isinstance(peer, Client)}
    for each in (peer for peer in population if isinstance(peer, Server)):
        for name, client in clients.items():
            if client.settled and each.roster.index.description(name) != client.description:
                found.append(f"the server does not know what {client.address} is")
        leases = each.roster.leases
        over_us = each.host.now_us - leases.lease_us * 5 // 4
        gone = [
            entry
            for name, entry in each.roster.entries.items()
            if name not in clients and (leases.heard_us(name) or 0) < over_us
        ]
        found += [
            f"the server remembers {each.contact.address}, which is gone, beyond its lease"
            for each in gone
        ]
    return found


def population(design: Design) -> Population:
    return Population(assemble, objections, enrol, Clients)
