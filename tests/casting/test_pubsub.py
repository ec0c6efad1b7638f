"""Publish/subscribe designs against trying everything on everything; both directions; lists that follow the ring."""

from collections.abc import Callable
from random import Random

import pytest

from implicast.casting.designs import design
from implicast.casting.pubsub import PubSub
from implicast.casting.pubsub.value_mapping import ValueMapping
from implicast.casting.replicated_lists.entries import ListEntry
from implicast.language.attributes import Schema
from implicast.language.parse import describe, parse
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.peer.events import Joined, Left, Notice, Refused, Registered, Withdrawn
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.workload.pubsub import Ranges
from implicast.world.events_run import CountingWorld, EventScenario, run_events
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import JOIN, LEAVE, REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population as the_population

DESIGNS = ["chord-pubsub", "opchord-pubsub", "centralised"]
RINGS = DESIGNS[:2]
SCHEMA = Schema.read("price: 0.00..9.99 by 0.01; size: 0..49; exchange: text")


@pytest.mark.parametrize("name", DESIGNS)
def test_every_event_reaches_whom_it_matches_also_after_updates_and_deletions(name: str) -> None:
    ranges = Ranges(seed=3, peers=48, domain=200)
    outcome = run_events(
        EventScenario(name, ranges, 48, subscriptions=80, events=80, seed=3, strict=True)
    )

    assert outcome.clean, outcome
    assert outcome.expected > 100
    assert outcome.objections == []


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_a_thousand_subscriptions_and_events_on_1024_peers(name: str) -> None:
    outcome = run_events(
        EventScenario(name, Ranges(seed=1, peers=1024), 1024, subscriptions=1000, events=1000)
    )

    assert outcome.clean, outcome
    assert outcome.expected > 5_000


@pytest.mark.parametrize("name", DESIGNS)
def test_repeated_and_overtaken_messages_notify_nobody_twice(name: str) -> None:
    faults = Faults(duplicate=0.1, reorder=0.2, jitter=1.0)
    ranges = Ranges(seed=5, peers=32, domain=100)
    outcome = run_events(
        EventScenario(name, ranges, 32, subscriptions=40, events=40, faults=faults)
    )

    assert outcome.clean, outcome


