"""condcast without receipts: the contract in both ways of settling, promises, attributes, values over key ranges."""

from dataclasses import replace
from pathlib import Path

import pytest

from implicast.casting.condcast import DESIGNS
from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.messages import KINDS, ForwardCast, Update
from implicast.casting.condcast.place import rank
from implicast.language.aggregate import TargetQuery
from implicast.language.parameters import Parameters
from implicast.language.queries import Above, Within
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.language.values import Interval, Threshold
from implicast.overlay.chord_sharp import FingerValue
from implicast.peer.contract import CastId
from implicast.peer.events import Notice, Registered, Withdrawn
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.world.faults import Faults
from implicast.world.journal import REGISTER, batches
from implicast.world.plan import Plan
from implicast.world.populations import chord_sharp as sharp_rings
from implicast.world.populations import population
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate
from implicast.world.world import World
from sites import sealed

DESIGN = DESIGNS[0]
SECOND_US = 1_000_000
FEW_TAGS = {"tags": 60, "tags_per_peer": 6}


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


def _kept(outcome: SimulationOutcome) -> SimulationOutcome:
    assert outcome.contract.clean, f"{outcome.contract}\nreplay: {outcome.scenario.command()}"
    assert outcome.contract.expected > 0
    assert outcome.objections == []
    return outcome


