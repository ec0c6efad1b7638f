"""Casts to warm up are made and judged, and are in no measure; payloads travel; a broken promise is an exit code."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from postbox import MANNERS, POSTBOX

from implicast.cli import main
from implicast.world.faults import Faults
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


@pytest.fixture(autouse=True)
def postbox(monkeypatch):
    monkeypatch.setattr("implicast.world.scenario.design", lambda name: POSTBOX)
    monkeypatch.setattr("implicast.simulate_cli.design", lambda name: POSTBOX)


COLD = Scenario("postbox", peers=24, casts=30, workload_parameters={"tags": 20, "tags_per_peer": 5})


def test_warming_up_changes_no_measure_of_a_design_that_learns_nothing(tmp_path):
    cold, warm = simulate(COLD), simulate(replace(COLD, warm_up=12), tmp_path / "run")

    assert warm.measures == cold.measures
    assert warm.messages["cast"] == cold.messages["cast"]
    assert warm.messages["warm-up"]
    assert warm.contract.expected > cold.contract.expected, "those casts are judged like others"
    casts = read(tmp_path / "run", "casts").to_pylist()
    assert [row["warm_up"] for row in casts] == [True] * 12 + [False] * 30


def test_a_cast_that_goes_wrong_while_warming_up_is_seen(monkeypatch):
    monkeypatch.setattr(MANNERS, "garbles", True)
    scenario = replace(COLD, casts=0, warm_up=12, payload_bytes=8)

    assert simulate(scenario).contract.altered


def test_the_scenario_and_its_command_say_so():
    scenario = replace(COLD, warm_up=12, payload_bytes=40)

    assert "--warm-up 12 --payload-bytes 40" in scenario.command()
    assert scenario.described()["warm_up"] == 12


def call(*words):
    return CliRunner().invoke(
        main, ["simulate", "postbox", "--peers", "24", "--casts", "60", *words]
    )


def test_a_promise_that_was_broken_is_an_exit_code_and_what_was_not_promised_is_said(monkeypatch):
    loss = ("--faults", "loss=0.2")
    monkeypatch.setattr("implicast.simulate_cli.design", lambda name: POSTBOX)
    brave = replace(POSTBOX, survives=frozenset({"loss"}))
    assert call().exit_code == 0
    assert call(*loss).exit_code == 0, "it never said that it survives loss"
    monkeypatch.setattr("implicast.world.scenario.design", lambda name: brave)
    assert call(*loss).exit_code == 1
    modest = call(*loss, "--set", "assurance=none")
    assert modest.exit_code == 0
    assert "not promised, and not kept" in modest.output
    assert "assurance none" in modest.output
    assert "hint: postbox survives change only with --set assurance=receipts" in modest.output


def test_alive_is_gone_and_a_setting_is_said_once():
    refused = call("--set", "alive=true")
    assert refused.exit_code == 2
    assert "assurance=receipts" in refused.stderr
    twice = call("--set", "assurance=none", "--set", "assurance=receipts")
    assert twice.exit_code == 2
    assert "given already as none" in twice.stderr


@pytest.mark.parametrize("faults", ["partition=1..2", "partition=1..2:0.3,loss=0.1"])
def test_nobody_promises_anything_while_the_network_is_parted(faults, monkeypatch):
    brave = replace(POSTBOX, survives=frozenset({"loss", "partitions"}))
    monkeypatch.setattr("implicast.world.scenario.design", lambda name: brave)

    assert not replace(COLD, faults=Faults.parse(faults)).promised()
    assert replace(COLD, faults=Faults.parse("loss=0.1")).promised()
