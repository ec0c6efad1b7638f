"""Peers that are made when they are needed write the same journal as those that are made at once."""

from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from implicast import Scenario, simulate
from implicast.casting.designs import designs
from implicast.world import run as runs
from implicast.world.populations import population

LATE = [name for name, design in designs().items() if population(design).lazy_peers is not None]


def journal_of(scenario, directory):
    outcome = simulate(scenario, directory)
    assert outcome.contract_held
    tables = [path.read_bytes() for path in sorted(directory.glob("*.parquet"))]
    return sha256(b"".join(tables)).hexdigest(), outcome


@pytest.mark.parametrize("design", LATE)
@pytest.mark.parametrize(
    ("peers", "seed", "workload"),
    [
        (40, 1, {}),
        (97, 2, {"tags": 9, "tags_per_peer": 3}),
        (1, 3, {"tags": 2, "tags_per_peer": 1}),
        (30, 4, {"tags": 5, "tags_per_peer": 2, "terms": 2, "negated": 1}),
    ],
)
def test_who_is_made_when_needed_writes_the_same_journal(
    design, peers, seed, workload, tmp_path, monkeypatch
):
    parameters = {
        "assurance": "none",
        **({"replication": "beforehand"} if design == "spice-unloaded" else {}),
    }
    scenario = Scenario(
        design,
        peers=peers,
        casts=40,
        seed=seed,
        parameters=parameters,
        workload_parameters=workload,
    )

    at_once, awake = journal_of(scenario, tmp_path / "awake")
    monkeypatch.setattr(runs, "LAZY_FROM", 1)
    later, asleep = journal_of(scenario, tmp_path / "asleep")

    assert any("were made" in note for note in asleep.notes)
    assert not any("were made" in note for note in awake.notes)
    assert later == at_once


def test_those_who_can_sleep_are_these():
    assert sorted(LATE) == [
        "broker",
        "centralised",
        "condcast",
        "dht",
        "dht-naive",
        "spice",
        "spice-unloaded",
    ]


@pytest.mark.parametrize(
    ("peers", "options"),
    [
        (70, {"place": "tags"}),
        (129, {"bits": 64, "hashes": 2}),
        (64, {"bits": 4096, "hashes": 16}),
        (63, {"bits": 128}),
    ],
)
def test_a_ring_of_any_make_sleeps(peers, options, tmp_path, monkeypatch):
    scenario = Scenario(
        "condcast",
        peers=peers,
        casts=60,
        seed=7,
        parameters={"assurance": "none", **options},
        interval_ms=3,
        workload_parameters={"tags": 40, "tags_per_peer": 4, "terms": 2, "negated": 1},
    )

    at_once, _ = journal_of(scenario, tmp_path / "awake")
    monkeypatch.setattr(runs, "LAZY_FROM", 1)
    later, asleep = journal_of(scenario, tmp_path / "asleep")

    assert any("were made" in note for note in asleep.notes)
    assert later == at_once


@pytest.mark.parametrize(
    "options",
    [
        {"parameters": {"assurance": "none", "settle": "flows"}},
        {"parameters": {"assurance": "none", "casts_per_s": 1.0}},
        {"parameters": {"assurance": "none"}, "workload": "attributes"},
    ],
)
def test_a_ring_of_which_columns_cannot_tell_does_not_sleep(options, monkeypatch):
    monkeypatch.setattr(runs, "LAZY_FROM", 1)

    outcome = simulate(Scenario("condcast", peers=12, casts=4, **options))

    assert not any("were made" in note for note in outcome.notes)


@pytest.mark.parametrize("design", LATE)
def test_nobody_sleeps_where_anything_is_confirmed_or_changes(design, monkeypatch):
    monkeypatch.setattr(runs, "LAZY_FROM", 1)
    for options in (
        {},
        {"parameters": {"assurance": "none"}, "register": "messages"},
        {"parameters": {"assurance": "none"}, "changes": 3},
    ):
        few = {"tags": 9, "tags_per_peer": 3}
        outcome = simulate(Scenario(design, peers=12, casts=4, workload_parameters=few, **options))

        assert not any("were made" in note for note in outcome.notes)


def test_a_surface_that_sleeps_is_judged_by_its_columns(monkeypatch):
    monkeypatch.setattr(runs, "LAZY_FROM", 1)
    parameters = {"assurance": "none", "replication": "beforehand"}
    for peers in (1, 2, 3, 50, 300):
        few = {"tags": 9, "tags_per_peer": 3}
        outcome = simulate(
            Scenario(
                "spice-unloaded",
                peers=peers,
                casts=60,
                workload_parameters=few,
                parameters=parameters,
            )
        )

        assert outcome.contract_held
        assert not outcome.objections
        assert any("judged by columns" in note for note in outcome.notes)


def test_a_ring_that_sleeps_is_judged_by_its_columns(monkeypatch):
    monkeypatch.setattr(runs, "LAZY_FROM", 1)
    few = {"tags": 9, "tags_per_peer": 3}
    for peers in (1, 2, 3, 50, 300):
        outcome = simulate(
            Scenario(
                "condcast",
                peers=peers,
                casts=60,
                workload_parameters=few,
                parameters={"assurance": "none"},
            )
        )

        assert outcome.contract_held
        assert not outcome.objections
        assert any("judged by columns" in note for note in outcome.notes)

    run = a_run(
        Scenario(
            "condcast", peers=50, casts=5, workload_parameters=few, parameters={"assurance": "none"}
        )
    )
    assert run.lazy_peers.objections(run.world.peers) == []
    publisher = next(peer for peer in run.world.peers.values() if peer.serial)
    publisher.ring.table.nodes.pop()
    assert "fingers" in run.lazy_peers.objections(run.world.peers)[0]
    publisher.links.pointers.set_right(publisher.links.left, (0, 1), True)
    assert "changed its place" in run.lazy_peers.objections(run.world.peers)[0]
    run.lazy_peers.keys[3] = run.lazy_peers.keys[4]
    assert "do not rise" in run.lazy_peers.objections(run.world.peers)[0]


def test_records_of_a_shelf_that_sleeps_are_made_as_they_were_told(monkeypatch):
    found = {}
    for kind, least in (("awake", 1 << 30), ("asleep", 1)):
        monkeypatch.setattr(runs, "LAZY_FROM", least)
        run = a_run(
            Scenario(
                "spice-unloaded",
                peers=90,
                casts=0,
                workload_parameters={"tags": 7, "tags_per_peer": 3},
                parameters={"assurance": "none", "replication": "beforehand", "choose": "rarest"},
            )
        )
        found[kind] = [run.world.peer(address) for address in range(90)]

    for one, other in zip(found["awake"], found["asleep"], strict=True):
        assert other.holdings() == one.holdings()
        assert other.registrations.announced == one.registrations.announced
        assert other.durable_state() == one.durable_state()
        assert other.surface.ownership.others == one.surface.ownership.others
        assert other.surface.routing.table.sheet == one.surface.routing.table.sheet
        assert other.surface.centre == one.surface.centre
        assert [(key, each.closed, each.passed_up) for key, each in other.registries.all()] == [
            (key, each.closed, each.passed_up) for key, each in one.registries.all()
        ]


def a_run(scenario):
    """One that has been made, and not ended."""
    design, parameters = scenario.settled()
    with TemporaryDirectory() as directory:
        run = runs.Run(scenario, design, parameters, Path(directory) / "journal")
        run.go(runs.silent)
    return run
