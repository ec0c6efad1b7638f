"""Wide campaigns, as a user types them: what they draw, that failures can be replayed, and what guides them."""

import json
import shlex
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from implicast.casting.designs import design, designs
from implicast.casting.dht.member import Dht
from implicast.cli import main
from implicast.peer.errors import ParameterError
from implicast.trials.campaign import CampaignOptions
from implicast.trials.feedback import KEPT_MAX, Feedback, WideCheck, WideFinding
from implicast.trials.troubles import LEAST, NOT_DRAWN, TROUBLES, possible
from implicast.trials.wide import MESSAGES, PEERS, Choices, choices_of, mutated, wide_scenario
from implicast.world.churn import Churn
from implicast.world.scenario import Scenario

ALIVE = [name for name, each in designs().items() if each.survives]
SMALL = (6, 3)
"""Seed and first number of two scenarios of `centralised` that take about a second together."""


def typed(*words: str):
    ran = CliRunner().invoke(main, ["campaign", *words])
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    return ran


def drawn(name: str, count: int, seed: int = 1) -> list[tuple[Choices, Scenario]]:
    found = design(name)
    every = [choices_of(found, seed, number) for number in range(count)]
    return [(each, wide_scenario(found, seed, each)) for each in every]


# --- the command


def test_the_command_says_repair_times_by_kind_coverage_and_cpu_time():
    seed, first = map(str, SMALL)
    words = ("centralised", "--wide", "--scenarios", "2", "--seed", seed, "--first", first)
    one, other = (json.loads(typed(*words, "--whole", "--json").output) for _ in range(2))
    text = typed(*words, "--whole").output

    assert one["scenarios"] == 2
    assert one["cpu_s"] >= one["cpu_s_max"] > 0
    kinds = [choices_of(design("centralised"), int(seed), int(first) + turn) for turn in range(2)]
    shown = Counter(kind for each in kinds for kind in each.kinds)
    assert {row["kind"]: row["scenarios"] for row in one["repair_by_kind"]} == dict(shown)
    assert [row["scenarios"] for row in one["coverage"]] == [1, 2]
    assert 0 < one["coverage"][0]["coverage"] <= one["coverage"][1]["coverage"]
    assert "2 scenarios" in text
    assert "drawn again 0" in text
    assert "coverage, pairs and triples" in text
    assert "CPU s" in text
    same = ("failures", "repair_by_kind", "messages", "delivery_ratio_during_change")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}


def test_a_failure_is_replayed_by_the_command_that_is_printed(monkeypatch):
    """The mistake: members of `dht` never acknowledge a leave, so that leavers never leave."""
    monkeypatch.setattr(Dht, "leave", lambda self: None)
    found = json.loads(
        typed("dht", "--wide", "--scenarios", "3", "--seed", "5", "--whole", "--json").output
    )
    failed = [each for each in found["failures"] if any("never left" in r for r in each["reasons"])]
    assert failed, found["failures"]
    replay = CliRunner().invoke(main, [*shlex.split(failed[0]["replay"])[1:], "--json"])

    outcome = json.loads(replay.stdout)
    assert replay.exit_code == 1
    complaints = outcome["change"]["complaints"]
    assert [each for each in failed[0]["reasons"] if "never left" in each] == [
        each for each in complaints if "never left" in each
    ]


def test_every_drawn_scenario_is_the_one_its_command_replays(monkeypatch):
    asked = []

    def taken(scenario, *more):
        asked.append(scenario)
        raise ParameterError("seen")

    monkeypatch.setattr("implicast.simulate_cli.simulate", taken)
    for name in ("broker", "bft", "chord-pubsub", "spice-unloaded"):
        for _, scenario in drawn(name, 12):
            CliRunner().invoke(main, shlex.split(scenario.command())[1:])
            given = asked.pop()
            assert given.settled()[1] == scenario.settled()[1]
            assert replace(given, parameters={}, workload_parameters={}) == replace(
                scenario, parameters={}, workload_parameters={}
            )


def test_guided_campaigns_are_the_same_twice_and_need_one_process():
    seed, first = map(str, SMALL)
    words = ("centralised", "--wide", "--guided", "--scenarios", "4", "--seed", seed)
    words = (*words, "--first", first, "--whole", "--json")
    one, other = (json.loads(typed(*words).output) for _ in range(2))

    assert one["messages"] == other["messages"]
    assert one["repair_by_kind"] == other["repair_by_kind"]
    assert [row["coverage"] for row in one["coverage"]] == [
        row["coverage"] for row in other["coverage"]
    ]
    refused = CliRunner().invoke(main, ["campaign", "dht", "--wide", "--guided", "--jobs", "2"])
    assert refused.exit_code == 2
    assert "--guided needs --wide" in refused.output


# --- what is drawn


