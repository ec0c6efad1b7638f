"""CENTRALISED: its clients and its server at once, and what the server must know."""

from collections.abc import Sequence

from implicast.casting.centralised import Client, Server
from implicast.casting.designs import Design
from implicast.peer.contract import Peer
from implicast.world.plan import Plan
from implicast.world.populations.population import Population


def assemble(plan: Plan) -> list[Peer]:
    clients: list[Peer] = [Client(plan.site(address)) for address in range(plan.peers)]
    return [*clients, Server(plan.site(plan.peers, "server"))]


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """The server knows everybody."""
    (server,) = (peer for peer in population if isinstance(peer, Server))
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, Client), "members come first"
        server.roster.keep(client.enrol(description))


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
        gone = [entry for name, entry in each.roster.entries.items()
                if name not in clients and (leases.heard_us(name) or 0) < over_us]  # fmt: skip
        found += [f"the server remembers {each.contact.address}, which is gone, beyond its lease" for each in gone]
    return found


def population(design: Design) -> Population:
    return Population(assemble, objections, enrol)
