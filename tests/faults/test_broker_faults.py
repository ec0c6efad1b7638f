"""BROKER in an unkind network: what it says is true when it says it, whatever is lost, repeated or overtaken.

Filters start far too small, so that generations begin and end while descriptions come and go. And brokers that die, or
begin one by one; mistakes put in on purpose show.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from implicast.casting.broker import Broker, BrokerClient
from implicast.casting.coverage import CastTally
from implicast.casting.designs import design
from implicast.casting.forwarding import ForwardingTable
from implicast.language.target import Description, Target, Term
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.edges import Edges
from implicast.overlay.backbone.views import Views
from implicast.peer.contract import Message
from implicast.peer.events import Notice, Registered, Settled, Withdrawn
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.trials.campaign import check, scenario_of
from implicast.world.churn import Churn
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population as the_population
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.world import World

HARD = Faults(loss=0.1, duplicate=0.1, reorder=0.5, jitter=1.0, delay=0.05, delay_ms=(100, 20_000))
CLIENTS, TAGS, SPAN_US = 24, 60, 60_000_000


@dataclass
class Trial:
    """A small population, random verbs, and a look at all brokers whenever a description is said to be complete."""

    seed: int
    faults: Faults
    assurance: str = "none"
    fresh: bool = False
    """Brokers and clients are begun one by one, and have to find each other."""
    registered: int = 0
    withdrawn: int = 0
    wrong: list[str] = field(default_factory=list)
    notices: dict[tuple[int, object], int] = field(default_factory=dict)
    settled: dict[object, Settled] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = stream(self.seed, "trial")
        found, brokers = design("broker"), 2 + rng.randrange(9)
        network = build("national", CLIENTS, brokers, self.seed)
        self.world = World(
            network, self.seed, None, FaultStream(self.faults, self.seed), Codec(found.kinds)
        )
        parameters = found.settle(
            {"brokers": brokers, "expected_tags": 4, "assurance": self.assurance}
        )
        plan = Plan(CLIENTS, brokers, parameters, self.seed, self.world.host, network.latency_us)
        self.plan = replace(plan, roles=found.roles(plan.peers, plan.infrastructure))
        if self.fresh:
            self.population = [self.plan.new_member(found, address) for address in range(CLIENTS)]
            self.population += [
                self.plan.new_fixture(found, CLIENTS + number) for number in range(brokers)
            ]
        else:
            self.population = the_population(found).assemble(self.plan)
        for address, peer in enumerate(self.population):
            self.world.place(address, peer)
        self.world.on_event = self.hear
        self.rng = rng

    def client(self, address: int) -> BrokerClient:
        peer = self.population[address]
        assert isinstance(peer, BrokerClient)
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
        if isinstance(event, Settled):
            self.settled[event.cast] = event
        self.withdrawn += isinstance(event, Withdrawn)
        client = self.client(address)
        if isinstance(event, Registered) and event.version == client.version:
            self.registered += 1
            self.look(client)

    def look(self, client: BrokerClient) -> None:
        """From every broker, step by step, the way to the client's broker is open for each of its tags."""
        towards = self.ways(client.front_end)
        home = self.population[client.front_end]
        if client.name not in home.clients.index:
            self.wrong.append(f"{client.address} is not in the index of {home.address}")
        for tag in client.description.tags:
            for broker, neighbour in towards.items():
                if not self.population[broker].backbone.leads(
                    neighbour, Target((Term(has=(tag,)),))
                ):
                    self.wrong.append(
                        f"{broker} does not lead to {neighbour} for {tag} of {client.address}"
                    )

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
    assert the_population(design("broker")).objections(trial.population) == []


def answer_at_once(news: Edges, source: int, token: object) -> None:
    """The mistake of saying that all know when only oneself does."""
    news._release((source, token))


def forget_the_old(backbone: Backbone, neighbour: int, target: Target) -> bool:
    """The mistake of following new filters before they are whole."""
    return backbone._newest().filters[neighbour].passes(target)


@pytest.mark.parametrize(
    ("part", "method", "mistake"),
    [(Edges, "ack_when_covered", answer_at_once), (Backbone, "leads", forget_the_old)],
)
def test_the_look_fails_when_it_should(monkeypatch, part, method, mistake):
    monkeypatch.setattr(part, method, mistake)
    trial = Trial(1, HARD)
    trial.change(120)
    trial.world.run()

    assert trial.wrong != []


@pytest.mark.parametrize("seed", range(6))
def test_with_receipts_every_cast_arrives_exactly_once_in_spite_of_loss(seed):
    trial = Trial(100 + seed, HARD, "receipts", fresh=seed % 2 == 1)
    for address in range(CLIENTS):
        trial.world.at(0, REGISTER, partial(trial.client(address).join, ()))
        trial.world.at(0, REGISTER, partial(trial.client(address).register, trial.draw()))
    trial.world.run(90_000_000)
    start_us = trial.world.now_us
    expected: list[tuple[int, object]] = []
    for number in range(40):
        publisher = trial.client(trial.rng.randrange(CLIENTS))
        target = Target((Term(has=(f"tag{trial.rng.randrange(TAGS)}",)),))

        def publish(publisher=publisher, target=target):
            cast = publisher.cast(target, b"")
            expected.extend(
                (address, cast)
                for address in range(CLIENTS)
                if target.selects(trial.client(address).description)
            )

        trial.world.at(start_us + number * 100_000, number, publish)
    trial.world.run(start_us + 180_000_000)

    assert trial.registered >= CLIENTS
    assert trial.wrong == []
    assert len(expected) > 20
    assert trial.notices == dict.fromkeys(expected, 1)
    assert len(trial.settled) == 40
    assert not any(each.open for each in trial.settled.values())
    assert sum(each.notified for each in trial.settled.values()) >= len(expected), (
        "a client may have two brokers"
    )


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
    gone = [f"only{number}x{i}" for number in range(1, CLIENTS) for i in range(40)]
    passed = [
        each.might_hold(tag) for table in tables for each in table.filters.values() for tag in gone
    ]
    assert sum(passed) < 0.2 * len(passed)
    assert kept <= set(trial.population[clients[0].front_end].clients.index.tags())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_more_hostile_schedules(seed):
    trial = Trial(seed, HARD)
    trial.change(150)
    trial.world.run()

    assert trial.wrong == []
    assert the_population(design("broker")).objections(trial.population) == []