class Ring:
    """An assembled or growing population of one design in a strict world."""

    def __init__(
        self,
        name: str,
        peers: int,
        standing: int | None = None,
        faults: Faults | None = None,
        assurance: str = "none",
        schema: Schema = SCHEMA,
    ) -> None:
        self.design = design(name)
        self.assured = assurance == "receipts"
        parameters = self.design.settle({"schema": str(schema), "assurance": assurance})
        network = build("flat", hosts=peers, infrastructure=0, seed=1)
        fate = FaultStream(faults, 1) if faults else None
        self.world = CountingWorld(network, 1, faults=fate, codec=Codec(self.design.kinds))
        self.plan = Plan(
            peers if standing is None else standing,
            0,
            parameters,
            1,
            self.world.host,
            network.latency_us,
        )
        self.members: list[PubSub] = []
        for peer in the_population(self.design).assemble(self.plan):
            self._place(peer)
        for address in range(len(self.members), peers):
            self._place(self.plan.new_member(self.design, address))

    def _place(self, peer: object) -> None:
        assert isinstance(peer, PubSub)
        self.world.place(len(self.members), peer)
        self.members.append(peer)

    def do(self, verb: Callable[[], object], purpose: int = REGISTER) -> None:
        self.world.at(self.world.now_us + 1, purpose, verb)
        self.rest()

    def rest(self, for_s: int = 10) -> None:
        """Until nothing is under way any more; with receipts upkeep never rests, and a while must do."""
        self.world.run(self.world.now_us + for_s * 1_000_000 if self.assured else None)

    def entries(self, own: bool = True) -> list[tuple[PubSub, ListEntry]]:
        """All entries in force, each with the member that answers for it; or, not `own`, with all who keep it."""
        here = [member for member in self.members if member.links.state == "in"]
        found = [
            (member, entry)
            for member in here
            for entry in member.holder_state.all_entries()
            if entry.packed
        ]
        return [
            (member, entry) for member, entry in found if not own or member.chord.owns(entry.key)
        ]

    def heard(self, kind: type) -> list[tuple[int, object]]:
        found = [
            (address, event) for _, address, event in self.world.events if isinstance(event, kind)
        ]
        self.world.events = [each for each in self.world.events if not isinstance(each[2], kind)]
        return found

    def notified(self) -> list[int]:
        return sorted(address for address, _ in self.heard(Notice))


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("name", RINGS)
def test_the_papers_example_from_subscribing_to_being_told(name: str, assurance: str) -> None:
    ring = Ring(name, 16, assurance=assurance)
    wanted = parse("price < 8.70 & price > 8.30 & exchange = NYSE", SCHEMA)
    ring.do(lambda: ring.members[4].subscribe(wanted))
    assert ring.heard(Subscribed) == [(4, Subscribed(1, 1))]
    lists = [entry.slot for _, entry in ring.entries()]
    assert len(lists) == len(set(lists)) == 40, "39 prices and one exchange"

    for price, told in (("8.30", []), ("8.31", [4]), ("8.69", [4]), ("8.70", [])):
        event = describe(values={"price": price, "exchange": "NYSE"}, schema=SCHEMA)
        ring.do(lambda event=event: ring.members[9].publish(event, b"tick"))
        assert ring.notified() == told, price


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("name", RINGS)
def test_an_update_moves_only_the_difference(name: str, assurance: str) -> None:
    ring = Ring(name, 24, assurance=assurance)
    member = ring.members[0]
    ring.do(lambda: member.subscribe(parse("price in 2.00..2.99", SCHEMA)))
    before = {(entry.slot[2], entry.number): entry.stamp for _, entry in ring.entries()}
    (sub_id,) = {number for _, number in before}

    ring.do(lambda: member.update(1, parse("price in 2.10..3.04", SCHEMA)))

    assert [event for _, event in ring.heard(Subscribed)] == [Subscribed(1, 1), Subscribed(1, 2)]
    after = {(entry.slot[2], entry.number): entry.stamp for _, entry in ring.entries()}
    assert sorted(after) == [(step, sub_id) for step in range(210, 305)]
    assert len(before.keys() - after.keys()) == 10, "ten values go"
    assert sum(before.get(each) != stamp for each, stamp in after.items()) == 5, (
        "five come, the others stay as they are"
    )


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("name", RINGS)
def test_unsubscribing_leaves_nothing_behind(name: str, assurance: str) -> None:
    ring = Ring(name, 24, assurance=assurance)
    ring.do(
        lambda: ring.members[3].subscribe(
            parse("price in 1.00..1.50 & size > 40 | exchange = LSE", SCHEMA)
        )
    )
    assert ring.entries()

    ring.do(lambda: ring.members[3].unsubscribe(1))

    assert ring.heard(Unsubscribed) == [(3, Unsubscribed(1))]
    assert not ring.entries(own=False)


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("name", RINGS)
def test_not_equal_is_the_two_ranges_around_and_tells_once(name: str, assurance: str) -> None:
    ring = Ring(name, 12, assurance=assurance)
    ring.do(lambda: ring.members[2].subscribe(parse("size != 7 | size > 20", SCHEMA)))

    for size, told in ((6, [2]), (7, []), (30, [2])):
        ring.do(
            lambda size=size: ring.members[5].publish(
                describe(values={"size": size}, schema=SCHEMA), b""
            )
        )
        assert ring.notified() == told, size


def test_a_subscription_that_admits_too_many_values_is_refused_with_a_reason() -> None:
    ring = Ring("chord-pubsub", 4)
    ring.members[0].mapping = ValueMapping(SCHEMA, ordered=False, walk="auto", values_max=100)

    ring.do(lambda: ring.members[0].subscribe(parse("price < 5.00", SCHEMA)))

    ((_, refused),) = ring.heard(Refused)
    assert isinstance(refused, Refused)
    assert "500 values; at most 100" in refused.reason


# Domains too wide to keep a list for each value

WIDE = Schema.read("price: 0..2000 by 0.01; weight: 0..1000000000 by 0.000001")


@pytest.mark.parametrize("assurance", ["none", "receipts"])
def test_wide_ranges_are_stored_by_cells_and_compared_exactly(assurance: str) -> None:
    """Events on both sides of every end, against what the target itself says of them."""
    ring, chance = Ring("opchord-pubsub", 24, assurance=assurance, schema=WIDE), stream(3, "wide")
    wanted = [
        parse(text, WIDE)
        for text in ("price > 100", "price < 1000.07", "weight > 7.5 & price > 1999.98")
    ]
    for number, target in enumerate(wanted):
        ring.do(lambda number=number, target=target: ring.members[number].subscribe(target))
    assert len(ring.heard(Subscribed)) == 3
    assert max(len(member.holder_state.entries.digests) for member in ring.members) < 3_000

    edges = ["100", "100.01", "1000.06", "1000.07", "1999.98", "1999.99", "2000", "0"]
    for price in [*edges, *(f"{chance.randrange(200_000) / 100:.2f}" for _ in range(8))]:
        event = describe(values={"price": price, "weight": "900000000.000001"}, schema=WIDE)
        ring.do(lambda event=event: ring.members[9].publish(event, b"tick"))
        assert ring.notified() == [n for n, each in enumerate(wanted) if each.selects(event)], price


