"""One run of publish/subscribe: subscribe, publish, change subscriptions, publish again. The result
is checked by matching every event with every subscription.

    ranges = Ranges(seed=1, peers=64)
    scenario = EventScenario("opchord-pubsub", ranges, peers=64, subscriptions=100, events=50)
    outcome = run_events(scenario)

`simulate` runs the other direction: casts to descriptions.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from implicast.casting.designs import design
from implicast.language.parameters import Setting
from implicast.language.target import Target
from implicast.peer.contract import CastId, Message
from implicast.peer.errors import ScenarioError
from implicast.peer.events import Notice, Refused
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.workload.pubsub import PubSubWorkload
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import REGISTER, WITHDRAW
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import LatencyModel, MessageFaults, World

SPACING_US = 10_000
"""Interval between two subscriptions, and between two events."""
QUIET_US = 1_000_000


@dataclass(frozen=True, slots=True)
class EventScenario:
    """What to run. `reworded` and `taken_back` are the shares of subscriptions that are updated and
    cancelled between the two halves of the events.
    """

    design: str
    workload: PubSubWorkload
    peers: int
    subscriptions: int
    events: int
    seed: int = 1
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    network: str = "flat"
    reworded: float = 0.2
    taken_back: float = 0.1
    faults: Faults = field(default_factory=Faults)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """How the run met the contract, and its messages."""

    expected: int
    notified: int
    missing: int
    repeated: int
    uninvited: int
    refused: tuple[str, ...]
    incomplete: int
    """Subscriptions whose completion was never reported."""
    messages: dict[str, dict[str, int]]
    """Messages by phase (`subscribe`, `publish`, `reword`), then by kind."""
    objections: list[str]

    @property
    def clean(self) -> bool:
        return not (
            self.missing or self.repeated or self.uninvited or self.refused or self.incomplete
        )


class CountingWorld(World):
    """A world that counts messages by kind, which is cheaper than a journal."""

    def __init__(
        self,
        network: LatencyModel,
        seed: int,
        faults: MessageFaults | None = None,
        codec: Codec | None = None,
    ) -> None:
        super().__init__(network, seed, faults=faults, codec=codec)
        self.kinds: Counter[str] = Counter()

    def carry(self, sender: int, to: int, message: Message) -> None:
        self.kinds[type(message).__name__] += 1
        super().carry(sender, to, message)


class EventRun:
    """One run."""

    def __init__(self, scenario: EventScenario) -> None:
        self.scenario = scenario
        self.design = design(scenario.design)
        if "subscriptions" not in self.design.languages:
            raise ScenarioError(f"design {scenario.design} takes no subscriptions")
        given = dict(scenario.parameters)
        if any(parameter.name == "schema" for parameter in self.design.parameters):
            given.setdefault("schema", scenario.workload.schema())
        parameters = self.design.settle(given)
        more = self.design.infrastructure(scenario.peers, parameters)
        network = build(
            scenario.network, hosts=scenario.peers, infrastructure=more, seed=scenario.seed
        )
        faults = FaultStream(scenario.faults, scenario.seed) if scenario.faults.text() else None
        codec = Codec(self.design.kinds) if scenario.strict else None
        self.world = CountingWorld(network, scenario.seed, faults=faults, codec=codec)
        plan = Plan(
            scenario.peers, more, parameters, scenario.seed, self.world.host, network.latency_us
        )
        plan = replace(plan, roles=self.design.roles(scenario.peers, more))
        self.population = population(self.design).assemble(plan)
        for address, peer in enumerate(self.population):
            self.world.place(address, peer)
        self.subscriptions_now: dict[int, tuple[int, int, Target]] = {}
        """Current subscriptions by their number in the workload: (peer, number there, target)."""
        self.expected: dict[CastId, set[int]] = {}
        self.messages: dict[str, dict[str, int]] = {}
        self.wordings: dict[tuple[int, int], int] = {}

    def go(self) -> EventOutcome:
        scenario = self.scenario
        half = scenario.events // 2
        self._phase("subscribe", self._subscribe, range(scenario.subscriptions))
        self._phase("publish", self._publish, range(half))
        self._phase("reword", self._change, range(scenario.subscriptions))
        self._phase("publish", self._publish, range(half, scenario.events))
        return self._judged()

    def _phase(self, name: str, verb: Callable[[int], None], numbers: range) -> None:
        world = self.world
        before, start_us = Counter(world.kinds), world.now_us + QUIET_US
        purpose = REGISTER if name == "subscribe" else WITHDRAW
        for turn, number in enumerate(numbers):
            world.at(start_us + turn * SPACING_US, purpose, partial(verb, number))
        world.run()
        counted = Counter(self.messages.get(name, {})) + (world.kinds - before)
        self.messages[name] = dict(sorted(counted.items()))

    def _peer(self, address: int) -> Subscriber:
        peer = self.population[address]
        assert isinstance(peer, Subscriber), (
            f"design {self.scenario.design} says it takes subscriptions"
        )
        return peer

    def _subscribe(self, number: int) -> None:
        peer, target = self.scenario.workload.subscription(number)
        there = self._peer(peer).subscribe(target)
        self.subscriptions_now[number] = (peer, there, target)
        self.wordings[peer, there] = 1

    def _change(self, number: int) -> None:
        peer, there, _ = self.subscriptions_now[number]
        draw = stream(self.scenario.seed, "change", number).random()
        if draw < self.scenario.taken_back:
            self._peer(peer).unsubscribe(there)
            del self.subscriptions_now[number], self.wordings[peer, there]
        elif draw < self.scenario.taken_back + self.scenario.reworded:
            target = self.scenario.workload.subscription(number, 1).target
            self._peer(peer).update(there, target)
            self.subscriptions_now[number] = (peer, there, target)
            self.wordings[peer, there] = 2

    def _publish(self, number: int) -> None:
        publisher, description = self.scenario.workload.event(number)
        cast = self._peer(publisher).publish(description, b"")
        self.expected[cast] = {
            peer
            for peer, _, target in self.subscriptions_now.values()
            if target.selects(description)
        }

    def _judged(self) -> EventOutcome:
        counts: Counter[tuple[CastId, int]] = Counter()
        complete: dict[tuple[int, int], int] = {}
        refused = []
        for _, address, event in self.world.events:
            if isinstance(event, Notice):
                counts[event.cast, address] += 1
            elif isinstance(event, Subscribed):
                complete[address, event.number] = event.version
            elif isinstance(event, Unsubscribed):
                complete.pop((address, event.number), None)
            elif isinstance(event, Refused):
                refused.append(f"{address}: {event.verb}: {event.reason}")
        wanted = {(cast, peer) for cast, peers in self.expected.items() for peer in peers}
        return EventOutcome(
            expected=len(wanted),
            notified=counts.total(),
            missing=sum(each not in counts for each in wanted),
            repeated=counts.total() - len(counts),
            uninvited=sum(each not in wanted for each in counts),
            refused=tuple(refused),
            incomplete=sum(
                complete.get(each) != wording for each, wording in self.wordings.items()
            ),
            messages=self.messages,
            objections=population(self.design).objections(self.population),
        )


def run_events(scenario: EventScenario) -> EventOutcome:
    """Run the scenario and check it."""
    return EventRun(scenario).go()