# --- brokers that begin one by one


@pytest.mark.parametrize("assurance", ["none", "receipts"])
def test_fresh_brokers_make_their_tree_before_anybody_is_registered(assurance):
    trial = Trial(3, Faults(), assurance, fresh=True)
    for address in range(CLIENTS):
        trial.world.at(0, REGISTER, partial(trial.client(address).join, ()))
        trial.world.at(0, REGISTER, partial(trial.client(address).register, trial.draw()))
    trial.world.run(15_000_000)

    assert trial.registered == CLIENTS
    assert trial.wrong == []
    assert the_population(design("broker")).objections(trial.population) == []


def test_a_broker_that_registers_before_it_has_a_tree_is_caught(monkeypatch):
    """A mistake put in on purpose: a broker believes that it is the only one until it hears otherwise."""

    def alone(self: Views, highest: int) -> None:
        self.followed = {}
        self._make_view([self.address])
        arrive(self, highest)

    arrive = Views.begin
    monkeypatch.setattr(Views, "begin", alone)
    trial = Trial(3, Faults(), "receipts", fresh=True)
    for address in range(CLIENTS):
        trial.world.at(0, REGISTER, partial(trial.client(address).join, ()))
        trial.world.at(0, REGISTER, partial(trial.client(address).register, trial.draw()))
    trial.world.run(2_000_000)

    assert trial.registered
    assert the_population(design("broker")).objections(trial.population) != []


# --- brokers that die


def alive(churn: str, loss: float = 0.02):
    return simulate(
        Scenario(
            "broker",
            peers=48,
            casts=170,
            seed=4,
            workload="groups",
            churn=Churn.parse(churn),
            parameters={"brokers": 6},
            faults=Faults(loss=loss),
        )
    )


@pytest.mark.parametrize("dead", ["48", "53", "49+50", "48+49+51"])
def test_when_brokers_die_the_rest_heals(dead):
    outcome = alive(f"event=10:fail:{dead}")

    assert outcome.contract_held, (outcome.change, outcome.objections)
    assert outcome.change.repair_s_max < 60
    assert outcome.change.during.delivery_ratio > 0.7


def test_few_notifications_are_missed_when_one_of_six_brokers_dies():
    outcome = alive("event=10:fail:50", loss=0.0)
    whole = alive("event=10:crash:47", loss=0.0)

    assert whole.contract.missing == 0
    assert outcome.change.during.delivery_ratio > 0.93


def caught(churn: str, **parameters) -> tuple[str, ...]:
    scenario = scenario_of(design("broker"), 1, 0)
    scenario = Scenario(
        "broker",
        peers=24,
        casts=150,
        seed=3,
        workload="groups",
        faults=scenario.faults,
        parameters={"brokers": 6, **parameters},
        churn=Churn.parse(churn),
    )
    return check(scenario).reasons


def test_never_forgiven_suspicion_is_caught(monkeypatch):
    split = "event=5..35:split:24+25+26+0+1+2+3"
    assert not caught(split)
    monkeypatch.setattr(Views, "heard_from", lambda self, broker: self.detector.heard_from(broker))

    assert any("no tree" in reason or "generations" in reason for reason in caught(split))


def test_filters_that_are_not_rebuilt_are_caught(monkeypatch):
    """A mistake: after a change of tree, brokers believe empty filters."""
    death = "event=5:fail:26"
    assert not caught(death)
    monkeypatch.setattr(Backbone, "follow", Backbone.restore)

    assert caught(death)


def test_clients_that_stay_with_a_dead_broker_are_caught(monkeypatch):
    monkeypatch.setattr(BrokerClient, "send_keep_alive", lambda self, unanswered: None)

    assert any("does not know what its client" in reason for reason in caught("event=5:fail:26"))


def test_confirming_before_all_have_a_cast_loses_it(monkeypatch):
    """A mistake: a broker answers at once. Of casts on their way through a dying broker, some are then missed."""

    def at_once(self, entry):
        for child in entry.children.values():
            if child.report is None:
                child.set_report(CastTally())
        settle(self, entry)

    def missing() -> int:
        outcome = alive(
            "event=10..30:cut:48>49,event=10..30:cut:48>50,event=10..30:cut:48>51,event=31:fail:48",
            loss=0.2,
        )
        return outcome.contract.missing

    settle = ForwardingTable.changed
    careful = missing()
    monkeypatch.setattr(ForwardingTable, "changed", at_once)
    assert missing() > careful
