"""The command `implicast campaign`: same results however many processes share the work; failures are shown."""

import json

import pytest
from click.testing import CliRunner

from implicast.campaign_cli import Tally
from implicast.cli import main
from implicast.peer.memory import Seen
from implicast.trials.campaign import Finding
from implicast.world.scenario import Scenario


def ran(*words: str, code: int = 0) -> dict:
    result = CliRunner().invoke(main, ["campaign", *words, "--json"])
    assert result.exit_code == code, result.output
    told = json.loads(result.stdout)
    del told["seconds"]
    return told


def test_several_processes_give_the_same_results():
    alone = ran("centralised", "--scenarios", "3", "--seed", "4")

    assert ran("centralised", "--scenarios", "3", "--seed", "4", "--jobs", "2") == alone
    assert alone["scenarios"] == 3
    assert alone["failed"] == 0
    assert alone["expected"] > 100


def test_scenarios_can_be_begun_anywhere():
    both = ran("centralised", "--scenarios", "2")
    parts = [ran("centralised", "--scenarios", "1", "--first", str(first)) for first in (0, 1)]

    assert both["messages"] == sum(part["messages"] for part in parts)


def test_casts_to_ranges_of_values_can_be_tried_too():
    assert ran("centralised", "--scenarios", "2", "--language", "attributes")["failed"] == 0
    refused = CliRunner().invoke(main, ["campaign", "spice", "--language", "attributes"])
    assert refused.exit_code == 2


def test_a_failure_is_shown_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Seen, "first", lambda self, cast, now_us=0: True)
    told = ran("centralised", "--scenarios", "6", "--whole", code=1)

    assert told["failed"] == len(told["failures"]) > 0
    replay = told["failures"][0]["replay"]
    assert replay.startswith("implicast simulate centralised ")
    assert "--churn" in replay


def test_progress_says_how_much_is_left():
    tally = Tally("broker", 10)
    for _ in range(4):
        tally.see(Finding(Scenario("broker"), ("missing 1",)))

    assert tally.progress().startswith("broker 4/10, 4 failed, about ")
    assert tally.progress().endswith(" left")


def test_a_campaign_of_blackouts_stops_all_members_and_finds_nothing_wrong():
    went = CliRunner().invoke(
        main, ["campaign", "dht", "--scenarios", "1", "--seed", "3", "--blackout", "--json"]
    )
    found = json.loads(went.stdout)
    assert (went.exit_code, found["failed"]) == (0, 0), went.output
    assert found["returns"] >= 16
