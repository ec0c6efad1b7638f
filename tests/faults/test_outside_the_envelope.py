"""Power cuts, fast turnover, long absences: each scenario by the command that a user types."""

import json

import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.world.journal import read

GROUPS = ("--workload", "groups", "--register", "messages")


def simulated(*words: str) -> dict:
    """The JSON object of `implicast simulate`."""
    went = CliRunner().invoke(main, ["simulate", *words, "--json"])
    assert went.exit_code in (0, 1), went.output
    return json.loads(went.stdout)


def restarts(peers: int, at: str = "5..10") -> str:
    """A churn option: these peers, 0 to `peers` - 1, crash and return with their disks."""
    return f"event={at}:return:" + "+".join(map(str, range(peers)))


@pytest.mark.parametrize("design", ["spice", "spice-unloaded"])
@pytest.mark.parametrize("peers", [12, pytest.param(24, marks=pytest.mark.long)])
def test_a_power_cut_of_most_members_heals_without_a_storm(design, peers):
    """All but two peers restart within five seconds. Their backups restart too, so that no peer
    holds a copy of their extents: each restarted peer reclaims its own.
    """
    found = simulated(
        design, "--peers", str(peers), "--casts", "80", "--seed", "991", *GROUPS,
        "--churn", restarts(peers - 2),
    )  # fmt: skip
    assert found["contract"]["missing"] == found["contract"]["repeated"] == 0
    assert found["contract"]["expected"] > 0
    assert found["objections"] == []
    assert found["change"]["repair_s_max"] < 30
    assert found["change"]["upkeep_per_peer_minute"] < 300


@pytest.mark.parametrize(
    "seed", [991, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 4))]
)
def test_a_ring_that_fast_turnover_divides_becomes_one_ring(seed):
    """Sixty of 48 peers a minute are replaced for two minutes. The ring divides when all nodes that
    knew both parts are gone; introducers and origins of lookups lead from one ring to the other.
    """
    found = simulated(
        "condcast", "--peers", "48", "--casts", "260", "--seed", str(seed), *GROUPS,
        "--churn", "turnover=60,over_s=120",
    )  # fmt: skip
    assert found["change"]["after"]["missing"] == 0
    assert found["change"]["after"]["expected"] > 0
    assert found["objections"] == []


def test_condcast_returns_after_a_power_cut():
    found = simulated(
        "condcast", "--peers", "48", "--casts", "120", "--seed", "991", *GROUPS,
        "--churn", restarts(46),
    )  # fmt: skip
    assert found["change"]["after"]["missing"] == 0
    assert found["objections"] == []


def test_a_suspended_holder_does_not_remove_entries_that_were_renewed():
    """Peer 3 is suspended for 40 minutes, longer than a lease. When it resumes, entries that it
    holds have expired by its own clock, and must not be removed at the other holders.
    """
    found = simulated(
        "dht", "--peers", "16", "--casts", "260", "--interval-ms", "10000", "--seed", "991", *GROUPS,
        "--churn", "event=100..101:split:3,event=100.5..2500:freeze:3",
    )  # fmt: skip
    assert found["objections"] == []
    assert found["change"]["repair_s_max"] < 60


def test_a_late_progress_report_does_not_reopen_a_finished_cast(tmp_path):
    """With reordered messages a broker's report that one member is open arrives after its final
    report. The publisher must not wait for that member until it gives up.
    """
    found = simulated(
        "broker", "--peers", "24", "--casts", "40", "--seed", "5019", "--workload", "zipf",
        "--set", "brokers=6", "--set", "expected_tags=64", "--with", "tags=14",
        "--with", "tags_per_peer=4", "--with", "tags_per_cast=2", "--with", "terms=3",
        "--with", "negated=1", "--payload-bytes", "16", "--register", "messages",
        "--faults", "loss=0.05,duplicate=0.05,delay=0.02,reorder=0.2,delay_ms=100..2000",
        "--journal", str(tmp_path / "run"),
    )  # fmt: skip
    assert found["contract"]["missing"] == 0
    for cast in read(tmp_path / "run", "casts").to_pylist():
        assert cast["settled_us"] is not None
        assert cast["settled_us"] - cast["time_us"] < 120_000_000


@pytest.mark.parametrize("lost", ["0.33", pytest.param("0", marks=pytest.mark.long)])
@pytest.mark.parametrize("design", ["dht", "condcast", "spice-unloaded", "bft", "broker"])
def test_members_that_all_stop_found_the_network_again(design, lost):
    """A blackout: all members stop at once and start again at different times with their disks, or
    a third of them never does. No member is left that could introduce the others.
    """
    found = simulated(
        design, "--peers", "16", "--casts", "130", "--seed", "7", *GROUPS,
        "--churn", f"blackouts=1,lost={lost},over_s=10",
    )  # fmt: skip
    assert found["contract"]["missing"] == found["contract"]["repeated"] == 0
    assert found["change"]["after"]["expected"] > 0
    assert found["objections"] == []
    assert found["change"]["return_s_max"] < 75


@pytest.mark.parametrize(
    ("design", "peers", "seed", "upkeep"),
    [
        ("spice-unloaded", 24, 3, 900),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("spice-unloaded", 12, 3, 900),
                ("spice-unloaded", 24, 5, 900),
                ("spice-unloaded", 48, 3, 900),
                ("spice", 24, 3, 900),
            )
        ),
    ],
)
def test_a_blackout_whose_members_start_over_40_s_ends_without_a_storm(design, peers, seed, upkeep):
    """Members start while most owners of the surface are still missing. Requests to owners that are
    missing, and traversals that ask all members to register again, must not travel in circles.
    """
    found = simulated(
        design, "--peers", str(peers), "--casts", "80", "--seed", str(seed), *GROUPS,
        "--churn", "blackouts=1,away_s=20..60,over_s=10",
    )  # fmt: skip
    assert found["contract"]["missing"] == found["contract"]["repeated"] == 0
    assert found["objections"] == []
    assert found["change"]["repair_s_max"] < 60
    assert found["change"]["upkeep_per_peer_minute"] < upkeep


def test_attributes_return_after_a_blackout():
    found = simulated(
        "opchord-pubsub", "--peers", "12", "--casts", "80", "--seed", "3", "--workload",
        "attributes", "--register", "messages", "--churn", "blackouts=1,over_s=10",
    )  # fmt: skip
    assert found["contract"]["missing"] == found["contract"]["repeated"] == 0
    assert found["objections"] == []


SIGNED = ("--set", "signed=true")
LONG_AWAY = [
    ("dht", ()),
    *(
        pytest.param(design, extra, marks=pytest.mark.long)
        for design in ("dht", "condcast", "spice-unloaded", "bft")
        for extra in ((), SIGNED)
        if (design, extra) != ("dht", ()) and (design, extra) != ("bft", SIGNED)
    ),
]


@pytest.mark.parametrize(("design", "extra"), LONG_AWAY)
def test_a_publisher_that_was_away_for_forty_minutes_causes_no_second_notice(design, extra):
    """The publisher resumes the casts of its outbox. Every member remembers them until they expire.
    Casts of bft are always signed.
    """
    found = simulated(
        design, "--peers", "16", "--casts", "260", "--interval-ms", "10000", "--seed", "991",
        *GROUPS, *extra,
        "--churn", "event=100..101:burst~50:3,event=100.5..2500:return:3",
    )  # fmt: skip
    assert found["contract"]["repeated"] == found["contract"]["missing"] == 0
    assert found["contract"]["expected"] > 0
    assert found["objections"] == []
