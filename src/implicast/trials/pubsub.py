"""Hops to store a range, by its width and the size of the ring, for both hash functions, beside the
paper's formulas. One call gives one row of plain values.

    storage_trial(nodes=1024, values=16, ordered=True, domain=1024, seed=1)

The paper counts a lookup as half of log2 N hops (section 3.3): r times that on Chord, r plus that
on OPChord (4.1). The trial counts messages sent. The message to the successor is one of them, 0.9
on average, since a node sometimes is the successor itself.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import log2
from typing import TypedDict

from implicast.casting.designs import design
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.refs import Ref
from implicast.peer.subscriber import Subscriber
from implicast.space.digest import stream
from implicast.world.events_run import CountingWorld
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population

LAST_HOP = 0.9
"""The last hop of a lookup, beside half of log2 N."""


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
    """Mean hops to store a subscription to one range of `values` values."""
    formula: float
    """The paper's: r 1/2 log2 N, or r + 1/2 log2 N."""
    formula_with_last_hop: float
    """The same with the last hop of each lookup counted."""


def storage_trial(
    nodes: int,
    values: int,
    ordered: bool,
    domain: int,
    seed: int = 1,
    samples: int = 50,
    walk: str = "auto",
) -> StorageRow:
    """Store ranges of `values` values from random peers at random places; mean hops beside the
    formulas.
    """
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
        hops=ring.world.kinds["PutEntry"] / samples,
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


def event_trial(
    nodes: int, attributes: int, ordered: bool, seed: int = 1, samples: int = 50
) -> EventRow:
    """Publish events with this many attributes; mean hops of fetching, beside the formula."""
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
        hops=ring.world.kinds["FetchLists"] / samples,
        formula=attributes * log2(nodes) / 2,
    )


class UpdateRow(TypedDict):
    """One row of the experiment `hops of an update`."""

    design: str
    nodes: int
    touched: int
    seed: int
    hops: float
    """Mean hops of an update that removes `touched` values from a range and adds as many."""
    formula: float
    """k log2 N on Chord, where an equality has k = 1; on OPChord two lookups and a walk over the
    touched values.
    """


def update_trial(
    nodes: int, touched: int, ordered: bool, seed: int = 1, samples: int = 50
) -> UpdateRow:
    """Move ranges by `touched` values; 1 is an equality that gets another value."""
    ring = PubSubRing(nodes, ordered, nodes, seed, "auto")
    chance = stream(seed, "update trial", nodes, touched)
    width = 1 if touched == 1 else 2 * touched
    moved = 0
    for _ in range(samples):
        peer, low = ring.peers[chance.randrange(nodes)], chance.randrange(nodes - width - touched)
        step = chance.randrange(width, nodes - width - low) if touched == 1 else touched
        number = ring.subscribed(peer, _range(low, low + width - 1))
        before = ring.world.kinds["PutEntry"]
        ring.do(partial(peer.update, number, _range(low + step, low + step + width - 1)))
        moved += ring.world.kinds["PutEntry"] - before
    half = log2(nodes) / 2
    return UpdateRow(
        design=ring.name,
        nodes=nodes,
        touched=touched,
        seed=seed,
        hops=moved / samples,
        formula=2 * (half + touched - 1) if ordered else touched * 2 * half,
    )


def figure_6(seed: int = 1) -> dict[str, float]:
    """The paper's own example: eight nodes at 0 to 7, a subscription at node 3 with 0 < a < 4,
    whose values 1, 2 and 3 lie at nodes 6, 2 and 4 by Chord's hash (Figure 6) and at 6, 7 and 0 by
    the order-preserving one (Figure 7).
    """
    tables = _eight_nodes()
    return {
        "hops_hashed": sum(_hops(tables, 3, place) for place in (6, 2, 4)),
        "hops_ordered": _hops(tables, 3, 6) + _hops(tables, 6, 7) + _hops(tables, 7, 0),
        "hops_walked": _hops(tables, 6, 7) + _hops(tables, 7, 0),
    }


def _eight_nodes() -> list[FingerTable]:
    refs = [Ref(number, number) for number in range(8)]
    tables = [FingerTable(ref, 3) for ref in refs]
    for number, table in enumerate(tables):
        levels = {level: refs[(number + (1 << level)) % 8] for level in range(1, 3)}
        table.restore(table.me, refs[number - 1], refs[(number + 1) % 8], levels)
    return tables


def _hops(tables: Sequence[FingerTable], start: int, key: int) -> int:
    at, hops = start, 0
    while not tables[at].owns(key):
        at, hops = tables[at].key_of(tables[at].next_hop(key)), hops + 1
    return hops


def _range(low: int, high: int) -> Target:
    return Target((Term(where=(Predicate("a0", low, high),)),))


class PubSubRing:
    """An assembled ring of one of the two designs, for trials."""

    def __init__(
        self, nodes: int, ordered: bool, domain: int, seed: int, walk: str, attributes: int = 1
    ) -> None:
        self.name = "opchord-pubsub" if ordered else "chord-pubsub"
        found = design(self.name)
        schema = "; ".join(f"a{index}: 0..{domain - 1}" for index in range(attributes))
        parameters = found.settle(
            {"assurance": "none", "schema": schema, "walk": walk, "values_max": max(domain, 1)}
        )
        self.world = CountingWorld(build("flat", hosts=nodes, infrastructure=0, seed=seed), seed)
        plan = Plan(nodes, 0, parameters, seed, self.world.host, self.world.latency_us)
        self.peers: list[Subscriber] = []
        for address, peer in enumerate(population(found).assemble(plan)):
            assert isinstance(peer, Subscriber), "members of these designs subscribe"
            self.peers.append(peer)
            self.world.place(address, peer)

    def do(self, verb: Callable[[], object]) -> None:
        """Run an action of a peer and everything that follows from it."""
        self.world.at(self.world.now_us, REGISTER, verb)
        self.world.run()

    def subscribed(self, peer: Subscriber, target: Target) -> int:
        """Let a peer subscribe; returns the number of its subscription."""
        numbers: list[int] = []
        self.do(lambda: numbers.append(peer.subscribe(target)))
        return numbers[0]

    def store(self, peer: int, low: int, high: int) -> None:
        self.do(partial(self.peers[peer].subscribe, _range(low, high)))