def _run(**options: object) -> SimulationOutcome:
    given = {"assurance": "none", **options.pop("parameters", {})}  # type: ignore[dict-item]
    return simulate(
        Scenario(
            "condcast",
            **{"peers": 100, "casts": 60, "strict": True, **options, "parameters": given},
        )
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("settle", ["assembled", "flows"])
@pytest.mark.parametrize("place", ["random", "tags"])
def test_the_contract_is_kept_however_values_settle_and_wherever_peers_stand(
    settle: str, place: str
) -> None:
    _kept(_run(parameters={"settle": settle, "place": place}, seed=2))


@pytest.mark.parametrize("seed", range(4))
def test_flows_bring_changed_descriptions_to_all_before_they_are_promised(seed: int) -> None:
    outcome = _run(
        parameters={"settle": "flows"},
        seed=seed,
        changes=60,
        casts=400,
        interval_ms=2000,
        workload_parameters=FEW_TAGS,
    )

    _kept(outcome)


@pytest.mark.parametrize("settle", ["assembled", "flows"])
def test_a_ring_grown_by_joins_keeps_the_contract_and_ends_as_an_assembled_one(settle: str) -> None:
    _kept(
        _run(peers=60, start="joined", parameters={"settle": settle}, workload_parameters=FEW_TAGS)
    )


@pytest.mark.parametrize("seed", range(3))
def test_repeated_and_overtaken_messages_notify_nobody_twice(seed: int) -> None:
    faults = Faults(duplicate=0.2, reorder=0.3, jitter=0.5)

    outcome = _run(
        peers=60,
        seed=seed,
        faults=faults,
        parameters={"settle": "flows"},
        workload_parameters=FEW_TAGS,
    )

    assert outcome.contract.clean, outcome.contract
    assert outcome.contract.expected > 0


def test_a_narrow_filter_costs_messages_and_no_notice() -> None:
    wide, narrow = (_kept(_run(parameters={"bits": bits}, seed=5)) for bits in (4096, 64))

    assert narrow.contract.notified == wide.contract.notified
    assert narrow.messages["cast"] > 1.5 * wide.messages["cast"]
    assert narrow.measures["STOR_M"] < wide.measures["STOR_M"] / 5


def test_every_receiver_gets_one_message_and_the_way_is_short(tmp_path: Path) -> None:
    simulate(Scenario("condcast", 300, 40, 3, {"assurance": "none"}), tmp_path / "journal")

    received: dict[tuple[int, int], int] = {}
    for batch in batches(tmp_path / "journal", "sends", ["cast", "receiver", "depth"]):
        for cast, receiver, depth in zip(
            *(batch[name].to_pylist() for name in ("cast", "receiver", "depth")), strict=True
        ):
            received[cast, receiver] = received.get((cast, receiver), 0) + 1
            assert depth <= 9, "ceil(log2 300)"
    assert received
    assert set(received.values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("settle", ["assembled", "flows"])
def test_the_contract_is_kept_at_4096_peers_and_1024_casts(seed: int, settle: str) -> None:
    outcome = simulate(
        Scenario("condcast", seed=seed, parameters={"assurance": "none", "settle": settle})
    )

    assert outcome.contract.clean, outcome.contract
    assert outcome.contract.expected > 50_000


# --- peers without a scenario


def _population(
    count: int, descriptions: list[Description] | None = None, **given: object
) -> tuple[World, list[Condcast]]:
    world = World(Flat(), codec=Codec(DESIGN.kinds))
    plan = Plan(
        count,
        0,
        peers_parameters(**given),
        1,
        world.host,
        world.latency_us,
        descriptions=descriptions or (),
    )
    peers = population(DESIGN).assemble(plan)
    for address, peer in enumerate(peers):
        world.place(address, peer)
    return world, peers  # type: ignore[return-value]


def _told(world: World) -> list[int]:
    return sorted(address for _, address, event in world.events if isinstance(event, Notice))


def test_attributes_are_found_by_hulls_and_texts_and_decided_by_the_peer() -> None:
    rng = stream(1, "attributes")
    descriptions = [
        Description(
            ("jazz",) if rng.random() < 0.5 else (),
            (Value("age", rng.randrange(100)), Value("city", city)),
        )
        for city in rng.choices(["Berlin", "Osaka", "Oslo"], k=120)
    ]
    world, peers = _population(120, descriptions)
    terms = (
        Term(("jazz",), (), (Predicate("age", 20, 35),)),
        Term((), ("jazz",), (Predicate("city", "Oslo", "Oslo"), Predicate("age", None, 12))),
    )
    target = Target(terms)
    world.at(
        0, 0, lambda: [peer.register(each) for peer, each in zip(peers, descriptions, strict=True)]
    )
    world.at(SECOND_US, 0, lambda: peers[5].cast(target, b"hello"))
    world.run()

    due = [address for address, each in enumerate(descriptions) if target.selects(each)]
    assert _told(world) == due
    assert 0 < len(due) < 40
    assert world.carried < 119, "fewer than a broadcast"


def test_values_of_any_kind_are_cast_to_over_a_range_of_keys() -> None:
    rng = stream(2, "values")
    world, peers = _population(80)
    numbers = [rng.randrange(100) for _ in peers]
    values: list[FingerValue] = [Interval(number, number) for number in numbers]
    for peer, value in zip(peers, values, strict=True):
        peer.restore(value)
    sharp_rings.assemble([peer.ring for peer in peers])
    arc = Arc(1 << 59, 1 << 62)
    world.at(0, 0, lambda: peers[0].condcast(arc, Within(10, 20), b""))
    world.run()

    due = [
        at for at, peer in enumerate(peers) if peer.links.me.key in arc and 10 <= numbers[at] <= 20
    ]
    assert _told(world) == due
    assert due


def test_a_value_is_promised_when_an_update_has_passed_and_the_age_is_over() -> None:
    world, peers = _population(50, settle="flows")
    world.at(0, REGISTER, lambda: [peer.set_value(Threshold(1)) for peer in peers])
    world.run(400 * SECOND_US)
    world.events.clear()

    world.at(world.now_us, REGISTER, lambda: peers[7].set_value(Threshold(9)))
    begun_us = world.now_us
    world.run()

    [(time_us, address, event)] = [
        entry for entry in world.events if isinstance(entry[2], Registered)
    ]
    assert (address, event) == (7, Registered(peers[7].version))
    assert 210 <= (time_us - begun_us) / SECOND_US <= 250, (
        "six levels of P + G after an update passed"
    )
    above = Above(8)
    for publisher in range(50):
        world.at(world.now_us, 0, lambda by=publisher: peers[by].condcast(Arc(0, 0), above, b""))  # type: ignore[misc]
    world.run()
    assert _told(world) == [7] * 50


def test_a_value_that_adds_nothing_is_promised_at_once_unless_the_last_one_is_still_travelling() -> (
    None
):
    world, peers = _population(30, [Description(("a", "b"))] * 30)
    peers[3].register(Description(("a", "b")))
    peers[3].register(Description(("a",)))
    assert [event for _, _, event in world.events] == [
        Registered(peers[3].version - 1),
        Registered(peers[3].version),
    ]

    world.events.clear()
    peers[3].register(Description(("a", "b", "c")))
    peers[3].register(Description(("c",)))
    assert world.events == []
    world.run(30 * SECOND_US)
    assert [event for _, _, event in world.events] == [Registered(peers[3].version)]


def test_while_flows_rest_a_rise_is_told_to_everybody_once() -> None:
    world, peers = _population(41, [Description(("a",))] * 41)
    world.at(0, REGISTER, lambda: peers[3].register(Description(("b",))))
    world.run()
    assert world.carried == 40

    for publisher in range(41):
        world.at(world.now_us, 0, lambda by=publisher: peers[by].cast(Target((Term(("b",)),)), b""))  # type: ignore[misc]
    world.run()
    assert _told(world) == [3] * 41


def test_whoever_withdrew_is_told_nothing_though_aggregates_still_show_it() -> None:
    world, peers = _population(20, [Description(("a",))] * 20)
    world.at(0, REGISTER, lambda: [peer.register(Description(("a",))) for peer in peers])
    world.at(SECOND_US, REGISTER, peers[4].withdraw)
    world.at(2 * SECOND_US, 0, lambda: peers[0].cast(Target((Term(("a",)),)), b""))
    world.run()

    assert [address for _, address, event in world.events if isinstance(event, Withdrawn)] == [4]
    assert _told(world) == [address for address in range(20) if address != 4]


def test_peers_leave_and_casts_still_reach_the_others() -> None:
    world, peers = _population(40, [Description(("a",))] * 40, settle="flows")
    world.at(0, REGISTER, lambda: [peer.register(Description(("a",))) for peer in peers])
    for address in range(3, 13):
        world.at(100 * SECOND_US + address * 100_000, REGISTER, peers[address].leave)
    world.at(103 * SECOND_US, 0, lambda: peers[0].cast(Target((Term(("a",)),)), b""))
    world.run(110 * SECOND_US)
    assert _told(world) == [0, 1, 2, *range(13, 40)]

    world.run(500 * SECOND_US)
    assert sharp_rings.objections([peer.ring for peer in peers]) == []


def test_a_flow_that_meets_a_newcomer_still_asking_for_its_fingers_goes_on() -> None:
    world, peers = _population(9, [Description(("a",))] * 9)
    plan = Plan(10, 0, DESIGN.settle({"assurance": "none"}), 1, world.host, world.latency_us)
    late = Condcast(plan.site(9))
    world.place(9, late)
    world.at(0, REGISTER, lambda: late.join((0,)))
    while not late.ring.pull.refreshing:
        world.step()

    late.receive(late.links.right.address, Update(()))
    assert late.flows.updating
    world.run(world.now_us + 10 * SECOND_US)

    assert not late.flows.updating
    assert late.links.left.address in {
        at for at, peer in enumerate(peers) if peer.flowing and peer.flows.received_us
    }


def test_a_cast_that_comes_twice_is_delivered_once() -> None:
    world, peers = _population(1, [Description(("a",))])
    peers[0].register(Description(("a",)))
    key = peers[0].links.me.key
    assert peers[0].cast(Target((Term(("a",)),)), b"") == CastId(
        peers[0].name, peers[0].incarnation, 1
    )

    message = ForwardCast(
        CastId(bytes(16), 1, 1),
        0,
        (Arc(key, key),),
        TargetQuery(Target((Term(("a",)),)), 4096, 4),
        sealed(b""),
    )
    peers[0].receive(9, message)
    peers[0].receive(9, message)

    assert len(_told(world)) == 2


def test_peers_stand_where_their_tags_say() -> None:
    alike = [
        Description(("jazz", "samba")),
        Description(("jazz", "samba")),
        Description(("opera",)),
    ]
    world, peers = _population(3, alike, place="tags")
    plan = Plan(
        3, 0, peers_parameters(place="tags"), 1, world.host, world.latency_us, descriptions=alike
    )
    late = Condcast(replace(plan, credentials=population(DESIGN).credentials).site(3))
    world.place(3, late)
    late.register(alike[0])
    late.join((0,))

    keys = [peer.links.key for peer in (*peers, late)]
    assert len(set(keys)) == 4
    assert keys[0] >> 23 == keys[1] >> 23 == keys[3] >> 23 != keys[2] >> 23


def peers_parameters(**given: object) -> Parameters:
    return DESIGN.settle({"assurance": "none", **given})  # type: ignore[dict-item]


def test_neighbours_in_gray_order_differ_in_one_landmark() -> None:
    words = [number ^ number >> 1 for number in range(1 << 10)]

    assert [rank(word) for word in words] == list(range(1 << 10))


def test_standing_by_common_tags_saves_messages() -> None:
    options = {"peers": 1000, "casts": 100, "seed": 4, "strict": False}
    at_random, by_tags = (
        _kept(_run(parameters={"place": place}, **options)) for place in ("random", "tags")
    )

    assert by_tags.contract.notified == at_random.contract.notified
    assert by_tags.messages["cast"] < 0.8 * at_random.messages["cast"]


def test_all_that_travels_is_declared() -> None:
    assert set(KINDS) <= set(DESIGN.kinds)
