"""Campaigns: every design that says it survives something is tried on it, and what fails is made small."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from implicast.casting.centralised import Server
from implicast.casting.designs import SURVIVABLE, design, designs
from implicast.cli import main
from implicast.peer.errors import ScenarioError
from implicast.trials import campaign as trials
from implicast.trials.campaign import CampaignOptions, Finding, campaign, check, scenario_of, shrink
from implicast.world.churn import Churn

ALIVE = [name for name, each in designs().items() if each.survives]
SHORT = 6
LONG = 1000
MESSAGES = 120_000
"""A short campaign ends when so many messages were carried: some four seconds, whatever a design costs."""


def sentence(failed, seed: int) -> str:
    """What was wrong, how to see it again, and how to have it made small: of (number, finding)."""
    return "\n".join(
        f"{one.reasons[:3]} replay: {one.scenario.command()}\n"
        f"made small by: implicast campaign {one.scenario.design} --seed {seed} --first {number} --scenarios 1"
        for number, one in failed
    )


def failures(name: str, scenarios: int, seed: int) -> list[tuple[int, Finding]]:
    """Those of a campaign that failed, with their numbers."""
    seen: list[Finding] = []
    campaign(design(name), scenarios, seed, seen=seen.append)
    return [(number, one) for number, one in enumerate(seen) if one.reasons]


def small(name: str, seed: int, among: int = 20) -> list[int]:
    """Numbers of scenarios, those with the fewest peers first."""
    return sorted(range(among), key=lambda number: scenario_of(design(name), seed, number).peers)


@pytest.mark.parametrize("name", ALIVE)
def test_a_design_keeps_its_promises_through_random_change(name):
    carried, failed = 0, []
    for tried, number in enumerate(small(name, 1), 1):
        finding = check(scenario_of(design(name), 1, number))
        failed += [(number, finding)] if finding.reasons else []
        carried += sum(finding.outcome.messages.values()) if finding.outcome else 0
        if tried == SHORT or (carried > MESSAGES and tried > 1):
            break

    assert not failed, sentence(failed, 1)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ALIVE)
def test_a_design_keeps_its_promises_through_a_thousand_scenarios(name):
    failed = failures(name, LONG, 7)

    assert not failed, sentence(failed, 7)


@pytest.mark.parametrize("name", ALIVE)
def test_peers_may_describe_themselves_anew_through_random_change(name):
    number = small(name, 2)[0]
    scenario = scenario_of(design(name), 2, number, changing=True)
    finding = check(scenario)

    assert replace(scenario, changes=0) == scenario_of(design(name), 2, number)
    assert scenario.changes
    assert not finding.reasons, finding.scenario.command()
    assert finding.outcome.change.after.expected, "somebody was to be told afterwards"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ALIVE)
def test_peers_may_describe_themselves_anew_through_a_hundred_scenarios(name):
    failed = [
        each
        for each in campaign(design(name), 100, 8, options=CampaignOptions(changing=True))
        if each.reasons
    ]

    assert not failed, "\n".join(f"{each.reasons[:3]} {each.scenario.command()}" for each in failed)


def test_a_failure_is_told_with_the_commands_that_replay_it_and_make_it_small(monkeypatch):
    """The mistake: a server that falls forgets, and nobody renews. The command is run as it is told."""
    monkeypatch.setattr(Server, "durable_state", lambda self: None)
    monkeypatch.setitem(design("centralised").trial, "lease_s", 3000.0)
    failed = failures("centralised", 4, 3)
    assert failed
    told = sentence(failed[:1], 3)
    command = told.partition("made small by: ")[2]

    assert f"replay: {failed[0][1].scenario.command()}" in told
    assert (
        command == f"implicast campaign centralised --seed 3 --first {failed[0][0]} --scenarios 1"
    )
    ran = CliRunner().invoke(main, [*shlex.split(command)[1:], "--whole", "--json"])
    assert [each["reasons"] for each in json.loads(ran.output)["failures"]] == [
        list(failed[0][1].reasons)
    ]


def test_a_storm_is_a_failure_although_everybody_is_told(monkeypatch):
    scenario = scenario_of(design("condcast"), 2, small("condcast", 2)[0])
    calm = check(scenario)
    monkeypatch.setattr(trials, "COST", calm.outcome.measures["RTH"] / 2)

    assert not calm.reasons
    [reason] = check(scenario).reasons
    assert "times the messages of one server" in reason


def test_rare_maps_and_long_and_short_absences_are_drawn_too():
    drawn = [scenario_of(design("condcast"), 1, number) for number in range(60)]

    assert {one.network for one in drawn} == {"flat", "national", *trials.MAPS}
    assert {one.churn.away_s for one in drawn} == {Churn().away_s, *trials.AWAY_S}
    assert {one.churn.group for one in drawn} == {1, 2, 3}


def test_only_what_a_design_survives_is_drawn():
    for name, each in designs().items():
        assert each.survives <= set(SURVIVABLE), name
    drawn = [scenario_of(design("centralised"), 1, number) for number in range(40)]

    assert not any(one.churn.fails for one in drawn)
    assert any(one.churn.restarts for one in drawn)
    assert any(one.faults.loss for one in drawn)
    assert {one.peers >= 16 and one.peers <= 128 for one in drawn} == {True}


@pytest.mark.parametrize("name", ALIVE)
def test_change_is_the_same_under_any_hash_seed(name):
    code = (
        "import json; from implicast.casting.designs import design; from implicast.trials.campaign import *;"
        f"print(json.dumps(check(scenario_of(design({name!r}), 5, {small(name, 5, among=60)[0]})).outcome.described()))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert said[0] == said[1]
    assert len(said[0]) > 1000


def test_a_scenario_is_a_function_of_design_seed_and_number():
    assert scenario_of(design("centralised"), 1, 3) == scenario_of(design("centralised"), 1, 3)
    assert scenario_of(design("centralised"), 1, 3) != scenario_of(design("centralised"), 1, 4)


def test_a_design_for_a_kind_world_has_no_campaign():
    kind = [name for name, each in designs().items() if not each.survives]
    if not kind:
        pytest.skip("every design survives something")
    with pytest.raises(ScenarioError, match="declares no faults"):
        scenario_of(design(kind[0]), 1, 1)


# --- a mistake, made small; the others are in `mistakes_*.py`


SLOW_LEASE = {"lease_s": 3000.0}
"""So that renewals do not heal what a test wants to see broken."""


def test_renewals_heal_even_a_server_that_lost_its_disk_but_not_at_once(monkeypatch):
    whole = check(one_restart())
    monkeypatch.setattr(Server, "durable_state", lambda self: None)
    bare = check(one_restart())

    assert not whole.reasons
    assert all(each.startswith("misreported") for each in bare.reasons), "it cannot know"
    assert whole.outcome.change.during.missing == 0
    assert bare.outcome.change.during.missing > 0


def one_restart():
    drawn = scenario_of(design("centralised"), 1, 0)
    return replace(drawn, churn=Churn.parse(f"event=5..9:restart:{drawn.peers}"))


def scenario_three(number):
    return scenario_of(design("centralised"), 3, number)


def test_a_failure_is_made_small(monkeypatch):
    """The mistake: a server that falls forgets. One restart and a few peers show it."""
    monkeypatch.setattr(Server, "durable_state", lambda self: None)
    drawn = next(
        one for one in map(scenario_three, range(99)) if one.churn.restarts and one.peers > 30
    )
    failed = check(replace(drawn, parameters=SLOW_LEASE))
    before = failed.scenario.churn.spelled(failed.scenario.seed, failed.scenario.peers, 1)

    small = shrink(failed, lambda peers: 1)

    assert small.reasons
    assert [event.kind for event in small.scenario.churn.events] == ["restart"]
    assert len(before.events) > 1
    assert small.scenario.peers < failed.scenario.peers
    assert not small.scenario.faults.text()
    assert check(small.scenario).reasons == small.reasons, "it replays"