def test_a_wide_subscription_is_moved_and_ended() -> None:
    ring = Ring("opchord-pubsub", 16, schema=WIDE)
    ring.do(lambda: ring.members[4].subscribe(parse("price > 100", WIDE)))
    ring.do(lambda: ring.members[4].update(1, parse("price > 1500 | price = 3", WIDE)))

    for price, told in (("100.01", []), ("1500", []), ("1500.01", [4]), ("3", [4])):
        ring.do(
            lambda price=price: ring.members[9].publish(
                describe(values={"price": price}, schema=WIDE), b""
            )
        )
        assert ring.notified() == told, price
    ring.do(lambda: ring.members[4].unsubscribe(1))
    assert ring.entries() == []


def test_casts_over_wide_ranges_reach_the_peers_whose_values_they_select() -> None:
    ring, chance = Ring("opchord-pubsub", 30, schema=WIDE), stream(5, "wide casts")
    said = [Description((), (Value("price", chance.randrange(200_001)),)) for _ in ring.members]
    for member, description in zip(ring.members, said, strict=True):
        ring.do(lambda member=member, description=description: member.register(description))

    for low in (0, 10_000, 100_007, 199_000):
        target = Target((Term(where=(Predicate("price", low, None),)),))
        ring.do(lambda target=target: ring.members[3].cast(target, b""))
        assert ring.notified() == [n for n, each in enumerate(said) if target.selects(each)], low


# The other direction


def random_description(chance: Random) -> Description:
    values = (Value("price", chance.randrange(1000)), Value("size", chance.randrange(50)))
    return Description(("jazz",) if chance.random() < 0.4 else (), values)


def random_target(chance: Random) -> Target:
    terms = set()
    for _ in range(chance.randrange(1, 3)):
        low, width = chance.randrange(1000), chance.randrange(200)
        has = ("jazz",) if chance.random() < 0.3 else ()
        terms.add(Term(has=has, where=(Predicate("price", low, min(999, low + width)),)))
    return Target(tuple(sorted(terms)))


@pytest.mark.parametrize("name", RINGS)
def test_casts_with_predicates_reach_the_peers_whose_values_they_select(name: str) -> None:
    ring, chance = Ring(name, 40), stream(7, "attributes")
    descriptions = [random_description(chance) for _ in ring.members]
    for member, description in zip(ring.members, descriptions, strict=True):
        ring.do(lambda member=member, description=description: member.register(description))
    assert len(ring.heard(Registered)) == 40

    for _ in range(25):
        target, publisher = random_target(chance), ring.members[chance.randrange(40)]
        ring.do(lambda target=target, publisher=publisher: publisher.cast(target, b""))
        assert ring.notified() == [
            n for n, each in enumerate(descriptions) if target.selects(each)
        ], target

    ring.do(ring.members[0].withdraw)
    ((who, withdrawn),) = ring.heard(Withdrawn)
    assert who == 0
    assert isinstance(withdrawn, Withdrawn)
    assert withdrawn.version == ring.members[0].version


# The ring changes, the lists follow


@pytest.mark.parametrize("name", RINGS)
def test_lists_follow_their_keys_through_joins_and_leaves(name: str) -> None:
    ring = Ring(name, 30, standing=14)
    targets = {
        peer: parse(f"price in {peer % 5}.00..{peer % 5 + 1}.49 & size > {peer}", SCHEMA)
        for peer in range(1, 13, 2)
    }
    for peer, target in targets.items():
        ring.do(lambda peer=peer, target=target: ring.members[peer].subscribe(target))
    before = sorted((entry.slot, entry.number, entry.stamp) for _, entry in ring.entries())

    for address in range(14, 30):
        ring.world.at(
            address * 100_000 + ring.world.now_us,
            JOIN,
            lambda address=address: ring.members[address].join((0,)),
        )
    for address in (0, 2, 4, 6, 8):
        ring.world.at(4_000_000 + address + ring.world.now_us, LEAVE, ring.members[address].leave)
    ring.rest()

    assert sorted(address for address, _ in ring.heard(Joined)) == list(range(14, 30))
    assert sorted(address for address, _ in ring.heard(Left)) == [0, 2, 4, 6, 8]
    assert the_population(ring.design).objections(ring.members) == []
    after = [(entry.slot, entry.number, entry.stamp) for _, entry in ring.entries()]
    assert sorted(after) == before, "everything where it belongs, nothing lost, nothing twice"
    for price in ("0.70", "1.20", "4.40"):
        event = describe(values={"price": price, "size": 30}, schema=SCHEMA)
        ring.do(lambda event=event: ring.members[20].publish(event, b""))
        assert ring.notified() == [
            peer for peer, target in targets.items() if target.selects(event)
        ]