@pytest.mark.parametrize("name", ["broker", "bft"])
def test_every_kind_of_trouble_is_drawn_and_every_scenario_leaves_kinds_out(name):
    scenarios = drawn(name, 1000)
    counts = Counter(kind for choices, _ in scenarios for kind in choices.kinds)
    kinds = {
        kind for language in design(name).languages for kind in possible(design(name), language)
    }

    assert set(counts) == kinds
    assert max(counts.values()) < 500, "each kind is left out of more than half"
    assert max(len(choices.kinds) for choices, _ in scenarios) < len(kinds)
    for _, scenario in scenarios:
        scenario.settled()
        assert scenario.churn
        assert Churn.parse(scenario.churn.text()) == scenario.churn
        assert 2 <= scenario.peers <= PEERS[1]
    rates = [1000 / each.interval_ms for _, each in scenarios]
    assert min(rates) < 0.2
    assert max(rates) > 40
    assert max(each.peers for _, each in scenarios) > 200
    assert max(each.payload_bytes for _, each in scenarios) > 16_000
    assert {each.churn.disk for _, each in scenarios} >= {"torn", "lost", "old", "empty", "kept"}
    assert max(e.to_s - e.from_s for _, s in scenarios for e in s.churn.events) > 3600
    assert max(each.churn.drift for _, each in scenarios) <= 0.05
    assert max(each.faults.loss for _, each in scenarios) <= 0.25


def test_every_kind_has_a_design_that_draws_it():
    assert set(TROUBLES) == {
        kind
        for each in designs().values()
        for language in each.languages
        if each.survives
        for kind in possible(each, language)
    }


@pytest.mark.parametrize("name", ALIVE)
def test_only_what_a_design_survives_is_drawn_with_parameters_in_their_ranges(name):
    found = design(name)
    names = {each.name: each for each in found.parameters}
    for choices, scenario in drawn(name, 150, seed=3):
        for kind in choices.kinds:
            assert found.survives.issuperset(TROUBLES[kind].needs)
        for given, value in scenario.parameters.items():
            assert names[given].read(name, value) == value
            if given not in found.trial and given in LEAST:
                assert value >= names[given].default
            assert (
                given in found.trial or given == "signatures" or given not in NOT_DRAWN - {"signed"}
            )


def test_one_choice_is_changed_and_the_others_stay():
    found, seen = design("dht"), Counter()
    start = Choices(7, ("crashes", "freezes", "loss"))
    before = wide_scenario(found, 1, start)
    from random import Random

    chance = Random(3)
    for _ in range(60):
        child = mutated(found, "tags", start, chance)
        after = wide_scenario(found, 1, child)
        added, removed = {*child.kinds} - {*start.kinds}, {*start.kinds} - {*child.kinds}
        assert len(added) + len(removed) + len(child.turns) <= 1
        seen["in"] += bool(added)
        seen["out"] += bool(removed)
        seen["again"] += bool(child.turns)
        if child.turns == (("loss", 1),):
            assert after.faults.loss != before.faults.loss
            assert after.churn == before.churn
    assert min(seen.values()) > 3


def test_options_of_the_campaign_are_in_every_scenario():
    options = CampaignOptions(blackout=True, lasting=True, language="attributes")
    for number in range(10):
        choices = choices_of(design("condcast"), 1, number, options)
        scenario = wide_scenario(design("condcast"), 1, choices, options)
        assert scenario.churn.blackouts
        assert scenario.churn.freezes
        assert scenario.workload == "attributes"


def test_scenarios_stay_within_the_estimate():
    from implicast.trials.wide import _drafted, estimated_messages

    found = design("dht")
    for choices, scenario in drawn("dht", 150, seed=4):
        draft = _drafted(found, 4, choices, "tags", scenario.peers, scenario.churn.over_s)
        assert scenario.peers <= 4 or estimated_messages(draft) <= MESSAGES


# --- feedback


def test_what_shows_something_new_is_kept_and_changed_later():
    check = WideCheck("centralised", *SMALL[:1], CampaignOptions())
    found = check(choices_of(design("centralised"), *SMALL))
    feedback = Feedback()

    assert len(found.codes)
    assert feedback.take(found) == len(found.codes)
    assert feedback.take(found) == 0, "the second time it is not new"
    assert feedback.kept == [found.choices]
    chosen = [feedback.choose(design("centralised"), 1, number) for number in range(40)]
    blind = [choices_of(design("centralised"), 1, number) for number in range(40)]
    changed = [one for one, other in zip(chosen, blind, strict=True) if one != other]
    assert 10 < len(changed) < 36
    assert {each.number for each in changed} == {found.choices.number}


def test_a_longer_repair_is_kept_although_its_messages_are_known_and_the_oldest_is_given_up():
    check = WideCheck("centralised", *SMALL[:1], CampaignOptions())
    found = check(choices_of(design("centralised"), *SMALL))
    feedback = Feedback()
    feedback.take(found)
    change = found.finding.outcome.change
    slower = replace(change, repair_s_max=change.repair_s_max + 1)
    outcome = replace(found.finding.outcome, change=slower)
    feedback.take(
        WideFinding(replace(found.finding, outcome=outcome), Choices(99, ()), found.codes)
    )

    assert feedback.kept[-1] == Choices(99, ())
    feedback.kept = [Choices(number, ()) for number in range(KEPT_MAX)]
    feedback.longest_s = 0.0
    feedback.take(found)
    assert len(feedback.kept) == KEPT_MAX
    assert feedback.kept[0].number == 1
