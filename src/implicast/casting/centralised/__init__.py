"""CENTRALISED: one server keeps every description, resolves each cast and sends one copy to each member.

The thesis's yardstick (section 3.4): fewest messages, and all load on one machine. With `assurance=none` it is that;
with receipts it is what it takes when messages get lost and machines fall.
"""

from collections.abc import Mapping, Sequence

from implicast.casting.central_subscriptions import SUBSCRIPTION_KINDS
from implicast.casting.centralised.client import Client, KeptClient
from implicast.casting.centralised.server import KeptServer, Server
from implicast.casting.designs import ASSURANCE, Design, Plan
from implicast.casting.service import KINDS
from implicast.casting.telling import Got, Notify
from implicast.language.parameters import Parameter, Parameters
from implicast.peer.contract import Peer
from implicast.peer.site import Site

__all__ = ["DESIGNS", "Client", "KeptClient", "KeptServer", "Server"]


def assemble(plan: Plan) -> list[Peer]:
    clients: list[Peer] = [Client(plan.site(address)) for address in range(plan.peers)]
    return [*clients, Server(plan.site(plan.peers, "server"))]


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """The server knows everybody."""
    (server,) = (peer for peer in population if isinstance(peer, Server))
    for client, description in zip(population[: plan.peers], plan.descriptions, strict=False):
        assert isinstance(client, Client), "members come first"
        server.roster.keep(client.enrol(description))


def fixture(site: Site, role: str) -> Peer:
    return Server(site)


def one_server(peers: int, parameters: Parameters) -> int:
    return 1


def roles(plan: Plan) -> Mapping[str, tuple[int, ...]]:
    return {"server": (plan.peers,)}


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


DESIGNS = (
    Design(
        name="centralised",
        summary="One server keeps every description and sends one copy to each member.",
        paper="Implicit group messaging, section 3.4",
        assemble=assemble,
        enrol=enrol,
        member=Client,
        fixture=fixture,
        roles=roles,
        kept={"member": KeptClient, "server": KeptServer},
        kinds=(*KINDS, Notify, Got, *SUBSCRIPTION_KINDS),
        languages=("tags", "attributes", "subscriptions"),
        parameters=(
            ASSURANCE,
            Parameter("lease_s", 90.0, "how long the server remembers a silent client", 1, 1e6, unit="s"),
        ),
        infrastructure=one_server,
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes", "restarts"}),
        repair_us=30_000_000,
        quick={"lease_s": 30.0},
        patience=({"lease_s": 300.0}, {"lease_s": 45.0}, {"lease_s": 15.0}),
        audience=True,
    ),
)
