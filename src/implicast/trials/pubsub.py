"""How many hops it takes to store a range, by its width and the size of the ring, for both hashes; with the paper's
formulas beside the measured. One call gives one row of plain values.

    storage_trial(nodes=1024, values=16, ordered=True, domain=1024, seed=1)

The paper counts a look-up as half of log2 N hops (section 3.3): r times that on Chord, r plus that on OPChord (4.1).
Measured here is what is sent: the message that reaches the successor counts too, 0.9 on average, since a node
sometimes is the successor itself.
"""

from collections.abc import Callable
from functools import partial
from math import log2
from typing import TypedDict

from implicast.casting.designs import design
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.peer.subscriber import Subscriber
from implicast.space.digest import stream
from implicast.world.events_run import CountingWorld
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population

LAST_HOP = 0.9
"""Of a look-up, beside half of log2 N."""


class StorageRow(TypedDict):
    """One row of the experiment `hops by r and N`."""

    design: str
    nodes: int
    domain: int
    values: int
    walk: str
    seed: int
    samples: int
    hops: float
    """Mean hops to store a subscription with one range of so many values."""
    formula: float
    """The paper's: r 1/2 log2 N, or r + 1/2 log2 N."""
    formula_with_last_hop: float
    """The same with the last hop of each look-up counted."""


def storage_trial(
    nodes: int, values: int, ordered: bool, domain: int, seed: int = 1, samples: int = 50, walk: str = "auto"
) -> StorageRow:
    """Store ranges of so many values from random peers at random places; mean hops beside the formulas."""
    ring = PubSubRing(nodes, ordered, domain, seed, walk)
    chance = stream(seed, "storage trial", nodes, values, domain)
    for _ in range(samples):
        low = chance.randrange(domain - values + 1)
        ring.store(chance.randrange(nodes), low, low + values - 1)
    half = log2(nodes) / 2
    return StorageRow(
        design=ring.name,
        nodes=nodes,
        domain=domain,
        values=values,
        walk=walk,
        seed=seed,
        samples=samples,
        hops=ring.world.kinds["Lay"] / samples,
        formula=values + half if ordered else values * half,
        formula_with_last_hop=values + half if ordered else values * (half + LAST_HOP),
    )


class EventRow(TypedDict):
    """One row of the experiment `hops of an event`."""

    design: str
    nodes: int
    attributes: int
    seed: int
    hops: float
    """Mean hops to reach the lists of all attributes of an event."""
    formula: float
    """A 1/2 log2 N."""


def event_trial(nodes: int, attributes: int, ordered: bool, seed: int = 1, samples: int = 50) -> EventRow:
    """Publish events with so many attributes; mean hops of fetching, beside the formula."""
    ring = PubSubRing(nodes, ordered, nodes, seed, "auto", attributes)
    chance = stream(seed, "event trial", nodes, attributes)
    for _ in range(samples):
        values = tuple(Value(f"a{index}", chance.randrange(nodes)) for index in range(attributes))
        publisher = ring.peers[chance.randrange(nodes)]
        ring.do(partial(publisher.publish, Description((), values), b""))
    return EventRow(
        design=ring.name,
        nodes=nodes,
        attributes=attributes,
        seed=seed,
        hops=ring.world.kinds["Ask"] / samples,
        formula=attributes * log2(nodes) / 2,
    )


class PubSubRing:
    """An assembled ring of one of the two designs, for trials."""

    def __init__(self, nodes: int, ordered: bool, domain: int, seed: int, walk: str, attributes: int = 1) -> None:
        self.name = "opchord-pubsub" if ordered else "chord-pubsub"
        found = design(self.name)
        schema = "; ".join(f"a{index}: 0..{domain - 1}" for index in range(attributes))
        parameters = found.settle({"assurance": "none", "schema": schema, "walk": walk, "values_max": max(domain, 1)})
        self.world = CountingWorld(build("flat", hosts=nodes, infrastructure=0, seed=seed), seed)
        plan = Plan(nodes, 0, parameters, seed, self.world.host, self.world.latency_us)
        self.peers: list[Subscriber] = []
        for address, peer in enumerate(population(found).assemble(plan)):
            assert isinstance(peer, Subscriber), "members of these designs subscribe"
            self.peers.append(peer)
            self.world.place(address, peer)

    def do(self, verb: Callable[[], object]) -> None:
        """Let a verb be said and all that follows from it happen."""
        self.world.at(self.world.now_us, REGISTER, verb)
        self.world.run()

    def store(self, peer: int, low: int, high: int) -> None:
        target = Target((Term(where=(Predicate("a0", low, high),)),))
        self.do(partial(self.peers[peer].subscribe, target))
