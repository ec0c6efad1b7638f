"""The two DHT designs: who is asked, what comes back, and what they cost beside each other."""

from functools import partial

import msgspec
import pytest

from implicast.casting.designs import design
from implicast.casting.dht.member import filtered, intersected, tags_of
from implicast.casting.pubsub.member import profile_of
from implicast.casting.replicated_lists.entries import IN_FORCE, Found
from implicast.casting.replicated_lists.entry_proofs import entry_proof_of
from implicast.language.parse import parse
from implicast.language.target import Description, Term
from implicast.peer.contract import Contact
from implicast.peer.events import Estimated, Refused
from implicast.peer.ledger import Ledger
from implicast.world.faults import Faults
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate
from implicast.world.world import World

BOTH = ["dht-naive", "dht"]


NONE = {"assurance": "none"}
WHO = [Contact(bytes([number]) * 16, number) for number in range(5)]


def run(name: str, **options: object) -> SimulationOutcome:
    given = {"peers": 128, "casts": 64, "seed": 2, "parameters": NONE, **options}
    return simulate(Scenario(name, **given))  # type: ignore[arg-type]


def listed(*numbers: int, tags: str = "") -> list[Found]:
    return [(WHO[number], 0, msgspec.msgpack.encode(tuple(tags))) for number in numbers]


def chosen(*numbers: int) -> dict[bytes, Contact]:
    return {WHO[number].name: WHO[number] for number in numbers}


def test_references_are_intersected_and_excluded_ones_subtracted() -> None:
    lists = {"a": listed(1, 2, 3), "b": listed(2, 3, 4), "c": listed(3)}

    assert intersected(Term(has=("a", "b")), lists) == chosen(2, 3)
    assert intersected(Term(has=("a", "b"), lacks=("c",)), lists) == chosen(2)


def test_one_list_of_whole_registrations_is_enough_for_a_term() -> None:
    lists = {
        "a": [
            each for n, tags in enumerate(("a", "ab", "abc", "ac")) for each in listed(n, tags=tags)
        ]
    }

    assert filtered(Term(has=("a",)), lists) == chosen(0, 1, 2, 3)
    assert filtered(Term(has=("a", "b")), lists) == chosen(1, 2)
    assert filtered(Term(has=("a", "b", "c")), lists) == chosen(2)
    assert filtered(Term(has=("a", "b"), lacks=("c",)), lists) == chosen(1)


def test_what_a_stranger_packed_into_an_entry_has_no_tags() -> None:
    assert tags_of(b"\xc1") == tags_of(b"") == tags_of(b"\x93\x01\x02\x03") == frozenset()
    assert tags_of(b"\x91\xa1\xff") == frozenset(), "no UTF-8"


def test_what_a_stranger_packed_is_unreadable_and_breaks_nobody_who_reads_it() -> None:
    deep = b"\x91" * 100_000  # more fields than are known are skipped, however deep they are nested
    for nonsense in (b"\xc1", b"\x92\x01\x92\x91\xa1\xff\x90", b"\x92\x01\x93\x90\x90" + deep):
        assert profile_of(nonsense) is None
    for nonsense in (b"\xc1", b"\x95\xa1\xff", b"\x96\x00\x00\x00\xc4\x00\xc4\x00" + deep):
        assert entry_proof_of(IN_FORCE + nonsense) is None


@pytest.mark.parametrize("name", BOTH)
def test_a_term_of_two_tags_costs_two_look_ups_or_one(name: str) -> None:
    outcome = run(name, workload_parameters={"tags": 5000, "skew": 0.0})
    look_ups = {"dht-naive": 2, "dht": 1}[name]

    # A look-up is half of log2 N and the last hop, its answer one message more.
    expected = look_ups * (3.5 + 0.9 + 1) * 64
    assert outcome.messages["cast"] - outcome.contract.notified == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("name", BOTH)
def test_a_publisher_that_also_is_a_member_tells_itself(name: str) -> None:
    outcome = run(name, peers=1, casts=8, workload_parameters={"tags": 4, "tags_per_peer": 4})

    assert outcome.contract.expected == 8
    assert outcome.contract.clean


@pytest.mark.parametrize("name", BOTH)
def test_repeats_and_overtaking_change_nothing(name: str) -> None:
    faults = Faults(duplicate=0.1, reorder=0.3, jitter=0.5)
    outcome = run(name, faults=faults, changes=20, workload_parameters={"tags": 200})

    assert outcome.contract.clean, outcome.contract


@pytest.mark.parametrize("name", BOTH)
def test_receipts_cost_a_confirmation_for_each_step_and_no_time(name: str) -> None:
    bare, assured = run(name, peers=256), run(name, peers=256, parameters={})

    assert assured.measures["RTH"] <= 2.1 * bare.measures["RTH"] + 1
    assert assured.measures["latency_ms_mean"] == pytest.approx(
        bare.measures["latency_ms_mean"], rel=0.05
    )
    assert bare.messages.get("upkeep", 0) == 0, "without receipts no upkeep runs"


@pytest.mark.parametrize("interval_ms", [1, 20])
@pytest.mark.parametrize("name", BOTH)
def test_nothing_is_missing_however_fast_a_publisher_casts(name: str, interval_ms: int) -> None:
    outcome = run(
        name,
        peers=4,
        casts=800,
        interval_ms=interval_ms,
        workload="groups",
        faults=Faults(loss=0.05),
        parameters={},
        seed=1,
    )

    assert outcome.contract.clean, outcome.contract


@pytest.mark.parametrize("name", BOTH)
def test_an_estimate_is_the_size_of_the_rarest_list(name: str) -> None:
    chosen = design(name)
    network = build("flat", hosts=24, infrastructure=0, seed=1)
    world = World(network, 1)
    members = population(chosen).assemble(
        Plan(24, 0, chosen.settle({}), 1, world.host, network.latency_us)
    )
    for address, member in enumerate(members):
        world.place(address, member)
        tags = ("all", "some") if address < 9 else ("all",)
        world.at(1_000_000, REGISTER, partial(member.register, Description(tags)))
    world.at(9_000_000, REGISTER, partial(members[5].estimate, parse("all & some")))
    world.at(9_000_000, REGISTER, partial(members[6].estimate, parse("all | nobody")))
    world.run(until_us=12_000_000)

    told = {who: event for _, who, event in world.events if isinstance(event, Estimated)}
    assert {who: event.members for who, event in told.items()} == {5: 9, 6: 24}
    assert told[6].messages > told[5].messages > 18, (
        "each of those told confirms, and lists have to be fetched"
    )


def test_whole_registrations_take_more_room_and_fewer_messages_than_references() -> None:
    naive, whole = run("dht-naive"), run("dht")

    assert whole.measures["STOR_M"] > 3 * naive.measures["STOR_M"]
    assert whole.measures["RTH"] < naive.measures["RTH"]


def test_predicates_are_refused_with_a_reason() -> None:
    ledger, dht = Ledger(), design("dht")
    plan = Plan(1, 0, dht.settle(NONE), 1, lambda address: ledger, lambda a, b: 0)
    plan.new_member(dht, 0).cast(parse("price = @3"), b"")

    ((_, _, refused),) = ledger.take()
    assert isinstance(refused, Refused)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", BOTH)
def test_the_contract_at_4096_peers_and_1024_casts(name: str, seed: int) -> None:
    outcome = simulate(Scenario(name, peers=4096, casts=1024, seed=seed, parameters=NONE))

    assert outcome.contract.clean
    assert outcome.objections == []
