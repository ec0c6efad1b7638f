"""BROKER: each client describes itself to the nearest of several brokers, and the brokers pass casts along a tree.

Thesis chapter 6. `kind.py` is Listing 2, for a kind world; `alive.py` and `alive_client.py` are what it takes when
messages get lost, clients vanish and brokers die (`--set alive=true`).
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

from implicast.casting.broker.alive import LivingBroker
from implicast.casting.broker.alive_client import LivingClient
from implicast.casting.broker.kind import REPEAT_US, REPEATS_MAX, Broker, Client
from implicast.casting.broker.messages import (
    Again,
    Carried,
    Check,
    Forward,
    Got,
    Here,
    Known,
    Notify,
    Pass,
    Probe,
    Publish,
    Register,
    Repeat,
    Stored,
)
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.backbone.messages import KINDS
from implicast.overlay.backbone.objections import objections as backbone_objections
from implicast.overlay.backbone.tree import by_rank, nearest, spanning_tree
from implicast.overlay.backbone.views import VIEW_KINDS
from implicast.peer.contract import Peer
from implicast.peer.errors import ParameterError
from implicast.peer.member import Member

__all__ = [
    "DESIGNS", "REPEATS_MAX", "REPEAT_US", "Again", "Broker", "Client", "Forward", "Got", "Here", "LivingBroker",
    "LivingClient", "Notify", "Probe", "Publish", "Register", "Repeat", "Stored", "brokers_wanted",
]  # fmt: skip

BROKERS_LEAST = 2
LIVING_KINDS = (Pass, Carried, Check, Known, *VIEW_KINDS)


def brokers_wanted(peers: int, parameters: Parameters) -> int:
    """How many brokers: the number given, or a share of the peers; at least two."""
    given = int(parameters["brokers"]) or ceil(peers * float(parameters["broker_share"]))
    return max(BROKERS_LEAST, given)


def assemble(plan: Plan) -> list[Peer]:
    """Clients at their nearest brokers, brokers on their tree; nothing is registered yet."""
    brokers = _brokers(plan)
    neighbours = spanning_tree(brokers, plan.latency_us)
    clients: list[Peer] = [
        _client(plan, client, brokers, nearest(client, brokers, plan.latency_us, plan.seed))
        for client in range(plan.peers)
    ]
    return clients + [_broker(plan, broker, brokers, neighbours[broker]) for broker in brokers]


def _client(plan: Plan, address: int, brokers: list[int], broker: int | None) -> Client:
    host, parameters = plan.host(address), plan.parameters
    if parameters["alive"]:
        check_us, tries = int(float(parameters["check_s"]) * 1e6), max(2, int(parameters["tries"]) - 1)
        return LivingClient(address, host, brokers, broker, check_us, tries)
    return Client(address, host, brokers, broker, bool(parameters["acknowledge"]))


def _broker(plan: Plan, address: int, brokers: list[int], neighbours: tuple[int, ...]) -> Broker:
    host, parameters = plan.host(address), plan.parameters
    if parameters["alive"]:
        return LivingBroker(address, host, brokers, neighbours, plan.latency_us, parameters)
    return Broker(address, host, neighbours, brokers[0], parameters)


def newcomer(plan: Plan, address: int) -> Member:
    """A client that has yet to find its nearest broker; equally near ones answer in the order of its preference."""
    return _client(plan, address, by_rank(address, _brokers(plan), plan.seed), None)


def revive(plan: Plan, address: int, written: Any) -> Peer:
    """A broker comes back and has to be told of the tree, and by its clients what they are."""
    if not plan.parameters["alive"]:
        raise ParameterError("broker: a broker can come back only with alive=true")
    return LivingBroker(address, plan.host(address), _brokers(plan), None, plan.latency_us, plan.parameters, written)


def objections(population: Sequence[Peer]) -> list[str]:
    """The backbone is a tree, every filter covers what lies beyond it, and brokers know their clients."""
    brokers = {peer.address: peer for peer in population if isinstance(peer, Broker)}
    if not brokers:
        return ["there is no broker left"]
    found = backbone_objections(
        {address: broker.backbone for address, broker in brokers.items()},
        {address: broker.index.held() for address, broker in brokers.items()},
    )
    for client in (peer for peer in population if isinstance(peer, Client)):
        settled = client.version and client.version not in client.unanswered and client.description is not None
        broker = brokers.get(client.broker) if client.broker is not None else None
        if settled and (broker is None or broker.index.description(client.address) != client.description):
            found.append(f"broker {client.broker} does not know what its client {client.address} is")
    return found


def _brokers(plan: Plan) -> list[int]:
    if plan.infrastructure < 1:
        raise ParameterError("broker: there are no hosts for brokers")
    return list(range(plan.peers, plan.peers + plan.infrastructure))


DESIGNS = (
    Design(
        name="broker",
        summary="Brokers on a spanning tree serve the clients nearest to them and pass casts where filters let them.",
        paper="Implicit group messaging, chapter 6",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(Probe, Here, Register, Stored, Publish, Forward, Notify, Got, *KINDS, *LIVING_KINDS),
        parameters=(
            Parameter("brokers", 0, "how many brokers; 0: a share of the peers", 0, 100_000),
            Parameter("broker_share", 0.01, "brokers as a share of peers, at least two, when `brokers` is 0", 0.0, 1.0),
            Parameter("routing_error", 0.1, "chance that a filter passes a tag that nobody beyond holds", 1e-6, 0.9),
            Parameter("expected_tags", 4096, "distinct tags that filters have room for at first; they grow", 1, 10**8),
            Parameter(
                "acknowledge",
                False,
                "every hop of a cast is confirmed and repeated until it is; for lossy networks, twice the messages",
            ),
            Parameter(
                "alive",
                False,
                "brokers watch each other and heal their tree, casts are carried until all brokers have them, clients "
                "find another broker when theirs dies; for networks and machines that fail",
            ),
            Parameter("check_s", 10.0, "how often clients remind their broker", 0.5, 3600, unit="s", only="alive"),
            Parameter("tries", 4, "questions in vain before a broker is believed lost", 2, 20, only="alive"),
            Parameter("watch_s", 2.0, "how often brokers look for each other", 0.1, 3600, unit="s", only="alive"),
        ),
        languages=("tags", "attributes"),
        infrastructure=brokers_wanted,
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes", "restarts", "fails"}),
        alive={"alive": True, "brokers": 6, "expected_tags": 64},
        quick={"check_s": 2.0, "watch_s": 0.5, "tries": 3},
        patience=({"check_s": 30.0, "watch_s": 6.0}, {"check_s": 5.0, "watch_s": 1.0}),
        revive=revive,
    ),
)