@pytest.mark.parametrize("seed", range(6))
def test_lists_survive_hurried_changes_in_a_lossy_network(seed: int) -> None:
    faults = Faults(loss=0.05, duplicate=0.05, reorder=0.2)
    ring = Ring("opchord-pubsub", 20, standing=10, faults=faults, assurance="receipts")
    chance = stream(seed, "hurry")
    ring.do(lambda: ring.members[1].subscribe(parse("price in 1.00..8.99", SCHEMA)))
    for address in range(10, 20):
        ring.world.at(
            ring.world.now_us + chance.randrange(2_000_000),
            JOIN,
            lambda address=address: ring.members[address].join((1, 3)),
        )
    for address in (0, 2, 4, 6, 8):
        ring.world.at(
            ring.world.now_us + chance.randrange(2_000_000), LEAVE, ring.members[address].leave
        )
    ring.rest(60)

    assert the_population(ring.design).objections(ring.members) == []
    assert sum(member.links.state == "in" for member in ring.members) == 15
    assert {entry.slot[2] for _, entry in ring.entries()} == set(range(100, 900)), f"seed {seed}"


@pytest.mark.parametrize("name", RINGS)
def test_what_was_replaced_while_its_keeper_was_asked_for_it_does_not_come_back(name: str) -> None:
    """The question about the old entry ended without an answer after the new one was laid."""
    ring = Ring(name, 12, assurance="receipts")
    own_entries = ring.members[1].own_entries
    ring.do(lambda: ring.members[1].register(describe("jazz", "chess")))
    before = [
        (own_entry, (own_entry.low, own_entry.high))
        for own_entry in own_entries.table.by_serial.values()
    ]
    ring.do(lambda: ring.members[1].register(describe("jazz", "football")))
    ring.do(lambda: own_entries.put_again(before))

    kept = {
        entry.slot[2]: entry
        for _, entry in ring.entries()
        if entry.slot[2] in ("jazz", "chess", "football")
    }
    assert set(kept) == {"jazz", "football"}
    assert b"football" in kept["jazz"].packed


@pytest.mark.parametrize("name", RINGS)
def test_what_is_wanted_again_is_not_taken_out_by_what_was_said_before(name: str) -> None:
    """The removal, unanswered through all the loss, would be repeated with a stamp above that of the second word."""
    ring = Ring(name, 12, faults=Faults(loss=0.4), assurance="receipts")
    ring.do(lambda: ring.members[1].subscribe(parse("price in 1.00..1.19", SCHEMA)))
    ring.rest(40)
    for seconds in range(0, 12, 2):
        for after_s, until in ((0, "1.09"), (1, "1.19")):
            wanted = parse(f"price in 1.00..{until}", SCHEMA)
            ring.world.at(
                ring.world.now_us + (seconds + after_s) * 1_000_000 + 1,
                REGISTER,
                lambda wanted=wanted: ring.members[1].update(1, wanted),
            )
    ring.rest(120)

    assert {entry.slot[2] for _, entry in ring.entries()} == set(range(100, 120))


@pytest.mark.parametrize("seed", range(4))
def test_all_but_one_may_leave_at_once_and_nothing_is_lost(seed: int) -> None:
    ring = Ring("opchord-pubsub", 8, faults=Faults(jitter=0.5 + seed / 10))
    ring.do(lambda: ring.members[3].subscribe(parse("price in 1.00..3.99", SCHEMA)))
    for address in (0, 1, 2, 4, 5, 6, 7):
        ring.world.at(ring.world.now_us + 1, LEAVE, ring.members[address].leave)
    ring.rest()

    assert len(ring.heard(Left)) == 7
    assert {entry.slot[2] for _, entry in ring.entries()} == set(range(100, 400))
    assert the_population(ring.design).objections(ring.members) == []


def test_centralised_speaks_of_values_too() -> None:
    chance, count = stream(9, "central"), 30
    central = design("centralised")
    network = build("flat", hosts=count, infrastructure=1, seed=1)
    world = CountingWorld(network, 1, codec=Codec(central.kinds))
    roles = {"server": (count,)}
    plan = Plan(count, 1, central.settle({}), 1, world.host, network.latency_us, roles=roles)
    population = the_population(central).assemble(plan)
    members = [peer for peer in population if isinstance(peer, Subscriber)]
    for address, peer in enumerate(population):
        world.place(address, peer)
    descriptions = [random_description(chance) for _ in members]
    for member, description in zip(members, descriptions, strict=True):
        world.at(
            0, REGISTER, lambda member=member, description=description: member.register(description)
        )
    world.run()

    for _ in range(20):
        target = random_target(chance)
        world.events.clear()
        world.at(world.now_us, REGISTER, lambda target=target: members[0].cast(target, b""))
        world.run()
        told = sorted(address for _, address, event in world.events if isinstance(event, Notice))
        assert told == [n for n, each in enumerate(descriptions) if target.selects(each)]
