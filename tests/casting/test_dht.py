"""The two DHT designs: who is asked, what comes back, and what they cost beside each other."""

import pytest
from implicast.casting.dht.kind import filtered, intersected
from implicast.casting.dht.messages import Registration

from implicast.casting.designs import Plan, design
from implicast.language.parse import parse
from implicast.language.target import Term
from implicast.peer.events import Refused
from implicast.peer.ledger import Ledger
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import Outcome, simulate

BOTH = ["dht-naive", "dht"]


def run(name: str, **options: object) -> Outcome:
    return simulate(Scenario(name, **{"peers": 128, "casts": 64, "seed": 2, **options}))  # type: ignore[arg-type]


def test_references_are_intersected_and_excluded_ones_subtracted() -> None:
    lists: dict[str, list[object] | None] = {"a": [1, 2, 3], "b": [2, 3, 4], "c": [3]}

    assert intersected(Term(has=("a", "b")), lists) == {2, 3}
    assert intersected(Term(has=("a", "b"), lacks=("c",)), lists) == {2}


def test_one_list_of_whole_registrations_is_enough_for_a_term() -> None:
    here = [Registration(n, 1, tags) for n, tags in enumerate((("a",), ("a", "b"), ("a", "b", "c"), ("a", "c")))]
    lists: dict[str, list[object] | None] = {"a": [*here]}

    assert filtered(Term(has=("a",)), lists) == {0, 1, 2, 3}
    assert filtered(Term(has=("a", "b")), lists) == {1, 2}
    assert filtered(Term(has=("a", "b", "c")), lists) == {2}
    assert filtered(Term(has=("a", "b"), lacks=("c",)), lists) == {1}


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


@pytest.mark.parametrize("upkeep", ["links", "stabilise"])
def test_the_ring_may_be_kept_either_way(upkeep: str) -> None:
    outcome = run("dht", peers=48, parameters={"upkeep": upkeep}, workload_parameters={"tags": 100}, strict=True)

    assert outcome.contract.clean
    assert outcome.objections == []


def test_whole_registrations_take_more_room_and_fewer_messages_than_references() -> None:
    naive, whole = run("dht-naive"), run("dht")

    assert whole.measures["STOR_M"] > 3 * naive.measures["STOR_M"]
    assert whole.measures["RTH"] < naive.measures["RTH"]


def test_predicates_are_refused_with_a_reason() -> None:
    ledger, dht = Ledger(), design("dht")
    plan = Plan(1, 0, dht.settle({}), 1, lambda address: ledger, lambda a, b: 0)
    dht.newcomer(plan, 0).cast(parse("price = @3"), b"")

    ((_, _, refused),) = ledger.take()
    assert isinstance(refused, Refused)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", BOTH)
def test_the_contract_at_4096_peers_and_1024_casts(name: str, seed: int) -> None:
    outcome = simulate(Scenario(name, peers=4096, casts=1024, seed=seed))

    assert outcome.contract.clean
    assert outcome.objections == []
