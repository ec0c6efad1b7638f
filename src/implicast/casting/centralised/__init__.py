"""CENTRALISED: one server keeps every description, resolves each cast and sends one copy to each member.

The thesis's yardstick (section 3.4): fewest messages, and all load on one machine. `kind.py` is that; `alive.py` is
what it takes when messages get lost and machines fall (`--set alive=true`). Subscriptions (`central_subscriptions.py`)
are for a kind world in both.
"""

from collections.abc import Sequence
from typing import Any

from implicast.casting.central_subscriptions import SUBSCRIPTION_KINDS
from implicast.casting.centralised.alive import LivingClient, LivingServer
from implicast.casting.centralised.kind import Client, Server
from implicast.casting.centralised.messages import Accepted, Finished, Notify, Publish, Register, Stored
from implicast.casting.designs import Design, Plan
from implicast.casting.reliable import Got
from implicast.language.parameters import Parameter, Parameters
from implicast.peer.contract import Peer
from implicast.peer.member import Member

__all__ = ["DESIGNS", "Client", "LivingClient", "LivingServer", "Notify", "Publish", "Server"]


def assemble(plan: Plan) -> list[Peer]:
    return [*(newcomer(plan, address) for address in range(plan.peers)), server(plan, plan.peers)]


def newcomer(plan: Plan, address: int) -> Member:
    host = plan.host(address)
    if plan.parameters["alive"]:
        return LivingClient(address, host, plan.peers, _lease_us(plan))
    return Client(address, host, plan.peers, bool(plan.parameters["acknowledge"]))


def server(plan: Plan, address: int, written: Any = ()) -> Server:
    """A server that begins, or begins again with what it had written down."""
    if plan.parameters["alive"]:
        return LivingServer(address, plan.host(address), _lease_us(plan), written)
    return Server(address, plan.host(address), bool(plan.parameters["acknowledge"]))


def _lease_us(plan: Plan) -> int:
    return int(float(plan.parameters["lease_s"]) * 1_000_000)


def one_server(peers: int, parameters: Parameters) -> int:
    return 1


def objections(population: Sequence[Peer]) -> list[str]:
    """The server knows the newest description of everybody whose registration is complete, and of nobody long gone."""
    found: list[str] = []
    clients = {peer.address: peer for peer in population if isinstance(peer, Client)}
    for each in (peer for peer in population if isinstance(peer, Server)):
        for address, client in clients.items():
            settled = client.version and client.version not in client.unanswered
            if settled and client.description is not None and each.index.description(address) != client.description:
                found.append(f"the server does not know what {address} is")
        if isinstance(each, LivingServer):
            over_us = each.host.now_us - each.lease_us * 5 // 4
            gone = [member for member in each.heard_us if member not in clients and each.heard_us[member] < over_us]
            found += [f"the server remembers {member}, which is gone, beyond its lease" for member in gone]
    return found


DESIGNS = (
    Design(
        name="centralised",
        summary="One server keeps every description and sends one copy to each member.",
        paper="Implicit group messaging, section 3.4",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(Register, Stored, Publish, Notify, Accepted, Finished, Got, *SUBSCRIPTION_KINDS),
        languages=("tags", "attributes", "subscriptions"),
        parameters=(
            Parameter(
                "acknowledge",
                False,
                "the server confirms each cast and publishers repeat unconfirmed ones; for lossy networks, one message "
                "more per cast",
            ),
            Parameter(
                "alive",
                False,
                "every step is confirmed and repeated, descriptions are on lease, and the server writes down what it "
                "answers; for networks and machines that fail, three messages more per cast and one per notification",
            ),
            Parameter("lease_s", 90.0, "how long the server remembers a silent client", 1, 1e6, unit="s", only="alive"),
        ),
        infrastructure=one_server,
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes", "restarts"}),
        repair_us=30_000_000,
        alive={"alive": True},
        quick={"lease_s": 30.0},
        patience=({"lease_s": 300.0}, {"lease_s": 45.0}, {"lease_s": 15.0}),
        revive=server,
    ),
)
