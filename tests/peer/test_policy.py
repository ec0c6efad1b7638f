"""What one peer lets others do: rates by publisher, sizes of audiences, shares of tables."""

from implicast.peer.bucket import Buckets
from implicast.peer.contract import CastId
from implicast.peer.memory import Shares
from implicast.peer.name import name_of
from implicast.peer.policy import policy_of
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

ANN, BOB = name_of(b"net", 1), name_of(b"net", 2)


def test_a_publisher_has_a_burst_and_then_its_rate_and_others_have_theirs():
    buckets = Buckets(10.0, 50)

    assert sum(buckets.take(ANN, 0) for _ in range(100)) == 50
    assert sum(buckets.take(ANN, 1_000_000) for _ in range(100)) == 10
    assert buckets.take(BOB, 1_000_000)


def test_nothing_is_limited_unless_it_is_set():
    free = policy_of({})

    assert all(free.admits(CastId(ANN, 1, serial), 0) for serial in range(10_000))
    assert free.allows_audience(1 << 20)
    assert not policy_of({"audience_max": 5}).allows_audience(6)


def test_one_who_fills_a_table_has_half_of_it_and_two_a_third_each():
    shares = Shares(90)
    for _ in range(1000):
        for who in ("one", "two"):
            if shares.allows(who):
                shares.add(who)

    assert shares.total == 60
    assert shares.allows("a newcomer")


def test_casts_to_larger_audiences_than_allowed_are_declined():
    for name in ("centralised", "dht", "spice"):
        given = {"peers": 24, "casts": 12, "workload_parameters": {"tags": 20, "tags_per_peer": 4}}
        outcome = simulate(Scenario(name, parameters={"audience_max": 1}, **given))

        assert outcome.contract.missing > 0, name
        assert outcome.contract.misreported == 0, name
