"""BROKER in an unkind network: what it says is true when it says it, whatever is lost, repeated or overtaken.

Filters start far too small, so that generations begin and end while descriptions come and go.
"""

from dataclasses import dataclass, field
from functools import partial

import pytest

from implicast.casting.broker import Broker, Client
from implicast.casting.designs import Plan, design
from implicast.language.target import Description, Target, Term
from implicast.overlay.backbone.backbone import Backbone, Waiter
from implicast.peer.contract import Message
from implicast.peer.events import Notice, Registered, Withdrawn
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.world import World

HARD = Faults(loss=0.1, duplicate=0.1, reorder=0.5, jitter=1.0, delay=0.05, delay_ms=(100, 20_000))
CLIENTS, TAGS, SPAN_US = 24, 60, 60_000_000


@dataclass
class Trial:
    """A small population, random verbs, and a look at all brokers whenever a description is said to be complete."""

    seed: int
    faults: Faults
    acknowledge: bool = False
    registered: int = 0
    withdrawn: int = 0
    wrong: list[str] = field(default_factory=list)
    notices: dict[tuple[int, object], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = stream(self.seed, "trial")
        found, brokers = design("broker"), 2 + rng.randrange(9)
        network = build("national", CLIENTS, brokers, self.seed)
        self.world = World(network, self.seed, None, FaultStream(self.faults, self.seed), Codec(found.kinds))
        parameters = found.settle({"brokers": brokers, "expected_tags": 4, "acknowledge": self.acknowledge})
        self.plan = Plan(CLIENTS, brokers, parameters, self.seed, self.world.host, network.latency_us)
        self.population = found.assemble(self.plan)
        for address, peer in enumerate(self.population):
            self.world.place(address, peer)
        self.world.heard = self.hear
        self.rng = rng

    def client(self, address: int) -> Client:
        peer = self.population[address]
        assert isinstance(peer, Client)
        return peer

    def brokers(self) -> list[Broker]:
        return [peer for peer in self.population if isinstance(peer, Broker)]

    def draw(self) -> Description:
        return Description(tuple(sorted({f"tag{self.rng.randrange(TAGS)}" for _ in range(5)})))

    def change(self, verbs: int) -> None:
        for _ in range(verbs):
            client, time_us = self.client(self.rng.randrange(CLIENTS)), self.rng.randrange(SPAN_US)
            if self.rng.random() < 0.3:
                self.world.at(time_us, REGISTER, client.withdraw)
            else:
                self.world.at(time_us, REGISTER, partial(client.register, self.draw()))

    def hear(self, address: int, event: Message) -> None:
        if isinstance(event, Notice):
            self.notices[address, event.cast] = self.notices.get((address, event.cast), 0) + 1
        self.withdrawn += isinstance(event, Withdrawn)
        client = self.client(address)
        if isinstance(event, Registered) and event.version == client.version:
            self.registered += 1
            self.look(client)

    def look(self, client: Client) -> None:
        """From every broker, step by step, the way to the client's broker is open for each of its tags."""
        towards = self.ways(client.broker)
        home = self.population[client.broker]
        if client.address not in home.index:
            self.wrong.append(f"{client.address} is not in the index of {home.address}")
        for tag in client.description.tags:
            for broker, neighbour in towards.items():
                if not self.population[broker].backbone.leads(neighbour, Target((Term(has=(tag,)),))):
                    self.wrong.append(f"{broker} does not lead to {neighbour} for {tag} of {client.address}")

    def ways(self, home: int) -> dict[int, int]:
        """For every other broker, its neighbour on the way home."""
        towards: dict[int, int] = {}
        frontier = [home]
        for broker in frontier:
            for neighbour in self.population[broker].backbone.neighbours:
                if neighbour != home and neighbour not in towards:
                    towards[neighbour] = broker
                    frontier.append(neighbour)
        return towards


@pytest.mark.parametrize("seed", range(12))
def test_when_a_description_is_complete_every_broker_leads_to_it(seed):
    trial = Trial(seed, HARD)
    trial.change(120)
    trial.world.run()

    assert trial.wrong == []
    assert trial.registered > 20
    generations = {broker.backbone.table.generation for broker in trial.brokers()}
    assert len(generations) == 1
    assert generations.pop() > 1, "filters that were never renewed prove little"
    assert design("broker").objections(trial.population) == []


def answer_at_once(backbone: Backbone, source: int, token: object) -> None:
    """The mistake of saying that all know when only oneself does."""
    backbone._release(Waiter(source, token))


def forget_the_old(backbone: Backbone, neighbour: int, target: Target) -> bool:
    """The mistake of following new filters before they are whole."""
    return backbone._newest().passes(neighbour, target)


@pytest.mark.parametrize(("method", "mistake"), [("_await", answer_at_once), ("leads", forget_the_old)])
def test_the_look_fails_when_it_should(monkeypatch, method, mistake):
    monkeypatch.setattr(Backbone, method, mistake)
    trial = Trial(1, HARD)
    trial.change(120)
    trial.world.run()

    assert trial.wrong != []


@pytest.mark.parametrize("seed", range(6))
def test_with_confirmed_hops_every_cast_arrives_exactly_once_in_spite_of_loss(seed):
    trial = Trial(100 + seed, HARD, acknowledge=True)
    for address in range(CLIENTS):
        trial.world.at(0, REGISTER, partial(trial.client(address).register, trial.draw()))
    trial.world.run()
    start_us = trial.world.now_us
    expected: list[tuple[int, object]] = []
    for number in range(40):
        publisher = trial.client(trial.rng.randrange(CLIENTS))
        target = Target((Term(has=(f"tag{trial.rng.randrange(TAGS)}",)),))

        def publish(publisher=publisher, target=target):
            cast = publisher.cast(target, b"")
            expected.extend(
                (address, cast) for address in range(CLIENTS) if target.selects(trial.client(address).description)
            )

        trial.world.at(start_us + number * 100_000, number, publish)
    trial.world.run()

    assert trial.registered == CLIENTS
    assert len(expected) > 20
    assert trial.notices == dict.fromkeys(expected, 1)


def test_withdrawn_tags_are_forgotten_by_a_new_generation():
    trial = Trial(7, Faults())
    clients = [trial.client(address) for address in range(CLIENTS)]
    for number, client in enumerate(clients):
        tags = tuple(sorted(f"only{number}x{i}" for i in range(40)))
        trial.world.at(0, REGISTER, partial(client.register, Description(tags)))
    trial.world.run()
    before = max(broker.backbone.table.generation for broker in trial.brokers())
    for client in clients[1:]:
        trial.world.at(trial.world.now_us + 1_000_000, REGISTER, client.withdraw)
    trial.world.run()

    assert max(broker.backbone.table.generation for broker in trial.brokers()) > before
    assert trial.withdrawn == CLIENTS - 1
    kept = set(clients[0].description.tags)
    tables = [broker.backbone.table for broker in trial.brokers()]
    fills = [table.filter(source).fill() for table in tables for source in table.sources]
    assert max(fills) < 0.3
    assert kept <= set(trial.population[clients[0].broker].index.tags())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_more_hostile_schedules(seed):
    trial = Trial(seed, HARD)
    trial.change(150)
    trial.world.run()

    assert trial.wrong == []
    assert design("broker").objections(trial.population) == []
