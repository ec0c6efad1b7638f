"""The world and the network are one: the same scenario reaches the same peers, and a record replays byte for byte."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from implicast.casting.designs import DESIGN_MODULES
from implicast.cli import main
from implicast.lab import parity
from implicast.lab.parity import Side, objection
from implicast.net.application.record import replay
from implicast.peer.errors import ScenarioError
from implicast.world.scenario import Scenario
from implicast.world.scenario_file import read_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "parity.toml"
SMALL = Scenario(
    "dht",
    peers=6,
    casts=8,
    seed=2,
    start="joined",
    workload_parameters={"tags": 6, "tags_per_peer": 3},
)


@pytest.mark.parametrize("design", sorted(DESIGN_MODULES))
def test_records_of_every_design_replay_byte_for_byte_and_deliveries_are_the_worlds(
    design, tmp_path, monkeypatch
):
    monkeypatch.setattr(parity, "REST_S", 0.5)
    scenario = replace(SMALL, design=design)
    live = parity.on_loopback(scenario, record=True, directory=tmp_path / "net")
    assert live.pairs == parity.in_world(scenario).pairs
    assert live.twice == 0
    records = sorted((tmp_path / "net").glob("*/record"))
    assert len(records) >= 6
    for path in records:
        went = replay(path)
        assert went.inputs > 3
        assert went.differs_at is None, f"{path.parent.name}: {went}"


@pytest.mark.long
@pytest.mark.parametrize("design", sorted(DESIGN_MODULES))
def test_the_example_takes_as_many_messages_on_loopback_as_in_the_world(design):
    scenario = read_scenario(EXAMPLE, design=design)
    assert objection(parity.in_world(scenario), parity.on_loopback(scenario)) is None


def test_what_differs_is_named():
    one = Side(frozenset({(0, 1), (0, 2)}), 10.0)
    assert objection(one, replace(one, messages=11.9)) is None
    assert "12.1 messages" in objection(one, replace(one, messages=12.1))
    assert "1 deliveries of the world are missing" in objection(
        one, replace(one, pairs=frozenset({(0, 1)}))
    )
    assert "1 came twice" in objection(one, replace(one, twice=1))
    with pytest.raises(ScenarioError, match="of the world alone"):
        parity.on_loopback(replace(SMALL, changes=3))


def test_a_scenario_file_is_read_by_simulate_and_by_local(tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "REST_S", 0.1)
    path = tmp_path / "small.toml"
    path.write_text(
        'design = "centralised"\npeers = 5\ncasts = 6\nseed = 2\n[workload_parameters]\ntags = 6\n'
        "tags_per_peer = 3\n"
    )
    found = {}
    for command in ("simulate", "local"):
        words = [command, "--scenario", str(path), "--json", *["--plain"] * (command == "local")]
        went = CliRunner().invoke(main, words)
        assert went.exit_code == 0, went.output
        found[command] = json.loads(went.stdout)
    assert (
        found["local"]["due"]
        == found["local"]["delivered"]
        == found["simulate"]["contract"]["expected"]
        > 0
    )
    assert read_scenario(path, design="dht").design == "dht"


WRONG = [
    ("peers = 3", "names no design"),
    ('design = "dht"\npears = 3', "'pears'"),
    ("design =", "Invalid value"),
    ('design = "dht"\npeers = "x"', "peers"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_file_that_is_no_scenario_is_told_in_a_sentence(tmp_path, text, said):
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(ScenarioError, match=said):
        read_scenario(tmp_path / "f.toml")
